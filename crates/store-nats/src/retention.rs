//! Forgetting runs. A message on the run's subject says that it is forgotten: behind it no record
//! fits, and it is the commit point. What is left is removed afterwards, by this process or by any
//! that meets the message: rows first, then the offers, at last the messages.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::{Digest, Millis, RunId};
use windlass_store::{
    Append, Error, Head, Pending, Queries as _, REQUEST_CLAIM, Retention, RunRow, request_key,
};

use crate::catch_up::last_sequence;
use crate::codec::{Kind, LogMessage, LogMeta};
use crate::error::{PublishFault, unavailable};
use crate::head::End;
use crate::projector::{Change, ChangeKind, FRESH};
use crate::store::{Inner, NatsStore};

/// Runs that are looked at together.
const AT_ONCE: usize = 100;

/// Values that are looked at together.
const VALUES: usize = 1000;

/// A run that is forgotten.
enum Mark {
    /// By this message on its subject.
    Message(Box<LogMessage>),
    /// The stream has nothing of it.
    Lost(RunId),
}

impl Mark {
    fn message(&self) -> Option<&LogMessage> {
        match self {
            Self::Message(message) => Some(message),
            Self::Lost(_) => None,
        }
    }

    fn lost(&self) -> Option<RunId> {
        match self {
            Self::Message(_) => None,
            Self::Lost(run) => Some(*run),
        }
    }
}

impl Inner {
    /// Publishes that a run is forgotten, if it may be at this head; nothing if it went on
    /// meanwhile.
    async fn mark_forgotten(
        &self,
        run: RunId,
        settled: Option<Head>,
        keep: bool,
    ) -> Result<Option<Mark>, Error> {
        let (head, after) = match self.end(run).await? {
            End::At(head, _) if settled.is_some_and(|settled| settled != head) => return Ok(None),
            End::At(head, sequence) => (head, sequence),
            // The stream lost it: only rows are left.
            End::Nothing | End::Void => return Ok(Some(Mark::Lost(run))),
            End::Forgotten(message) => return Ok(Some(Mark::Message(message))),
        };
        let mut meta = LogMeta::mark(Kind::Forgotten, &head);
        meta.keep = keep;
        let sequence = match self.publish_mark(run, after, &meta).await {
            Ok(sequence) => sequence,
            Err(PublishFault::Conflict) => return Ok(None),
            Err(fault) => return Err(fault.into_error()),
        };
        self.projector.enqueue(Change {
            run,
            sequence,
            kind: ChangeKind::Nothing,
            published: None,
        });
        Ok(Some(Mark::Message(Box::new(LogMessage {
            run,
            sequence,
            kind: Kind::Forgotten,
            head,
            meta,
            payload: bytes::Bytes::new(),
        }))))
    }

    /// Removes what is left of runs that are forgotten.
    ///
    /// A process that published a record may be about to apply it. It looks whether the run was
    /// forgotten unless it has applied it soon after that (`FRESH`). So the rows stay for as long:
    /// whatever such a process applies without a look is there when they are removed.
    pub(crate) async fn finish_forgetting(&self, messages: &[&LogMessage]) -> Result<(), Error> {
        if messages.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(FRESH).await;
        for message in messages {
            self.remove_forgotten(message).await?;
        }
        Ok(())
    }

    async fn remove_forgotten(&self, message: &LogMessage) -> Result<(), Error> {
        let (run, keep) = (message.run, message.meta.keep);
        self.forget_head(run);
        let heads = self.postgres.heads(vec![run]).await?;
        // A later run of the same id is another one.
        if heads.get(&run).is_some_and(|head| *head == message.head) {
            let row = self.postgres.run(run).await?;
            self.postgres.remove_runs(vec![run], keep).await?;
            if let Some(row) = row.filter(|_| !keep) {
                let key = request_key(row.tenant.as_deref(), &row.workflow, &row.request_id);
                self.remove_claim(run, REQUEST_CLAIM, &key).await?;
            }
        }
        self.remove_offers(run).await?;
        let purging = self.log_stream(run).stream.purge();
        let purging = purging.filter(self.log_subject(run));
        let purged = purging.sequence(message.sequence + 1).await;
        purged.map_err(|error| unavailable("messages cannot be removed", &error))?;
        Ok(())
    }

    /// Whether nothing of a run is left, in its stream and in the database.
    pub(crate) async fn is_forgotten(&self, run: RunId) -> Result<bool, Error> {
        let is_gone = !matches!(self.found_end(run).await?, End::At(..));
        Ok(is_gone && self.postgres.heads(vec![run]).await?.is_empty())
    }

