//! A layered layout after Sugiyama, Tagawa and Toda (1981): longest-path layers, slots
//! that carry long edges through the layers between, an order with few crossings, and
//! places that keep chains straight.
//!
//! It knows widths in any unit and nothing of what is drawn. The same graph always
//! gets the same layout; the work is linear in slots and segments for a fixed number
//! of sweeps, and the number of slots is bounded.

mod order;
mod place;

use std::collections::{BTreeMap, HashMap, VecDeque};

use windlass_core::definition::When;

use super::Graph;

/// More slots than this for long edges would be a grey area, not a picture; edges past
/// it are drawn directly.
const MAX_VIA: usize = 20_000;

/// What the layout needs to know of the drawing.
pub(super) struct Sizes {
    /// Of each node.
    pub(super) nodes: Vec<i64>,
    /// Of each edge's label; 0 where there is none.
    pub(super) labels: Vec<i64>,
    /// Between two nodes.
    pub(super) gap: i64,
    /// Between a long edge and its neighbours.
    pub(super) via_gap: i64,
    /// Whether long edges with the same target or source run together.
    pub(super) bundle: bool,
    /// The width that must not be passed.
    pub(super) limit: Option<i64>,
}

/// Where everything stands. Slots `0..nodes` are the nodes; the rest carry long edges.
#[derive(Default)]
pub(super) struct Layout {
    pub(super) slots: Vec<Slot>,
    /// The slots of each layer, from left to right.
    pub(super) layers: Vec<Vec<usize>>,
    pub(super) segments: Vec<Segment>,
    /// Edges that were too many to be carried through the layers.
    pub(super) direct: Vec<usize>,
    pub(super) width: i64,
}

/// A place in a layer.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) layer: usize,
    /// Room for the node or the label that ends here.
    pub(super) width: i64,
    pub(super) center: i64,
    pub(super) is_node: bool,
}

/// A piece of one or more edges between neighbouring layers.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) when: When,
    /// The edges that share it.
    pub(super) edges: Vec<usize>,
    /// The edge whose label stands on it.
    pub(super) label: Option<usize>,
    /// Whether the edge points up, which happens only in a cycle.
    pub(super) reversed: bool,
}

/// Lays the graph out, or nothing if it cannot be done in the width.
pub(super) fn layout(graph: &Graph, sizes: &Sizes) -> Option<Layout> {
    let order = topological(graph);
    let levels = levels_of(graph, &order);
    let mut builder = Builder::new(graph, sizes, levels);
    builder.route(graph, &order);
    let mut layout = builder.finish();
    order::order(&mut layout);
    place::place(&mut layout, sizes).then_some(layout)
}

/// Each node's longest path from an entry.
pub(super) fn levels(graph: &Graph) -> Vec<usize> {
    levels_of(graph, &topological(graph))
}

fn levels_of(graph: &Graph, order: &[usize]) -> Vec<usize> {
    let mut outgoing = vec![Vec::new(); graph.nodes.len()];
    for edge in &graph.edges {
        let (from, to) = oriented(edge.from, edge.to, order);
        outgoing[from].push(to);
    }
    let mut by_place = vec![0; order.len()];
    for (node, &place) in order.iter().enumerate() {
        by_place[place] = node;
    }
    let mut levels = vec![0; graph.nodes.len()];
    for node in by_place {
        for &to in &outgoing[node] {
            if to != node {
                levels[to] = levels[to].max(levels[node] + 1);
            }
        }
    }
    levels
}

/// An edge as it points down the page.
fn oriented(from: usize, to: usize, order: &[usize]) -> (usize, usize) {
    if order[from] <= order[to] {
        (from, to)
    } else {
        (to, from)
    }
}

/// Each node's place in an order in which edges point forward. Definitions that were
/// not validated may have cycles; the first node in definition order breaks one.
fn topological(graph: &Graph) -> Vec<usize> {
    let count = graph.nodes.len();
    let mut outgoing = vec![Vec::new(); count];
    let mut missing = vec![0_usize; count];
    for edge in graph.edges.iter().filter(|edge| edge.from != edge.to) {
        outgoing[edge.from].push(edge.to);
        missing[edge.to] += 1;
    }
    let mut place = vec![usize::MAX; count];
    let mut ready: VecDeque<usize> = (0..count).filter(|&node| missing[node] == 0).collect();
    let mut placed = 0;
    let mut first_open = 0;
    while placed < count {
        let node = ready.pop_front().unwrap_or_else(|| {
            while place[first_open] != usize::MAX {
                first_open += 1;
            }
            first_open
        });
        if place[node] != usize::MAX {
            continue;
        }
        place[node] = placed;
        placed += 1;
        for &to in &outgoing[node] {
            missing[to] -= 1;
            if missing[to] == 0 {
                ready.push_back(to);
            }
        }
    }
    place
}

