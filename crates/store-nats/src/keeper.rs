//! Streams that were deleted under the program. What can be made again without a loss is: the
//! inbox (an offer is acknowledged when a record has consumed it, not before), the work queue (the
//! logs say which attempts are open), the leases (a
//! process whose session is gone joins again, and appends are fenced), the claims (the database
//! has those of all records) and the index of values (the names of objects say what they hold).
//! Requests fail until then, and the one that finds a stream missing wakes the keeper.
//!
//! Streams of logs and the object store are not made again: their messages are the only copy of
//! what the database lacks. Health and every request that needs one name it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Notify;
use windlass_core::Digest;
use windlass_store::{Error, Transfer as _};

use crate::OpenError;
use crate::blob::IndexMeta;
use crate::claim;
use crate::error::PublishFault;
use crate::layout::{self, Filling};
use crate::store::Inner;
use crate::table::{Table, message, publish_after};

/// How soon the keeper looks again.
const AGAIN: Duration = Duration::from_millis(200);

/// Claims that are read together.
const PAGE: usize = 1000;

/// Makes again what was deleted, whenever a request finds something missing.
pub(crate) async fn run(inner: Weak<Inner>, missing: Arc<Notify>) {
    loop {
        missing.notified().await;
        let Some(inner) = inner.upgrade() else { return };
        // What fails is tried again when the next request fails.
        let _ = inner.mend().await;
        drop(inner);
        tokio::time::sleep(AGAIN).await;
    }
}

impl Inner {
    /// Makes again what is missing and can be.
    pub(crate) async fn mend(&self) -> Result<(), OpenError> {
        for table in [&self.inbox, &self.leases, &self.work] {
            layout::make_again(&self.js, table, &self.logs).await?;
        }
        if self.begin_filling(&self.claims).await? {
            // Records whose claims were made in the stream that is gone are published by then, or
            // never. A rebuild is alone.
            if !self.settings.rebuilding {
                tokio::time::sleep(claim::MOST_TIME + self.settings.answer_time).await;
            }
            self.fill_claims().await.map_err(OpenError::Away)?;
            layout::end_filling(&self.claims).await?;
        }
        if self.begin_filling(&self.index).await? {
            self.fill_index().await.map_err(OpenError::Away)?;
            layout::end_filling(&self.index).await?;
            self.touched.forget_all();
        }
        Ok(())
    }

    /// Whether a table is to be filled; its stream is there then.
    async fn begin_filling(&self, table: &Table) -> Result<bool, OpenError> {
        if layout::filling(table).await? == Filling::Done {
            return Ok(false);
        }
        layout::begin_filling(&self.names, table, &self.logs).await?;
        Ok(layout::filling(table).await? == Filling::UnderWay)
    }

    /// The claims of all records, which the database has once it is at the ends of the logs.
    async fn fill_claims(&self) -> Result<(), Error> {
        self.catch_up().await?;
        let mut after: Option<(Box<str>, Box<str>)> = None;
        loop {
            let from = after.as_ref().map(|it| (&*it.0, &*it.1));
            let page = self.postgres.claims(from, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some((last.namespace.clone(), last.key.clone()));
            for claim in page {
                let (subject, meta) = self.claim_row(&claim);
                self.fill_row(subject, &meta, claim.value.into()).await?;
            }
        }
    }

    /// An object of each value that is there. It counts as held: the logs that refer to it may
    /// touch it only later.
    async fn fill_index(&self) -> Result<(), Error> {
        let mut objects: BTreeMap<Digest, IndexMeta> = BTreeMap::new();
        for object in self.listed_objects().await? {
            let Some(digest) = object.value().filter(|_| !object.deleted) else {
                continue;
            };
            let meta = IndexMeta {
                object: object.name,
                size: object.size,
                held: true,
            };
            objects.insert(digest, meta);
        }
        for (digest, meta) in objects {
            let subject = self.index_subject(&digest);
            self.fill_row(subject, &meta, Bytes::new()).await?;
        }
        Ok(())
    }

    /// Puts a row into a table that is filled, unless another process has.
    async fn fill_row<T: Serialize>(
        &self,
        subject: String,
        meta: &T,
        payload: Bytes,
    ) -> Result<(), Error> {
        let message = message(meta, payload)?;
        let subject = self.names.filling(&subject);
        match publish_after(&self.js, subject, 0, message).await {
            Ok(_) | Err(PublishFault::Conflict) => Ok(()),
            Err(fault) => Err(fault.into_error()),
        }
    }
}
