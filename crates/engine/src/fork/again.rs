//! What runs again when a run is forked: the chosen node instances, everything after
//! them in their own scope and in those around it, and of a loop whose iterations depend
//! on each other, the later ones.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::plan::{Edge, GraphIndex, NodeIndex, NodeKind, Plan, TOP};

/// What runs again.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// Instances that run again as a whole.
    whole: BTreeSet<Box<str>>,
    /// The same, in the order in which people read them.
    order: Vec<Box<str>>,
    /// Loops that are entered again, and the iteration after which nothing is kept.
    entered: BTreeMap<Box<str>, Option<u32>>,
}

impl Again {
    /// Follows the edges of the graph from these instances.
    ///
    /// # Errors
    /// The path that the graph does not have.
    pub(super) fn new(plan: &Plan, from: &[String]) -> Result<Self, Box<str>> {
        let mut again = Self::default();
        for path in from {
            let steps = steps(plan, path).ok_or_else(|| Box::<str>::from(path.as_str()))?;
            again.add(plan, &steps);
        }
        Ok(again)
    }

    /// Runs an instance again as well; if the graph no longer has it, the innermost loop around
    /// it that the graph has.
    pub(super) fn include(&mut self, plan: &Plan, path: &str) {
        let mut candidates = std::iter::once(path).chain(loops_around(path));
        if let Some(steps) = candidates.find_map(|path| steps(plan, path)) {
            self.add(plan, &steps);
        }
    }

    fn add(&mut self, plan: &Plan, steps: &[Step]) {
        let Some(chosen) = steps.last() else { return };
        self.put(&chosen.path());
        for (depth, step) in steps.iter().enumerate().rev() {
            if depth + 1 < steps.len() {
                let after = match (plan.kind(step.node), step.iteration) {
                    (NodeKind::ForEach, _) => None,
                    (_, iteration) => iteration,
                };
                let entered = self.entered.entry(step.path().into()).or_insert(after);
                *entered = match (*entered, after) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
            for node in reached(plan, step.node) {
                self.put(&format!("{}{}", step.scope, plan.id(node)));
            }
        }
    }

    fn put(&mut self, path: &str) {
        if self.whole.insert(path.into()) {
            self.order.push(path.into());
        }
    }

    /// Whether an instance's result is kept.
    pub(super) fn keeps(&self, path: &str) -> bool {
        if self.whole.contains(path) || self.entered.contains_key(path) {
            return false;
        }
        around(path).all(|(outer, iteration)| {
            let is_later = match self.entered.get(outer) {
                Some(Some(last)) => iteration > *last,
                _ => false,
            };
            !self.whole.contains(outer) && !is_later
        })
    }

    /// Whether an instance runs again, or is a loop that is entered again.
    pub(super) fn touches(&self, path: &str) -> bool {
        self.whole.contains(path) || self.entered.contains_key(path)
    }

    /// The instances that run again.
    pub(super) fn paths(&self) -> Vec<Box<str>> {
        self.order.clone()
    }
}

/// The loop instances around an instance, from the innermost.
pub(super) fn loops_around(path: &str) -> impl Iterator<Item = &str> {
    around(path).map(|(outer, _)| outer)
}

/// The loop instances around an instance, each with the iteration it is in.
fn around(path: &str) -> impl Iterator<Item = (&str, u32)> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let slash = rest.rfind("]/")?;
        let outer = &rest[..slash];
        let bracket = outer.rfind('[')?;
        rest = &outer[..bracket];
        Some((rest, outer[bracket + 1..].parse().ok()?))
    })
}

/// Whether the edges that leave a node are the same in two graphs, so that what was
/// recorded of them in one holds in the other.
pub(super) fn fits(old: &Plan, new: &Plan, path: &str) -> bool {
    if std::ptr::eq(old, new) {
        return true;
    }
    let leaving = |plan: &Plan| -> Option<Vec<(String, u8)>> {
        let node = steps(plan, path)?.last()?.node;
        let edges = plan.outgoing(node).map(|edge| plan.edge(edge));
        let of = |edge: &Edge| (plan.id(edge.target).to_owned(), edge.when as u8);
        Some(edges.map(of).collect())
    };
    match (leaving(old), leaving(new)) {
        (Some(old), Some(new)) => old == new,
        _ => false,
    }
}

/// One part of a path: a node of a graph, in a scope.
struct Step {
    /// What stands before the node's id, with the slash.
    scope: String,
    id: String,
    node: NodeIndex,
    /// Of a loop on the way, the iteration.
    iteration: Option<u32>,
}

impl Step {
    fn path(&self) -> String {
        format!("{}{}", self.scope, self.id)
    }
}

