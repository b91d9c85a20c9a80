//! What a simulated world is asked to do: definitions of many shapes, the requests for
//! their runs, and what people want of them at odd moments. It knows nothing of faults.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::Digest;
use windlass_core::event::{ConcurrencyKey, ForkOrigin, ReusedNode};
use windlass_core::plan::Plan;
use windlass_orchestrator::Begin;

use crate::catalogue::WorkflowCatalogue;
use crate::random::Random;
use crate::{structured, user_actions};

/// How urgent a run is that does not say so.
pub(crate) const PRIORITY: u8 = 5;

/// The largest generated graph.
pub(crate) const MAX_NODES: u64 = 15;

/// What kind of definitions a world has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Graphs of actions.
    #[default]
    Plain,
    /// Loops, waits, child runs, undoing and newer versions as well.
    Structured,
    /// Either of them, with two to four processes that divide the runs between them.
    Owners,
    /// Several processes as well, with concurrency limits, pools and priorities.
    Limits,
}

/// What a world is asked to do.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Every version of every workflow.
    pub catalogue: WorkflowCatalogue,
    /// The runs that are asked for.
    pub requests: Vec<RunRequest>,
    /// When a newer version of a workflow is published, in order for each.
    pub publications: Vec<(u64, Box<str>)>,
}

impl Workload {
    /// Draws the work of one world, over `horizon` milliseconds.
    pub fn draw(random: &mut Random, horizon: u64, kind: WorkloadKind) -> Self {
        match kind {
            WorkloadKind::Plain => plain(random, horizon),
            WorkloadKind::Structured => structured::workload(random, horizon),
            WorkloadKind::Owners | WorkloadKind::Limits => {
                crate::owners::workload(random, horizon, false)
            }
        }
    }
}

/// One run that is asked for.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Its workflow.
    pub workflow: Box<str>,
    /// When it is asked for, in milliseconds from the beginning; more than one entry asks again.
    pub starts: Vec<u64>,
    /// Whether it begins at once.
    pub begin: Begin,
    /// What it is started with.
    pub trigger: String,
    /// What people want of it, and when.
    pub user_actions: Vec<(u64, UserAction)>,
    /// The run that it is forked from, and what it reuses of that.
    pub fork: Option<Arc<ForkRequest>>,
    /// The gate that it passes, and from 0 to 9 how urgent it is.
    pub gate: Option<ConcurrencyKey>,
    /// See `gate`.
    pub priority: u8,
}

/// What a run takes over from the one that it is forked from.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// The old run, and what runs again.
    pub origin: ForkOrigin,
    /// The graph's version, or the one that a frozen graph was of.
    pub version: u32,
    /// The graph.
    pub definition: Digest,
    /// Whether the graph belongs to the run alone.
    pub frozen: bool,
    /// Results of the rest.
    pub reused: Vec<ReusedNode>,
}

/// What a simulated user wants of a run. Numbers pick a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAction {
    /// End it.
    Cancel,
    /// End it, and undo what succeeded.
    CancelAndUndo,
    /// Send a signal: the number picks its name, and one is unknown.
    Signal(u32),
    /// Give a node's result.
    SetResult(u32),
    /// Skip a node.
    Skip(u32),
    /// Undo what succeeded.
    Compensate,
    /// Undo a node again.
    RetryCompensation(u32),
    /// Leave a node as it is.
    SkipCompensation(u32),
    /// Exchange its graph: the number picks the new one.
    Import(u32),
    /// Start a new run from it: the number picks the node that runs again.
    Fork(u32),
    /// Want something of one of its children instead: the number picks which.
    OfChild(u32, ChildAction),
    /// Start nothing more.
    Pause,
    /// Go on.
    Resume,
    /// Try one node again: the number picks it.
    ReattemptOne(u32),
    /// Try everything again that can be.
    ReattemptAll,
}

