//! Values: objects of the Object Store, found by an index from digest to object.
//!
//! Every append that refers to a value touches the value's row in the index before it publishes,
//! so the row's sequence moves. The sweep reads the row, then brings the database to the end of
//! all logs, then asks whether a log refers to the value, and removes the row only as it read it:
//! a value that an append has begun to use since is kept. A row must also be untouched for a day
//! by the server's clock, and an append gives up after a minute (`append.rs`), so one that touched
//! before the sweep's look has published before it, or never will. The object's name is new each
//! time, so removing an old object never takes a new one away.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::object_store::GetErrorKind;
use bytes::Bytes;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use windlass_core::Digest;
use windlass_store::{Append, Blob, Blobs, Damage, Error, Pending};

use crate::OpenError;
use crate::error::{PublishFault, unavailable};
use crate::layout::{self, Filling};
use crate::names::bucket_key;
use crate::store::{Inner, NatsStore};
use crate::table::Row;

/// A touch of this process is as good as a new one for so long: much less than a day.
const STAYS_TOUCHED: Duration = Duration::from_secs(600);

/// Values whose touch is remembered.
const MOST_TOUCHED: usize = 50_000;

/// How often a value is tried whose row changes meanwhile.
const MOST_TRIES: usize = 16;

/// What the index says of a value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct IndexMeta {
    pub(crate) object: String,
    pub(crate) size: u64,
    /// It stays for a day although no log refers to it.
    #[serde(default)]
    pub(crate) held: bool,
}

/// When this process touched values.
#[derive(Default)]
pub(crate) struct Touched(Mutex<HashMap<Digest, Instant>>);

impl Touched {
    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_fresh(&self, digest: &Digest) -> bool {
        let touched = self.lock().get(digest).copied();
        touched.is_some_and(|at| at.elapsed() < STAYS_TOUCHED)
    }

    fn note(&self, digest: Digest, at: Instant) {
        let mut touched = self.lock();
        if touched.len() >= MOST_TOUCHED {
            touched.clear();
        }
        touched.insert(digest, at);
    }

    pub(crate) fn forget(&self, digest: &Digest) {
        self.lock().remove(digest);
    }

    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }
}

impl Inner {
    pub(crate) fn index_subject(&self, digest: &Digest) -> String {
        bucket_key(&self.names.index_bucket(), &digest.to_string())
    }

    /// Stores the values of an append, and makes sure that those it refers to are there.
    pub(crate) async fn put_values(&self, append: &Append) -> Result<(), Error> {
        let puts = append.blobs.iter().map(|blob| self.put_value(blob, false));
        try_join_all(puts).await?;
        let new = |digest: &&Digest| append.blobs.iter().all(|blob| blob.digest != **digest);
        let uses = append.uses.iter().filter(new).map(|digest| async move {
            match self.touch(digest).await? {
                true => Ok(()),
                false => Err(Error::NotFound(format!("value {digest}"))),
            }
        });
        try_join_all(uses).await?;
        Ok(())
    }

    /// Touches a value; `false` if there is none.
    async fn touch(&self, digest: &Digest) -> Result<bool, Error> {
        if self.touched.is_fresh(digest) {
            return Ok(true);
        }
        let subject = self.index_subject(digest);
        for _ in 0..MOST_TRIES {
            let Some(row) = self.index.row(&subject).await? else {
                self.is_indexed().await?;
                return Ok(false);
            };
            let meta: IndexMeta = row.meta()?;
            if self.touch_row(digest, row.sequence, &meta).await? {
                return Ok(true);
            }
        }
        Err(busy())
    }

    /// Touches a row that must be as it was; `false` if it has changed.
    async fn touch_row(
        &self,
        digest: &Digest,
        sequence: u64,
        meta: &IndexMeta,
    ) -> Result<bool, Error> {
        let at = Instant::now();
        let put = self
            .index
            .put(self.index_subject(digest), sequence, meta, Bytes::new());
        match put.await {
            Ok(_) => {
                self.touched.note(*digest, at);
                Ok(true)
            }
            Err(PublishFault::Conflict) => Ok(false),
            Err(fault) => Err(fault.into_error()),
        }
    }

    /// Stores a value, or touches it if it is there.
    async fn put_value(&self, blob: &Blob, hold: bool) -> Result<(), Error> {
        let digest = &blob.digest;
        if !hold && self.touched.is_fresh(digest) {
            return Ok(());
        }
        let subject = self.index_subject(digest);
        for _ in 0..MOST_TRIES {
            if let Some(row) = self.index.row(&subject).await? {
                let mut meta: IndexMeta = row.meta()?;
                meta.held |= hold;
                if self.touch_row(digest, row.sequence, &meta).await? {
                    return Ok(());
                }
                continue;
            }
            let meta = IndexMeta {
                object: format!("{digest}.{}", self.client.new_inbox().replace('.', "")),
                size: blob.bytes.len() as u64,
                held: hold,
            };
            self.put_object(&meta.object, &blob.bytes).await?;
            if self.touch_row(digest, 0, &meta).await? {
                return Ok(());
            }
            // Another process was faster.
            let _ = self.objects.delete(&meta.object).await;
        }
        Err(busy())
    }

    pub(crate) async fn put_object(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut bytes = bytes;
        if let Err(error) = self.objects.put(name, &mut bytes).await {
            self.has_objects().await?;
            return Err(unavailable("a value cannot be stored", &error));
        }
        Ok(())
    }

