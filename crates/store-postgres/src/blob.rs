//! Values by their digests, each once. `blob_use` says which logs refer to them, and keeps a
//! value that is referred to from being removed.

use windlass_core::Digest;
use windlass_store::{Blob, Blobs, Damage, Error, Pending};

use crate::store::PostgresStore;

const PUT: &str = "insert into blob (digest, bytes) values ($1, $2) on conflict do nothing";
const GET: &str = "select bytes from blob where digest = $1";

impl Blobs for PostgresStore {
    fn put_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        self.call(move |session| async move {
            let digest = &blob.digest.0[..];
            session.execute(PUT, &[&digest, &&*blob.bytes]).await?;
            Ok(())
        })
    }

    fn blob(&self, digest: &Digest) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        let digest = *digest;
        self.call(move |session| async move {
            let Some(row) = session.first(GET, &[&&digest.0[..]]).await? else {
                return Ok(None);
            };
            let bytes: Vec<u8> = row.try_get(0)?;
            if Digest::of(&bytes) != digest {
                return Err(Error::Damaged(Box::new(Damage {
                    place: format!("value {digest} in table blob"),
                    run: None,
                    sequence: None,
                    offset: None,
                    reason: "the bytes do not match the digest".into(),
                }))
                .into());
            }
            Ok(Some(bytes))
        })
    }
}
