//! Boxes and arrows of one graph and of the bodies in it: their sizes, their places, and the
//! numbers they have in the definition.

use std::collections::BTreeMap;

use windlass_core::definition::{Node, When};

use super::{FEW, Frame, KINDS, LARGE, MAX_BOXES, Numbers, PackOptions, Packed, Progression, WIDE};
use super::{TooManyBoxes, join};
use crate::collapse::{Collapsed, collapse_groups};
use crate::layout::{Layout, Sizes, layout};
use crate::model::{self, Graph};
use crate::text::{clean, text_width, truncate};

const NODE_HEIGHT: i64 = 48;
const LAYER_GAP: i64 = 48;
const LABEL_GAP: i64 = 20;
const MARGIN: i64 = 16;
/// Room for a status and the space around texts.
const BESIDE_TEXT: f64 = 52.0;
const LEAST_WIDTH: i64 = 128;
/// A loop or a group shows how many of its members stand where.
const TALLY_WIDTH: i64 = 176;
const MAX_TITLE: usize = 36;
const MAX_LABEL: usize = 28;
/// Longer texts are cut: a box shows a few words, and the definition has the rest.
const MAX_TEXT: usize = 200;

/// Where a graph is drawn.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) left: i64,
    pub(super) top: i64,
    pub(super) frame: i64,
}

