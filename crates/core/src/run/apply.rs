//! Folding events into the state. `apply` evaluates nothing; edges without conditions,
//! joins and what cascades from them are decided here, on replay as the first time. It
//! refuses only an event that is illegal in the state, which means a corrupt log.
//! Recovery is replay through here.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::Run;
use super::environment::Held;
use super::frame::{Frame, FrameKey, Instance, TOP};
use super::join::RoutingQueue;
use super::record_count::RecordCount;
use crate::event::{
    After, AttemptEnded, AttemptResult, Event, Grace, Queued, RULES, Stopping, Transition,
};
use crate::id::{Millis, RunId};
use crate::plan::{self, Plan};
use crate::status::{NodeStatus, RunStatus};
use crate::value::ValueRef;

/// What an event changed: the source of effects, and of what people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node's attempt, of this number, is open.
    Ready(Instance, u32),
    /// A node waits: for its next attempt, of this number, or for a time or a signal.
    Waiting(Instance, u32, Option<Millis>),
    /// A node has ended with this attempt; or a reattempt of a node before it cancelled its open
    /// attempt (`Cancelled`), and it waits again.
    Ended(Instance, u32, NodeStatus),
    /// The run asks a node that is with a worker, or has a child run, to stop.
    StopAsked(Instance, u32),
    /// An iteration of a loop began.
    IterationStarted(Instance, u32),
    /// An iteration of a loop succeeded, failed, or was cancelled.
    IterationEnded(Instance, u32, NodeStatus),
    /// A node's attempt is a child run.
    ChildStarted(Instance, u32, RunId),
    /// The parent does not wait for a child run any more.
    ChildLetGo(Instance, RunId),
    /// A child run that had succeeded is to be undone.
    ChildUndone(Instance, u32, RunId),
}

impl Change {
    /// The instance that it is about.
    pub fn node(&self) -> Instance {
        match *self {
            Self::Ready(node, _)
            | Self::Waiting(node, ..)
            | Self::Ended(node, ..)
            | Self::StopAsked(node, _)
            | Self::IterationStarted(node, _)
            | Self::IterationEnded(node, ..)
            | Self::ChildStarted(node, ..)
            | Self::ChildLetGo(node, _)
            | Self::ChildUndone(node, ..) => node,
        }
    }
}

/// The log holds an event that cannot have happened: it is damaged, or not this run's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The record, counted from 1.
    pub record: u64,
    /// What does not fit.
    pub reason: String,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}", self.record, self.reason)
    }
}

impl std::error::Error for Corrupt {}

impl Run {
    /// The state after the first event of a run.
    ///
    /// # Errors
    /// The event names rules that this code does not know.
    pub fn new(id: RunId, plan: Arc<Plan>, queued: Queued, at: Millis) -> Result<Self, Corrupt> {
        if queued.rules > RULES {
            let reason = format!("routing rules {} are newer than this program", queued.rules);
            return Err(Corrupt { record: 1, reason });
        }
        let top = Frame::new(Arc::clone(&plan), plan::TOP, TOP, None);
        let mut run = Self {
            id,
            version: queued.version,
            definition: queued.definition,
            frozen: queued.frozen,
            heals: super::decide::heals(&plan),
            staged: None,
            graph_waits: false,
            status: RunStatus::Pending,
            created_at: at,
            started_at: None,
            ended_at: None,
            reopened_at: None,
            clock_from: None,
            records: RecordCount::default(),
            event_count: 0,
            next_instance: top.nodes.len() as Instance,
            top,
            frames: Default::default(),
            loops: Default::default(),
            shapes: Default::default(),
            removed: Default::default(),
            past: Default::default(),
            kept: Default::default(),
            kept_frames: Default::default(),
            graphs: Vec::new(),
            active: 0,
            trigger: Held::new(&queued.trigger),
            vars: Default::default(),
            vars_bytes: 0,
            blocked_by: Default::default(),
            recovered: Default::default(),
            taken: Default::default(),
            due: Default::default(),
            children: Default::default(),
            transactional: Default::default(),
            signals: Default::default(),
            waiters: Default::default(),
            since: Default::default(),
            to_route: Default::default(),
            to_join: Default::default(),
            to_stop: Default::default(),
            to_open: Default::default(),
            to_settle: Default::default(),
            to_advance: Default::default(),
            quiet: Default::default(),
            garbage: Vec::new(),
            completed: Vec::new(),
            undo: None,
            reuse: Default::default(),
            output_bytes: 0,
            failures: 0,
            deaths: Default::default(),
            answered: Default::default(),
            finished: None,
            workflow: Arc::from(&*queued.workflow),
            correlation_id: Arc::from(&*queued.correlation_id),
            queued: Arc::new(queued),
            plan,
        };
        let queued = Arc::clone(&run.queued);
        run.put_vars(&queued.vars);
        run.note_graph();
        Ok(run)
    }