/// The nodes that a path leads through.
fn steps(plan: &Plan, path: &str) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut scope = String::new();
    let mut graph: GraphIndex = TOP;
    for part in path.split('/') {
        let (id, iteration) = match part.strip_suffix(']') {
            Some(inner) => {
                let (id, iteration) = inner.split_once('[')?;
                (id, Some(iteration.parse().ok()?))
            }
            None => (part, None),
        };
        let node = plan.find(graph, id)?;
        steps.push(Step {
            scope: scope.clone(),
            id: id.to_owned(),
            node,
            iteration,
        });
        scope.push_str(part);
        scope.push('/');
        // A node that is no loop has no inside; a path may end there.
        graph = plan.body(node).unwrap_or(GraphIndex::MAX);
        if graph == GraphIndex::MAX && iteration.is_some() {
            return None;
        }
    }
    let (last, outer) = steps.split_last()?;
    let is_path = last.iteration.is_none() && outer.iter().all(|step| step.iteration.is_some());
    is_path.then_some(steps)
}

/// Everything after a node in its own graph, in definition order.
fn reached(plan: &Plan, node: NodeIndex) -> BTreeSet<NodeIndex> {
    let mut reached = BTreeSet::new();
    let mut work = vec![node];
    while let Some(node) = work.pop() {
        for edge in plan.outgoing(node) {
            let target = plan.edge(edge).target;
            if reached.insert(target) {
                work.push(target);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(nodes: &str) -> Plan {
        let text = format!(r#"{{"id":"w","nodes":{nodes}}}"#);
        let definition = serde_json::from_str(&text).expect("a definition");
        Plan::build(definition).expect("a plan")
    }

    fn again(plan: &Plan, from: &[&str]) -> Again {
        let from: Vec<String> = from.iter().map(|&path| path.to_owned()).collect();
        Again::new(plan, &from).expect("known nodes")
    }

    const LOOPS: &str = r#"[
      {"id":"before","actionType":"x"},
      {"id":"each","forEach":{"items":"{{ [1,2,3] }}","body":{"nodes":[
        {"id":"a","actionType":"x"},
        {"id":"b","actionType":"x","dependsOn":["a"]}]}},"dependsOn":["before"]},
      {"id":"while","while":{"condition":"true","body":{"nodes":[
        {"id":"a","actionType":"x"},
        {"id":"b","actionType":"x","dependsOn":["a"]}]}},"dependsOn":["before"]},
      {"id":"after","actionType":"x","dependsOn":["each"]}]"#;

    #[test]
    fn what_is_after_a_node_runs_again() {
        let plan = plan(LOOPS);
        let again = again(&plan, &["each"]);
        assert_eq!(again.paths(), ["each".into(), Box::from("after")]);
        assert!(again.keeps("before") && again.keeps("while") && again.keeps("while[7]/a"));
        assert!(!again.keeps("each[0]/a") && !again.keeps("after"));
    }

    #[test]
    fn other_items_are_kept_and_later_rounds_are_not() {
        let plan = plan(LOOPS);
        let each = again(&plan, &["each[1]/b"]);
        assert!(each.keeps("each[1]/a") && each.keeps("each[0]/b") && each.keeps("each[2]/b"));
        assert!(!each.keeps("each[1]/b") && !each.keeps("each") && !each.keeps("after"));
        let round = again(&plan, &["while[1]/b"]);
        assert!(round.keeps("while[0]/b") && round.keeps("while[1]/a") && round.keeps("after"));
        assert!(!round.keeps("while[1]/b") && !round.keeps("while[2]/a") && !round.keeps("while"));
        let earlier = again(&plan, &["while[3]/b", "while[1]/b"]);
        assert!(!earlier.keeps("while[2]/a"));
    }

    #[test]
    fn of_an_instance_that_the_graph_lost_the_loop_around_it_runs_again() {
        let plan = plan(LOOPS);
        let mut known = again(&plan, &["after"]);
        known.include(&plan, "each[1]/b");
        assert_eq!(known.paths(), ["after".into(), Box::from("each[1]/b")]);
        assert!(!known.keeps("each") && known.keeps("each[0]/b"));
        let mut lost = again(&plan, &["after"]);
        lost.include(&plan, "each[1]/gone");
        lost.include(&plan, "gone");
        assert_eq!(lost.paths(), ["after".into(), Box::from("each")]);
        assert!(!lost.keeps("each[0]/b") && lost.keeps("before"));
    }

    #[test]
    fn paths_that_the_graph_does_not_have_are_refused() {
        let plan = plan(LOOPS);
        for path in [
            "x",
            "each[0]/x",
            "each/a",
            "each[0]",
            "before[0]/a",
            "each[x]/a",
            "",
        ] {
            assert!(Again::new(&plan, &[path.to_owned()]).is_err(), "{path}");
        }
    }
}
