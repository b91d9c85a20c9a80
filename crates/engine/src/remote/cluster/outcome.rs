//! An outcome on the wire: how an attempt ended, as the process that has its lease offers it to
//! the owner of the run, and how the owner refuses it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::Millis;
use windlass_core::event::ResourceLink;
use windlass_core::run::{Failure, Outcome, Report};
use windlass_core::value::{Payload, StoredFile};
use windlass_store::{Error, InboxItem, WorkKey, WorkLease};

use super::super::WorkError;
use super::dispatch::WireBlob;
use crate::values::ValueReader;

/// The version of what is written here.
const VERSION: u32 = 1;

/// Larger values were stored before the report, and are named by their digest.
const INLINE_BYTES: usize = 256 * 1024;

#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

/// An outcome, as it is offered.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireOutcome {
    v: u32,
    /// The lease, as the log records it.
    pub(super) lease: Box<str>,
    /// Its number in the queue.
    pub(super) number: u64,
    pub(super) worker: Box<str>,
    /// Whether a caller waits for the answer.
    pub(super) is_awaited: bool,
    /// Whether the queue gave the item up for it: no other worker had it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_settled: bool,
    /// Whether the worker reported success, of which its process made this failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    completed: bool,
    started: i64,
    ended: i64,
    end: WireEnd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<WireText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resources: Vec<ResourceLink>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<StoredFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WireEnd {
    Succeeded(WireText),
    Failed(WireFailure),
    Skipped,
    Stopped,
    /// So many workers died with the attempt in hand: it is not tried again.
    Deadly(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireFailure {
    error: Failure,
    /// The error as it is stored does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WireText {
    Text(Box<str>),
    Blob(WireBlob),
}

impl WireText {
    fn of(payload: &Payload) -> Self {
        match u32::try_from(payload.text().len()) {
            Ok(size) if size as usize > INLINE_BYTES => Self::Blob(WireBlob {
                digest: payload.digest(),
                size,
            }),
            _ => Self::Text(payload.text().as_ref().into()),
        }
    }

    async fn read(self, key: WorkKey, values: &ValueReader) -> Result<Payload, Error> {
        Ok(match self {
            Self::Text(text) => Payload::new(text),
            Self::Blob(blob) => Payload::new(values.read(key.run, &blob.into()).await?),
        })
    }
}

/// The inbox key of the outcome of an attempt under a lease.
pub(super) fn item_key(key: WorkKey, lease: WorkLease) -> String {
    let WorkKey {
        instance, attempt, ..
    } = key;
    format!("{}{instance}/{attempt}/{:x}", super::OUTCOMES, lease.0)
}

/// The attempt of an inbox item of a run.
pub(super) fn attempt_of(item: &InboxItem, run: windlass_core::RunId) -> Option<WorkKey> {
    let mut parts = item.key.strip_prefix(super::OUTCOMES)?.splitn(3, '/');
    Some(WorkKey {
        run,
        instance: parts.next()?.parse().ok()?,
        attempt: parts.next()?.parse().ok()?,
    })
}

/// The bytes of an offer.
pub(super) fn encode(report: &Report, lease: WorkLease, is_awaited: bool) -> Vec<u8> {
    wire(report, lease, is_awaited).bytes()
}

/// An outcome, to be offered.
pub(super) fn wire(report: &Report, lease: WorkLease, is_awaited: bool) -> WireOutcome {
    let end = match &report.outcome {
        Outcome::Succeeded(output) => WireEnd::Succeeded(WireText::of(output)),
        Outcome::Failed(error) => WireEnd::Failed(WireFailure {
            error: error.clone(),
            retry_after_ms: error.retry_after_ms,
        }),
        Outcome::Skipped => WireEnd::Skipped,
        Outcome::Stopped => WireEnd::Stopped,
    };
    written(report, lease, is_awaited, end)
}

/// The same for an attempt with which so many workers died.
pub(super) fn wire_deadly(report: &Report, lease: WorkLease, deaths: u32) -> WireOutcome {
    written(report, lease, false, WireEnd::Deadly(deaths))
}

fn written(report: &Report, lease: WorkLease, is_awaited: bool, end: WireEnd) -> WireOutcome {
    WireOutcome {
        v: VERSION,
        lease: report.lease.clone().unwrap_or_default(),
        number: lease.0,
        worker: report.worker.clone(),
        is_awaited,
        is_settled: false,
        completed: report.completed,
        started: report.started.0,
        ended: report.ended.0,
        end,
        parameters: report.parameters.as_ref().map(WireText::of),
        meta: report.meta.clone(),
        resources: report.resources.clone(),
        files: report.files.clone(),
    }
}

/// An offer; nothing if this version of the program cannot read it.
pub(super) fn decode(item: &InboxItem) -> Option<WireOutcome> {
    let Versioned { v } = serde_json::from_slice(&item.bytes).ok()?;
    if v != VERSION {
        return None;
    }
    serde_json::from_slice(&item.bytes).ok()
}

impl WireOutcome {
    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers always serialise")
    }

    /// The bytes of an offer, for which the queue gives the item up or not.
    pub(super) fn bytes_if(&mut self, is_settled: bool) -> Vec<u8> {
        self.is_settled = is_settled;
        self.bytes()
    }

    /// With how many deaths the attempt is given up, if it is.
    pub(super) fn deaths(&self) -> Option<u32> {
        match self.end {
            WireEnd::Deadly(deaths) => Some(deaths),
            _ => None,
        }
    }

    /// The report for the log; reads values that were stored apart.
    pub(super) async fn report(self, key: WorkKey, values: &ValueReader) -> Result<Report, Error> {
        let outcome = match self.end {
            WireEnd::Succeeded(text) => Outcome::Succeeded(text.read(key, values).await?),
            WireEnd::Failed(WireFailure {
                error,
                retry_after_ms,
            }) => Outcome::Failed(Failure {
                retry_after_ms,
                ..error
            }),
            WireEnd::Skipped => Outcome::Skipped,
            WireEnd::Stopped | WireEnd::Deadly(_) => Outcome::Stopped,
        };
        let parameters = match self.parameters {
            Some(text) => Some(text.read(key, values).await?),
            None => None,
        };
        Ok(Report {
            started: Millis(self.started),
            ended: Millis(self.ended),
            worker: self.worker,
            outcome,
            parameters,
            meta: self.meta,
            resources: self.resources,
            files: self.files,
            lease: Some(self.lease),
            completed: self.completed,
        })
    }
}

/// Why an outcome was refused.
#[derive(Serialize, Deserialize)]
struct WireRefusal {
    v: u32,
    code: Box<str>,
}

const LEASE_LOST: &str = "LEASE_LOST";
const TASK_ENDED: &str = "TASK_ENDED";

/// The bytes of a refusal.
pub(super) fn refusal(error: &WorkError) -> Vec<u8> {
    let code = match error {
        WorkError::LeaseLost => LEASE_LOST,
        _ => TASK_ENDED,
    };
    let wire = WireRefusal {
        v: VERSION,
        code: code.into(),
    };
    serde_json::to_vec(&wire).expect("texts always serialise")
}

/// What a refusal says.
pub(super) fn refused(reason: &[u8]) -> WorkError {
    match serde_json::from_slice(reason) {
        Ok(WireRefusal { code, .. }) if *code == *LEASE_LOST => WorkError::LeaseLost,
        _ => WorkError::TaskEnded,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_store::{MemoryStore, block_on};

    use super::*;

    /// As this version writes them, one a line; later versions must read them.
    const RECORDED: &str = include_str!("../../../tests/wire/outcomes-1.jsonl");

    fn item(bytes: &[u8]) -> InboxItem {
        InboxItem {
            number: 1,
            key: "outcome/7/2/2a".into(),
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn recorded_outcomes_are_read_and_written_as_they_were() {
        let values = ValueReader::new(Arc::new(MemoryStore::new()), 1 << 20);
        let run = "01920000-0000-7000-8000-000000000001";
        let run = run.parse().expect("an id");
        let key = attempt_of(&item(b""), run).expect("an attempt");
        assert_eq!((key.instance, key.attempt), (7, 2));
        assert_eq!(item_key(key, WorkLease(42)), "outcome/7/2/2a");
        let mut kinds = 0;
        for line in RECORDED.lines() {
            let wire = decode(&item(line.as_bytes())).expect("it is of this version");
            let (number, awaited, deaths) =
                (WorkLease(wire.number), wire.is_awaited, wire.deaths());
            let report = block_on(wire.report(key, &values)).expect("nothing is read");
            let written = match deaths {
                Some(deaths) => wire_deadly(&report, number, deaths).bytes(),
                None => encode(&report, number, awaited),
            };
            assert_eq!(String::from_utf8(written).expect("text"), line);
            kinds += 1;
        }
        assert_eq!(kinds, 6);
    }

    #[test]
    fn what_a_newer_process_offers_is_left_alone_and_refusals_are_told_apart() {
        let line = RECORDED.lines().next().expect("one");
        let newer = line.replacen("\"v\":1", "\"v\":2", 1);
        assert!(decode(&item(newer.as_bytes())).is_none());
        let lost = refused(&refusal(&WorkError::LeaseLost));
        assert!(matches!(lost, WorkError::LeaseLost));
        assert!(matches!(refused(b"?"), WorkError::TaskEnded));
    }
}