    /// Folds a whole record, as recovery does.
    ///
    /// # Errors
    /// The record does not fit the state.
    pub fn apply_record(
        &mut self,
        transition: &Transition,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        for event in &transition.events {
            self.apply(event, transition.at, changes)?;
        }
        self.finish_record();
        Ok(())
    }

    /// Ends a record: the next event belongs to the next one.
    pub fn finish_record(&self) {
        self.records.increment();
    }

    /// Folds one event.
    ///
    /// # Errors
    /// The event is illegal in this state.
    pub fn apply(
        &mut self,
        event: &Event,
        at: Millis,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let reopens = matches!(
            event,
            Event::Reattempted { .. }
                | Event::Warning { .. }
                | Event::SetByHand(_)
                | Event::Compensating { .. }
                | Event::CompensationRetried { .. }
                | Event::CompensationSkipped { .. }
        );
        let imports = self.status == RunStatus::Failed && matches!(event, Event::Imported { .. });
        if self.status.is_final() && !reopens && !imports {
            return self.corrupt("something happened after the run had ended");
        }
        self.event_count += 1;
        self.collect_garbage();
        let had_ended = self.status.is_final();
        match event {
            Event::Queued(_) if self.records() == 0 => {}
            Event::Queued(_) => return self.corrupt("the run was asked for twice"),
            Event::Started {} => self.start(at, changes)?,
            Event::AttemptStarted(started) => {
                let node = self.open_node(&started.node, started.attempt, started.undo)?;
                self.due.remove(&node);
                self.set_status(node, NodeStatus::Running);
            }
            Event::AttemptEnded(ended) => self.attempt_ended(ended, changes)?,
            Event::Routed { node, taken } => {
                let node = self.node(node)?;
                if !self.to_route.contains(&node) {
                    return self.corrupt("edges were asked that had resolved");
                }
                self.routed(node, taken, changes);
            }
            Event::Expanded { .. }
            | Event::Looped { .. }
            | Event::IterationEnded { .. }
            | Event::Waiting { .. }
            | Event::SignalReceived(_)
            | Event::ChildStarted(_) => self.apply_structure(event, at, changes)?,
            Event::Stopping(stopping) => {
                let running = self.running_nodes(stopping)?;
                let key = self.scope(stopping.scope.as_deref().unwrap_or_default())?;
                self.stopping(key, stopping, &running, changes);
            }
            Event::GraceEnded { .. } if !self.is_stopping() => {
                return self.corrupt("a grace ended, but nothing was told to stop");
            }
            Event::GraceEnded { deadline } => self.give_up(*deadline, &BTreeSet::new(), changes),
            Event::Paused(_) => self.turn(RunStatus::Running, RunStatus::Paused)?,
            Event::Resumed(_) => self.turn(RunStatus::Paused, RunStatus::Running)?,
            Event::Reattempted { nodes, .. } => {
                let nodes = nodes
                    .iter()
                    .map(|node| self.ended_badly(node))
                    .collect::<Result<Vec<_>, _>>()?;
                self.reopen(&nodes, at, changes);
            }
            Event::SetByHand(set) => self.set_by_hand(set, at, changes)?,
            Event::Reused(nodes) => self.offer_reuse(nodes, self.records() + 1),
            Event::Compensating { .. }
            | Event::CompensationEnded(_)
            | Event::CompensationRetried { .. }
            | Event::CompensationSkipped { .. } => self.apply_undo(event, changes)?,
            Event::Healed {
                version,
                definition,
            } => {
                let plan = self.take_staged(*definition)?;
                self.version = *version;
                self.change_graph(plan, *definition, changes);
            }
            Event::Imported { definition, .. } => {
                let plan = self.take_staged(*definition)?;
                self.frozen = true;
                self.change_graph(plan, *definition, changes);
            }
            Event::Recovered { after, grace } => {
                self.recovered_by_another(*after, grace.as_deref(), changes)?;
            }
            Event::Accepted(_) | Event::Warning { .. } | Event::Checkpointed {} => {}
            Event::Finished(finished) => {
                self.status = finished.status;
                self.ended_at = Some(at);
                self.finished = Some(Arc::new((**finished).clone()));
            }
        }
        if had_ended && !self.status.is_final() {
            self.reopened_at = Some(at);
            if std::mem::take(&mut self.graph_waits) && self.undo.is_none() {
                self.resolve_anew(changes);
            }
        }
        self.note_request(event);
        Ok(())
    }

    fn start(&mut self, at: Millis, changes: &mut Vec<Change>) -> Result<(), Corrupt> {
        if self.status != RunStatus::Pending {
            return self.corrupt("the run started twice");
        }
        self.status = RunStatus::Running;
        self.started_at = Some(at);
        self.clock_from = Some(at);
        let plan = self.plan.clone();
        let mut queue = RoutingQueue::default();
        for &node in plan.entries() {
            let node = self.top.instance(node);
            self.make_ready_in(node, &mut queue, changes);
        }
        self.cascade(queue, changes);
        Ok(())
    }

