//! The types of a definition: the shape of the document, described once.
//!
//! The published JSON Schema and the structural checks of the parser are both
//! made from these types, their attributes and their comments.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::compensation::CompensationSettings;
use crate::name::{KEY_PATTERN, ShortText, TEXT_BYTES, TEXT_PATTERN};

/// Raw JSON text, kept as it was written.
pub type JsonText = Box<RawValue>;

/// A workflow definition.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    /// The schema that editors check this document with; it means nothing else.
    #[serde(default, rename = "$schema", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub schema: Option<Box<str>>,
    /// `^[a-z0-9-]{1,128}$`
    #[schemars(regex(pattern = "^[a-z0-9-]{1,128}$"))]
    pub id: Box<str>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = TEXT_PATTERN))]
    pub display_name: Option<Box<str>>,
    /// What the workflow is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub description: Option<Box<str>>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 256), regex(pattern = TEXT_PATTERN)))]
    pub tags: Vec<Box<str>>,
    /// Defaults for each run's labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<Box<str>, ShortText>")]
    #[schemars(extend("maxProperties" = 64, "propertyNames" = key_names()))]
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The only entry; without it, every node with no incoming edge is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub start_node: Option<Box<str>>,
    /// JSON Schema of the trigger, checked when a run is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_schema: Option<JsonText>,
    /// The run's variables at its start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = texts()))]
    pub vars: BTreeMap<Box<str>, JsonText>,
    /// Template of the run's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<JsonText>,
    /// What a failure does to the rest of the run.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// How many nodes go at once, and in what order.
    #[serde(default)]
    pub execution_mode: ExecutionMode,
    /// Whether running runs follow newer versions.
    #[serde(default)]
    pub in_flight: InFlight,
    /// When compensations run, and what one that fails does to the others.
    #[serde(default)]
    pub compensation: CompensationSettings,
    /// The whole run's time; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_155_760_000_000_u64))]
    pub timeout_ms: Option<u64>,
    /// This run's own bound on running nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_parallel: Option<u32>,
    /// A bound on runs that share a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// The graph.
    #[serde(deserialize_with = "nodes")]
    #[schemars(length(min = 1))]
    pub nodes: Vec<Node>,
}

/// What a failure does to the rest of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FailurePolicy {
    /// Everything that can still run, runs.
    #[default]
    Partial,
    /// An unhandled failure stops the rest.
    FailFast,
}

/// How many nodes go at once, and in what order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExecutionMode {
    /// Whatever is ready runs.
    #[default]
    Parallel,
    /// One node instance at a time, in definition order.
    Sequential,
    /// A level starts when all earlier ones have ended.
    Levels,
}

/// Whether running runs follow newer versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InFlight {
    /// A run stays on the version it started on.
    #[default]
    Pinned,
    /// A run follows the newest version.
    Healing,
}

/// A bound on runs that share a key.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Concurrency {
    /// Template of the key; without it, all runs of the workflow share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JsonText>,
    /// How many runs with the same key may run at once.
    #[schemars(range(min = 1))]
    pub limit: u32,
}

/// One node of the graph. Rare parts are boxed: most nodes are an id, an
/// action and some parameters, and there may be 100,000 of them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Node {
    /// `^[A-Za-z0-9_-]{1,128}$`
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,128}$"))]
    pub id: Box<str>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = TEXT_PATTERN))]
    pub name: Option<Box<str>>,
    /// Template of the action's parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<JsonText>,
    /// Timeout and retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Box<Policies>>,
    /// Edges that leave this node.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub edges: Box<[Edge]>,
    /// Success edges that arrive here.
    #[serde(default, skip_serializing_if = "is_empty")]
    #[schemars(inner(length(max = 128)))]
    pub depends_on: Box<[Box<str>]>,
    /// Where a failure goes when no explicit failure edge was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub on_failure: Option<Box<str>>,
    /// One of several edges, chosen by a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Box<Switch>>,
    /// How incoming edges are joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
    /// How the node's effect is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Box<Compensate>>,
    /// Labels a worker must have.
    #[serde(default, skip_serializing_if = "is_empty")]
    #[schemars(length(max = 64), inner(regex(pattern = KEY_PATTERN)))]
    pub requires: Box<[Box<str>]>,
    /// Which goes first where nodes compete, from 0 to 9, higher first; the run's priority by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: Option<u8>,
    /// The pool whose slots an attempt holds while it is with a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Box<Pool>>,
    /// Variables set when the node succeeds, as templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("propertyNames" = texts()))]
    pub set_vars: Option<Box<BTreeMap<Box<str>, JsonText>>>,
    /// One call of an action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = KEY_PATTERN))]
    pub action_type: Option<Box<str>>,
    /// Its body once for each item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Box<ForEach>>,
    /// Its body for as long as a condition holds.
    #[serde(default, rename = "while", skip_serializing_if = "Option::is_none")]
    pub while_loop: Option<Box<While>>,
    /// Its body until it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_until: Option<Box<RetryUntil>>,
    /// A child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subworkflow: Option<Box<Subworkflow>>,
    /// A wait for a person or another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_signal: Option<Box<WaitForSignal>>,
    /// A durable timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Box<Delay>>,
}