/// Whose way through the layers an edge shares: edges to one target run together, as
/// do edges from one source. One with a label runs alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Bundle {
    To(usize, When),
    From(usize, When),
    Alone(usize),
}

struct Builder<'a> {
    sizes: &'a Sizes,
    slots: Vec<Slot>,
    segments: Vec<Segment>,
    direct: Vec<usize>,
    via: HashMap<(Bundle, usize), usize>,
    known: HashMap<(usize, usize, When, Option<usize>), usize>,
}

impl<'a> Builder<'a> {
    fn new(graph: &Graph, sizes: &'a Sizes, levels: Vec<usize>) -> Self {
        let slots = (0..graph.nodes.len())
            .map(|node| Slot {
                layer: levels[node],
                width: sizes.nodes[node],
                center: 0,
                is_node: true,
            })
            .collect();
        Self {
            sizes,
            slots,
            segments: Vec::new(),
            direct: Vec::new(),
            via: HashMap::new(),
            known: HashMap::new(),
        }
    }

    fn route(&mut self, graph: &Graph, order: &[usize]) {
        let mut long_in: BTreeMap<(usize, u8), usize> = BTreeMap::new();
        let mut long_out = long_in.clone();
        for edge in &graph.edges {
            if self.slots[edge.from].layer + 1 < self.slots[edge.to].layer {
                *long_in.entry((edge.to, edge.when as u8)).or_default() += 1;
                *long_out.entry((edge.from, edge.when as u8)).or_default() += 1;
            }
        }
        // Labels at a node stand side by side.
        let mut label_room: BTreeMap<usize, i64> = BTreeMap::new();
        for (index, edge) in graph.edges.iter().enumerate() {
            let (from, to) = oriented(edge.from, edge.to, order);
            if from == to {
                continue;
            }
            let reversed = from != edge.from;
            let bundle = if edge.label.is_some() || reversed || !self.sizes.bundle {
                Bundle::Alone(index)
            } else if long_in.get(&(to, edge.when as u8)) >= long_out.get(&(from, edge.when as u8))
            {
                Bundle::To(to, edge.when)
            } else {
                Bundle::From(from, edge.when)
            };
            let Some(path) = self.path(from, to, bundle) else {
                self.direct.push(index);
                continue;
            };
            let room = self.sizes.labels[index];
            if room > 0 {
                *label_room.entry(path[1]).or_default() += room + 1;
            }
            for pair in path.windows(2) {
                let label = (edge.label.is_some() && pair[0] == from).then_some(index);
                let alone = (edge.label.is_some() || reversed).then_some(index);
                self.segment((pair[0], pair[1], edge.when, alone), index, label, reversed);
            }
        }
        for (slot, room) in label_room {
            self.slots[slot].width = self.slots[slot].width.max(room | 1);
        }
    }

    /// The slots an edge passes, both ends included.
    fn path(&mut self, from: usize, to: usize, bundle: Bundle) -> Option<Vec<usize>> {
        let between = self.slots[from].layer + 1..self.slots[to].layer;
        if self.via.len() + between.len() > MAX_VIA {
            return None;
        }
        let mut path = vec![from];
        for layer in between {
            let next = self.slots.len();
            let slot = *self.via.entry((bundle, layer)).or_insert(next);
            if slot == next {
                self.slots.push(Slot {
                    layer,
                    width: 1,
                    center: 0,
                    is_node: false,
                });
            }
            path.push(slot);
        }
        path.push(to);
        Some(path)
    }

    fn segment(
        &mut self,
        key: (usize, usize, When, Option<usize>),
        edge: usize,
        label: Option<usize>,
        reversed: bool,
    ) {
        let next = self.segments.len();
        let index = *self.known.entry(key).or_insert(next);
        if index == next {
            self.segments.push(Segment {
                from: key.0,
                to: key.1,
                when: key.2,
                edges: vec![edge],
                label,
                reversed,
            });
        } else {
            self.segments[index].edges.push(edge);
        }
    }

    fn finish(self) -> Layout {
        let depth = self.slots.iter().map(|slot| slot.layer + 1).max();
        let mut layers = vec![Vec::new(); depth.unwrap_or(0)];
        for (index, slot) in self.slots.iter().enumerate() {
            layers[slot.layer].push(index);
        }
        Layout {
            slots: self.slots,
            layers,
            segments: self.segments,
            direct: self.direct,
            width: 0,
        }
    }
}

