//! Values, by their digests.

use windlass_core::Digest;

use crate::{Blob, Error, Pending};

/// Values that are kept once, by their digests.
pub trait Blobs: Send + Sync + 'static {
    /// Stores a value under its digest. Durable on return. Storing it twice is harmless.
    fn put_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>>;

    /// Reads a value, checking it against its digest.
    fn blob(&self, digest: &Digest) -> Pending<'_, Result<Option<Vec<u8>>, Error>>;
}
