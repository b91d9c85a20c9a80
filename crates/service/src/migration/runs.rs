//! Copies the logs of runs, many runs side by side, each record with the values it refers to.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use windlass_core::event::{Event, Transition};
use windlass_core::{Digest, RunId};
use windlass_orchestrator::codec;
use windlass_orchestrator::supervisor::partition_of;
use windlass_store::{
    Append, AppendError, Blob, Claim, Damage, Error, Head, REQUEST_CLAIM, Record, ResourceRow,
    RunRow, request_key,
};

use super::{Copied, Movable, Progress};

/// How many runs are copied side by side, and how much of each log is read at a time.
const TOGETHER: usize = 64;
const PAGE_BYTES: usize = 256 * 1024;

/// Values that were put a moment ago are not put again.
const REMEMBERED: usize = 10_000;

pub(super) async fn copy(
    source: &dyn Movable,
    target: &dyn Movable,
    copied: &mut Copied,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let mut values = Values::default();
    let mut after = None;
    loop {
        let runs = source.logged_runs(after, TOGETHER).await?;
        let Some(last) = runs.last().copied() else {
            return Ok(());
        };
        after = Some(last);
        let mut group = Vec::new();
        for run in runs {
            group.extend(RunCopy::begin(source, target, run).await?);
        }
        while !group.is_empty() {
            let mut batch = Vec::new();
            for run in &mut group {
                batch.push(run.next(source, target, &mut values).await?);
            }
            windlass_store::crash::point("migrate-append");
            let answers = target.append(batch).await;
            for (run, answer) in group.iter_mut().zip(answers) {
                run.answered(target, answer).await?;
            }
            copied.records += group.len() as u64;
            let before = group.len();
            group.retain(|run| run.head.sequence < run.end.sequence);
            copied.runs += (before - group.len()) as u64;
            progress(copied);
        }
    }
}

/// Values that the target has.
#[derive(Default)]
struct Values(BTreeSet<Digest>);

impl Values {
    async fn bring(
        &mut self,
        source: &dyn Movable,
        target: &dyn Movable,
        digest: Digest,
    ) -> Result<(), Error> {
        if self.0.contains(&digest) {
            return Ok(());
        }
        let bytes = source.blob(&digest).await?;
        let bytes = bytes.ok_or_else(|| Error::NotFound(format!("value {digest}")))?;
        let bytes = Arc::from(bytes);
        target.put_blob(Blob { digest, bytes }).await?;
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(digest);
        Ok(())
    }
}

/// A run whose log is being copied.
struct RunCopy {
    run: RunId,
    /// Where the target's log ends, and where the source's does.
    head: Head,
    end: Head,
    row: Option<RunRow>,
    resources: Vec<ResourceRow>,
    claim: Option<Claim>,
    records: VecDeque<Record>,
}

impl RunCopy {
    /// A run that the target does not have, or not all of it.
    async fn begin(
        source: &dyn Movable,
        target: &dyn Movable,
        run: RunId,
    ) -> Result<Option<Self>, Error> {
        let (end, head) = (source.head(run).await?, target.head(run).await?);
        if end == head {
            return Ok(None);
        }
        if head.sequence >= end.sequence {
            return Err(Error::Damaged(Box::new(Damage {
                place: "the log of the target".to_owned(),
                run: Some(run),
                sequence: Some(head.sequence),
                offset: None,
                reason: "it is not a copy of the source's".to_owned(),
            })));
        }
        let row = row_in(source, target, run).await?;
        let claim = match &row {
            Some(row) => request_claim(source, row).await?,
            None => None,
        };
        Ok(Some(Self {
            run,
            head,
            end,
            row,
            resources: source.resources(run).await?,
            claim,
            records: VecDeque::new(),
        }))
    }

