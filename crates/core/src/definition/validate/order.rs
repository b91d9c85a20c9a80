//! Whether one node can have ended before another: a search backwards that is
//! bounded by the order of the graph, and by a budget for the whole definition.

use crate::definition::graph::DefinitionGraph;

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
    /// Takes one step, if there is one left.
    pub(super) fn spend(&mut self) -> bool {
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
        graph: &DefinitionGraph<'_>,
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
        graph: &DefinitionGraph<'_>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::types::{Definition, Node};

    fn nodes(text: &str) -> Vec<Node> {
        let text = format!(r#"{{"id":"flow","nodes":[{text}]}}"#);
        let definition: Definition = serde_json::from_str(&text).expect("a definition");
        definition.nodes
    }

    fn ladder(count: usize) -> Vec<Node> {
        let nodes_of = |at: usize| {
            let before: Vec<_> = (at.saturating_sub(2)..at)
                .map(|n| format!("\"n{n}\""))
                .collect();
            format!(r#"{{"id":"n{at}","dependsOn":[{}]}}"#, before.join(","))
        };
        nodes(&(0..count).map(nodes_of).collect::<Vec<_>>().join(","))
    }

    /// Edges looked at when every node asks for the node five before it.
    fn work(count: usize) -> usize {
        let nodes = ladder(count);
        let (graph, _) = DefinitionGraph::new(&nodes);
        let mut search = Search::new(&graph.order());
        let mut budget = Budget::default();
        for at in 5..count {
            assert_eq!(search.leads(&graph, at - 5, at, &mut budget), Some(true));
            assert_eq!(search.leads(&graph, at, at - 5, &mut budget), Some(false));
        }
        STEPS - budget.0
    }

    #[test]
    fn work_grows_with_the_graph_and_no_faster() {
        let (small, large) = (work(1_000), work(10_000));
        assert!(small > 0 && large <= small * 11, "{small} and {large}");
    }

    #[test]
    fn a_spent_budget_ends_the_search() {
        let nodes = ladder(100);
        let (graph, _) = DefinitionGraph::new(&nodes);
        let mut search = Search::new(&graph.order());
        assert_eq!(search.leads(&graph, 0, 99, &mut Budget(10)), None);
    }

    #[test]
    fn branches_do_not_lead_to_each_other() {
        let nodes = nodes(
            r#"{"id":"a"},{"id":"b","dependsOn":["a"]},{"id":"c","dependsOn":["a"]},
               {"id":"d","dependsOn":["b","c"]}"#,
        );
        let (graph, _) = DefinitionGraph::new(&nodes);
        let mut search = Search::new(&graph.order());
        let mut leads = |early, late| search.leads(&graph, early, late, &mut Budget::default());
        assert_eq!(leads(1, 2), Some(false));
        assert_eq!(leads(2, 1), Some(false));
        assert_eq!(leads(0, 3), Some(true));
        assert_eq!(leads(3, 3), Some(false));
    }
}
