//! Signals (semantics §12): first in, first out, per name; one waiter each; kept if they
//! come early.

use super::Run;
use super::frame::Instance;
use crate::plan::Structure;
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
