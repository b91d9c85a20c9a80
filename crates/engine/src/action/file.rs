//! Files: bytes that an attempt stores beside its output, for what is too large to be a value of
//! JSON. They are written and read part by part, and the record that ends the attempt refers to
//! every part, so they live as long as its log.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, Stream};
use windlass_core::value::{Stored, StoredFile};
use windlass_core::{Digest, DigestOfParts, RunId};
use windlass_orchestrator::codec;
use windlass_store::{Blob, Damage, Error, HOLD, block_on};

use super::ActionError;
use crate::Backend;
use crate::limits::limits;
use crate::load::PAGE_BYTES;
use crate::scrub::SecretFinder;

/// How many bytes a part has; the last one has fewer.
const PART_BYTES: usize = 4 << 20;

/// How many bytes a body sends at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What outputs write before the digits of a file's digest.
const SCHEME: &str = "sha256:";

/// A file that is being written. One that is not finished is removed by the store, in time.
pub struct FileWriter {
    store: Arc<dyn Backend>,
    secrets: Option<SecretFinder>,
    limit: u64,
    begun: Instant,
    whole: DigestOfParts,
    of_part: DigestOfParts,
    part: Vec<u8>,
    size: u64,
    parts: Vec<Stored>,
}

impl FileWriter {
    /// A file of at most so many bytes, and at most what the limit of the process allows.
    pub(super) fn new(
        store: Arc<dyn Backend>,
        secrets: Option<SecretFinder>,
        limit: Option<u64>,
    ) -> Self {
        let most = limits().blob_bytes;
        Self {
            store,
            secrets,
            limit: limit.map_or(most, |asked| asked.min(most)),
            begun: Instant::now(),
            whole: Digest::of_parts(),
            of_part: Digest::of_parts(),
            part: Vec::new(),
            size: 0,
            parts: Vec::new(),
        }
    }

    /// Refuses a file that is known to be larger than allowed before it is written.
    ///
    /// # Errors
    /// It is.
    pub fn expect(&self, bytes: u64) -> Result<(), ActionError> {
        match bytes > self.limit {
            true => Err(too_large(self.limit)),
            false => Ok(()),
        }
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// The file would be larger than allowed, holds a secret, or cannot be stored.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), ActionError> {
        self.size += bytes.len() as u64;
        if self.size > self.limit {
            return Err(too_large(self.limit));
        }
        if let Some(secrets) = &mut self.secrets
            && secrets.find(bytes)
        {
            let message = "the bytes hold a secret of the attempt, and are not stored";
            return Err(ActionError::failed("BLOB_HOLDS_SECRET", message));
        }
        self.whole.add(bytes);
        while !bytes.is_empty() {
            let room = PART_BYTES - self.part.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.of_part.add(now);
            self.part.extend_from_slice(now);
            if self.part.len() == PART_BYTES {
                self.store_part().await?;
            }
            bytes = later;
        }
        Ok(())
    }

    async fn store_part(&mut self) -> Result<(), ActionError> {
        // Parts that are held no longer could be gone before the record refers to them.
        if self.begun.elapsed() > HOLD / 2 {
            let message = "storing the bytes took longer than twelve hours";
            return Err(ActionError::failed("BLOB_LIMIT", message));
        }
        let digest = self.of_part.take();
        let bytes = std::mem::take(&mut self.part);
        self.parts.push(Stored::Blob {
            digest,
            size: bytes.len() as u64,
        });
        let blob = Blob {
            digest,
            bytes: bytes.into(),
        };
        let stored = self.store.hold_blob(blob).await;
        stored.map_err(|error| {
            let message = format!("the bytes could not be stored: {error}");
            ActionError::retriable("STORE_UNAVAILABLE", message)
        })
    }

    /// Stores what is left. The file is part of the run once the attempt's reply has it
    /// ([`Reply::with_file`](super::Reply::with_file)).
    ///
    /// # Errors
    /// The last part cannot be stored.
    pub async fn finish(mut self, content_type: Option<&str>) -> Result<StoredFile, ActionError> {
        if !self.part.is_empty() {
            self.store_part().await?;
        }
        Ok(StoredFile {
            digest: self.whole.take(),
            size: self.size,
            content_type: content_type.map(Box::from),
            parts: self.parts,
        })
    }
}