/// A graph with its layout, and the bodies that are drawn in it.
pub(super) struct Scene<'a> {
    inside: String,
    nodes: &'a [Node],
    graph: Graph,
    /// By node and by edge, what stands for it; none if each stands for itself.
    groups: Option<(Vec<usize>, Vec<usize>)>,
    /// By box, its body.
    bodies: BTreeMap<usize, Scene<'a>>,
    sizes: Vec<(i64, i64)>,
    layout: Layout,
    tops: Vec<i64>,
    pub(super) width: i64,
    pub(super) height: i64,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        nodes: &'a [Node],
        inside: &str,
        options: &PackOptions,
    ) -> Result<Self, TooManyBoxes> {
        let whole = Graph::of_nodes(nodes);
        let (graph, groups) = match collapsed(&whole, inside, options) {
            Some(Collapsed {
                graph,
                node_of,
                edge_of,
            }) => (graph, Some((node_of, edge_of))),
            None => (whole, None),
        };
        if graph.nodes.len() > MAX_BOXES {
            return Err(TooManyBoxes {
                boxes: graph.nodes.len(),
            });
        }
        let mut scene = Self {
            inside: inside.to_owned(),
            nodes,
            bodies: BTreeMap::new(),
            sizes: Vec::new(),
            layout: Layout::default(),
            tops: Vec::new(),
            width: 0,
            height: 0,
            graph,
            groups,
        };
        scene.add_bodies(options)?;
        scene.place();
        Ok(scene)
    }

    /// By box, the nodes that it stands for, ascending.
    fn members(&self) -> Vec<Vec<usize>> {
        gathered(
            self.groups.as_ref().map(|(nodes, _)| nodes),
            self.graph.nodes.len(),
        )
    }

    fn add_bodies(&mut self, options: &PackOptions) -> Result<(), TooManyBoxes> {
        let mut drawn = self.graph.nodes.len();
        for (shown, members) in self.members().into_iter().enumerate() {
            let [node] = members[..] else { continue };
            let Some(body) = model::body(&self.nodes[node]) else {
                continue;
            };
            let path = join(&self.inside, &self.nodes[node].id);
            if options.all_bodies || options.open.contains(&path) {
                let scene = Self::new(&body.nodes, &path, options)?;
                drawn += scene.drawn();
                if drawn > MAX_BOXES {
                    return Err(TooManyBoxes { boxes: drawn });
                }
                self.bodies.insert(shown, scene);
            }
        }
        Ok(())
    }

    fn drawn(&self) -> usize {
        self.graph.nodes.len() + self.bodies.values().map(Self::drawn).sum::<usize>()
    }

    fn place(&mut self) {
        let graph = &self.graph;
        let members = self.members();
        self.sizes = (0..graph.nodes.len())
            .map(|node| {
                let is_loop = model::body(&self.nodes[members[node][0]]).is_some();
                let own = own_width(graph, node, members[node].len() > 1 || is_loop);
                match self.bodies.get(&node) {
                    Some(body) => (
                        own.max(body.width + 2 * MARGIN) | 1,
                        NODE_HEIGHT + body.height + MARGIN,
                    ),
                    None => (own, NODE_HEIGHT),
                }
            })
            .collect();
        let label = |label: &Option<String>| match label {
            Some(label) => text_width(&shown_label(label), 11.0) as i64 + 8,
            None => 0,
        };
        let sizes = Sizes {
            nodes: self.sizes.iter().map(|(width, _)| *width).collect(),
            labels: graph.edges.iter().map(|edge| label(&edge.label)).collect(),
            gap: 24,
            via_gap: 16,
            bundle: true,
            limit: None,
        };
        self.layout = layout(graph, &sizes).expect("without a limit every graph has a layout");
        let layers = self.layout.layers.len();
        let (mut heights, mut gaps) = (vec![NODE_HEIGHT; layers], vec![LAYER_GAP; layers]);
        for (node, (_, height)) in self.sizes.iter().enumerate() {
            let layer = self.layout.slots[node].layer;
            heights[layer] = heights[layer].max(*height);
        }
        for segment in &self.layout.segments {
            let (from, to) = (
                &self.layout.slots[segment.from],
                &self.layout.slots[segment.to],
            );
            // A long way sideways needs a longer way down, or the curve lies flat.
            let slack = ((from.center - to.center).abs() / 12).min(60);
            let label = segment.label.map_or(0, |_| LABEL_GAP);
            gaps[from.layer] = gaps[from.layer].max(LAYER_GAP + slack + label);
        }
        let mut top = MARGIN;
        for (height, gap) in heights.iter().zip(&gaps) {
            self.tops.push(top);
            top += height + gap;
        }
        let last = gaps.last().copied().unwrap_or(0);
        self.width = self.layout.width + 2 * MARGIN;
        self.height = top - last + MARGIN;
    }

    /// Appends everything to the arrays.
    pub(super) fn write(&self, numbers: &Numbers, area: Area, packed: &mut Packed) {
        let first_box = packed.nodes.id.len();
        let (first_node, first_edge) = numbers.bodies[&self.inside];
        for (node, members) in self.members().into_iter().enumerate() {
            self.write_box(node, &members, first_node, area, packed);
        }
        self.write_arrows(first_box, first_edge, area, packed);
        for (&node, body) in &self.bodies {
            let (x, y) = self.corner(node, area);
            let (width, height) = self.sizes[node];
            let frame = packed.frames.len() as i64;
            let inner = Area {
                left: x + (width - body.width) / 2,
                top: y + NODE_HEIGHT,
                frame,
            };
            packed.frames.push(Frame {
                node: first_box + node,
                x,
                y,
                w: width,
                h: height,
                frame: area.frame,
            });
            body.write(numbers, inner, packed);
        }
    }

    fn corner(&self, node: usize, area: Area) -> (i64, i64) {
        let slot = &self.layout.slots[node];
        let x = area.left + MARGIN + slot.center - self.sizes[node].0 / 2;
        (x, area.top + self.tops[slot.layer])
    }

    fn write_box(
        &self,
        node: usize,
        members: &[usize],
        first_node: usize,
        area: Area,
        packed: &mut Packed,
    ) {
        let shown = &self.graph.nodes[node];
        let first = &self.nodes[members[0]];
        let boxes = &mut packed.nodes;
        if members.len() > 1 {
            let numbers: Vec<usize> = members.iter().map(|member| first_node + member).collect();
            let all = Progression::all(&numbers);
            packed.members.insert(boxes.id.len(), all);
        }
        let (x, y) = self.corner(node, area);
        let (width, height) = self.sizes[node];
        let kind = model::kind(first);
        boxes.id.push(join(&self.inside, &first.id));
        let count = format!(" ×{}", members.len());
        let title = shown.title();
        boxes
            .label
            .push(cut(title.strip_suffix(&*count).unwrap_or(title)));
        boxes.detail.push(cut(&shown.detail));
        let place = KINDS.iter().position(|known| *known == kind);
        boxes.kind.push(place.unwrap_or(0) as u8);
        boxes.index.push(first_node + members[0]);
        boxes.count.push(members.len());
        boxes.x.push(x);
        boxes.y.push(y);
        boxes.w.push(width);
        boxes.h.push(height);
        boxes.frame.push(area.frame);
    }

    fn write_arrows(&self, first_box: usize, first_edge: usize, area: Area, packed: &mut Packed) {
        let edge_of = self.groups.as_ref().map(|(_, edges)| edges);
        let members = gathered(edge_of, self.graph.edges.len());
        let mut via = self.points(area);
        let arrows = &mut packed.edges;
        for (place, edge) in self.graph.edges.iter().enumerate() {
            let arrow = arrows.from.len();
            arrows.from.push(first_box + edge.from);
            arrows.to.push(first_box + edge.to);
            arrows.kind.push(match edge.when {
                When::Success => 0,
                When::Failure => 1,
                When::Always => 2,
            });
            arrows.index.push(first_edge + members[place][0]);
            if let Some(label) = &edge.label {
                arrows.label.insert(arrow, cut(label));
            }
            if let Some(points) = via.remove(&place) {
                arrows.via.insert(arrow, points);
            }
            if members[place].len() > 1 {
                let numbers: Vec<usize> = members[place].iter().map(|it| first_edge + it).collect();
                arrows.members.insert(arrow, Progression::all(&numbers));
            }
        }
    }

    /// By edge, where it passes the layers between its ends, from its source on.
    fn points(&self, area: Area) -> BTreeMap<usize, Vec<i64>> {
        let mut passed: BTreeMap<usize, Vec<(usize, i64)>> = BTreeMap::new();
        for segment in &self.layout.segments {
            let slot = &self.layout.slots[segment.to];
            if !slot.is_node {
                for &edge in &segment.edges {
                    let x = area.left + MARGIN + slot.center;
                    passed.entry(edge).or_default().push((slot.layer, x));
                }
            }
        }
        let bottom = |layer: usize| {
            let nodes = self.layout.layers[layer].iter();
            let nodes = nodes.filter(|&&slot| self.layout.slots[slot].is_node);
            let height = nodes.map(|&node| self.sizes[node].1).max();
            area.top + self.tops[layer] + height.unwrap_or(NODE_HEIGHT)
        };
        let mut points = BTreeMap::new();
        for (edge, mut layers) in passed {
            layers.sort_unstable();
            let mut line = Vec::new();
            for (layer, x) in layers {
                line.push([x, area.top + self.tops[layer]]);
                line.push([x, bottom(layer)]);
            }
            // Straight pieces need their ends alone.
            let mut kept: Vec<[i64; 2]> = Vec::new();
            for point in line {
                if let [.., a, b] = kept[..]
                    && a[0] == b[0]
                    && b[0] == point[0]
                {
                    kept.pop();
                }
                kept.push(point);
            }
            let edge_from = self.graph.edges[edge].from;
            let edge_to = self.graph.edges[edge].to;
            if self.layout.slots[edge_from].layer > self.layout.slots[edge_to].layer {
                kept.reverse();
            }
            points.insert(edge, kept.concat());
        }
        points
    }
}