    /// Removes a run whose first record reached the database only after the run was forgotten:
    /// the message that forgets it comes before its rows are removed, so a look after the first
    /// record was applied finds it, or the rows are removed later than that.
    ///
    /// A stream that lost the message is another matter: then the rows are all that is left.
    pub(crate) async fn remove_if_forgotten(
        &self,
        first: &Append,
        sequence: u64,
    ) -> Result<(), Error> {
        let run = first.run;
        if matches!(self.found_end(run).await?, End::At(..))
            || last_sequence(self.log_stream(run)).await? < sequence
        {
            return Ok(());
        }
        // The request id stays taken if its claim does.
        let keep = match &first.row {
            None => false,
            Some(row) => {
                let key = request_key(row.tenant.as_deref(), &row.workflow, &row.request_id);
                self.holds_claim(run, REQUEST_CLAIM, &key).await?
            }
        };
        self.postgres.remove_runs(vec![run], keep).await
    }

    /// Marks those of these runs as forgotten that may be; adds to the values that they alone may
    /// have referred to.
    async fn mark_some(
        &self,
        runs: &[RunId],
        keep: bool,
        values: &mut Vec<Digest>,
    ) -> Result<Vec<Mark>, Error> {
        // Nothing that this process published comes to the database after the run is gone.
        self.barrier().await?;
        let mut heads = HashMap::new();
        for run in runs {
            match self.settle(*run).await {
                Ok(head) => drop(heads.insert(*run, head)),
                // What is damaged can be forgotten too.
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let rows = self.postgres.forgettable(runs.to_vec()).await?;
        let mut marks = Vec::new();
        for RunRow { run, .. } in rows {
            let own = self.postgres.values_of(vec![run]).await?;
            let settled = heads.get(&run).copied();
            if let Some(mark) = self.mark_forgotten(run, settled, keep).await? {
                marks.push(mark);
                values.extend(own);
            }
        }
        Ok(marks)
    }

    async fn forget_all(&self, runs: &[RunId], keep: bool) -> Result<u64, Error> {
        let (mut marks, mut values) = (Vec::new(), Vec::new());
        for some in runs.chunks(AT_ONCE) {
            marks.extend(self.mark_some(some, keep, &mut values).await?);
        }
        let messages = marks.iter().filter_map(Mark::message);
        self.finish_forgetting(&messages.collect::<Vec<_>>())
            .await?;
        let lost = marks.iter().filter_map(Mark::lost).collect();
        self.postgres.remove_runs(lost, keep).await?;
        self.sweep_values(values).await?;
        self.barrier().await?;
        Ok(marks.len() as u64)
    }

    /// Removes those of these values that no log refers to any more.
    async fn sweep_values(&self, mut values: Vec<Digest>) -> Result<(), Error> {
        values.sort_unstable();
        values.dedup();
        let mut rows = Vec::new();
        for digest in values {
            if let Some(row) = self.index.row(&self.index_subject(&digest)).await? {
                rows.push((digest, row));
            }
        }
        self.sweep(rows).await?;
        Ok(())
    }

    /// Removes all values that no log refers to, and the objects that nothing leads to.
    async fn sweep_all(&self) -> Result<u64, Error> {
        let mut removed = 0;
        let rows = self.indexed().await?;
        for some in rows.chunks(VALUES) {
            removed += self.sweep(some.to_vec()).await?;
        }
        let later = Duration::from_millis(self.later_ms.load(Ordering::Relaxed));
        Ok(removed + self.sweep_objects(later).await?)
    }

    /// The bytes of values that logs refer to.
    async fn used_bytes(&self) -> Result<u64, Error> {
        let mut bytes = 0;
        let rows = self.indexed().await?;
        for some in rows.chunks(VALUES) {
            let asked = some.iter().map(|it| it.0).collect();
            let used = self.postgres.used_values(asked).await?;
            for (_, row) in some.iter().filter(|(digest, _)| used.contains(digest)) {
                bytes += row.meta::<crate::blob::IndexMeta>()?.size;
            }
        }
        Ok(bytes)
    }
}

impl Retention for NatsStore {
    fn ended(&self, before: Millis, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.after_own(move |postgres| async move { postgres.ended(before, limit).await })
    }

    fn ended_count(&self) -> Pending<'_, Result<u64, Error>> {
        self.after_own(move |postgres| async move { postgres.ended_count().await })
    }

    fn forget(&self, runs: Vec<RunId>, keep_request_ids: bool) -> Pending<'_, Result<u64, Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move { inner.forget_all(&runs, keep_request_ids).await })
    }

    fn bytes(&self) -> Pending<'_, Result<u64, Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move {
            inner.barrier().await?;
            Ok(inner.postgres.bytes().await? + inner.used_bytes().await?)
        })
    }

    fn vacuum(&self) -> Pending<'_, Result<(), Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move {
            inner.sweep_all().await?;
            inner.postgres.vacuum().await
        })
    }

    fn sweep(&self) -> Pending<'_, Result<u64, Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move { inner.sweep_all().await })
    }

    fn uses(&self, run: RunId, digest: &Digest) -> Pending<'_, Result<bool, Error>> {
        let digest = *digest;
        self.after_own(move |postgres| async move { postgres.uses(run, &digest).await })
    }
}