/// What a simulated user wants of a child run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildAction {
    /// End it.
    Cancel,
    /// Start nothing more.
    Pause,
    /// Go on.
    Resume,
    /// Try everything again that can be.
    ReattemptAll,
    /// Send a signal.
    Signal(u32),
}

fn plain(random: &mut Random, horizon: u64) -> Workload {
    let mut workload = Workload::default();
    for index in 0..random.between(1, 3) {
        let definition = definition(random, index);
        let name = format!("w{index}");
        workload.catalogue.add(&definition.to_string());
        let request = request(random, &name, horizon, false);
        workload.requests.push(request);
    }
    workload
}

/// Draws a request for a run of a workflow.
pub(crate) fn request(
    random: &mut Random,
    workflow: &str,
    horizon: u64,
    structured: bool,
) -> RunRequest {
    let first = random.below(horizon / 4 + 1);
    let mut starts = vec![first];
    if random.chance(25) {
        starts.push(first + random.below(20));
    }
    if random.chance(15) {
        starts.push(first + random.below(horizon));
    }
    let large = random.chance(10);
    let trigger = if large {
        format!("\"{}\"", "t".repeat(5000))
    } else {
        "{\"n\":1}".to_owned()
    };
    RunRequest {
        workflow: workflow.into(),
        starts,
        begin: if random.chance(80) {
            Begin::Now
        } else {
            Begin::Later
        },
        trigger,
        user_actions: if structured {
            user_actions::structured(random, first, horizon)
        } else {
            user_actions::plain(random, first, horizon)
        },
        fork: None,
        gate: None,
        priority: PRIORITY,
    }
}

/// The plan of a definition.
///
/// # Panics
/// The text is not a definition that the engine runs.
pub fn plan(text: &str) -> Arc<Plan> {
    let definition = serde_json::from_str(text).expect("a generated definition parses");
    Arc::new(Plan::build(definition).expect("a generated definition builds"))
}

/// A random definition.
pub fn definition(random: &mut Random, index: u64) -> Value {
    let count = random.between(1, MAX_NODES) as usize;
    let mut nodes: Vec<Value> = (0..count).map(|node| node_of(random, node)).collect();
    let rooted = match random.below(5) {
        0 => chain(&mut nodes),
        1 => fan(random, &mut nodes),
        _ => graph(random, &mut nodes),
    };
    let mut definition = json!({ "id": format!("w{index}") });
    if rooted && random.chance(20) {
        definition["startNode"] = json!("n0");
    }
    if random.chance(40) {
        definition["failurePolicy"] = json!("failFast");
    }
    match random.below(6) {
        0..=1 => definition["executionMode"] = json!("sequential"),
        2 => definition["executionMode"] = json!("levels"),
        _ => {}
    }
    if random.chance(30) {
        definition["maxParallel"] = json!(random.between(1, 3));
    }
    if random.chance(20) {
        definition["timeoutMs"] = json!(random.between(200, 20_000));
    }
    if random.chance(40) {
        expressions(random, &mut definition, &mut nodes);
    }
    random.shuffle(&mut nodes);
    definition["nodes"] = Value::Array(nodes);
    definition
}

fn node_of(random: &mut Random, index: usize) -> Value {
    let mut node = json!({ "id": format!("n{index}"), "actionType": "act" });
    let policies = policies(random);
    if policies != json!({}) {
        node["policies"] = policies;
    }
    node
}

/// Retry and timeout of a node, maybe none.
pub(crate) fn policies(random: &mut Random) -> Value {
    let mut policies = json!({});
    if random.chance(40) {
        policies["retry"] = json!({
            "maxAttempts": random.between(0, 4),
            "strategy": if random.chance(50) { "fixed" } else { "exponential" },
            "baseDelayMs": random_delay(random),
            "jitter": random.chance(60),
        });
    }
    if random.chance(50) {
        policies["timeoutMs"] = json!(random.between(100, 20_000));
    }
    policies
}

pub(crate) fn chain(nodes: &mut [Value]) -> bool {
    for (before, node) in nodes.iter_mut().skip(1).enumerate() {
        node["dependsOn"] = json!([format!("n{before}")]);
    }
    true
}

