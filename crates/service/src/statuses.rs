//! How the nodes of a run stand, packed: a letter a node in the order of the definition, with
//! the position of the event that it corresponds to, so that a stream of events continues it.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass_core::plan::NodeKind;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, Loop, Run};
use windlass_core::{Digest, NodeStatus, RunId, RunStatus};
use windlass_engine::view::{self, AtWork, NodeCounts, Progress, Times};

use crate::drawing::tallies;
use crate::failure::Failure;
use crate::run_item::Moment;
use crate::run_queries::RunQueries;

/// How many failed iterations of a loop are named.
const FAILED_ITERATIONS: usize = 100;

/// The statuses of a run's nodes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Statuses {
    v: u32,
    execution_id: RunId,
    definition: Digest,
    version: u32,
    sequence: u64,
    status: RunStatus,
    created_at: Moment,
    counts: NodeCounts,
    nodes: String,
    edges: String,
    started: Vec<i64>,
    took: Vec<i64>,
    attempts: BTreeMap<u32, u32>,
    loops: BTreeMap<u32, LoopStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bodies: Option<BTreeMap<u32, BTreeMap<&'static str, u32>>>,
}

/// How far a loop is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LoopStatus {
    items: Option<u32>,
    opened: u32,
    running: u32,
    failed: Vec<u32>,
    failed_count: u32,
    counts: NodeCounts,
}

impl LoopStatus {
    fn of(kind: NodeKind, cycle: &Loop) -> Self {
        Self {
            items: (kind == NodeKind::ForEach).then(|| cycle.items()),
            opened: cycle.opened(),
            running: cycle.running(),
            failed: cycle.failed().take(FAILED_ITERATIONS).collect(),
            failed_count: cycle.failed().count() as u32,
            counts: NodeCounts::of_loop(cycle),
        }
    }
}

/// How a run stands, as far as it was read; none before anything was read.
///
/// What workers have now is running, also before the log tells of it.
pub fn of(progress: &Progress, at_work: &AtWork) -> Option<Statuses> {
    let run = progress.run()?;
    let mut statuses = packed(run, progress.times(), progress.position());
    let created = run.created_at();
    let numbers = 0..run.plan().len() as u32;
    let mut letters: Vec<char> = statuses.nodes.chars().collect();
    for (number, letter) in numbers.zip(&mut letters) {
        let node = run.resolve(run.plan().id(number));
        if let Some(since) = node.and_then(|node| at_work.since(run, node)) {
            *letter = 'R';
            statuses.started[number as usize] = since.0.saturating_sub(created.0).max(0);
        }
    }
    statuses.nodes = letters.into_iter().collect();
    Some(statuses)
}

/// By number, how the instances of each node inside loops stand.
///
/// # Errors
/// The run cannot be read.
pub fn add_bodies(queries: &RunQueries, statuses: &mut Statuses) -> Result<(), Failure> {
    let overview = view::overview(&*queries.store, &queries.plans, statuses.execution_id)?;
    let plan = overview.run.plan();
    let tallies = tallies(queries, &overview)?;
    let numbers = plan.len() as u32..plan.total() as u32;
    let bodies = numbers.filter_map(|node| {
        let tally = tallies.get(&plan.static_path(node))?;
        let counts = tally
            .iter()
            .map(|(status, count)| (status.as_str(), *count));
        Some((node, counts.collect()))
    });
    statuses.bodies = Some(bodies.collect());
    Ok(())
}

fn packed(run: &Run, times: &Times, sequence: u64) -> Statuses {
    let plan = run.plan();
    let created = run.created_at();
    let mut statuses = Statuses {
        v: 1,
        execution_id: run.id(),
        definition: run.definition(),
        version: run.version(),
        sequence,
        status: run.status(),
        created_at: Moment(created),
        counts: NodeCounts::of(run),
        nodes: String::with_capacity(plan.len()),
        edges: plan
            .top()
            .edges()
            .map(|edge| edge_letter(run, edge))
            .collect(),
        started: Vec::with_capacity(plan.len()),
        took: Vec::with_capacity(plan.len()),
        attempts: BTreeMap::new(),
        loops: BTreeMap::new(),
        bodies: None,
    };
    for number in 0..plan.len() as u32 {
        let Some(node) = run.resolve(plan.id(number)) else {
            statuses.nodes.push('P');
            statuses.started.push(-1);
            statuses.took.push(-1);
            continue;
        };
        statuses.nodes.push(letter(run, node));
        let started = times.started(node);
        let ended = started.and(times.ended(node));
        let since = |from: i64, to: i64| to.saturating_sub(from).max(0);
        statuses
            .started
            .push(started.map_or(-1, |at| since(created.0, at.0)));
        let took = started.zip(ended);
        statuses
            .took
            .push(took.map_or(-1, |(from, to)| since(from.0, to.0)));
        if run.attempts(node) > 1 {
            statuses.attempts.insert(number, run.attempts(node));
        }
        if let Some(cycle) = run.cycle(node).filter(|cycle| cycle.opened() > 0) {
            let status = LoopStatus::of(run.kind_of(node), cycle);
            statuses.loops.insert(number, status);
        }
    }
    statuses
}

/// A status as one letter; a failure that was handled is a small one.
fn letter(run: &Run, node: Instance) -> char {
    match run.node_status(node) {
        NodeStatus::Pending => 'P',
        NodeStatus::Queued => 'Q',
        NodeStatus::Running => 'R',
        NodeStatus::Waiting => 'W',
        NodeStatus::Succeeded => 'S',
        NodeStatus::Failed if run.is_handled(node) => 'f',
        NodeStatus::Failed => 'F',
        NodeStatus::Skipped => 'K',
        NodeStatus::Blocked => 'B',
        NodeStatus::Cancelled => 'C',
    }
}

fn edge_letter(run: &Run, edge: u32) -> char {
    match run.edge_state(edge) {
        EdgeState::Unresolved => 'U',
        EdgeState::Taken => 'T',
        EdgeState::NotTaken => 'N',
        EdgeState::Lost => 'L',
    }
}
