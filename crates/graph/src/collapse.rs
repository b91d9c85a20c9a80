//! Nodes that do the same in the same place, drawn once: a fan-out of 200 becomes one
//! box that says ×200.
//!
//! Two nodes are alike when they do the same, stand on the same level, and their
//! parents and children are alike; so the 200 steps of a second stage collapse too,
//! although each has a parent of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_core::NodeStatus;
use windlass_core::definition::When;
use windlass_core::routing::EdgeState;

use super::layout::levels;
use super::{Graph, GraphEdge, GraphNode, glyph};

/// Smaller groups are drawn as they are.
const SMALLEST: usize = 3;

/// Refinement ends by itself when no class splits; this bounds it on graphs where
/// every round splits a few.
const ROUNDS: usize = 24;

/// A neighbour, as likeness sees it.
type Neighbour<'a> = (u8, Option<&'a str>, usize);

/// A graph with alike nodes as one, and what each of its parts stands for.
pub(super) struct Collapsed {
    pub(super) graph: Graph,
    /// For each node, the one that stands for it.
    pub(super) node_of: Vec<usize>,
    /// For each edge, the one that stands for it.
    pub(super) edge_of: Vec<usize>,
}

/// The graph with each group of alike nodes as one node, or nothing if there is none.
pub(super) fn collapse(graph: &Graph) -> Option<Graph> {
    collapse_groups(graph, |group| group.len() >= SMALLEST).map(|collapsed| collapsed.graph)
}

/// The same, with the groups that `is_one` chooses as one node each.
pub(super) fn collapse_groups(
    graph: &Graph,
    is_one: impl Fn(&[usize]) -> bool,
) -> Option<Collapsed> {
    let classes = classes(graph);
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (node, &class) in classes.iter().enumerate() {
        members.entry(class).or_default().push(node);
    }
    let is_one: BTreeMap<usize, bool> = members
        .iter()
        .map(|(&class, group)| (class, group.len() > 1 && is_one(group)))
        .collect();
    if !is_one.values().any(|&is_one| is_one) {
        return None;
    }
    let mut place = vec![0; graph.nodes.len()];
    let mut nodes = Vec::new();
    for (node, class) in classes.iter().enumerate() {
        let group = &members[class];
        let first = group[0];
        if !is_one[class] {
            place[node] = nodes.len();
            nodes.push(graph.nodes[node].clone());
        } else if first == node {
            place[node] = nodes.len();
            nodes.push(summary(graph, group));
        } else {
            place[node] = place[first];
        }
    }
    let (edges, edge_of) = edges(graph, &place);
    let title = graph.title.clone();
    Some(Collapsed {
        graph: Graph {
            title,
            nodes,
            edges,
        },
        node_of: place,
        edge_of,
    })
}

fn classes(graph: &Graph) -> Vec<usize> {
    let levels = levels(graph);
    let mut classes = number(
        graph
            .nodes
            .iter()
            .zip(levels)
            // A loop that is drawn is like no other.
            .map(|(node, level)| (&node.detail, level, node.body.as_ref().map(|_| &node.id))),
    );
    let mut count = distinct(&classes);
    for _ in 0..ROUNDS {
        let mut parents: Vec<BTreeSet<Neighbour<'_>>> = vec![BTreeSet::new(); graph.nodes.len()];
        let mut children = parents.clone();
        for edge in &graph.edges {
            let label = edge.label.as_deref();
            children[edge.from].insert((rank(edge.when), label, classes[edge.to]));
            parents[edge.to].insert((rank(edge.when), label, classes[edge.from]));
        }
        let keys = classes.iter().zip(parents).zip(children);
        classes = number(keys);
        let next = distinct(&classes);
        if next == count {
            break;
        }
        count = next;
    }
    classes
}

/// Gives equal keys equal numbers, in order of appearance.
fn number<K: Ord>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    let mut known = BTreeMap::new();
    keys.map(|key| {
        let next = known.len();
        *known.entry(key).or_insert(next)
    })
    .collect()
}

fn distinct(classes: &[usize]) -> usize {
    classes.iter().max().map_or(0, |highest| highest + 1)
}

fn rank(when: When) -> u8 {
    match when {
        When::Success => 0,
        When::Always => 1,
        When::Failure => 2,
    }
}

