//! Values, by their digests.

use std::time::Duration;

use windlass_core::Digest;

use crate::{Blob, Error, Pending};

/// How long a value is held at least.
pub const HOLD: Duration = Duration::from_secs(24 * 3600);

/// Values that are kept once, by their digests.
pub trait Blobs: Send + Sync + 'static {
    /// Stores a value under its digest. Durable on return. Storing it twice is harmless.
    fn put_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>>;

    /// Stores a value that only a later append will refer to, and without its bytes: for
    /// [`HOLD`] it stays although no log refers to it, also if the last run that does is
    /// forgotten meanwhile. Afterwards it is as any other value; one that no log refers to is
    /// removed by a later call of this or of `vacuum`, or when the store is opened by the
    /// only process that has it.
    fn hold_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>>;

    /// Reads a value, checking it against its digest.
    fn blob(&self, digest: &Digest) -> Pending<'_, Result<Option<Vec<u8>>, Error>>;
}
