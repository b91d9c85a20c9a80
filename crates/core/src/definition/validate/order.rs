//! Whether one node can have ended before another: a search backwards that is
//! bounded by the order of the graph, and by a budget for the whole definition.

use crate::definition::graph::Graph;

/// How many edges all searches of one validation may look at together; past
/// that, no more warnings of this kind are found.
const STEPS: usize = 2_000_000;

/// What is left of the search budget.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(STEPS)
    }
}

impl Budget {
    fn spend(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// The order of an acyclic graph, and the memory of its searches.
#[derive(Debug)]
pub(super) struct Search {
    rank: Vec<u32>,
    /// The number of the search that last saw each node.
    seen: Vec<u32>,
    searches: u32,
}

impl Search {
    /// For a graph whose nodes stand in this order.
    pub(super) fn new(order: &[usize]) -> Self {
        let mut rank = vec![0; order.len()];
        for (place, node) in (0u32..).zip(order) {
            rank[*node] = place;
        }
        Self {
            rank,
            seen: vec![0; order.len()],
            searches: 0,
        }
    }

    /// The place of a node in the order.
    pub(super) fn rank(&self, node: usize) -> u32 {
        self.rank[node]
    }

    /// Whether a path leads from `early` to `late`; nothing if the budget is spent.
    pub(super) fn leads(
        &mut self,
        graph: &Graph<'_>,
        early: usize,
        late: usize,
        budget: &mut Budget,
    ) -> Option<bool> {
        if self.rank[early] >= self.rank[late] {
            return Some(false);
        }
        if graph.incoming(late).take(8).any(|edge| edge.from == early) {
            return Some(true);
        }
        self.searches += 1;
        let mut stack = vec![late];
        while let Some(node) = stack.pop() {
            for edge in graph.incoming(node) {
                if !budget.spend() {
                    return None;
                }
                if edge.from == early {
                    return Some(true);
                }
                // Whatever stands before `early` in the order cannot come after it.
                let possible = self.rank[edge.from] > self.rank[early];
                if possible && self.seen[edge.from] != self.searches {
                    self.seen[edge.from] = self.searches;
                    stack.push(edge.from);
                }
            }
        }
        Some(false)
    }

    /// All nodes from which a path leads to `node`; nothing if the budget is spent.
    pub(super) fn before(
        &mut self,
        graph: &Graph<'_>,
        node: usize,
        budget: &mut Budget,
    ) -> Option<Vec<usize>> {
        self.searches += 1;
        let mut found = Vec::new();
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            for edge in graph.incoming(node) {
                if !budget.spend() {
                    return None;
                }
                if self.seen[edge.from] != self.searches {
                    self.seen[edge.from] = self.searches;
                    found.push(edge.from);
                    stack.push(edge.from);
                }
            }
        }
        Some(found)
    }
}
