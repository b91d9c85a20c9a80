//! A run read back into types. The JSON it is read from is the one that every other
//! interface shows, so that all of them say the same.

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::{Millis, NodeStatus, RunId, RunStatus};
use windlass_engine::view::{AttemptFilter, Options, write};
use windlass_service::run_item::Moment;

use super::ReadError;
use crate::engine::Engine;

/// A run, as it is at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Execution {
    /// The run.
    pub run: RunId,
    /// How it stands.
    pub status: RunStatus,
    /// Why it failed.
    pub error: Option<Value>,
    /// What came out; null before the end.
    pub output: Value,
    /// Whether compensations ran: `complete`, `incomplete`, or none at all.
    pub compensation: Option<String>,
    /// When it was asked for.
    pub created_at: Millis,
    /// When it started.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// When something last happened to it.
    pub updated_at: Option<Millis>,
    /// The nodes, in the order in which they ended, then the others.
    pub nodes: Vec<NodeState>,
    /// Every attempt, where it was asked for.
    pub(crate) attempts: Vec<Attempt>,
    /// All of it, as the command line and the HTTP interface show it.
    pub json: Value,
}

/// A node of a run with its state.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NodeState {
    /// The node instance.
    #[serde(skip)]
    pub id: String,
    /// Its name for people.
    pub name: Option<String>,
    /// How it stands.
    pub status: NodeStatus,
    /// The action it calls.
    pub action_type: Option<String>,
    /// How many attempts were made.
    #[serde(default)]
    pub attempts: u32,
    /// The parameters of its last attempt that ended, as they were rendered, without secrets.
    #[serde(default)]
    pub input: Value,
    /// What came out.
    #[serde(default)]
    pub output: Value,
    /// Why it failed.
    pub error: Option<NodeError>,
    /// How long it took, from the start of its first attempt to its end, in milliseconds.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// Whether a failure was handled by its own route.
    #[serde(default)]
    pub handled: Option<bool>,
    /// The failed nodes that block it.
    #[serde(default)]
    pub blocked_by: Option<Vec<String>>,
    /// The hash that ties it to everything that ran before it.
    pub ancestry_hash: Option<String>,
    /// When it started.
    #[serde(default, deserialize_with = "moment")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(default, deserialize_with = "moment")]
    pub ended_at: Option<Millis>,
}

/// One try of a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// The node instance.
    pub node: String,
    /// Its number, from 1.
    pub attempt: u32,
    /// How it ended: Succeeded, Failed, Skipped, Cancelled, or Running.
    pub status: NodeStatus,
    /// The parameters as they were rendered, without secrets.
    #[serde(default)]
    pub parameters: Value,
    /// What came out.
    #[serde(default)]
    pub output: Value,
    /// Why it failed.
    pub error: Option<NodeError>,
    /// When it started.
    #[serde(default, deserialize_with = "moment")]
    pub started_at: Option<Millis>,
    /// When it ended.
    #[serde(default, deserialize_with = "moment")]
    pub ended_at: Option<Millis>,
    /// The worker that ran it.
    pub worker: Option<String>,
    /// The idempotency key that other systems were given.
    pub idempotency_key: Option<String>,
    /// What the action reported about how it ran.
    #[serde(default)]
    pub meta: Value,
}

/// Why a node or an attempt failed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct NodeError {
    /// SCREAMING_SNAKE_CASE.
    pub code: String,
    /// A sentence.
    pub message: String,
    /// Whether another attempt might have succeeded.
    #[serde(default)]
    pub retriable: bool,
    /// What else is known.
    #[serde(default)]
    pub details: Value,
}

/// Reads a run, with every attempt if asked.
pub(super) fn read(engine: &Engine, run: RunId, actions: bool) -> Result<Execution, ReadError> {
    let options = Options {
        actions: match actions {
            true => AttemptFilter::All,
            false => AttemptFilter::None,
        },
        at_work: engine.inner().at_work(run),
        ..Options::default()
    };
    let engine = engine.inner();
    let mut text = Vec::new();
    write(&**engine.store(), engine.plans(), run, &options, &mut text)
        .map_err(|error| ReadError::of(run, error))?;
    let unreadable = |error: serde_json::Error| ReadError::Unreadable(error.to_string());
    let json: Value = serde_json::from_slice(&text).map_err(unreadable)?;
    execution(run, json).map_err(unreadable)
}

fn execution(run: RunId, json: Value) -> Result<Execution, serde_json::Error> {
    let attempts = match &json["actions"] {
        Value::Null => Vec::new(),
        actions => Vec::deserialize(actions)?,
    };
    let none = Map::new();
    let nodes = json["nodes"].as_object().unwrap_or(&none);
    let nodes = nodes.iter().map(|(id, node)| {
        let state = NodeState::deserialize(node)?;
        Ok(NodeState {
            id: id.clone(),
            ..state
        })
    });
    let at = |key: &str| moment(&json[key]);
    Ok(Execution {
        created_at: at("createdAt")?.unwrap_or_default(),
        started_at: at("startedAt")?,
        ended_at: at("endedAt")?,
        updated_at: at("updatedAt")?,
        run,
        status: RunStatus::deserialize(&json["status"])?,
        error: Some(json["error"].clone()).filter(|error| !error.is_null()),
        output: json["output"].clone(),
        compensation: json["compensation"].as_str().map(str::to_owned),
        nodes: nodes.collect::<Result<_, serde_json::Error>>()?,
        attempts,
        json,
    })
}

/// A moment that may not be.
fn moment<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Millis>, D::Error> {
    let moment = Option::<Moment>::deserialize(from)?;
    Ok(moment.map(|moment| moment.0))
}

/// The node of this id, or else the only one of this name.
pub(super) fn one(nodes: Vec<NodeState>, node: &str) -> Result<NodeState, ReadError> {
    if let Some(at) = nodes.iter().position(|known| known.id == node) {
        let mut nodes = nodes;
        return Ok(nodes.swap_remove(at));
    }
    let is_named = |known: &NodeState| known.name.as_deref() == Some(node);
    let (mut named, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_named);
    match named.len() {
        1 => Ok(named.remove(0)),
        0 => Err(ReadError::UnknownNode {
            node: node.into(),
            known: others.into_iter().map(|known| known.id.into()).collect(),
        }),
        _ => Err(ReadError::AmbiguousNode {
            node: node.into(),
            ids: named.into_iter().map(|known| known.id.into()).collect(),
        }),
    }
}