fn summary(graph: &Graph, group: &[usize]) -> GraphNode {
    let members: Vec<&GraphNode> = group.iter().map(|&node| &graph.nodes[node]).collect();
    let first = members[0];
    let name = match shared_prefix(members.iter().map(|node| node.title())) {
        "" => first.detail.clone(),
        prefix => format!("{prefix}…"),
    };
    let mut counts: BTreeMap<NodeStatus, usize> = BTreeMap::new();
    for status in members.iter().filter_map(|node| node.status) {
        *counts.entry(status).or_default() += 1;
    }
    let mut detail = first.detail.clone();
    if counts.len() > 1 {
        let counts = counts
            .iter()
            .map(|(status, count)| format!("{} {count}", glyph(*status)));
        detail = counts.collect::<Vec<_>>().join(" ");
    }
    GraphNode {
        id: format!("{name} ×{}", group.len()),
        label: None,
        detail,
        status: counts.keys().copied().max_by_key(|status| urgency(*status)),
        ..GraphNode::default()
    }
}

/// What the titles begin with in common, without a trailing separator or number.
fn shared_prefix<'a>(mut titles: impl Iterator<Item = &'a str>) -> &'a str {
    let first = titles.next().unwrap_or_default();
    let length = titles.fold(first.len(), |length, title| {
        first[..length]
            .char_indices()
            .zip(title.chars())
            .find(|((_, a), b)| a != b)
            .map_or(length.min(title.len()), |((place, _), _)| place)
    });
    first[..length].trim_end_matches(|character: char| character.is_ascii_digit())
}

/// The status that a group shows: the one that most asks to be looked at.
pub fn urgency(status: NodeStatus) -> u8 {
    match status {
        NodeStatus::Failed => 8,
        NodeStatus::Running => 7,
        NodeStatus::Waiting => 6,
        NodeStatus::Queued => 5,
        NodeStatus::Pending => 4,
        NodeStatus::Blocked => 3,
        NodeStatus::Cancelled => 2,
        NodeStatus::Skipped => 1,
        NodeStatus::Succeeded => 0,
    }
}

/// Each distinct edge once, and for each edge the one that stands for it; the state of that is
/// the furthest of those it stands for.
fn edges(graph: &Graph, place: &[usize]) -> (Vec<GraphEdge>, Vec<usize>) {
    let mut edge_of = Vec::with_capacity(graph.edges.len());
    let mut known: HashMap<(usize, usize, When, Option<&str>), usize> = HashMap::new();
    let mut list: Vec<GraphEdge> = Vec::new();
    for edge in &graph.edges {
        let (from, to) = (place[edge.from], place[edge.to]);
        let next = list.len();
        let index = *known
            .entry((from, to, edge.when, edge.label.as_deref()))
            .or_insert(next);
        edge_of.push(index);
        if index == next {
            list.push(GraphEdge {
                from,
                to,
                ..edge.clone()
            });
        } else {
            list[index].state = furthest(list[index].state, edge.state);
        }
    }
    (list, edge_of)
}

/// Of edges drawn as one, the state that shows: any that was taken makes it taken.
pub(super) fn furthest(a: Option<EdgeState>, b: Option<EdgeState>) -> Option<EdgeState> {
    let rank = |state: Option<EdgeState>| match state {
        None => 0,
        Some(EdgeState::NotTaken) => 1,
        Some(EdgeState::Lost) => 2,
        Some(EdgeState::Unresolved) => 3,
        Some(EdgeState::Taken) => 4,
    };
    if rank(b) > rank(a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_fan_out_becomes_three_nodes() {
        let graph = collapse(&samples::fan(200)).expect("alike nodes");
        let ids: Vec<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["split", "work-… ×200", "join"]);
        assert_eq!(graph.edges.len(), 2);
    }

    #[test]
    fn stages_with_parents_of_their_own_collapse_too() {
        let graph = collapse(&samples::stages(50)).expect("alike nodes");
        let ids: Vec<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["split", "fetch-… ×50", "store-… ×50", "join"]);
        assert_eq!(graph.edges.len(), 3);
    }

    #[test]
    fn mixed_statuses_are_counted() {
        let mut graph = samples::fan(4);
        for (index, status) in [
            NodeStatus::Succeeded,
            NodeStatus::Failed,
            NodeStatus::Succeeded,
            NodeStatus::Running,
        ]
        .into_iter()
        .enumerate()
        {
            graph.nodes[index + 1].status = Some(status);
        }
        let graph = collapse(&graph).expect("alike nodes");
        assert_eq!(graph.nodes[1].detail, "◐ 1 ✓ 2 ✗ 1");
        assert_eq!(graph.nodes[1].status, Some(NodeStatus::Failed));
    }

    #[test]
    fn different_nodes_stay() {
        assert_eq!(collapse(&samples::diamond()), None);
        assert_eq!(collapse(&samples::switch()), None);
    }

    #[test]
    fn shared_prefixes_are_cut_between_characters() {
        assert_eq!(shared_prefix(["ö-12", "ö-17"].into_iter()), "ö-");
        assert_eq!(shared_prefix(["é", "è"].into_iter()), "");
        assert_eq!(shared_prefix(["ab", "abc"].into_iter()), "ab");
    }
}