    /// The append of the next record.
    async fn next(
        &mut self,
        source: &dyn Movable,
        target: &dyn Movable,
        values: &mut Values,
    ) -> Result<Append, Error> {
        if self.records.is_empty() {
            let from = self.head.sequence + 1;
            self.records = source.read(self.run, from, PAGE_BYTES).await?.into();
        }
        let record = self.records.pop_front();
        let record = record.ok_or_else(|| Error::NotFound(format!("records of {}", self.run)))?;
        let mut uses: Vec<Digest> = Vec::new();
        for digest in references(self.run, &record)? {
            values.bring(source, target, digest).await?;
            if !uses.contains(&digest) {
                uses.push(digest);
            }
        }
        let (first, last) = (record.sequence == 1, record.sequence == self.end.sequence);
        let (resources, claims) = match first {
            true => (
                std::mem::take(&mut self.resources),
                self.claim.take().into_iter().collect(),
            ),
            false => (Vec::new(), Vec::new()),
        };
        let number = (record.writer, record.append_id);
        Ok(Append {
            // The first has it too, so that it holds the request id from then on.
            row: self.row.clone().filter(|_| first || last),
            claims,
            resources,
            uses,
            ..Append::of_record(self.run, self.head, number, record.bytes)
        })
    }

    async fn answered(
        &mut self,
        target: &dyn Movable,
        answer: Result<windlass_store::Appended, AppendError>,
    ) -> Result<(), Error> {
        let written = match answer {
            Ok(appended) => appended.head,
            // Whether it was written can be read.
            Err(AppendError::Unknown { .. }) => target.head(self.run).await?,
            Err(AppendError::Failed(error)) => return Err(error),
            Err(AppendError::Conflict(head)) => {
                return Err(Error::Unavailable(format!(
                    "another process writes to the target: run {} ends at record {}",
                    self.run, head.sequence
                )));
            }
            Err(AppendError::Held { namespace, .. }) => {
                return Err(Error::Unavailable(format!(
                    "a claim '{namespace}' of run {} is held in the target",
                    self.run
                )));
            }
        };
        if written == self.head {
            // The record that was not written is read again.
            self.records.clear();
        }
        self.head = written;
        Ok(())
    }
}

/// The row of a run as the target has it: in a partition that exists there.
pub(super) async fn row_in(
    source: &dyn Movable,
    target: &dyn Movable,
    run: RunId,
) -> Result<Option<RunRow>, Error> {
    let Some(mut row) = source.run(run).await? else {
        return Ok(None);
    };
    let (mut root, mut parent) = (run, row.parent);
    while let Some(above) = parent {
        let Some(found) = source.run(above).await? else {
            break;
        };
        (root, parent) = (above, found.parent);
    }
    row.partition = partition_of(root, None, target.partitions());
    Ok(Some(row))
}

async fn request_claim(source: &dyn Movable, row: &RunRow) -> Result<Option<Claim>, Error> {
    let key = request_key(row.tenant.as_deref(), &row.workflow, &row.request_id);
    let value = source.claimed(REQUEST_CLAIM, &key).await?;
    let own = row.run.to_string();
    let value = value.filter(|value| value.starts_with(own.as_bytes()));
    Ok(value.map(|value| Claim {
        namespace: REQUEST_CLAIM,
        key,
        value,
    }))
}

/// The values that a record refers to.
fn references(run: RunId, record: &Record) -> Result<Vec<Digest>, Error> {
    let unreadable = |reason: String| {
        Error::Damaged(Box::new(Damage {
            place: "the log of the source".to_owned(),
            run: Some(run),
            sequence: Some(record.sequence),
            offset: None,
            reason,
        }))
    };
    let transition = codec::decode(&record.bytes).map_err(|error| unreadable(error.to_string()))?;
    let mut found = graphs(&transition);
    let written =
        serde_json::to_value(&transition).map_err(|error| unreadable(error.to_string()))?;
    collect(&written, &mut found);
    Ok(found)
}

/// Graphs that belong to a run alone are values too.
fn graphs(transition: &Transition) -> Vec<Digest> {
    let graphs = transition.events.iter().filter_map(|event| match event {
        Event::Queued(queued) if queued.frozen => Some(queued.definition),
        Event::Imported { definition, .. } => Some(*definition),
        _ => None,
    });
    graphs.collect()
}

/// Every `{"blob": {"digest": …, "size": …}}` but those inside values that stand in the record.
fn collect(written: &Value, found: &mut Vec<Digest>) {
    match written {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(members) => {
            for (name, value) in members {
                let digest = value.get("digest").and_then(Value::as_str);
                let digest = digest.and_then(|digest| digest.parse().ok());
                match (&**name, digest) {
                    ("blob", Some(digest)) if value.get("size").is_some() => found.push(digest),
                    ("inline" | "meta", _) => {}
                    _ => collect(value, found),
                }
            }
        }
        _ => {}
    }
}