    /// Reads a value.
    async fn value(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        let subject = self.index_subject(digest);
        for _ in 0..MOST_TRIES {
            let Some(row) = self.index.row(&subject).await? else {
                self.is_indexed().await?;
                return self.projected_value(digest).await;
            };
            let meta: IndexMeta = row.meta()?;
            let bytes = self.object(&meta).await?;
            if let Some(bytes) = bytes.filter(|bytes| Digest::of(bytes) == *digest) {
                return Ok(Some(bytes));
            }
            let now = self.index.row(&subject).await?;
            if now.is_some_and(|now| now.sequence == row.sequence) {
                return Err(Error::Damaged(Box::new(Damage {
                    place: format!("object {} of {}", meta.object, self.names.blob_bucket()),
                    run: None,
                    sequence: None,
                    offset: None,
                    reason: "the value is missing, or its bytes do not match the digest".into(),
                })));
            }
        }
        Err(busy())
    }

    /// The bytes of an object; `None` if it is gone or was changed.
    async fn object(&self, meta: &IndexMeta) -> Result<Option<Vec<u8>>, Error> {
        let unread = |error: &dyn std::fmt::Display| unavailable("a value cannot be read", error);
        let mut object = match self.objects.get(&meta.object).await {
            Ok(object) => object,
            Err(error) if error.kind() == GetErrorKind::NotFound => {
                // That is also said of everything if the whole store is gone.
                self.has_objects().await?;
                return Ok(None);
            }
            Err(error) => {
                self.has_objects().await?;
                return Err(unread(&error));
            }
        };
        let mut bytes = Vec::with_capacity(usize::try_from(meta.size).unwrap_or(0));
        match object.read_to_end(&mut bytes).await {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(unread(&error)),
        }
    }

    /// Fails while the index is filled: what is not there yet may be.
    async fn is_indexed(&self) -> Result<(), Error> {
        let filling = layout::filling(&self.index).await;
        match filling.map_err(OpenError::into_error)? {
            Filling::Done => Ok(()),
            Filling::Missing | Filling::UnderWay => Err(Error::Unavailable(format!(
                "the bucket {} was deleted and is filled again",
                self.names.index_bucket()
            ))),
        }
    }

    /// A value that only the database has: one that a readable column could not show.
    async fn projected_value(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        match self.postgres.blob(digest).await {
            // A reference without bytes.
            Err(Error::Damaged(_)) => Ok(None),
            answer => answer.map(|it| it.filter(|bytes| Digest::of(bytes) == *digest)),
        }
    }

    /// Removes those of these rows that no log refers to and that are old enough.
    pub(crate) async fn sweep(&self, rows: Vec<(Digest, Row)>) -> Result<u64, Error> {
        if rows.is_empty() {
            return Ok(0);
        }
        let now = self.server_now().await?;
        self.catch_up().await?;
        let asked = rows.iter().map(|it| it.0).collect();
        let used = self.postgres.used_values(asked).await?;
        let mut removed = 0;
        for (digest, row) in rows {
            let meta: IndexMeta = row.meta()?;
            let stays = match meta.held {
                true => windlass_store::HOLD,
                false => self.settings.blob_grace,
            };
            let age = now.saturating_sub(row.stored_ms);
            let old = i128::from(age) >= i128::try_from(stays.as_millis()).unwrap_or(i128::MAX);
            if used.contains(&digest) || !old || !self.index.remove(row.sequence).await? {
                continue;
            }
            self.touched.forget(&digest);
            removed += 1;
            // An object that stays behind costs only space, until `sweep_objects` finds it.
            let _ = self.objects.delete(&meta.object).await;
        }
        Ok(removed)
    }

    /// The server's clock.
    pub(crate) async fn server_now(&self) -> Result<i64, Error> {
        let subject = bucket_key(&self.names.index_bucket(), "clock");
        for _ in 0..MOST_TRIES {
            let after = self
                .index
                .row(&subject)
                .await?
                .map_or(0, |row| row.sequence);
            let put = self.index.put(subject.clone(), after, &(), Bytes::new());
            match put.await {
                Ok(_) | Err(PublishFault::Conflict) => {}
                Err(fault) => return Err(fault.into_error()),
            }
            if let Some(row) = self.index.row(&subject).await? {
                return Ok(row.stored_ms);
            }
        }
        Err(busy())
    }

    /// The index: every value with its row.
    pub(crate) async fn indexed(&self) -> Result<Vec<(Digest, Row)>, Error> {
        let all = bucket_key(&self.names.index_bucket(), ">");
        let rows = self.index.scan(vec![all], true).await?;
        let digest = |row: &Row| row.subject.rsplit('.').next()?.parse().ok();
        let rows = rows.into_iter();
        Ok(rows.filter_map(|row| Some((digest(&row)?, row))).collect())
    }
}

fn busy() -> Error {
    Error::Unavailable("a value changes too often; try again".into())
}

impl Blobs for NatsStore {
    fn put_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move { inner.put_value(&blob, false).await })
    }

    fn hold_blob(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move { inner.put_value(&blob, true).await })
    }

    fn blob(&self, digest: &Digest) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        let digest = *digest;
        self.task(move |inner| async move { inner.value(&digest).await })
    }
}
