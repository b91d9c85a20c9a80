//! Results given by hand (semantics §5): `set-result` and `skip`.

use super::Run;
use super::apply::{Change, Corrupt};
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
        // The worker that has the attempt, and a child run, are asked to stop; a report is refused.
        self.close_child(node, NodeStatus::Cancelled, changes);
        changes.push(Change::Ended(node, set.attempt, NodeStatus::Cancelled));
        self.put_vars(&set.vars);
        self.output_bytes += set.output.size();
        let record = self.records() + 1;
        let state = self.state_mut(node);
        state.by_hand = true;
        state.value = Some(ValueRef::new(&set.output, set.output.digest(), record));
        state.ancestry = Some(set.ancestry);
        self.end(node, NodeStatus::Succeeded, changes);
        Ok(())
    }
}
