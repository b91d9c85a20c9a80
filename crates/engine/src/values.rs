//! Reading stored values: from a small cache of recent ones, else from the log or the
//! blobs. Values are text until an expression names them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use windlass_core::event::Event;
use windlass_core::value::{Stored, ValueRef};
use windlass_core::{Digest, RunId};
use windlass_orchestrator::codec;
use windlass_store::{Damage, Error, Wait as _};

use crate::Backend;

/// Reads values by reference.
#[derive(Clone)]
pub struct ValueReader {
    store: Arc<dyn Backend>,
    cache: Arc<Mutex<Cache>>,
    lists: Arc<Mutex<Lists>>,
}

/// How many lists are kept with the places of their items, and how many bytes they take.
const LISTS: usize = 8;
const LISTS_BYTES: usize = 128 * 1024 * 1024;

/// Lists by their digest, oldest first.
type Lists = VecDeque<(Digest, Arc<Items>)>;

/// A list, and where each of its items stands in its text.
struct Items {
    text: Arc<str>,
    places: Vec<(u32, u32)>,
}

impl Items {
    fn new(text: Arc<str>) -> Self {
        // Counted first, so that the places take what they need and no more.
        let count = serde_json::from_str::<Vec<IgnoredAny>>(&text).map_or(0, |items| items.len());
        let mut places = Vec::with_capacity(count);
        let mut reader = serde_json::Deserializer::from_str(&text);
        let start = text.as_ptr() as usize;
        if reader
            .deserialize_seq(Places {
                start,
                places: &mut places,
            })
            .is_err()
        {
            places.clear();
        }
        Self { text, places }
    }

    /// The bytes of memory that it takes.
    fn bytes(&self) -> usize {
        self.text.len() + self.places.capacity() * size_of::<(u32, u32)>()
    }

    fn get(&self, index: usize) -> Option<Arc<str>> {
        let &(start, end) = self.places.get(index)?;
        Some(Arc::from(&self.text[start as usize..end as usize]))
    }
}

/// Notes where the items of a list stand.
struct Places<'p> {
    /// Where the text begins.
    start: usize,
    places: &'p mut Vec<(u32, u32)>,
}

impl<'de> Visitor<'de> for Places<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            let start = item.get().as_ptr() as usize - self.start;
            let end = start + item.get().len();
            self.places.push((start as u32, end as u32));
        }
        Ok(())
    }
}

