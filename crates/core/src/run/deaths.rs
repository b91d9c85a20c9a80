//! How often a process died while it had an attempt of the run open. A run to which this
//! happens again and again is poison; other code decides what to do about that.

use std::collections::BTreeMap;

use super::Run;
use super::frame::Instance;
use crate::event::After;
use crate::status::NodeStatus;

/// The open attempt of an instance, and how many deaths it has seen.
pub(crate) type Deaths = BTreeMap<Instance, (u32, u32)>;

impl Run {
    /// The most deaths that an attempt which is open now has seen.
    pub fn deaths(&self) -> u32 {
        let same = |&(&node, &(attempt, _)): &(&Instance, &(u32, u32))| self.is_open(node, attempt);
        let open = self.deaths.iter().filter(same);
        open.map(|(_, &(_, deaths))| deaths).max().unwrap_or(0)
    }

    /// Whether an attempt may be with a worker: one that is ready is handed out without
    /// a record.
    pub fn has_attempts_out(&self) -> bool {
        self.open_instances()
            .into_iter()
            .any(|node| self.may_be_out(node))
    }

    /// Whether such an attempt is of an action of this kind.
    pub fn has_attempts_out_of(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        let mut open = self.open_instances().into_iter();
        open.any(|node| self.may_be_out(node) && is_meant(&self.called_action(node)))
    }

    fn may_be_out(&self, node: Instance) -> bool {
        let status = self.find_status(node);
        matches!(status, Some(NodeStatus::Queued | NodeStatus::Running))
            && !self.is_structural(node)
    }

    pub(super) fn count_deaths(&mut self, after: After) {
        match after {
            After::Stop => {}
            After::Requeue => self.deaths.clear(),
            After::Death => {
                let open = self.open_instances().into_iter();
                let out = open.filter(|&node| self.may_be_out(node));
                let counted = out.map(|node| {
                    let attempt = self.attempt(node);
                    let before = self.deaths.get(&node).filter(|seen| seen.0 == attempt);
                    (node, (attempt, before.map_or(0, |seen| seen.1) + 1))
                });
                self.deaths = counted.collect();
            }
        }
    }
}