    fn attempt_ended(
        &mut self,
        event: &AttemptEnded,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let node = self.open_node(&event.node, event.attempt, false)?;
        self.put_vars(&event.vars);
        let record = self.records() + 1;
        let (status, value) = match &event.result {
            AttemptResult::Succeeded(output) => {
                self.output_bytes += output.size();
                self.use_signal(node);
                (NodeStatus::Succeeded, Some(output))
            }
            AttemptResult::Failed(error) => (NodeStatus::Failed, Some(error)),
            AttemptResult::Skipped {} => (NodeStatus::Skipped, None),
            AttemptResult::Stopped {} => (NodeStatus::Cancelled, None),
            AttemptResult::Retrying { due, .. } => {
                self.close_child(node, NodeStatus::Failed, changes);
                self.wait_for_attempt(node, *due, changes);
                return Ok(());
            }
        };
        let state = self.state_mut(node);
        state.value = value.map(|value| ValueRef::new(value, event.digest, record));
        state.ancestry = event.ancestry;
        let mut queue = RoutingQueue::default();
        self.mark_ended(node, status, &mut queue, changes);
        if let Some(parameters) = &event.parameters
            && self.completed.last().is_some_and(|last| last.node == node)
        {
            let parameters = ValueRef::new(parameters, parameters.digest(), record);
            self.note_parameters(node, parameters);
        }
        self.cascade(queue, changes);
        Ok(())
    }

    /// A wait that succeeded has taken the oldest signal of its name.
    fn use_signal(&mut self, node: Instance) {
        if let Some(name) = self.signal_of(node).map(Box::<str>::from) {
            self.take_signal(&name);
        }
    }

    /// Another process has recovered the run: open attempts are handed out again, and nodes that
    /// were asked to stop are given up, because the worker that had the grace is gone. A worker
    /// outside the process is not gone: its node gets a new grace.
    fn recovered_by_another(
        &mut self,
        after: After,
        grace: Option<&Grace>,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let kept = grace.iter().flat_map(|grace| &grace.nodes);
        let kept: BTreeSet<Instance> =
            kept.map(|node| self.node(node)).collect::<Result<_, _>>()?;
        if kept.iter().any(|&node| !self.state(node).stopping) {
            return self.corrupt("a node got a grace, but it was not told to stop");
        }
        self.count_deaths(after);
        let frames = std::iter::once(&mut self.top).chain(self.frames.values_mut());
        let nodes = frames.flat_map(|frame| &mut frame.nodes);
        let undone = self.undo.iter_mut().flat_map(|undo| &mut undo.states);
        for node in nodes.chain(undone) {
            if node.is_open() {
                node.deliveries += 1;
            }
        }
        self.give_up(None, &kept, changes);
        if let Some(grace) = grace {
            self.prolong_grace(&kept, grace.deadline);
        }
        Ok(())
    }

    fn running_nodes(&self, stopping: &Stopping) -> Result<BTreeSet<Instance>, Corrupt> {
        stopping
            .running
            .iter()
            .map(|node| self.node(node))
            .collect()
    }

    pub(super) fn node(&self, path: &str) -> Result<Instance, Corrupt> {
        self.resolve(path).ok_or_else(|| Corrupt {
            record: self.records() + 1,
            reason: format!("the graph has no node '{path}'"),
        })
    }

    fn ended_badly(&self, path: &str) -> Result<Instance, Corrupt> {
        let node = self.node(path)?;
        match self.node_status(node) {
            NodeStatus::Failed | NodeStatus::Cancelled => Ok(node),
            status => self.corrupt(&format!("'{path}' was tried again when it was {status}")),
        }
    }

    fn turn(&mut self, from: RunStatus, to: RunStatus) -> Result<(), Corrupt> {
        if self.status != from {
            return self.corrupt(&format!("the run became {to} when it was {}", self.status));
        }
        self.status = to;
        Ok(())
    }

    pub(super) fn open_node(
        &self,
        path: &str,
        attempt: u32,
        undo: bool,
    ) -> Result<Instance, Corrupt> {
        let nodes = if undo {
            self.undoing(path)
        } else {
            vec![self.node(path)?]
        };
        let open = nodes.into_iter().find(|&node| self.is_open(node, attempt));
        open.map_or_else(
            || self.corrupt(&format!("attempt {attempt} of '{path}' is not open")),
            Ok,
        )
    }

    pub(super) fn scope(&self, path: &str) -> Result<FrameKey, Corrupt> {
        let key = self.resolve_scope(path);
        key.map_or_else(
            || self.corrupt(&format!("there is no iteration '{path}'")),
            Ok,
        )
    }

    pub(crate) fn corrupt<T>(&self, reason: &str) -> Result<T, Corrupt> {
        Err(Corrupt {
            record: self.records() + 1,
            reason: reason.to_owned(),
        })
    }
}
