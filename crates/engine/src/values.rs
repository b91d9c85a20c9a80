//! Reading stored values: from a small cache of recent ones, else from the log or the
//! blobs. Values are text until an expression names them.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use windlass_core::event::{AttemptResult, Event};
use windlass_core::value::{Stored, ValueRef};
use windlass_core::{Digest, RunId};
use windlass_orchestrator::codec;
use windlass_store::{Damage, Error};

use crate::Backend;

/// Reads values by reference.
#[derive(Clone)]
pub struct ValueReader {
    store: Arc<dyn Backend>,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Default)]
struct Cache {
    texts: HashMap<Digest, Arc<str>>,
    /// Oldest first: what is dropped first.
    order: VecDeque<Digest>,
    bytes: usize,
    limit: usize,
}

impl ValueReader {
    /// A reader with a cache of at most this many bytes.
    pub fn new(store: Arc<dyn Backend>, cache_bytes: usize) -> Self {
        let cache = Cache {
            limit: cache_bytes,
            ..Cache::default()
        };
        Self {
            store,
            cache: Arc::new(Mutex::new(cache)),
        }
    }

    /// The value's JSON text.
    ///
    /// # Errors
    /// The store cannot be read, or does not hold what its log refers to.
    pub fn read(&self, run: RunId, value: &ValueRef) -> Result<Arc<str>, Error> {
        if let Some(text) = self.cached(&value.digest) {
            return Ok(text);
        }
        let text = if value.is_blob() {
            self.read_blob(&value.digest)?
        } else {
            self.read_inline(run, value)?
        };
        self.remember(value.digest, &text);
        Ok(text)
    }

    /// The text of a stored value.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn resolve(&self, stored: &Stored) -> Result<Arc<str>, Error> {
        match stored {
            Stored::Inline(raw) => Ok(Arc::from(raw.get())),
            Stored::Blob { digest, .. } => self.read_blob(digest),
        }
    }

    /// Keeps a value that is likely to be read soon.
    pub(crate) fn remember(&self, digest: Digest, text: &Arc<str>) {
        let mut cache = self
            .cache
            .lock()
            .expect("nothing panics while it holds the cache");
        if text.len() > cache.limit / 4 || cache.texts.contains_key(&digest) {
            return;
        }
        cache.bytes += text.len() + CACHE_ENTRY_BYTES;
        cache.texts.insert(digest, Arc::clone(text));
        cache.order.push_back(digest);
        while cache.bytes > cache.limit
            && let Some(oldest) = cache.order.pop_front()
        {
            if let Some(text) = cache.texts.remove(&oldest) {
                cache.bytes -= text.len() + CACHE_ENTRY_BYTES;
            }
        }
    }

    fn cached(&self, digest: &Digest) -> Option<Arc<str>> {
        let cache = self
            .cache
            .lock()
            .expect("nothing panics while it holds the cache");
        cache.texts.get(digest).cloned()
    }

    fn read_blob(&self, digest: &Digest) -> Result<Arc<str>, Error> {
        blob_text(&*self.store, digest).map(Into::into)
    }

    fn read_inline(&self, run: RunId, value: &ValueRef) -> Result<Arc<str>, Error> {
        let sequence = u64::from(value.record);
        let record = self.store.read(run, sequence, 1)?.into_iter().next();
        let fault = |reason: String| damage(Some(run), Some(sequence), reason);
        let record = record.ok_or_else(|| fault("the record is missing".to_owned()))?;
        let transition = codec::decode(&record.bytes).map_err(|error| fault(error.to_string()))?;
        // One record may hold many values that are asked for one after the other.
        let mut found = None;
        for event in &transition.events {
            if let Some((digest, text)) = inline_result(event) {
                let text: Arc<str> = text.into();
                self.remember(digest, &text);
                if digest == value.digest {
                    found = Some(text);
                }
            }
        }
        found.ok_or_else(|| fault(format!("it does not hold the value {}", value.digest)))
    }
}

/// The text of a stored value, borrowed where it stands in the record.
///
/// # Errors
/// The store cannot be read, or does not hold what its log refers to.
pub(crate) fn stored_text<'a>(
    store: &dyn Backend,
    stored: &'a Stored,
) -> Result<Cow<'a, str>, Error> {
    match stored {
        Stored::Inline(raw) => Ok(Cow::Borrowed(raw.get())),
        Stored::Blob { digest, .. } => blob_text(store, digest).map(Cow::Owned),
    }
}

/// The text of a value that is not in the log.
///
/// # Errors
/// As for [`stored_text`].
pub(crate) fn blob_text(store: &dyn Backend, digest: &Digest) -> Result<String, Error> {
    let fault = |reason: String| damage(None, None, reason);
    let bytes = store
        .blob(digest)?
        .ok_or_else(|| fault(format!("the value {digest} is missing")))?;
    String::from_utf8(bytes).map_err(|_| fault(format!("the value {digest} is not text")))
}

/// What an entry costs besides its text.
const CACHE_ENTRY_BYTES: usize = 120;

fn inline_result(event: &Event) -> Option<(Digest, &str)> {
    let Event::AttemptEnded(ended) = event else {
        return None;
    };
    match &ended.result {
        AttemptResult::Succeeded(Stored::Inline(raw))
        | AttemptResult::Failed(Stored::Inline(raw)) => Some((ended.digest, raw.get())),
        _ => None,
    }
}

fn damage(run: Option<RunId>, sequence: Option<u64>, reason: String) -> Error {
    let place = "the log".to_owned();
    Error::Damaged(Box::new(Damage {
        place,
        run,
        sequence,
        offset: None,
        reason,
    }))
}
