//! What progress knows of a run: a status for each node of the top level, counts, what
//! runs and since when, and how loops and waits stand. Of loop bodies it knows only the
//! instances under way, so its size does not grow with them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::run::{Instance, Run, WaitState, WaitingNode};
use windlass_core::{NodeStatus, RunId, RunStatus};

use super::Phase;

/// Failures beyond this many are only counted: a screen full of them says no more.
const MAX_FAILURES: u32 = 50;

/// How many waiting instances inside loop bodies are known by name.
const MAX_WAITS: usize = 200;

/// Runs of at most this many nodes get a plain line for each.
pub(super) const SMALL: usize = 50;

/// A line that is printed once and stays on the screen.
#[derive(Debug)]
pub(super) enum Said {
    /// A node ended, in a small run; with its seconds, if its start was seen.
    Ended(Box<str>, NodeStatus, Option<f64>),
    /// An attempt failed.
    Failed {
        node: Box<str>,
        what: String,
        again: bool,
    },
    /// A node began to wait.
    Waits(Box<str>, WaitState),
    /// Further failures are only counted.
    TooMany,
    /// The run was paused, resumed or is being cancelled.
    Phase(Phase),
}

/// An attempt that a worker has.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) since: Instant,
    pub(super) path: Box<str>,
    pub(super) action: Box<str>,
    /// Its start was not seen.
    begun_before: bool,
}

