//! What progress knows of a run: a status for each node of the top level, counts, what
//! runs and since when, and how loops and waits stand. Of loop bodies it knows only the
//! instances under way, so its size does not grow with them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::run::{Instance, Run, WaitState, WaitingNode, with_name};
use windlass_core::{NodeStatus, RunId, RunStatus};

use super::Phase;
use super::frame::clock;
use super::tally::Tally;
use crate::moment::now;
use crate::wait_state::format_wait_state;

/// Failures beyond this many are only counted: a screen full of them says no more.
const MAX_FAILURES: u32 = 50;

/// How many waiting instances inside loop bodies are known by name.
const MAX_WAITS: usize = 200;

/// How many open loops are known; those of the top level always are.
const MAX_LOOPS: usize = 200;

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
    /// A node began to wait, for this.
    Waits(Box<str>, String),
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
    /// Open loops, those inside others as far as there is room.
    pub(super) loops: BTreeMap<Instance, WaitingNode>,
    /// What waits for a time, a signal or a child.
    pub(super) waits: BTreeMap<Instance, WaitingNode>,
    /// What is done in loops, and what is to be done.
    tally: Tally,
    /// Nodes that are tried again, by path, and the number of their last or next attempt.
    retries: BTreeMap<Box<str>, u32>,
    /// How many nodes had ended when it was loaded; none of a run that had ended and was opened
    /// again.
    pub(super) done_before: u32,
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
            tally: Tally::default(),
            retries: BTreeMap::new(),
            done_before: 0,
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
            self.tally = fresh.tally;
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
            if let Some(cycle) = run.cycle(node).filter(|_| status.is_final())
                && let Some(place) = self.place(node)
            {
                self.tally.ended(node, place, u64::from(cycle.opened()));
            }
        }
        self.loops.clear();
        self.waits.clear();
        let open: BTreeSet<Instance> = run.open_instances().into_iter().collect();
        self.running.retain(|node, _| open.contains(node));
        self.tally
            .end_others(&self.plan, |node| open.contains(&node));
        for node in open {
            self.load_attempt(run, node);
            if let Some(waiting_node) = run.waiting_node(node) {
                let is_top = run.undone(node).is_none() && run.owner(node).is_none();
                self.update_wait(waiting_node, is_top);
            } else if run.node_status(node) == NodeStatus::Running {
                let action = run.action_of(node).unwrap_or_default();
                self.runs(node, &run.path(node), action, true);
            }
        }
        self.done_before = match run.status().is_final() {
            true => 0,
            false => self.done(),
        };
        if run.status() == RunStatus::Paused {
            self.phase = Phase::Paused;
        }
    }

    /// Takes the number of an attempt that is not the first.
    fn load_attempt(&mut self, run: &Run, node: Instance) {
        let attempt = run.budget_attempt(node);
        if attempt > 1 && self.retries.len() < MAX_WAITS {
            self.retries.insert(run.path(node), attempt);
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

    /// A node's path, with its name for people beside it.
    pub(super) fn shown(&self, path: &str) -> Box<str> {
        with_name(path, self.plan.name_at(path)).into()
    }

    /// Nodes changed, and some of them have more to tell.
    pub(super) fn change(
        &mut self,
        nodes: &[(Instance, NodeStatus)],
        waiting_nodes: &[WaitingNode],
    ) {
        for (place, &(node, status)) in nodes.iter().enumerate() {
            // A result by hand abandons the attempt, and then ends the node.
            let is_superseded = nodes.get(place + 1).is_some_and(|next| next.0 == node);
            if status == NodeStatus::Cancelled && is_superseded {
                continue;
            }
            self.set(node, status);
        }
        for waiting_node in waiting_nodes {
            let is_top = self.place(waiting_node.node).is_some();
            let is_new = !self.waits.contains_key(&waiting_node.node);
            let waits = !matches!(waiting_node.what, WaitState::Loop { .. });
            if is_top && is_new && waits && self.plan.len() <= SMALL {
                let path = self.shown(&waiting_node.path);
                let words = self.wait_words(waiting_node);
                self.said.push_back(Said::Waits(path, words));
            }
            self.update_wait(waiting_node.clone(), is_top);
        }
    }

    fn update_wait(&mut self, waiting_node: WaitingNode, is_top: bool) {
        if let WaitState::Loop {
            done,
            total,
            running,
            ..
        } = waiting_node.what
        {
            let round = (u64::from(done), u64::from(total.unwrap_or(done + running)));
            let WaitingNode { node, path, .. } = &waiting_node;
            self.tally.update(&self.plan, *node, path, round);
        }
        match waiting_node.what {
            WaitState::Loop { .. } if is_top || self.loops.len() < MAX_LOOPS => {
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
            let path = self.shown(self.plan.id(place));
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
        if status.is_final() {
            self.loops.remove(&node);
            self.tally.end(&self.plan, node);
        }
        if status == NodeStatus::Running {
            return None;
        }
        let ran = self.running.remove(&node)?;
        if status.is_final() {
            self.retries.remove(&ran.path);
        }
        (!ran.begun_before).then_some(ran.since)
    }

    /// An attempt failed; the node is named by its path.
    pub(super) fn fail(&mut self, node: &str, code: &str, message: &str, again: bool) {
        if !again {
            self.retries.remove(node);
        } else if self.retries.len() < MAX_WAITS || self.retries.contains_key(node) {
            *self.retries.entry(node.into()).or_insert(1) += 1;
        }
        self.failures += 1;
        if self.failures > MAX_FAILURES {
            if self.failures == MAX_FAILURES + 1 {
                self.said.push_back(Said::TooMany);
            }
            return;
        }
        self.said.push_back(Said::Failed {
            node: self.shown(node),
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

    /// The attempt of a node that is tried again, and how many it may have.
    pub(super) fn retrying(&self, path: &str) -> Option<(u32, u32)> {
        let attempt = *self.retries.get(path)?;
        let retry = self.plan.retry(self.plan.node_at(path)?)?;
        Some((attempt, retry.max_attempts.max(1)))
    }

    /// What a node waits for; of one that is tried again, which attempt comes when.
    pub(super) fn wait_words(&self, waiting_node: &WaitingNode) -> String {
        let WaitState::Until(due) = &waiting_node.what else {
            return format_wait_state(&waiting_node.what);
        };
        let Some((attempt, all)) = self.retrying(&waiting_node.path) else {
            return format_wait_state(&waiting_node.what);
        };
        let left = u64::try_from(due.0.saturating_sub(now().0)).unwrap_or(0);
        let left = match left.div_ceil(1000) {
            seconds @ 0..60 => format!("{seconds} s"),
            seconds => clock(seconds),
        };
        format!("attempt {attempt} of {all}, next in {left}")
    }

    /// How much is done, and of how much: nodes that are no loops, also inside loops.
    pub(super) fn work(&self) -> (u64, u64) {
        let is_final = |place: NodeIndex| self.statuses[place as usize].is_final();
        self.tally.work(&self.plan, self.done(), is_final)
    }

    /// The first part of the run's id: enough to name it, rarely more than one.
    pub(super) fn short_id(&self) -> String {
        self.run.to_string().chars().take(13).collect()
    }
}