#[derive(Default)]
struct Cache {
    texts: HashMap<Digest, Arc<str>>,
    /// Oldest first: the first is dropped first.
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
            lists: Arc::default(),
        }
    }

    /// The value's JSON text.
    ///
    /// # Errors
    /// The store cannot be read, or does not hold what its log refers to.
    pub async fn read(&self, run: RunId, value: &ValueRef) -> Result<Arc<str>, Error> {
        if let Some(text) = self.cached(&value.digest) {
            return Ok(text);
        }
        let text = if value.is_blob() {
            self.read_blob(&value.digest).await?
        } else {
            self.read_inline(run, value).await?
        };
        self.remember(value.digest, &text);
        Ok(text)
    }

    /// The JSON texts of many values. A record that holds several of them is read once.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub async fn read_many(
        &self,
        run: RunId,
        values: &[ValueRef],
    ) -> Result<Vec<(Digest, Arc<str>)>, Error> {
        let mut inline: BTreeMap<u32, Vec<&ValueRef>> = BTreeMap::new();
        let mut found = Vec::with_capacity(values.len());
        for value in values {
            match self.cached(&value.digest) {
                Some(text) => found.push((value.digest, text)),
                None if value.is_blob() => found.push((value.digest, self.read(run, value).await?)),
                None => inline.entry(value.record).or_default().push(value),
            }
        }
        for (record, values) in inline {
            match &values[..] {
                [value] => found.push((value.digest, self.read(run, value).await?)),
                values => found.extend(self.read_record(run, record, values).await?),
            }
        }
        Ok(found)
    }

    /// Values that stand in one record.
    async fn read_record(
        &self,
        run: RunId,
        record: u32,
        values: &[&ValueRef],
    ) -> Result<Vec<(Digest, Arc<str>)>, Error> {
        let sequence = u64::from(record);
        let fault = |reason: String| damage(Some(run), Some(sequence), reason);
        let stored = self.store.read(run, sequence, 1).await?.into_iter().next();
        let stored = stored.ok_or_else(|| fault("the record is missing".to_owned()))?;
        let transition = codec::decode(&stored.bytes).map_err(|error| fault(error.to_string()))?;
        let mut texts = HashMap::new();
        for value in transition.events.iter().flat_map(Event::values) {
            if let Stored::Inline(raw) = value {
                texts.insert(value.digest(), raw);
            }
        }
        let text = |value: &&ValueRef| {
            let raw = texts.get(&value.digest);
            let missing = || fault(format!("it does not hold the value {}", value.digest));
            let text: Arc<str> = raw.ok_or_else(missing)?.get().into();
            Ok((value.digest, text))
        };
        values.iter().map(text).collect()
    }

    /// One item of a stored list.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub async fn read_item(
        &self,
        run: RunId,
        list: &ValueRef,
        index: u32,
    ) -> Result<Arc<str>, Error> {
        let items = self.items(run, list).await?;
        let missing = || damage(Some(run), None, format!("the list has no item {index}"));
        items.get(index as usize).ok_or_else(missing)
    }

    /// One item of a stored list that needs no reading.
    pub(crate) fn cached_item(&self, list: &ValueRef, index: u32) -> Option<Arc<str>> {
        known_list(&self.lists(), list)?.get(index as usize)
    }

    /// A list with the places of its items, so that each is found without reading those
    /// before it. The last few lists are kept: a loop goes over one for a long time.
    async fn items(&self, run: RunId, list: &ValueRef) -> Result<Arc<Items>, Error> {
        if let Some(items) = known_list(&self.lists(), list) {
            return Ok(items);
        }
        let items = Arc::new(Items::new(self.read(run, list).await?));
        let mut lists = self.lists();
        lists.push_back((list.digest, Arc::clone(&items)));
        let bytes = |lists: &Lists| lists.iter().map(|(_, items)| items.bytes()).sum::<usize>();
        // The newest stays, whatever it takes: a loop goes over it.
        while lists.len() > LISTS || (lists.len() > 1 && bytes(&lists) > LISTS_BYTES) {
            lists.pop_front();
        }
        Ok(items)
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists
            .lock()
            .expect("nothing panics while it holds the lists")
    }

    /// The text of a stored value.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub async fn resolve(&self, stored: &Stored) -> Result<Arc<str>, Error> {
        match stored {
            Stored::Inline(raw) => Ok(Arc::from(raw.get())),
            Stored::Blob { digest, .. } => self.read_blob(digest).await,
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

    /// A value that needs no reading.
    pub(crate) fn cached(&self, digest: &Digest) -> Option<Arc<str>> {
        let cache = self
            .cache
            .lock()
            .expect("nothing panics while it holds the cache");
        cache.texts.get(digest).cloned()
    }

    async fn read_blob(&self, digest: &Digest) -> Result<Arc<str>, Error> {
        read_text(&*self.store, digest).await.map(Into::into)
    }

    async fn read_inline(&self, run: RunId, value: &ValueRef) -> Result<Arc<str>, Error> {
        let sequence = u64::from(value.record);
        let record = self.store.read(run, sequence, 1).await?.into_iter().next();
        let fault = |reason: String| damage(Some(run), Some(sequence), reason);
        let record = record.ok_or_else(|| fault("the record is missing".to_owned()))?;
        // One record may hold many values that are asked for one after the other. What an
        // attempt came to is named with its digest; anything else is hashed only if it
        // must be what is looked for.
        let mut found = None;
        for (digest, text) in codec::results(&record.bytes).unwrap_or_default() {
            let text: Arc<str> = text.into();
            self.remember(digest, &text);
            if digest == value.digest {
                found = Some(text);
            }
        }
        if found.is_none() {
            let transition =
                codec::decode(&record.bytes).map_err(|error| fault(error.to_string()))?;
            let mut others = transition.events.iter().flat_map(Event::values);
            let other = others.find(|stored| stored.digest() == value.digest);
            if let Some(Stored::Inline(raw)) = other {
                found = Some(raw.get().into());
            }
        }
        found.ok_or_else(|| fault(format!("it does not hold the value {}", value.digest)))
    }
}

fn known_list(lists: &Lists, list: &ValueRef) -> Option<Arc<Items>> {
    let found = lists.iter().find(|(digest, _)| *digest == list.digest);
    found.map(|(_, items)| Arc::clone(items))
}

/// The text of a stored value, borrowed where it stands in the record; for threads that may
/// block.
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
    read_text(store, digest).wait()
}

async fn read_text(store: &dyn Backend, digest: &Digest) -> Result<String, Error> {
    let fault = |reason: String| damage(None, None, reason);
    let bytes = store
        .blob(digest)
        .await?
        .ok_or_else(|| fault(format!("the value {digest} is missing")))?;
    String::from_utf8(bytes).map_err(|_| fault(format!("the value {digest} is not text")))
}

/// What an entry costs besides its text: its place in the map, of which up to half are
/// free, its place in the order, the same, and the head of its allocation.
const CACHE_ENTRY_BYTES: usize = 200;

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

#[cfg(test)]
mod tests {
    use windlass_store::MemoryStore;

    use super::*;

    #[test]
    fn however_many_values_are_remembered_few_are_kept() {
        let limit = 64 * 1024;
        let values = ValueReader::new(Arc::new(MemoryStore::new()), limit);
        for number in 0..50_000 {
            let text: Arc<str> = format!("{{\"n\":{number}}}").into();
            values.remember(Digest::of(text.as_bytes()), &text);
        }
        let cache = values.cache.lock().expect("no holder panicked");
        assert_eq!(cache.order.len(), cache.texts.len());
        assert!(cache.texts.len() <= limit / CACHE_ENTRY_BYTES);
        assert!(cache.bytes <= limit);
        assert!(cache.texts.capacity() * size_of::<(Digest, Arc<str>)>() <= limit);
    }
}
