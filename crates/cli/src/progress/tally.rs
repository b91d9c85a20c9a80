//! How much work a run has: nodes that are no loops, counted through loops inside loops. What the
//! loops that are not open yet will hold is estimated from those that were.

use std::collections::BTreeMap;

use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::run::Instance;

/// Loops beyond this many that are open at the same time are not counted.
const MAX_OPEN: usize = 10_000;

/// What is known of the loops of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    nodes: BTreeMap<NodeIndex, LoopNode>,
    /// Open loops, and those of the top level that have ended.
    known: BTreeMap<Instance, Round>,
}

/// The sums over the instances of one loop node.
#[derive(Debug, Default)]
struct LoopNode {
    /// Instances that were ever open, and those that are now.
    opened: u64,
    open: u64,
    /// Iterations that have ended, and all that are known.
    done: u64,
    items: u64,
}

/// How one instance of a loop stands.
#[derive(Clone, Copy, Debug)]
struct Round {
    node: NodeIndex,
    done: u64,
    items: u64,
    open: bool,
}

impl Tally {
    /// An open loop stands so.
    pub(super) fn update(&mut self, plan: &Plan, node: Instance, path: &str, round: (u64, u64)) {
        let is_known = self.known.contains_key(&node);
        let Some(place) = plan.node_at(path) else {
            return;
        };
        if is_known || self.known.len() < MAX_OPEN {
            let (done, items) = round;
            let open = true;
            self.put(node, place, done, items.max(done), open);
        }
    }

    /// A loop of the top level ended after so many iterations, which were not seen.
    pub(super) fn ended(&mut self, node: Instance, place: NodeIndex, iterations: u64) {
        self.put(node, place, iterations, iterations, false);
    }

    /// An instance ended. Nothing of it, if it was a loop, is to be done any more.
    pub(super) fn end(&mut self, plan: &Plan, node: Instance) {
        let Some(&Round {
            node: place, items, ..
        }) = self.known.get(&node)
        else {
            return;
        };
        self.put(node, place, items, items, false);
        if plan.graph_of(place).owner().is_some() {
            // Its share stays in the sums.
            self.known.remove(&node);
        }
    }

    /// Ends the open loops that are not among these any more.
    pub(super) fn end_others(&mut self, plan: &Plan, is_open: impl Fn(Instance) -> bool) {
        let open = self.known.iter().filter(|(_, round)| round.open);
        let ended: Vec<Instance> = open
            .map(|(&node, _)| node)
            .filter(|&node| !is_open(node))
            .collect();
        for node in ended {
            self.end(plan, node);
        }
    }

    fn put(&mut self, node: Instance, place: NodeIndex, done: u64, items: u64, open: bool) {
        let sums = self.nodes.entry(place).or_default();
        let round = Round {
            node: place,
            done,
            items,
            open,
        };
        match self.known.insert(node, round) {
            Some(before) => {
                sums.done -= before.done;
                sums.items -= before.items;
                sums.open -= u64::from(before.open);
            }
            None => sums.opened += 1,
        }
        sums.done += done;
        sums.items += items;
        sums.open += u64::from(open);
    }

    /// Whether a loop node has ever been open.
    fn is_opened(&self, node: NodeIndex) -> bool {
        self.nodes.get(&node).is_some_and(|sums| sums.opened > 0)
    }

    /// How many iterations of a loop node have ended, and how many there will be.
    fn iterations(&self, plan: &Plan, node: NodeIndex) -> (u64, u64) {
        let Some(sums) = self.nodes.get(&node).filter(|sums| sums.opened > 0) else {
            return (0, 0);
        };
        let to_open = match plan.graph_of(node).owner() {
            None => 0,
            Some(owner) => {
                let (done, all) = self.iterations(plan, owner);
                all.saturating_sub(done).saturating_sub(sums.open)
            }
        };
        (sums.done, sums.items + to_open * sums.items / sums.opened)
    }

    /// How much is done, and of how much; `is_final` tells whether a node of the top level has
    /// ended, and `done` how many of them have.
    pub(super) fn work(
        &self,
        plan: &Plan,
        done: u32,
        is_final: impl Fn(NodeIndex) -> bool,
    ) -> (u64, u64) {
        let (mut done, mut total) = (u64::from(done), plan.len() as u64);
        for &node in self.nodes.keys().filter(|&&node| self.is_opened(node)) {
            // A loop of the top level stands for what is in it.
            if plan.graph_of(node).owner().is_none() {
                total -= 1;
                done -= u64::from(is_final(node));
            }
            let (ended, all) = self.iterations(plan, node);
            let leaves = leaves(plan, node);
            done += ended * leaves;
            total += all * leaves;
        }
        (done, total)
    }
}

/// How many nodes of a loop's body are no loops.
fn leaves(plan: &Plan, node: NodeIndex) -> u64 {
    let Some(body) = plan.body(node) else {
        return 0;
    };
    let nodes = plan.graph(body).nodes();
    nodes.filter(|&node| !plan.kind(node).is_loop()).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten regions with shops, each of which has two nodes, and one node after them.
    fn plan() -> Plan {
        let text = r#"{"id":"nested","nodes":[
          {"id":"regions","forEach":{"items":[1],"body":{"nodes":[
            {"id":"shops","forEach":{"items":[1],"body":{"nodes":[
              {"id":"count","actionType":"core.echo"},
              {"id":"send","dependsOn":["count"],"actionType":"core.echo"}]}}}]}}},
          {"id":"sum","actionType":"core.echo","dependsOn":["regions"]}]}"#;
        let definition = serde_json::from_str(text).expect("a definition");
        Plan::build(definition).expect("a plan")
    }

    #[test]
    fn leaves_are_counted_through_loops_in_loops() {
        let (plan, mut tally) = (plan(), Tally::default());
        let none = |_| false;
        assert_eq!(tally.work(&plan, 0, none), (0, 2));
        tally.update(&plan, 0, "regions", (0, 10));
        assert_eq!(tally.work(&plan, 0, none), (0, 1), "no shop is known yet");
        tally.update(&plan, 2, "regions[0]/shops", (1, 3));
        assert_eq!(tally.work(&plan, 0, none), (2, 61));
        tally.end(&plan, 2);
        tally.update(&plan, 0, "regions", (1, 10));
        assert_eq!(tally.work(&plan, 0, none), (6, 61));
        // Larger than the first: what is expected of the others grows.
        tally.update(&plan, 5, "regions[1]/shops", (0, 5));
        assert_eq!(tally.work(&plan, 0, none), (6, 1 + 2 * (8 + 8 * 4)));
        tally.end_others(&plan, |node| node == 0);
        tally.update(&plan, 0, "regions", (10, 10));
        assert_eq!(
            tally.work(&plan, 0, none),
            (16, 17),
            "the others were empty"
        );
        tally.end(&plan, 0);
        assert_eq!(tally.work(&plan, 2, |_| true), (17, 17));
    }
}