/// One entry, some in the middle, and a join.
pub(crate) fn fan(random: &mut Random, nodes: &mut [Value]) -> bool {
    let last = nodes.len() - 1;
    for (index, node) in nodes.iter_mut().enumerate().skip(1) {
        let parents: Vec<String> = if index == last && last > 1 {
            (1..last).map(|parent| format!("n{parent}")).collect()
        } else {
            vec!["n0".to_owned()]
        };
        node["dependsOn"] = json!(parents);
    }
    if last > 1 && random.chance(30) {
        nodes[1]["onFailure"] = json!(format!("n{last}"));
    }
    true
}

/// Edges from earlier to later nodes; true if every node follows the first.
pub(crate) fn graph(random: &mut Random, nodes: &mut [Value]) -> bool {
    let rooted = random.chance(40);
    let density = random.between(1, 3);
    for target in 1..nodes.len() {
        let low = u64::from(rooted);
        for _ in 0..random.between(low, density) {
            let source = random.below(target as u64) as usize;
            let when = match random.below(10) {
                0..=5 => "success",
                6..=7 => "failure",
                _ => "always",
            };
            let mut edge = json!({ "targetNode": format!("n{target}"), "when": when });
            if random.chance(15) {
                edge["condition"] = json!(condition(random, source));
            }
            push(&mut nodes[source], "edges", edge);
        }
    }
    for source in 0..nodes.len() - 1 {
        if random.chance(12) {
            let target = random.between(source as u64 + 1, nodes.len() as u64 - 1);
            nodes[source]["onFailure"] = json!(format!("n{target}"));
        }
    }
    rooted
}

fn push(node: &mut Value, key: &str, item: Value) {
    match node.get_mut(key).and_then(Value::as_array_mut) {
        Some(list) => list.push(item),
        None => node[key] = json!([item]),
    }
}

pub(crate) fn random_delay(random: &mut Random) -> u64 {
    [0, 1, 20, 300, 2000][random.below(5) as usize]
}

/// A condition that may hold, or not, or err; some need values of other nodes.
fn condition(random: &mut Random, source: usize) -> String {
    let other = random.below(source as u64 + 1);
    match random.below(6) {
        0 => "output === null".to_owned(),
        1 => "output > 0".to_owned(),
        2 => format!("context.data['n{other}'] !== null"),
        3 => "vars.v == output".to_owned(),
        4 => "error.code === 'NEVER'".to_owned(),
        _ => "output.a.b.c".to_owned(),
    }
}

/// Variables, switches, parameters and an output: everything that needs stored values.
/// Templates are total, so that every end is one that a worker or the graph decided.
fn expressions(random: &mut Random, definition: &mut Value, nodes: &mut [Value]) {
    let count = nodes.len() as u64;
    definition["vars"] = json!({ "v": 0 });
    if random.chance(50) {
        let node = random.below(count);
        let output = format!("{{{{ context.data['n{node}'] ?? vars.v ?? null }}}}");
        definition["output"] = json!(output);
    }
    for index in 0..nodes.len() {
        if random.chance(25) {
            nodes[index]["setVars"] = json!({ "v": "{{ output ?? vars.v ?? null }}" });
        }
        if random.chance(40) {
            let other = random.below(count);
            let value = format!("{{{{ context.data['n{other}'] ?? null }}}}");
            let parameters = json!({ "v": "{{ vars.v ?? null }}", "o": value });
            nodes[index]["parameters"] = parameters;
        }
        if index + 2 < nodes.len() && random.chance(15) {
            let low = index as u64 + 1;
            let (one, other) = (
                random.between(low, count - 1),
                random.between(low, count - 1),
            );
            let mut switch = json!({ "on": "output", "cases": { "0": format!("n{one}") } });
            if random.chance(60) {
                switch["default"] = json!(format!("n{other}"));
            }
            nodes[index]["switch"] = switch;
        }
    }
}
