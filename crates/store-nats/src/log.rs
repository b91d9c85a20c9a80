//! The log. Appends go to the streams; reads bring the database up to the end of the run's log
//! and read there, where every record is.

use windlass_core::RunId;
use windlass_store::{
    Append, AppendError, Appended, Checkpoint, Compacted, Error, Head, Log, Pending, Record,
};

use crate::append;
use crate::head::End;
use crate::store::{NatsStore, blockable, closed};

impl Log for NatsStore {
    fn append(&self, batch: Vec<Append>) -> Pending<'_, Vec<Result<Appended, AppendError>>> {
        if batch.is_empty() {
            return Box::pin(std::future::ready(Vec::new()));
        }
        let count = batch.len();
        let starts = batch.iter().any(|append| append.head == Head::NONE);
        let inner = std::sync::Arc::clone(&self.inner);
        let task = self.spawn_at_home(async move {
            let answers = append::append(std::sync::Arc::clone(&inner), batch).await;
            if starts {
                inner.acknowledge().await;
            }
            answers
        });
        let lost = move || {
            let each = (0..count).map(|_| {
                Err(AppendError::Unknown {
                    error: closed(),
                    append: None,
                })
            });
            each.collect()
        };
        blockable(async move { task.await.unwrap_or_else(|_| lost()) })
    }

    fn head(&self, run: RunId) -> Pending<'_, Result<Head, Error>> {
        self.task(move |inner| async move {
            let head = inner.head_now(run).await?;
            // A caller whose start had no answer takes a log that has begun for one.
            inner.acknowledge_run(run, head).await?;
            Ok(head)
        })
    }

    fn read(
        &self,
        run: RunId,
        from: u64,
        max_bytes: usize,
    ) -> Pending<'_, Result<Vec<Record>, Error>> {
        self.task(move |inner| async move {
            inner.settle(run).await?;
            inner.postgres.read(run, from, max_bytes).await
        })
    }

    fn claimed(&self, namespace: &str, key: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        let (namespace, key) = (namespace.to_owned(), key.to_owned());
        self.task(move |inner| async move { inner.claimed_value(&namespace, &key).await })
    }

    fn put_checkpoint(&self, run: RunId, checkpoint: Checkpoint) -> Pending<'_, Result<(), Error>> {
        self.inner.postgres.put_checkpoint(run, checkpoint)
    }

    fn checkpoint(&self, run: RunId) -> Pending<'_, Result<Option<Checkpoint>, Error>> {
        self.task(move |inner| async move {
            inner.barrier().await?;
            inner.postgres.checkpoint(run).await
        })
    }

    /// Records are packed in the database; their messages are removed from the stream, all but
    /// the last, which is the fence.
    fn compact(&self, run: RunId, through: u64) -> Pending<'_, Result<Compacted, Error>> {
        let inner = std::sync::Arc::clone(&self.inner);
        self.answer(async move {
            let end = inner.end(run).await?;
            inner.settle(run).await?;
            let packed = inner.postgres.compact(run, through).await?;
            // The database has everything before this message, which stays.
            if let End::At(_, sequence) = end {
                let purging = inner.log_stream(run).stream.purge();
                let purging = purging.filter(inner.log_subject(run));
                // What stays is removed by the next call.
                let _ = purging.sequence(sequence).await;
            }
            Ok(packed)
        })
    }
}