/// A share of a pool: a named limit across runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// The pool's name.
    #[schemars(regex(pattern = KEY_PATTERN))]
    pub name: Box<str>,
    /// How many of its slots an attempt holds; one by default.
    #[serde(default = "Pool::one_slot")]
    #[schemars(range(min = 1, max = 10_000))]
    pub slots: u32,
}

impl Pool {
    /// The most slots that a pool can have, and that an attempt can hold.
    pub const MOST_SLOTS: u32 = 10_000;

    fn one_slot() -> u32 {
        1
    }
}

/// Timeout and retry of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policies {
    /// Time of one attempt; five minutes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_155_760_000_000_u64))]
    pub timeout_ms: Option<u64>,
    /// Without it there is exactly one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// How often and how soon an attempt is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// All attempts, the first included; 0 means 1.
    pub max_attempts: u32,
    /// How the delay grows.
    #[serde(default)]
    pub strategy: RetryStrategy,
    /// The delay before the second attempt.
    #[serde(default = "Retry::default_base_delay_ms")]
    #[schemars(range(max = 3_155_760_000_000_u64))]
    pub base_delay_ms: u64,
    /// What an exponential delay is multiplied by each time; at least 1.
    #[serde(default = "Retry::default_backoff_factor")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub backoff_factor: f64,
    /// The longest delay.
    #[serde(default = "Retry::default_max_delay_ms")]
    #[schemars(range(max = 3_155_760_000_000_u64))]
    pub max_delay_ms: u64,
    /// Whether the delay is multiplied by a random number between 0 and 1.
    #[serde(default = "Retry::default_jitter")]
    pub jitter: bool,
}

impl Retry {
    fn default_base_delay_ms() -> u64 {
        2000
    }

    fn default_backoff_factor() -> f64 {
        2.0
    }

    fn default_max_delay_ms() -> u64 {
        300_000
    }

    fn default_jitter() -> bool {
        true
    }
}

/// How a retry's delay grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RetryStrategy {
    /// Base times factor to the power of the attempts made, less one.
    #[default]
    Exponential,
    /// Base times the attempts made.
    Linear,
    /// Always the base delay.
    Fixed,
}

/// An edge, written where it leaves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Edge {
    /// Where it leads.
    #[schemars(length(max = 128))]
    pub target_node: Box<str>,
    /// After which end of the parent it may be taken.
    #[serde(default)]
    pub when: When,
    /// A bare expression that must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Box<str>>,
}

/// After which end of its parent an edge may be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// The parent succeeded.
    #[default]
    Success,
    /// The parent failed.
    Failure,
    /// Whatever happened before.
    Always,
}

/// One of several edges, chosen by a value.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Switch {
    /// A bare expression, evaluated once.
    pub on: Box<str>,
    /// The node for each value, compared as text.
    #[schemars(extend("propertyNames" = case_texts(), "additionalProperties" = node_names()))]
    pub cases: BTreeMap<Box<str>, Box<str>>,
    /// The node when no case is equal, or `on` errs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub default: Option<Box<str>>,
    /// After which end of the node the switch is made.
    #[serde(default)]
    pub when: When,
}

/// How incoming edges are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Join {
    /// Wait until all have resolved.
    #[default]
    All,
    /// Ready as soon as one is taken.
    Any,
    /// Ready as soon as this many are taken.
    AtLeast(#[schemars(range(min = 1))] u32),
}

/// How a node's effect is undone.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compensate {
    /// The action that undoes it.
    #[schemars(regex(pattern = KEY_PATTERN))]
    pub action_type: Box<str>,
    /// Template of that action's parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<JsonText>,
    /// Timeout and retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Box<Policies>>,
}

/// The nodes of a loop, in their own scope.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Body {
    /// The body's graph.
    #[schemars(length(min = 1))]
    pub nodes: Vec<Node>,
    /// Its only entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub start_node: Option<Box<str>>,
    /// Template of an iteration's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<JsonText>,
}

