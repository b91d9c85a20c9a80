//! Values by their digests, each once. `blob_use` says which logs refer to them, and keeps a
//! value that is referred to from being removed.

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::Digest;
use windlass_store::{Blob, Blobs, Damage, Error, Pending, check_stored_form};

use crate::codec::STORED_FORM;
use crate::error::Fault;
use crate::retention::ORPHANS;
use crate::store::{PostgresStore, Session};

const PUT: &str =
    "insert into blob (digest, envelope, bytes) values ($1, $2, $3) on conflict do nothing";
/// Held values have a use by this run, which is none. `created_at` says since when.
const HOLD: &str = "with held as (insert into blob (digest, envelope, bytes) values ($1, $2, $3) \
     on conflict (digest) do update set created_at = now() returning digest) \
     insert into blob_use (run, digest) select $4, digest from held on conflict do nothing";
const EXPIRE: &str = "delete from blob_use u using blob b where u.run = $1 \
     and b.digest = u.digest and b.created_at < now() - make_interval(secs => $2)";
const GET: &str = "select bytes, envelope from blob where digest = $1";

/// Ends the holds that have lasted long enough; says how many.
pub(crate) async fn expire(session: &Session) -> Result<u64, Fault> {
    let seconds = windlass_store::HOLD.as_secs_f64();
    session.execute(EXPIRE, &[&Uuid::nil(), &seconds]).await
}

impl Blobs for PostgresStore {
    fn put_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        self.call(move |session| async move {
            let digest = &blob.digest.0[..];
            session
                .execute(PUT, &[&digest, &STORED_FORM, &&*blob.bytes])
                .await?;
            Ok(())
        })
    }

    fn hold_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        self.call(move |session| async move {
            if expire(&session).await? > 0 {
                session.execute(ORPHANS, &[]).await?;
            }
            let digest = &blob.digest.0[..];
            let bound: [&(dyn ToSql + Sync); 4] =
                [&digest, &STORED_FORM, &&*blob.bytes, &Uuid::nil()];
            session.execute(HOLD, &bound).await?;
            Ok(())
        })
    }

    fn blob(&self, digest: &Digest) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        let digest = *digest;
        self.call(move |session| async move {
            let Some(row) = session.first(GET, &[&&digest.0[..]]).await? else {
                return Ok(None);
            };
            let envelope = i64::from(row.try_get::<_, i16>(1)?);
            check_stored_form(envelope, || format!("value {digest} in table blob"))?;
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
