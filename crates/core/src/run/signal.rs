//! Signals (semantics §12): first in, first out, per name; one waiter each; kept if they
//! come early.

use super::Run;
use super::frame::Instance;
use crate::plan::{NodeIndex, Plan, Structure};
use crate::status::NodeStatus;
use crate::value::ValueRef;

impl Run {
    /// The signal that a node waits for.
    pub fn signal_of(&self, node: Instance) -> Option<&str> {
        match self.structure(node)? {
            Structure::Signal(signal) => Some(&signal.name),
            _ => None,
        }
    }

    /// The node that has waited longest for a signal of this name.
    pub fn first_waiter(&self, name: &str) -> Option<Instance> {
        self.waiters.get(name)?.front().copied()
    }

    /// The names of the signals that some node waits for, or still may, sorted.
    pub fn awaited_signals(&self) -> Vec<&str> {
        let plan = &*self.plan;
        let named =
            (0..plan.total() as NodeIndex).filter_map(|node| Some((node, plan.signal(node)?)));
        let awaited = named.filter(|&(node, name)| {
            self.waiters.contains_key(name) || self.may_still_wait(plan, node)
        });
        let mut names: Vec<&str> = awaited.map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether some node waits for a signal of this name, or still may.
    pub(crate) fn is_ever_awaited(&self, name: &str) -> bool {
        self.waiters.contains_key(name)
            || takers(&self.plan, name).any(|node| self.may_still_wait(&self.plan, node))
    }

    /// The JSON Schemas that a signal of this name must fit: those of the nodes of `plan` that
    /// wait for one, still may, or may again once others are tried again by hand: a signal that is
    /// kept until then is checked no more. The plan is the run's own, or the one that it adopts
    /// next.
    pub fn signal_schemas<'a>(&self, plan: &'a Plan, name: &'a str) -> Vec<&'a str> {
        let opens_again = self.opens_again();
        let nodes = takers(plan, name).filter(|&node| {
            let is_top = (node as usize) < plan.len();
            let instance = is_top.then(|| self.resolve(plan.id(node))).flatten();
            self.may_still_wait(plan, node) || instance.is_some_and(|it| opens_again.contains(&it))
        });
        let schemas = nodes.filter_map(|node| match plan.structure(node)? {
            Structure::Signal(signal) => signal.schema.as_ref(),
            _ => None,
        });
        schemas.map(|schema| schema.get()).collect()
    }

    /// Whether a node has not ended. Another iteration of a loop may still come, and a graph that
    /// is adopted computes Skipped and Blocked anew.
    fn may_still_wait(&self, plan: &Plan, node: NodeIndex) -> bool {
        if node as usize >= plan.len() {
            return true;
        }
        let instance = self.resolve(plan.id(node));
        match instance.and_then(|instance| self.find_status(instance)) {
            Some(NodeStatus::Skipped | NodeStatus::Blocked) => !std::ptr::eq(plan, &*self.plan),
            Some(status) => !status.is_final(),
            None => true,
        }
    }

    /// The oldest signal of this name that no node has taken.
    pub(crate) fn kept_signal(&self, name: &str) -> Option<ValueRef> {
        self.signals.get(name)?.front().copied()
    }

    /// How many signals of each name are kept.
    pub fn kept_signals(&self) -> impl Iterator<Item = (&str, usize)> + '_ {
        let kept = self.signals.iter();
        kept.map(|(name, values)| (&**name, values.len()))
    }

    /// The signals that are kept, by name, the oldest first.
    pub fn signal_values(&self) -> impl Iterator<Item = (&str, &ValueRef)> + '_ {
        let kept = self.signals.iter();
        kept.flat_map(|(name, values)| values.iter().map(|value| (&**name, value)))
    }

    pub(crate) fn keep_signal(&mut self, name: &str, value: ValueRef) {
        self.signals
            .entry(name.into())
            .or_default()
            .push_back(value);
    }

    /// A waiter takes the oldest signal of its name.
    pub(crate) fn take_signal(&mut self, name: &str) {
        if let Some(kept) = self.signals.get_mut(name) {
            kept.pop_front();
            if kept.is_empty() {
                self.signals.remove(name);
            }
        }
    }

    pub(crate) fn start_waiting(&mut self, node: Instance) {
        if let Some(name) = self.signal_of(node) {
            let name: Box<str> = name.into();
            self.waiters.entry(name).or_default().push_back(node);
        }
    }

    pub(crate) fn stop_waiting(&mut self, node: Instance) {
        let Some(name) = self.signal_of(node).map(Box::<str>::from) else {
            return;
        };
        if let Some(waiters) = self.waiters.get_mut(&name) {
            waiters.retain(|&waiter| waiter != node);
            if waiters.is_empty() {
                self.waiters.remove(&name);
            }
        }
    }
}

/// The nodes of a graph, however deep, that take signals of this name.
fn takers<'a>(plan: &'a Plan, name: &'a str) -> impl Iterator<Item = NodeIndex> + 'a {
    (0..plan.total() as NodeIndex).filter(move |&node| plan.signal(node) == Some(name))
}