impl Layout {
    /// For each slot, the slots above and below it.
    fn neighbours(&self) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let mut above = vec![Vec::new(); self.slots.len()];
        let mut below = vec![Vec::new(); self.slots.len()];
        for segment in &self.segments {
            above[segment.to].push(segment.from);
            below[segment.from].push(segment.to);
        }
        (above, below)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn sizes(graph: &Graph) -> Sizes {
        Sizes {
            nodes: vec![11; graph.nodes.len()],
            labels: graph.edges.iter().map(|_| 0).collect(),
            gap: 3,
            via_gap: 1,
            bundle: true,
            limit: None,
        }
    }

    fn laid_out(graph: &Graph) -> Layout {
        layout(graph, &sizes(graph)).expect("no limit to pass")
    }

    fn assert_sound(layout: &Layout) {
        for layer in &layout.layers {
            for pair in layer.windows(2) {
                let (a, b) = (&layout.slots[pair[0]], &layout.slots[pair[1]]);
                assert!(a.center + a.width / 2 < b.center - b.width / 2, "overlap");
            }
        }
        for segment in &layout.segments {
            let (from, to) = (&layout.slots[segment.from], &layout.slots[segment.to]);
            assert_eq!(from.layer + 1, to.layer);
        }
        for slot in &layout.slots {
            assert!(slot.center - slot.width / 2 >= 0);
            assert!(slot.center + slot.width / 2 < layout.width);
        }
    }

    #[test]
    fn a_chain_is_straight() {
        let layout = laid_out(&samples::chain());
        assert_sound(&layout);
        assert_eq!(layout.layers.len(), 3);
        assert!(layout.slots.iter().all(|slot| slot.center == 5));
    }

    #[test]
    fn a_diamond_is_symmetric() {
        let layout = laid_out(&samples::diamond());
        assert_sound(&layout);
        let center: Vec<i64> = layout.slots.iter().map(|slot| slot.center).collect();
        assert_eq!(center, [12, 5, 19, 12]);
    }

    #[test]
    fn long_edges_to_one_target_share_their_way() {
        let graph = samples::graph(
            "bus",
            "a\nb\nc\nd\nalert\na > b\nb > c\nc > d\nd > alert\na ! alert\nb ! alert\nc ! alert",
        );
        let layout = laid_out(&graph);
        assert_sound(&layout);
        assert_eq!(layout.slots.len(), 5 + 3);
    }

    #[test]
    fn cycles_and_loops_are_survived() {
        let graph = samples::graph("cycle", "a\nb\nc\na > b\nb > c\nc > a\nb > b");
        let layout = laid_out(&graph);
        assert_sound(&layout);
        assert!(layout.segments.iter().any(|segment| segment.reversed));
    }

    #[test]
    fn tangles_are_sound_and_the_same_each_time() {
        for seed in 0..20 {
            let graph = samples::tangle(60, seed);
            let (first, second) = (laid_out(&graph), laid_out(&graph));
            assert_sound(&first);
            let centers = |layout: &Layout| -> Vec<i64> {
                layout.slots.iter().map(|slot| slot.center).collect()
            };
            assert_eq!(centers(&first), centers(&second));
        }
    }

    #[test]
    fn a_thousand_nodes_take_bounded_room() {
        let layout = laid_out(&samples::tangle(1000, 7));
        assert_sound(&layout);
        let mut lines = String::new();
        for index in 0..1000 {
            lines += &format!("n{index}\n");
        }
        let mut graph = samples::graph("worst", &lines);
        for from in 0..1000 {
            for to in [from + 1, from + 400, 999] {
                if to < 1000 && to > from {
                    graph.edges.push(super::super::GraphEdge {
                        from,
                        to,
                        when: When::Success,
                        label: None,
                        state: None,
                    });
                }
            }
        }
        let layout = laid_out(&graph);
        assert_sound(&layout);
        assert!(layout.slots.len() <= 1000 + MAX_VIA);
        assert!(!layout.direct.is_empty());
    }

    #[test]
    fn a_limit_is_kept_or_refused() {
        let graph = samples::fan(5);
        let mut sizes = sizes(&graph);
        sizes.limit = Some(67);
        assert_eq!(layout(&graph, &sizes).map(|layout| layout.width), Some(67));
        sizes.limit = Some(66);
        assert!(layout(&graph, &sizes).is_none());
    }
}
