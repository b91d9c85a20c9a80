//! The `levels` mode: a level starts when all earlier ones have ended (semantics §3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::frame::Instance;
use crate::plan::{GraphIndex, Plan};

/// Which level is open, and what waits for the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Levels {
    open: u32,
    /// How many nodes of each level have not ended.
    remaining: Vec<u32>,
    /// Nodes that are ready before their level is.
    held: BTreeMap<u32, Vec<Instance>>,
}

impl Levels {
    pub(crate) fn new(plan: &Plan, graph: GraphIndex) -> Self {
        let mut remaining = Vec::new();
        for node in plan.graph(graph).nodes() {
            let level = plan.level(node) as usize;
            if remaining.len() <= level {
                remaining.resize(level + 1, 0);
            }
            remaining[level] += 1;
        }
        Self {
            open: 0,
            remaining,
            held: BTreeMap::new(),
        }
    }

    /// Whether a node of this level may start; if not, it is held.
    pub(crate) fn admit(&mut self, node: Instance, level: u32) -> bool {
        if level <= self.open {
            return true;
        }
        self.held.entry(level).or_default().push(node);
        false
    }

    /// A node of this level ended; returns the nodes that may start now.
    pub(crate) fn ended(&mut self, level: u32) -> Vec<Instance> {
        self.remaining[level as usize] -= 1;
        let mut released = Vec::new();
        while self.remaining.get(self.open as usize) == Some(&0) {
            self.open += 1;
            released.append(&mut self.held.remove(&self.open).unwrap_or_default());
        }
        released
    }

    /// A node of this level has not ended after all.
    pub(crate) fn reopened(&mut self, level: u32) {
        self.remaining[level as usize] += 1;
        self.open = self.open.min(level);
    }

    /// Forgets held nodes that are cancelled, or whose join decides again.
    pub(crate) fn forget_held(&mut self, forget: impl Fn(Instance) -> bool) {
        for nodes in self.held.values_mut() {
            nodes.retain(|&node| !forget(node));
        }
    }
}
