//! What a store needs whose logs are kept elsewhere and whose rows are kept here: many heads at
//! once, records in the order in which they were made durable there, which values logs refer to,
//! and removing runs whose removal is decided already.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;
use windlass_core::{Digest, RunId};
use windlass_store::{Append, Error, Head, ItemRun, Partition, Pending, RunRow};

use crate::codec::{Columns as _, RUN_COLUMNS, run_row, uuid};
use crate::entry;
use crate::error::Fault;
use crate::retention::{self, FORGETTABLE};
use crate::store::{PostgresStore, blockable};

/// Each is looked up by its key: a plan that was made for an empty table would scan all.
const HEADS: &str = "select h.seq, h.append_id, h.chain, h.run from unnest($1::uuid[]) i(run) \
     cross join lateral (select * from head where head.run = i.run offset 0) h";
const ITEM_RUNS: &str = "select h.seq, h.append_id, h.chain, h.run, e.partition, \
     e.status = 'Running' and not e.dead from unnest($1::uuid[]) i(run) \
     cross join lateral (select * from head where head.run = i.run offset 0) h \
     cross join lateral (select partition, status, dead from workflow_executions \
     where id = i.run offset 0) e";
const VALUES: &str = "select distinct digest from blob_use where run = any($1)";
const USED: &str = "select distinct digest from blob_use where digest = any($1)";

fn digest(bytes: &[u8]) -> Option<Digest> {
    bytes.try_into().ok().map(Digest)
}

/// What workers have to know of runs, each with the head of its log here.
pub type ItemRuns = HashMap<RunId, (Head, ItemRun)>;

impl PostgresStore {
    /// Appends records that are durable elsewhere, those of one run in few statements; whether each
    /// is stored. One that is not may be refused, or its fate unknown: appended by itself, it gets
    /// an answer.
    pub fn follow(&self, appends: Vec<Append>) -> Pending<'_, Vec<bool>> {
        let mut stored = vec![false; appends.len()];
        let (entries, places): (Vec<_>, Vec<_>) = entry::joined(appends).into_iter().unzip();
        let inner = Arc::clone(&self.inner);
        blockable(async move {
            let answers = inner.writers.append(entries).await;
            for (answer, places) in answers.into_iter().zip(places) {
                for place in places {
                    stored[place] = answer.is_ok();
                }
            }
            stored
        })
    }

    /// The heads of these runs; a run without a log is left out.
    pub fn heads(&self, runs: Vec<RunId>) -> Pending<'_, Result<HashMap<RunId, Head>, Error>> {
        self.call_long(move |session| async move {
            let ids: Vec<Uuid> = runs.into_iter().map(uuid).collect();
            let rows = session.rows(HEADS, &[&ids]).await?;
            rows.iter()
                .map(|row| Ok((row.run(3)?, row.head(0)?)))
                .collect()
        })
    }

    /// What a worker has to know of these runs, each with the head that it is of; a run without a
    /// row is left out.
    pub fn item_runs(&self, runs: Vec<RunId>) -> Pending<'_, Result<ItemRuns, Error>> {
        self.call(move |session| async move {
            let ids: Vec<Uuid> = runs.into_iter().map(uuid).collect();
            let rows = session.rows(ITEM_RUNS, &[&ids]).await?;
            let each = rows.iter().map(|row| {
                let partition: i32 = row.try_get(4)?;
                let run = ItemRun {
                    partition: Partition(u32::try_from(partition).unwrap_or(0)),
                    is_running: row.try_get(5)?,
                };
                Ok((row.run(3)?, (row.head(0)?, run)))
            });
            each.collect()
        })
    }

    /// The values that the logs of these runs refer to.
    pub fn values_of(&self, runs: Vec<RunId>) -> Pending<'_, Result<Vec<Digest>, Error>> {
        self.call_long(move |session| async move {
            let ids: Vec<Uuid> = runs.into_iter().map(uuid).collect();
            let rows = session.rows(VALUES, &[&ids]).await?;
            let digests = rows.iter().map(|row| row.digest(0));
            digests.collect()
        })
    }

    /// Those of these values that some log refers to.
    pub fn used_values(&self, digests: Vec<Digest>) -> Pending<'_, Result<HashSet<Digest>, Error>> {
        self.call_long(move |session| async move {
            let asked: Vec<&[u8]> = digests.iter().map(|it| &it.0[..]).collect();
            let rows = session.rows(USED, &[&asked]).await?;
            let used = rows.iter().map(|row| {
                let bytes: &[u8] = row.try_get(0)?;
                Ok::<_, Fault>(digest(bytes))
            });
            let used: Result<Vec<Option<Digest>>, Fault> = used.collect();
            Ok(used?.into_iter().flatten().collect())
        })
    }

    /// Those of these runs that [`windlass_store::Retention::forget`] would forget now.
    pub fn forgettable(&self, runs: Vec<RunId>) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.call_long(move |session| async move {
            let ids: Vec<Uuid> = runs.into_iter().map(uuid).collect();
            let sql = format!(
                "select {RUN_COLUMNS} from workflow_executions e where e.id = any($1) \
                 and {FORGETTABLE} order by e.id"
            );
            let rows = session.rows(&sql, &[&ids]).await?;
            rows.iter().map(run_row).collect()
        })
    }

    /// Forgets runs whose removal is decided elsewhere: whether another run needs them is not
    /// asked again. Those that are gone already are passed over.
    pub fn remove_runs(&self, runs: Vec<RunId>, keep: bool) -> Pending<'_, Result<(), Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let runs: Vec<Uuid> = runs.into_iter().map(uuid).collect();
            retention::remove(&inner, &runs, keep).await?;
            Ok(())
        }))
    }
}