fn too_large(limit: u64) -> ActionError {
    let message = format!(
        "there are more than {limit} bytes; the node's `maxBytes` and the setting \
         `limit_blob_bytes` bound what is stored"
    );
    ActionError::failed("BLOB_LIMIT", message)
}

/// A file that is being read.
pub struct FileReader {
    store: Arc<dyn Backend>,
    file: StoredFile,
    next: usize,
}

impl FileReader {
    /// Reads a file from its beginning.
    pub fn new(store: Arc<dyn Backend>, file: StoredFile) -> Self {
        Self {
            store,
            file,
            next: 0,
        }
    }

    /// What is read.
    pub fn file(&self) -> &StoredFile {
        &self.file
    }

    /// The next bytes; nothing at the end.
    ///
    /// # Errors
    /// The store cannot be read, or does not hold what the log refers to.
    pub async fn read(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(part) = self.file.parts.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        let digest = part.digest();
        let found = self.store.blob(&digest).await?;
        let missing = || {
            Error::Damaged(Box::new(Damage {
                place: format!("part {digest} of the blob {}", self.file.digest),
                run: None,
                sequence: None,
                offset: None,
                reason: "it is missing".to_owned(),
            }))
        };
        found.ok_or_else(missing).map(Some)
    }

    /// The bytes from here on in small pieces, for a body that is sent while it is read. A
    /// part is read and freed on one thread that may block: allocators keep large blocks that
    /// another thread frees.
    pub fn pieces(self) -> impl Stream<Item = io::Result<Vec<u8>>> + Send + 'static {
        let begun = (self, VecDeque::new());
        stream::try_unfold(begun, |(reader, mut waiting)| async move {
            if let Some(piece) = waiting.pop_front() {
                return Ok(Some((piece, (reader, waiting))));
            }
            let read = tokio::task::spawn_blocking(move || reader.cut()).await;
            let (reader, cut) = read.map_err(io::Error::other)?;
            let mut waiting = cut.map_err(|error| io::Error::other(error.to_string()))?;
            let piece = waiting.pop_front();
            Ok(piece.map(|piece| (piece, (reader, waiting))))
        })
    }

    /// The pieces of the next part; none at the end.
    fn cut(mut self) -> (Self, Result<VecDeque<Vec<u8>>, Error>) {
        let part = block_on(self.read());
        let cut = part.map(|part| {
            let part = part.unwrap_or_default();
            part.chunks(PIECE_BYTES).map(<[u8]>::to_vec).collect()
        });
        (self, cut)
    }
}

/// A file's name in outputs.
pub fn file_name(digest: &Digest) -> String {
    format!("{SCHEME}{digest}")
}

/// The digest that a name stands for, with or without the name of the hash.
pub fn file_digest(name: &str) -> Option<Digest> {
    name.strip_prefix(SCHEME).unwrap_or(name).parse().ok()
}

/// Finds a file that the log of a run names. Parts are shared between runs: a digest alone must
/// not give access to what another run stored.
///
/// # Errors
/// The store cannot be read.
pub async fn find_file(
    store: &dyn Backend,
    run: RunId,
    digest: &Digest,
) -> Result<Option<StoredFile>, Error> {
    let text = digest.to_string();
    let mut from = 1;
    loop {
        let page = store.read(run, from, PAGE_BYTES).await?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        from = last.sequence + 1;
        for record in &page {
            if !contains(&record.bytes, text.as_bytes()) {
                continue;
            }
            let transition = codec::decode(&record.bytes).map_err(|error| {
                Error::Damaged(Box::new(Damage {
                    place: "the log".to_owned(),
                    run: Some(run),
                    sequence: Some(record.sequence),
                    offset: None,
                    reason: error.to_string(),
                }))
            })?;
            let files = transition.events.iter().flat_map(|event| event.files());
            if let Some(file) = files.into_iter().find(|file| file.digest == *digest) {
                return Ok(Some(file.clone()));
            }
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|part| part == text)
}
