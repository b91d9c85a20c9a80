//! Layouts that were computed before, written, by the digest of their definition.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use hashlink::LruCache;
use serde::Serialize;
use tokio::sync::Semaphore;
use windlass_core::Digest;
use windlass_graph::{PackOptions, Packed};
use windlass_service::layout::Drawable;
use windlass_service::{Failure, FailureKind};

use crate::answer::Tag;
use crate::error::ApiError;

/// How many bytes of layouts are kept.
const CACHE_BYTES: usize = 32 * 1024 * 1024;

/// How many layouts are computed at once. One takes a core for up to seconds, and cannot be
/// interrupted.
const AT_ONCE: usize = 2;

/// Counts changes of how layouts are computed, so that a browser asks again after an update.
const VERSION: u32 = 1;

/// Layouts in memory.
pub(crate) struct Layouts {
    kept: Mutex<Kept>,
    computing: Semaphore,
}

struct Kept {
    texts: LruCache<(Digest, PackOptions), Bytes>,
    bytes: usize,
}

impl Default for Layouts {
    fn default() -> Self {
        Self {
            kept: Mutex::new(Kept {
                texts: LruCache::new_unbounded(),
                bytes: 0,
            }),
            computing: Semaphore::new(AT_ONCE),
        }
    }
}

impl Layouts {
    /// What tells a layout from every other.
    pub(crate) fn tag(&self, drawable: &Drawable, options: &PackOptions) -> Tag {
        let Digest(digest) = drawable.digest;
        let options = format!("{VERSION} {options:?}");
        Tag::of(&[&digest, options.as_bytes()])
    }

    /// The layout as JSON.
    pub(crate) async fn text(
        &self,
        drawable: Drawable,
        options: PackOptions,
    ) -> Result<Bytes, ApiError> {
        let key = (drawable.digest, options);
        if let Some(text) = self.kept().texts.get(&key) {
            return Ok(text.clone());
        }
        let _turn = self
            .computing
            .acquire()
            .await
            .expect("the semaphore is never closed");
        // A request that waited for its turn may have waited for this very layout.
        if let Some(text) = self.kept().texts.get(&key) {
            return Ok(text.clone());
        }
        let options = key.1.clone();
        let computed = tokio::task::spawn_blocking(move || computed(&drawable, &options)).await;
        let text = match computed {
            Ok(text) => text?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        self.keep(key, text.clone());
        Ok(text)
    }

    fn keep(&self, key: (Digest, PackOptions), text: Bytes) {
        let mut kept = self.kept();
        kept.bytes += text.len();
        if let Some(before) = kept.texts.insert(key, text) {
            kept.bytes -= before.len();
        }
        while kept.bytes > CACHE_BYTES {
            match kept.texts.remove_lru() {
                Some((_, text)) => kept.bytes -= text.len(),
                None => break,
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept
            .lock()
            .expect("nothing panics while it holds the layouts")
    }
}

fn computed(drawable: &Drawable, options: &PackOptions) -> Result<Bytes, Failure> {
    #[derive(Serialize)]
    struct Answer {
        definition: Digest,
        #[serde(flatten)]
        packed: Packed,
    }
    let answer = Answer {
        definition: drawable.digest,
        packed: drawable.packed(options)?,
    };
    serde_json::to_vec(&answer)
        .map(Bytes::from)
        .map_err(|error| Failure::new(FailureKind::OutputFailed, error))
}
