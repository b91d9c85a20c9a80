//! The log: appends go to the writers, the rest to the pool.

use std::sync::Arc;

use windlass_core::RunId;
use windlass_store::{
    Append, AppendError, Appended, Checkpoint, Compacted, Error, Head, Log, Pending, Record,
};

use crate::codec::{Columns as _, text, uuid};
use crate::store::{PostgresStore, blockable};
use crate::writer::HEAD_OF;
use crate::{checkpoint, read, segment};

const CLAIMED: &str = "select value from claim where namespace = $1 and key = $2";

impl Log for PostgresStore {
    fn append(&self, batch: Vec<Append>) -> Pending<'_, Vec<Result<Appended, AppendError>>> {
        if batch.is_empty() {
            return Box::pin(std::future::ready(Vec::new()));
        }
        let entries = batch.into_iter().map(Into::into).collect();
        blockable(self.inner.writers.append(entries))
    }

    fn head(&self, run: RunId) -> Pending<'_, Result<Head, Error>> {
        self.call(move |session| async move {
            let row = session.first(HEAD_OF, &[&uuid(run)]).await?;
            row.map_or(Ok(Head::NONE), |row| row.head(0))
        })
    }

    fn read(
        &self,
        run: RunId,
        from: u64,
        max_bytes: usize,
    ) -> Pending<'_, Result<Vec<Record>, Error>> {
        self.call(move |session| async move { read::page(&session, run, from, max_bytes).await })
    }

    fn claimed(&self, namespace: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        let (namespace, key) = (text(namespace).into_owned(), text(key).into_owned());
        self.call(move |session| async move {
            let row = session.first(CLAIMED, &[&namespace, &key]).await?;
            Ok(row.map(|row| row.try_get(0)).transpose()?)
        })
    }

    fn put_checkpoint(&self, run: RunId, checkpoint: Checkpoint) -> Pending<'_, Result<(), Error>> {
        self.call(move |session| async move { checkpoint::put(&session, run, &checkpoint).await })
    }

    fn checkpoint(&self, run: RunId) -> Pending<'_, Result<Option<Checkpoint>, Error>> {
        self.call(move |session| async move { checkpoint::get(&session, run).await })
    }

    fn compact(&self, run: RunId, through: u64) -> Pending<'_, Result<Compacted, Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let packed = segment::compact(&inner, run, through).await;
            packed.map_err(crate::error::Fault::into_error)
        }))
    }
}
