//! What progress knows of a run: a byte a node, counts, and when running nodes began.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::run::Run;
use windlass_core::{NodeStatus, RunId, RunStatus};

use super::Phase;

/// Failures beyond this many are only counted: a screen full of them says no more.
const MAX_FAILURES: u32 = 50;

/// Runs of at most this many nodes get a plain line for each.
pub(super) const SMALL: usize = 50;

/// Something to be said once, that stays.
#[derive(Debug)]
pub(super) enum Said {
    /// A node ended, in a small run; with its seconds, if its start was seen.
    Ended(NodeIndex, NodeStatus, Option<f64>),
    /// An attempt failed.
    Failed {
        node: NodeIndex,
        what: String,
        again: bool,
    },
    /// Further failures are only counted.
    TooMany,
    /// The run was paused, resumed or is being cancelled.
    Phase(Phase),
}

/// A run as progress shows it.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) run: RunId,
    pub(super) plan: Arc<Plan>,
    statuses: Vec<NodeStatus>,
    pub(super) counts: [u32; 9],
    /// Nodes with a worker, and since when.
    pub(super) running: BTreeMap<NodeIndex, Instant>,
    /// Running nodes whose start was not seen.
    begun_before: BTreeSet<NodeIndex>,
    pub(super) began: Instant,
    pub(super) phase: Phase,
    /// What has not been said yet.
    pub(super) said: VecDeque<Said>,
    failures: u32,
    pub(super) changed: bool,
    pub(super) ended: bool,
    pub(super) status: Option<RunStatus>,
}

impl Model {
    pub(super) fn new(run: RunId, plan: Arc<Plan>) -> Self {
        let mut counts = [0; 9];
        counts[NodeStatus::Pending as usize] = u32::try_from(plan.len()).unwrap_or(u32::MAX);
        Self {
            run,
            statuses: vec![NodeStatus::Pending; plan.len()],
            plan,
            counts,
            running: BTreeMap::new(),
            begun_before: BTreeSet::new(),
            began: Instant::now(),
            phase: Phase::Running,
            said: VecDeque::new(),
            failures: 0,
            changed: true,
            ended: false,
            status: None,
        }
    }

    /// Takes every status from the run's state. Nothing is said about it: it is not new.
    pub(super) fn take_over(&mut self, run: &Run) {
        for node in 0..self.plan.len() as NodeIndex {
            let status = run.node_status(node);
            // The log tells of a start only after a while.
            let known = self.running.contains_key(&node);
            if known && matches!(status, NodeStatus::Queued | NodeStatus::Running) {
                continue;
            }
            self.put(node, status);
            if status == NodeStatus::Running {
                self.begun_before.insert(node);
            }
        }
        if run.status() == RunStatus::Paused {
            self.phase = Phase::Paused;
        }
    }

    pub(super) fn set(&mut self, node: NodeIndex, status: NodeStatus) {
        if node as usize >= self.plan.len() {
            return;
        }
        let since = self.put(node, status);
        let small = self.plan.len() <= SMALL;
        // A failure is said with its reason, which follows.
        if small && status.is_final() && status != NodeStatus::Failed {
            let seconds = since.map(|since| since.elapsed().as_secs_f64());
            self.said.push_back(Said::Ended(node, status, seconds));
        }
    }

    /// Moves a node; since when it ran, if it did.
    fn put(&mut self, node: NodeIndex, status: NodeStatus) -> Option<Instant> {
        let slot = self.statuses.get_mut(node as usize)?;
        self.counts[*slot as usize] -= 1;
        self.counts[status as usize] += 1;
        *slot = status;
        if status == NodeStatus::Running {
            self.running.insert(node, Instant::now());
            return None;
        }
        let since = self.running.remove(&node);
        since.filter(|_| !self.begun_before.remove(&node))
    }

    pub(super) fn fail(&mut self, node: NodeIndex, code: &str, message: &str, again: bool) {
        if node as usize >= self.plan.len() {
            return;
        }
        self.failures += 1;
        if self.failures > MAX_FAILURES {
            if self.failures == MAX_FAILURES + 1 {
                self.said.push_back(Said::TooMany);
            }
            return;
        }
        let what = format!("{code}: {message}");
        self.said.push_back(Said::Failed { node, what, again });
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        if self.phase != phase {
            self.phase = phase;
            self.said.push_back(Said::Phase(phase));
        }
    }

    pub(super) fn finish(&mut self, status: Option<RunStatus>) {
        self.ended = true;
        self.status = status;
    }

    pub(super) fn count(&self, status: NodeStatus) -> u32 {
        self.counts[status as usize]
    }

    /// Nodes that have ended.
    pub(super) fn done(&self) -> u32 {
        self.counts[NodeStatus::Succeeded as usize..].iter().sum()
    }

    /// The first part of the run's id: enough to name it, rarely more than one.
    pub(super) fn short_id(&self) -> String {
        self.run.to_string().chars().take(13).collect()
    }
}
