//! Applies events about loops, waits and child runs.

use super::Run;
use super::apply::{Change, Corrupt};
use super::child::Child;
use super::cycle::Iteration;
use super::frame::Instance;
use super::join::RoutingQueue;
use crate::event::{ChildStarted, Event, IterationResult, SignalReceived};
use crate::id::Millis;
use crate::status::NodeStatus;
use crate::value::{Stored, ValueRef};

impl Run {
    /// Folds one event about a node that no worker runs.
    pub(super) fn apply_structure(
        &mut self,
        event: &Event,
        at: Millis,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        match event {
            Event::Expanded {
                node,
                attempt,
                count,
                items,
            } => self.expanded((node, *attempt), *count, items, at, changes)?,
            Event::Looped {
                node,
                iteration,
                due,
            } => self.went_round(node, *iteration, *due, at, changes)?,
            Event::IterationEnded {
                node,
                iteration,
                result,
            } => self.evaluated(node, *iteration, result, changes)?,
            Event::Waiting { node, attempt, due } => {
                let node = self.open_node(node, *attempt, false)?;
                self.began(node, at);
                self.set_status(node, NodeStatus::Waiting);
                self.due.extend(due.map(|due| (node, due)));
                self.start_waiting(node);
                changes.push(Change::Waiting(node, *attempt, *due));
            }
            Event::SignalReceived(signal) => self.signal_received(signal),
            Event::ChildStarted(started) => self.child_started(started, at, changes)?,
            _ => {}
        }
        Ok(())
    }

    /// A loop, a wait or a child run begins: it does not wait to be opened any more.
    fn began(&mut self, node: Instance, at: Millis) {
        self.to_open.remove(&node);
        self.since.entry(node).or_insert(at);
    }

    /// When a loop, a wait or a child run began.
    pub fn since(&self, node: Instance) -> Option<Millis> {
        self.since.get(&node).copied()
    }

    fn expanded(
        &mut self,
        (node, attempt): (&str, u32),
        count: u32,
        items: &Stored,
        at: Millis,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let node = self.open_node(node, attempt, false)?;
        let items = ValueRef::new(items, items.digest(), self.records() + 1);
        self.began(node, at);
        self.begin_loop(node, Some(items), count);
        let mut queue = RoutingQueue::default();
        self.open_items(node, &mut queue, changes);
        self.cascade(queue, changes);
        Ok(())
    }

    fn went_round(
        &mut self,
        path: &str,
        iteration: u32,
        due: Option<Millis>,
        at: Millis,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let node = self.node(path)?;
        let attempt = self.attempt(node);
        if !self.is_open(node, attempt) {
            return self.corrupt(&format!("'{path}' went round when it was not open"));
        }
        if self.node_status(node) == NodeStatus::Queued {
            self.began(node, at);
            self.begin_loop(node, None, 0);
        }
        self.to_advance.remove(&node);
        if self
            .loops
            .get(&node)
            .is_none_or(|cycle| cycle.next != iteration)
        {
            return self.corrupt(&format!(
                "iteration {iteration} of '{path}' is not the next"
            ));
        }
        if let Some(due) = due {
            self.set_status(node, NodeStatus::Waiting);
            self.due.insert(node, due);
            changes.push(Change::Waiting(node, attempt, Some(due)));
            return Ok(());
        }
        let mut queue = RoutingQueue::default();
        self.open_iteration(node, &mut queue, changes);
        self.cascade(queue, changes);
        Ok(())
    }

    fn evaluated(
        &mut self,
        path: &str,
        iteration: u32,
        result: &IterationResult,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let key = self.scope(&format!("{path}[{iteration}]"))?;
        if !self.to_settle.contains(&key) {
            return self.corrupt("an iteration's output was evaluated that had not ended");
        }
        let record = self.records() + 1;
        let stored = |value: &Stored| Some(ValueRef::new(value, value.digest(), record));
        let result = match result {
            IterationResult::Succeeded(output) => {
                self.output_bytes += output.size();
                Iteration::Succeeded(stored(output))
            }
            IterationResult::Failed(error) => Iteration::Failed(stored(error)),
        };
        let mut queue = RoutingQueue::default();
        self.iteration_ended(key, result, &mut queue, changes);
        self.cascade(queue, changes);
        Ok(())
    }

    /// Every signal is kept first; the node that waits for it takes it when it ends.
    fn signal_received(&mut self, signal: &SignalReceived) {
        let payload = &signal.payload;
        let value = ValueRef::new(payload, payload.digest(), self.records() + 1);
        self.keep_signal(&signal.name, value);
    }

    fn child_started(
        &mut self,
        started: &ChildStarted,
        at: Millis,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let node = self.open_node(&started.node, started.attempt, false)?;
        self.began(node, at);
        self.due.remove(&node);
        self.set_status(node, NodeStatus::Running);
        let input = &started.input;
        let child = Child {
            run: started.child,
            input: ValueRef::new(input, input.digest(), self.records() + 1),
        };
        self.children.insert(node, child);
        if let Some(timeout) = self.own_timeout(node) {
            self.due.insert(node, at.plus(timeout));
        }
        changes.push(Change::ChildStarted(node, started.attempt, started.child));
        Ok(())
    }
}
