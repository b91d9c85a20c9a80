//! Making what happened so. `apply` decides nothing: it refuses only an event that is
//! illegal in the state, which means a corrupt log. Recovery is replay through here.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::environment::Held;
use super::levels::Levels;
use super::{NodeState, Run};
use crate::definition::ExecutionMode;
use crate::event::{AttemptEnded, AttemptResult, Event, Queued, RULES, Stopping, Transition};
use crate::id::{Millis, RunId};
use crate::plan::{NodeIndex, Plan};
use crate::routing::EdgeState;
use crate::status::{NodeStatus, RunStatus};
use crate::value::ValueRef;

/// What an event changed: the source of effects, and of what people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node's attempt is open.
    Ready(NodeIndex),
    /// A node waits for its next attempt until this time.
    Waiting(NodeIndex, Millis),
    /// A node has ended; or its open attempt was let go (`Cancelled`) because a reattempt
    /// of a node before it makes it wait again.
    Ended(NodeIndex, NodeStatus),
    /// A node that is with a worker is told to stop.
    StopAsked(NodeIndex),
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
        let nodes: Vec<NodeState> = (0..plan.len() as NodeIndex)
            .map(|node| NodeState {
                status: NodeStatus::Pending,
                stopping: false,
                exempt: false,
                attempt: 0,
                first_attempt: 0,
                deliveries: 0,
                unresolved: plan.incoming(node).len() as u32,
                value: None,
                ancestry: None,
            })
            .collect();
        let mut counts = [0; 9];
        counts[NodeStatus::Pending as usize] = nodes.len() as u32;
        let levels = (plan.execution_mode() == ExecutionMode::Levels).then(|| Levels::new(&plan));
        Ok(Self {
            id,
            status: RunStatus::Pending,
            created_at: at,
            started_at: None,
            ended_at: None,
            clock_from: None,
            records: 0,
            edges: vec![EdgeState::Unresolved; plan.edges().len()],
            nodes,
            counts,
            trigger: Held::new(&queued.trigger),
            vars: queued
                .vars
                .iter()
                .map(|(name, value)| (name.clone(), Held::new(value)))
                .collect(),
            blocked_by: Default::default(),
            recovered: Default::default(),
            due: Default::default(),
            failed: Default::default(),
            to_route: Default::default(),
            stop_wanted: false,
            stop: None,
            levels,
            output_bytes: 0,
            finished: None,
            workflow: Arc::from(&*queued.workflow),
            correlation_id: Arc::from(&*queued.correlation_id),
            queued: Arc::new(queued),
            plan,
        })
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
        self.seal();
        Ok(())
    }

    /// Ends a record: the next event belongs to the next one.
    pub fn seal(&mut self) {
        self.records += 1;
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
        if self.status.is_final()
            && !matches!(event, Event::Reattempted { .. } | Event::Warning { .. })
        {
            return self.corrupt("something happened after the run had ended");
        }
        match event {
            Event::Queued(_) if self.records == 0 => {}
            Event::Queued(_) => return self.corrupt("the run was asked for twice"),
            Event::Started {} => self.start(at, changes)?,
            Event::AttemptStarted(started) => {
                let node = self.open_node(&started.node, started.attempt)?;
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
            Event::Stopping(stopping) => {
                let running = self.running_nodes(stopping)?;
                self.stopping(stopping, &running, changes);
            }
            Event::GraceEnded {} if self.stop.is_none() => {
                return self.corrupt("a grace ended that nobody was given");
            }
            Event::GraceEnded {} => self.give_up(changes),
            Event::Paused(_) => self.turn(RunStatus::Running, RunStatus::Paused)?,
            Event::Resumed(_) => self.turn(RunStatus::Paused, RunStatus::Running)?,
            Event::Reattempted { nodes, .. } => {
                let nodes = nodes
                    .iter()
                    .map(|node| self.ended_badly(node))
                    .collect::<Result<Vec<_>, _>>()?;
                self.reopen(&nodes, at, changes);
            }
            Event::Recovered {} => self.recovered_by_another(changes),
            Event::Warning { .. } => {}
            Event::Finished(finished) => {
                self.status = finished.status;
                self.ended_at = Some(at);
                self.finished = Some(Arc::new((**finished).clone()));
            }
        }
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
        for &node in plan.entries() {
            self.make_ready(node, changes);
        }
        Ok(())
    }

    fn attempt_ended(
        &mut self,
        event: &AttemptEnded,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let node = self.open_node(&event.node, event.attempt)?;
        for (name, value) in &event.vars {
            self.vars.insert(name.clone(), Held::new(value));
        }
        let record = self.records + 1;
        let (status, value) = match &event.result {
            AttemptResult::Succeeded(output) => {
                self.output_bytes += output.size();
                (NodeStatus::Succeeded, Some(output))
            }
            AttemptResult::Failed(error) => (NodeStatus::Failed, Some(error)),
            AttemptResult::Skipped {} => (NodeStatus::Skipped, None),
            AttemptResult::Stopped {} => (NodeStatus::Cancelled, None),
            AttemptResult::Retrying { due, .. } => {
                self.nodes[node as usize].attempt += 1;
                self.nodes[node as usize].deliveries = 0;
                self.set_status(node, NodeStatus::Waiting);
                self.due.insert(node, *due);
                changes.push(Change::Waiting(node, *due));
                return Ok(());
            }
        };
        let state = &mut self.nodes[node as usize];
        state.value = value.map(|value| ValueRef::new(value, event.digest, record));
        state.ancestry = event.ancestry;
        self.end(node, status, changes);
        Ok(())
    }

    /// Whoever ran this before is gone: open attempts are handed out again, and what
    /// was only given a grace has nobody left to use it.
    fn recovered_by_another(&mut self, changes: &mut Vec<Change>) {
        for node in &mut self.nodes {
            let is_open = matches!(
                node.status,
                NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting
            );
            if is_open {
                node.deliveries += 1;
            }
        }
        self.give_up(changes);
    }

    fn running_nodes(&self, stopping: &Stopping) -> Result<BTreeSet<NodeIndex>, Corrupt> {
        stopping
            .running
            .iter()
            .map(|node| self.node(node))
            .collect()
    }

    fn node(&self, path: &str) -> Result<NodeIndex, Corrupt> {
        self.plan.index(path).ok_or_else(|| Corrupt {
            record: self.records + 1,
            reason: format!("the graph has no node '{path}'"),
        })
    }

    fn ended_badly(&self, path: &str) -> Result<NodeIndex, Corrupt> {
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

    fn open_node(&self, path: &str, attempt: u32) -> Result<NodeIndex, Corrupt> {
        let node = self.node(path)?;
        if self.is_open(node, attempt) {
            return Ok(node);
        }
        self.corrupt(&format!("attempt {attempt} of '{path}' is not open"))
    }

    fn corrupt<T>(&self, reason: &str) -> Result<T, Corrupt> {
        Err(Corrupt {
            record: self.records + 1,
            reason: reason.to_owned(),
        })
    }
}
