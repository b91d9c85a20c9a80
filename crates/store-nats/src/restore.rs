//! Restoring logs that JetStream lost, from the records that the database has. Of each run the
//! last record is published again: it is the fence, and reads take the rest from the database.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::{Digest, RunId};
use windlass_store::{DeadLetters as _, Error, Head, Log as _, Pending, Queries as _, Record};

use crate::blob::IndexMeta;
use crate::claim::ClaimMeta;
use crate::codec::{LogMeta, StoredHead};
use crate::error::{PublishFault, damaged};
use crate::head::End;
use crate::names::bucket_key;
use crate::store::{Inner, KnownHead, NatsStore};
use crate::table::{message, publish_after};

/// Runs that are read from the list together.
const PAGE: usize = 500;

/// What was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Runs whose logs were published again.
    pub restored: u64,
    /// Runs that were acknowledged and of which no record is left: they were beyond the
    /// watermark.
    pub beyond: Vec<RunId>,
    /// Runs whose logs went on differently: no process acquires them.
    pub quarantined: Vec<RunId>,
    /// Values that logs refer to and no object holds.
    pub values: Vec<Digest>,
}

impl NatsStore {
    /// Restores what the streams lost. No process may serve meanwhile: the store is opened with
    /// [`crate::Settings::rebuilding`], which is refused while one does.
    pub fn restore_streams(&self) -> Pending<'_, Result<Restored, Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move { inner.restore().await })
    }
}

impl Inner {
    async fn restore(&self) -> Result<Restored, Error> {
        let mut restored = Restored::default();
        let mut after = None;
        loop {
            let page = self.postgres.logged_runs(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            for run in page {
                match self.restore_run(run).await {
                    Ok(true) => restored.restored += 1,
                    Ok(false) => {}
                    Err(error @ Error::Damaged(_)) => {
                        self.quarantine(run, &error).await?;
                        restored.quarantined.push(run);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        restored.beyond = self.runs_without_a_log().await?;
        self.catch_up().await?;
        restored.values = self.forget_lost_values().await?;
        self.keep_all_watermarks().await?;
        Ok(restored)
    }

    /// Publishes the last record of a run again if its log lacks it; whether it did.
    async fn restore_run(&self, run: RunId) -> Result<bool, Error> {
        let stored = self.postgres.head(run).await?;
        let (head, after) = match self.end(run).await? {
            End::At(head, sequence) => (head, sequence),
            End::Nothing => (Head::NONE, 0),
            End::Void | End::Forgotten(_) => return Ok(false),
        };
        if head == stored {
            return Ok(false);
        }
        if head.sequence >= stored.sequence || !self.is_on_chain(run, head).await? {
            let reason = "the log went on differently";
            return Err(damaged(
                &self.log_stream(run).name,
                run,
                head.sequence,
                reason,
            ));
        }
        let last = self.record(run, stored.sequence).await?;
        let before = match stored.sequence {
            0 | 1 => Head::NONE,
            sequence => self.record(run, sequence - 1).await?.head(),
        };
        let mut meta = LogMeta::mark(crate::codec::Kind::Record, &stored);
        meta.before = StoredHead::of(&before);
        meta.writer = last.writer.0;
        let message = message(&meta, Bytes::from(last.bytes))?;
        match publish_after(&self.js, self.log_subject(run), after, message).await {
            Ok(sequence) => {
                let known = KnownHead {
                    head: stored,
                    sequence,
                    has_inbox: false,
                    row_at: 0,
                };
                self.note_head(run, known);
                Ok(true)
            }
            Err(PublishFault::Conflict) => Err(Error::Unavailable(format!(
                "run {run} went on meanwhile; stop all servers first"
            ))),
            Err(fault) => Err(fault.into_error()),
        }
    }

    async fn is_on_chain(&self, run: RunId, head: Head) -> Result<bool, Error> {
        if head == Head::NONE {
            return Ok(true);
        }
        Ok(self.record(run, head.sequence).await?.head() == head)
    }

    async fn record(&self, run: RunId, sequence: u64) -> Result<Record, Error> {
        let page = self.postgres.read(run, sequence, 1).await?;
        let first = page.into_iter().next();
        first.ok_or_else(|| Error::NotFound(format!("record {sequence} of run {run}")))
    }

    /// Removes the rows of values whose objects are gone, so that they can be stored again; gives
    /// those that logs refer to.
    async fn forget_lost_values(&self) -> Result<Vec<Digest>, Error> {
        let objects = self.listed_objects().await?.into_iter();
        let there = objects.filter(|it| !it.deleted).map(|it| it.name);
        let there: BTreeSet<String> = there.collect();
        let mut lost = Vec::new();
        for (digest, row) in self.indexed().await? {
            if !there.contains(&row.meta::<IndexMeta>()?.object) {
                self.index.remove(row.sequence).await?;
                lost.push(digest);
            }
        }
        let used = self.postgres.used_values(lost.clone()).await?;
        lost.retain(|digest| used.contains(digest));
        Ok(lost)
    }

    /// Runs that hold a claim and have no log anywhere.
    async fn runs_without_a_log(&self) -> Result<Vec<RunId>, Error> {
        let all = bucket_key(&self.names.claim_bucket(), ">");
        let rows = self.claims.scan(vec![all], true).await?;
        let holders = rows
            .iter()
            .filter_map(|row| row.meta::<ClaimMeta>().ok()?.run);
        let holders: BTreeSet<RunId> = holders.collect();
        let mut without = Vec::new();
        for run in holders {
            let known = self.postgres.head(run).await?;
            let letter = self.postgres.dead_letter(run).await?;
            if known == Head::NONE && letter.is_none() && self.head_now(run).await? == Head::NONE {
                without.push(run);
            }
        }
        Ok(without)
    }
}