/// Alike nodes as one, where they are many or the graph is large.
fn collapsed(whole: &Graph, inside: &str, options: &PackOptions) -> Option<Collapsed> {
    if options.all_nodes {
        return None;
    }
    let least = match whole.nodes.len() > LARGE {
        true => FEW,
        false => WIDE,
    };
    collapse_groups(whole, |group| {
        let first = join(inside, &whole.nodes[group[0]].id);
        group.len() >= least && !options.open.contains(&first)
    })
}

/// For each of `count` things, what it stands for, ascending.
fn gathered(stands_for: Option<&Vec<usize>>, count: usize) -> Vec<Vec<usize>> {
    let Some(stands_for) = stands_for else {
        return (0..count).map(|it| vec![it]).collect();
    };
    let mut members = vec![Vec::new(); count];
    for (member, &one) in stands_for.iter().enumerate() {
        members[one].push(member);
    }
    members
}

fn own_width(graph: &Graph, node: usize, has_tally: bool) -> i64 {
    let node = &graph.nodes[node];
    let title = text_width(&truncate(&clean(node.title()), MAX_TITLE), 13.0);
    let detail = text_width(&truncate(&clean(&node.detail), MAX_TITLE), 11.5);
    let least = if has_tally { TALLY_WIDTH } else { LEAST_WIDTH };
    (((title.max(detail) + BESIDE_TEXT) as i64).max(least) + 3) / 4 * 4 + 1
}

fn shown_label(label: &str) -> String {
    truncate(&clean(label), MAX_LABEL)
}

fn cut(text: &str) -> String {
    truncate(text, MAX_TEXT)
}