/// A run as progress shows it.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) run: RunId,
    pub(super) plan: Arc<Plan>,
    statuses: Vec<NodeStatus>,
    /// The nodes of instances, where the graph changed under them.
    places: Option<BTreeMap<Instance, NodeIndex>>,
    pub(super) counts: [u32; 9],
    /// What workers have.
    pub(super) running: BTreeMap<Instance, Running>,
    /// Open loops of the top level.
    pub(super) loops: BTreeMap<Instance, WaitingNode>,
    /// What waits for a time, a signal or a child.
    pub(super) waits: BTreeMap<Instance, WaitingNode>,
    /// Loops that have ended: how many iterations each had.
    ended_loops: BTreeMap<Instance, u64>,
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
            places: None,
            plan,
            counts,
            running: BTreeMap::new(),
            loops: BTreeMap::new(),
            waits: BTreeMap::new(),
            ended_loops: BTreeMap::new(),
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
    pub(super) fn load(&mut self, run: &Run) {
        if !Arc::ptr_eq(&self.plan, run.plan()) {
            let fresh = Self::new(self.run, Arc::clone(run.plan()));
            self.statuses = fresh.statuses;
            self.counts = fresh.counts;
            self.plan = fresh.plan;
        }
        let numbered = run.top_instances().zip(0..).collect::<BTreeMap<_, _>>();
        let in_order = numbered.iter().all(|(&node, &place)| node == place);
        self.places = (!in_order).then_some(numbered);
        for node in run.top_instances() {
            let status = run.node_status(node);
            // The log tells of a start only after a while.
            let known = self.running.contains_key(&node);
            if !(known && matches!(status, NodeStatus::Queued | NodeStatus::Running)) {
                self.put(node, status);
            }
            if let Some(cycle) = run.cycle(node).filter(|_| status.is_final()) {
                self.ended_loops.insert(node, u64::from(cycle.opened()));
            }
        }
        self.loops.clear();
        self.waits.clear();
        let open: BTreeSet<Instance> = run.open_instances().into_iter().collect();
        self.running.retain(|node, _| open.contains(node));
        for node in open {
            if let Some(waiting_node) = run.waiting_node(node) {
                let is_top = run.undone(node).is_none() && run.owner(node).is_none();
                self.update_wait(waiting_node, is_top);
            } else if run.node_status(node) == NodeStatus::Running {
                let action = run.action_of(node).unwrap_or_default();
                self.runs(node, &run.path(node), action, true);
            }
        }
        if run.status() == RunStatus::Paused {
            self.phase = Phase::Paused;
        }
    }

    /// An attempt is with a worker.
    pub(super) fn dispatched(&mut self, node: Instance, path: &str, action: &str) {
        self.put(node, NodeStatus::Running);
        let path = match self.place(node) {
            Some(place) if path.is_empty() => Box::from(self.plan.id(place)),
            _ => Box::from(path),
        };
        self.runs(node, &path, action, false);
    }

    /// An attempt has been with a worker for so long, as its log says.
    pub(super) fn runs_for(&mut self, node: Instance, path: &str, action: &str, time: Duration) {
        self.put(node, NodeStatus::Running);
        let now = Instant::now();
        let running = Running {
            since: now.checked_sub(time).unwrap_or(now),
            path: path.into(),
            action: action.into(),
            begun_before: false,
        };
        self.running.insert(node, running);
    }

    fn runs(&mut self, node: Instance, path: &str, action: &str, begun_before: bool) {
        self.running.entry(node).or_insert(Running {
            since: Instant::now(),
            path: path.into(),
            action: action.into(),
            begun_before,
        });
    }

    /// Nodes changed, and some of them have more to tell.
    pub(super) fn change(
        &mut self,
        nodes: &[(Instance, NodeStatus)],
        waiting_nodes: &[WaitingNode],
    ) {
        for &(node, status) in nodes {
            self.set(node, status);
        }
        for waiting_node in waiting_nodes {
            let is_top = self.place(waiting_node.node).is_some();
            let is_new = !self.waits.contains_key(&waiting_node.node);
            let waits = !matches!(waiting_node.what, WaitState::Loop { .. });
            if is_top && is_new && waits && self.plan.len() <= SMALL {
                let (path, what) = (waiting_node.path.clone(), waiting_node.what.clone());
                self.said.push_back(Said::Waits(path, what));
            }
            self.update_wait(waiting_node.clone(), is_top);
        }
    }

    fn update_wait(&mut self, waiting_node: WaitingNode, is_top: bool) {
        match waiting_node.what {
            WaitState::Loop { .. } if is_top => {
                self.waits.remove(&waiting_node.node);
                self.loops.insert(waiting_node.node, waiting_node);
            }
            WaitState::Loop { .. } => {}
            _ if self.waits.len() < MAX_WAITS || self.waits.contains_key(&waiting_node.node) => {
                self.waits.insert(waiting_node.node, waiting_node);
            }
            _ => {}
        }
    }

    fn set(&mut self, node: Instance, status: NodeStatus) {
        let since = self.put(node, status);
        let Some(place) = self.place(node) else {
            return;
        };
        let small = self.plan.len() <= SMALL;
        // A failure is said with its reason, which follows.
        if small && status.is_final() && status != NodeStatus::Failed {
            let seconds = since.map(|since| since.elapsed().as_secs_f64());
            let path = self.plan.id(place).into();
            self.said.push_back(Said::Ended(path, status, seconds));
        }
    }

    /// The node of the top level that an instance is.
    fn place(&self, node: Instance) -> Option<NodeIndex> {
        match &self.places {
            None => ((node as usize) < self.plan.len()).then_some(node),
            Some(places) => places.get(&node).copied(),
        }
    }

    /// Moves a node; since when it ran, if that was seen.
    fn put(&mut self, node: Instance, status: NodeStatus) -> Option<Instant> {
        if let Some(place) = self.place(node) {
            let slot = &mut self.statuses[place as usize];
            self.counts[*slot as usize] -= 1;
            self.counts[status as usize] += 1;
            *slot = status;
        }
        if status != NodeStatus::Waiting {
            self.waits.remove(&node);
        }
        if status.is_final()
            && let Some(WaitingNode { what, .. }) = self.loops.remove(&node)
            && let WaitState::Loop { done, total, .. } = what
        {
            let iterations = u64::from(total.unwrap_or(done));
            self.ended_loops.insert(node, iterations);
        }
        if status == NodeStatus::Running {
            return None;
        }
        let ran = self.running.remove(&node)?;
        (!ran.begun_before).then_some(ran.since)
    }

    /// An attempt failed; the node is named by its path.
    pub(super) fn fail(&mut self, node: &str, code: &str, message: &str, again: bool) {
        self.failures += 1;
        if self.failures > MAX_FAILURES {
            if self.failures == MAX_FAILURES + 1 {
                self.said.push_back(Said::TooMany);
            }
            return;
        }
        self.said.push_back(Said::Failed {
            node: node.into(),
            what: format!("{code}: {message}"),
            again,
        });
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

    /// How much is done, and of how much: nodes, and the iterations of loops.
    pub(super) fn work(&self) -> (u64, u64) {
        let (mut done, mut total) = (u64::from(self.done()), self.plan.len() as u64);
        for iterations in self.ended_loops.values() {
            done += iterations;
            total += iterations;
        }
        for WaitingNode { what, .. } in self.loops.values() {
            if let WaitState::Loop {
                done: ended,
                total: all,
                running,
                ..
            } = what
            {
                done += u64::from(*ended);
                total += u64::from(all.unwrap_or(ended + running));
            }
        }
        (done, total)
    }

    /// The first part of the run's id: enough to name it, rarely more than one.
    pub(super) fn short_id(&self) -> String {
        self.run.to_string().chars().take(13).collect()
    }
}
