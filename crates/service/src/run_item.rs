//! A run's row, for programs: the one description that lists of commands, answers of the API, its
//! document and the client that reads them share.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windlass_core::{Millis, RunId, RunStatus};
use windlass_store::{Partition, RunRow};

use crate::moment::since;

/// A run as lists of commands have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunItem {
    /// The run.
    #[schemars(with = "String")]
    pub execution_id: RunId,
    /// Its workflow.
    pub workflow_id: Box<str>,
    /// The workflow's version that it started on; 0 for a graph of its own.
    pub version: u32,
    /// Where it stands.
    #[schemars(with = "String")]
    pub status: RunStatus,
    /// Why it failed, if it did.
    pub error: Option<RunItemError>,
    /// The request that asked for it.
    pub request_id: Box<str>,
    /// Its tenant.
    pub tenant_id: Option<Box<str>>,
    /// From 0 to 9; higher begins first.
    pub priority: u8,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The run that started it, if it is a child.
    #[schemars(with = "Option<String>")]
    pub parent: Option<RunId>,
    /// When it was asked for.
    pub created_at: Moment,
    /// When it started.
    pub started_at: Option<Moment>,
    /// When it ended.
    pub ended_at: Option<Moment>,
    /// When something last happened to it. Of many unfinished runs only the first ones have it.
    #[serde(default)]
    pub updated_at: Option<Moment>,
    /// The run that it was forked from.
    #[schemars(with = "Option<String>")]
    pub origin: Option<RunId>,
    /// How it stands, more closely than its status says.
    #[serde(default)]
    pub state: RunState,
    /// What it waits for, in words: a signal, a time, the runs before it; why it is a dead letter.
    #[serde(default)]
    pub waits_for: Option<String>,
    /// How many runs it started; 1000 stands for that and more.
    #[serde(default)]
    pub children: u32,
    /// Runs that were forked from it, the newest first, at most 3.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub forked_as: Vec<RunId>,
}

/// How a run stands, more closely than its status says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    /// It has not begun.
    #[default]
    Queued,
    /// A process executes it.
    Running,
    /// It waits for a time or a signal alone.
    Waiting,
    /// It starts no more nodes until it is resumed.
    Paused,
    /// It has begun, and no process executes it.
    Orphaned,
    /// The engine gave it up.
    DeadLettered,
    /// It has ended well.
    Succeeded,
    /// It has ended badly.
    Failed,
    /// It was ended by a caller.
    Cancelled,
}

impl RunState {
    /// What a row alone says; whether a process executes the run is not in it.
    pub fn of(row: &RunRow) -> Self {
        match row.status {
            _ if row.is_dead_letter() => Self::DeadLettered,
            RunStatus::Pending => Self::Queued,
            RunStatus::Running if row.asleep => Self::Waiting,
            RunStatus::Running => Self::Running,
            RunStatus::Paused => Self::Paused,
            RunStatus::Succeeded => Self::Succeeded,
            RunStatus::Failed => Self::Failed,
            RunStatus::Cancelled => Self::Cancelled,
        }
    }

    /// For people, where the status alone would mislead.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "Queued",
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::Paused => "Paused",
            Self::Orphaned => "Orphaned",
            Self::DeadLettered => "Dead letter",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Cancelled => "Cancelled",
        }
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunItemError {
    /// The code of its error.
    pub code: Box<str>,
    /// Its first root cause; rows of older versions have none.
    #[serde(default)]
    pub message: Option<Box<str>>,
}

/// A run as the API lists it: with fields that only an engine reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunShape")]
pub struct RunDetails {
    /// What lists of commands have.
    #[serde(flatten)]
    pub item: RunItem,
    /// When it is woken next, if it sleeps.
    pub wake_at: Option<Moment>,
    /// Whether it waits for times, signals or children alone.
    pub asleep: bool,
    /// Its gate: the concurrency key that it shares with other runs.
    pub gate: Option<Box<str>>,
    /// How many runs of the gate may be active at once; 0 without a gate.
    pub gate_limit: u32,
    /// Whether it is among the dead letters.
    pub dead: bool,
    /// The codes of its root causes; rows of older versions have none.
    #[serde(default)]
    pub cause_codes: Vec<Box<str>>,
}

/// A moment as people and programs read it: `2026-01-31T12:00:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment(pub Millis);

impl JsonSchema for Moment {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment = since(&text, Millis(0));
        moment
            .map(Self)
            .map_err(|failure| serde::de::Error::custom(failure.message))
    }
}