/// A body once for each item of a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForEach {
    /// Template of the list.
    pub items: JsonText,
    /// A second name for `item`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z_$][A-Za-z0-9_$]{0,127}$"))]
    pub item_name: Option<Box<str>>,
    /// Whether iterations overlap; they do by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<bool>,
    /// How many iterations run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrency: Option<u32>,
    /// What a failed item does.
    #[serde(default)]
    pub on_item_failure: OnItemFailure,
    /// What is done for each.
    pub body: Body,
}

/// What a failed item does to its loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnItemFailure {
    /// No further item starts, and the loop fails.
    #[default]
    Fail,
    /// The error stands in the list of outputs.
    Collect,
}

/// A body for as long as a condition holds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct While {
    /// A bare expression, asked before each iteration.
    pub condition: Box<str>,
    /// Past this the node fails; 1,000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_iterations: Option<u32>,
    /// What is repeated.
    pub body: Body,
}

/// A body until it succeeds and a condition holds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryUntil {
    /// A bare expression, asked after each iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Box<str>>,
    /// How many iterations there may be.
    #[schemars(range(min = 1))]
    pub max_attempts: u32,
    /// The wait between iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// What is repeated.
    pub body: Body,
}

/// The wait between iterations: the keys of a retry, all optional.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Backoff {
    /// Taken for symmetry with a node's retry; the loop's own bound decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How the delay grows.
    #[serde(default)]
    pub strategy: RetryStrategy,
    /// The delay before the second iteration.
    #[serde(default = "Retry::default_base_delay_ms")]
    #[schemars(range(max = 3_155_760_000_000_u64))]
    pub base_delay_ms: u64,
    /// What an exponential delay is multiplied by each time; at least 1.
    #[serde(default = "Retry::default_backoff_factor")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub backoff_factor: f64,
    /// The longest delay.
    #[serde(default = "Retry::default_max_delay_ms")]
    #[schemars(range(max = 3_155_760_000_000_u64))]
    pub max_delay_ms: u64,
    /// Whether the delay is multiplied by a random number between 0 and 1.
    #[serde(default = "Retry::default_jitter")]
    pub jitter: bool,
}

/// A child run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subworkflow {
    /// The child's workflow.
    #[schemars(regex(pattern = "^[a-z0-9-]{1,128}$"))]
    pub workflow_id: Box<str>,
    /// Its version; the newest by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub version: Option<u32>,
    /// Template of the child's trigger.
    pub input: JsonText,
    /// Template of the node's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<JsonText>,
    /// What the child shares with its parent.
    #[serde(default)]
    pub isolation: Isolation,
}

/// What a child run shares with its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// It sees only its input.
    #[default]
    Isolated,
    /// It reads the parent's variables, and its own come back.
    Shared,
    /// Isolated, and undone with the parent.
    Transactional,
}

/// A wait for a person or another system.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitForSignal {
    /// The signal's name.
    #[schemars(regex(pattern = KEY_PATTERN))]
    pub name: Box<str>,
    /// How long to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_155_760_000_000_u64))]
    pub timeout_ms: Option<u64>,
    /// JSON Schema of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<JsonText>,
}

/// A durable timer: exactly one of the two.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delay {
    /// How long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 3_155_760_000_000_u64))]
    pub ms: Option<u64>,
    /// Template of the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<JsonText>,
}

/// What the keys of labels must be, in the published schema.
fn key_names() -> serde_json::Value {
    serde_json::json!({ "pattern": KEY_PATTERN })
}

/// What the names of variables must be, in the published schema.
fn texts() -> serde_json::Value {
    serde_json::json!({ "pattern": TEXT_PATTERN, "maxLength": TEXT_BYTES })
}

/// What the cases of a switch must be, in the published schema.
fn case_texts() -> serde_json::Value {
    serde_json::json!({ "maxLength": 1024 })
}

/// What the name of a node must be where it is referred to, in the published schema.
fn node_names() -> serde_json::Value {
    serde_json::json!({ "type": "string", "maxLength": 128 })
}

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}

/// Reads a list that may be very long. It grows by a quarter, not by doubling: a list
/// that has just doubled is half empty, and its former half is still in memory.
fn nodes<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Node>, D::Error> {
    struct Visitor;
    impl<'de> serde::de::Visitor<'de> for Visitor {
        type Value = Vec<Node>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of nodes")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut list: A,
        ) -> Result<Vec<Node>, A::Error> {
            let mut nodes: Vec<Node> = Vec::new();
            while let Some(node) = list.next_element()? {
                if nodes.len() == nodes.capacity() {
                    nodes.reserve_exact(nodes.len() / 4 + 4);
                }
                nodes.push(node);
            }
            nodes.shrink_to_fit();
            Ok(nodes)
        }
    }
    deserializer.deserialize_seq(Visitor)
}
