//! Results given by hand (semantics §5): `set-result` and `skip`.

use super::Run;
use super::apply::{Change, Corrupt};
use super::environment::Held;
use crate::event::SetByHand;
use crate::id::Millis;
use crate::status::NodeStatus;
use crate::value::ValueRef;

impl Run {
    pub(crate) fn set_by_hand(
        &mut self,
        set: &SetByHand,
        at: Millis,
        changes: &mut Vec<Change>,
    ) -> Result<(), Corrupt> {
        let Some(node) = self.resolve(&set.node) else {
            return self.corrupt(&format!("the graph has no node '{}'", set.node));
        };
        let status = self.node_status(node);
        if matches!(status, NodeStatus::Failed | NodeStatus::Cancelled) {
            self.reopen(&[node], at, changes);
        }
        if !self.is_open(node, set.attempt) {
            return self.corrupt(&format!(
                "attempt {} of '{}' is not open",
                set.attempt, set.node
            ));
        }
        // Whoever has the attempt is told; what it says is refused.
        changes.push(Change::Ended(node, set.attempt, NodeStatus::Cancelled));
        for (name, value) in &set.vars {
            self.vars.insert(name.clone(), Held::new(value));
        }
        self.output_bytes += set.output.size();
        let record = self.records + 1;
        let state = self.state_mut(node);
        state.by_hand = true;
        state.value = Some(ValueRef::new(&set.output, set.output.digest(), record));
        state.ancestry = Some(set.ancestry);
        self.end(node, NodeStatus::Succeeded, changes);
        Ok(())
    }

    /// The attempt that a result given by hand would end; none if the node is neither
    /// open nor ended badly.
    pub(crate) fn attempt_by_hand(&self, node: super::Instance) -> Option<u32> {
        let state = self.find_state(node).filter(|_| !self.is_leaving(node))?;
        match state.status {
            NodeStatus::Failed | NodeStatus::Cancelled => Some(state.attempt + 1),
            _ if state.is_open() => Some(state.attempt),
            _ => None,
        }
    }
}