impl From<&RunRow> for RunItem {
    fn from(row: &RunRow) -> Self {
        Self {
            execution_id: row.run,
            workflow_id: row.workflow.clone(),
            version: row.version,
            status: row.status,
            error: row.error_code.clone().map(|code| RunItemError {
                code,
                message: row.error_message.clone(),
            }),
            request_id: row.request_id.clone(),
            tenant_id: row.tenant.clone(),
            priority: row.priority,
            labels: row.labels.clone(),
            parent: row.parent,
            created_at: Moment(row.created_at),
            started_at: row.started_at.map(Moment),
            ended_at: row.ended_at.map(Moment),
            updated_at: row.ended_at.map(Moment),
            origin: row.origin,
            state: RunState::of(row),
            waits_for: None,
            children: 0,
            forked_as: Vec::new(),
        }
    }
}

impl From<&RunRow> for RunDetails {
    fn from(row: &RunRow) -> Self {
        Self {
            item: row.into(),
            wake_at: row.wake_at.map(Moment),
            asleep: row.asleep,
            gate: row.gate.clone(),
            gate_limit: row.limit,
            dead: row.dead,
            cause_codes: row.cause_codes.clone(),
        }
    }
}

impl From<RunDetails> for RunRow {
    fn from(details: RunDetails) -> Self {
        let item = details.item;
        let error = item.error.map(|error| (error.code, error.message));
        let (error_code, error_message) = error.unzip();
        Self {
            run: item.execution_id,
            tenant: item.tenant_id,
            workflow: item.workflow_id,
            version: item.version,
            request_id: item.request_id,
            status: item.status,
            priority: item.priority,
            labels: item.labels,
            created_at: item.created_at.0,
            started_at: item.started_at.map(|at| at.0),
            ended_at: item.ended_at.map(|at| at.0),
            wake_at: details.wake_at.map(|at| at.0),
            asleep: details.asleep,
            error_code,
            error_message: error_message.flatten(),
            cause_codes: details.cause_codes,
            parent: item.parent,
            origin: item.origin,
            gate: details.gate,
            limit: details.gate_limit,
            dead: details.dead,
            // Only the owners of runs need it.
            partition: Partition(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> RunRow {
        RunRow {
            run: RunId::from_bytes([7; 16]),
            tenant: Some("acme".into()),
            workflow: "order".into(),
            version: 3,
            request_id: "r-1".into(),
            status: RunStatus::Failed,
            priority: 9,
            labels: BTreeMap::from([("team".into(), "blue".into())]),
            created_at: Millis(1_700_000_000_001),
            started_at: Some(Millis(1_700_000_000_002)),
            ended_at: None,
            wake_at: Some(Millis(1_700_000_000_003)),
            asleep: true,
            error_code: Some("NODE_FAILED".into()),
            error_message: Some("a failed: E: no".into()),
            cause_codes: vec!["E".into()],
            parent: Some(RunId::from_bytes([8; 16])),
            origin: Some(RunId::from_bytes([9; 16])),
            gate: Some("g".into()),
            limit: 2,
            dead: true,
            partition: Partition(0),
        }
    }

    #[test]
    fn a_row_is_read_back_from_its_json() {
        let row = row();
        let text = serde_json::to_string(&RunDetails::from(&row)).expect("JSON");
        let read: RunDetails = serde_json::from_str(&text).expect("a run");
        assert_eq!(RunRow::from(read), row);
        let wrong = text.replace("2023-11-14T", "yesterday ");
        assert!(
            serde_json::from_str::<RunDetails>(&wrong).is_err(),
            "{wrong}"
        );
    }

    #[test]
    fn the_names_of_members_are_part_of_the_interface() {
        let keys = |value: serde_json::Value| {
            let members = value.as_object().expect("an object").keys().cloned();
            members.collect::<Vec<_>>().join(" ")
        };
        let item = serde_json::to_value(RunItem::from(&row())).expect("JSON");
        let error = serde_json::json!({ "code": "NODE_FAILED", "message": "a failed: E: no" });
        assert_eq!(item["error"], error);
        assert_eq!(item["createdAt"], "2023-11-14T22:13:20.001Z");
        let listed = "executionId workflowId version status error requestId tenantId priority \
            labels parent createdAt startedAt endedAt updatedAt origin state waitsFor \
            children forkedAs";
        assert_eq!(keys(item), listed);
        let details = serde_json::to_value(RunDetails::from(&row())).expect("JSON");
        let all = format!("{listed} wakeAt asleep gate gateLimit dead causeCodes");
        assert_eq!(keys(details), all);
    }
}
