//! A layout for a program that draws by itself: numbers in parallel arrays, without statuses.
//!
//! It derives from a definition alone, so it can be kept by the definition's digest. Nodes and
//! edges are numbered as in the plan: the top level first, then each body, outermost first.
//! What stands for several nodes names them by these numbers, and so do the statuses of a run.

mod boxes;
mod progression;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use serde::Serialize;
use windlass_core::definition::{Definition, Node};
use windlass_core::plan::NodeKind;

use crate::model::{self, Graph};
use boxes::{Area, Scene};
pub use progression::Progression;

/// In graphs of more nodes, a few alike nodes are drawn as one.
const LARGE: usize = 300;

/// How many alike nodes are drawn as one in a graph that is not large.
const WIDE: usize = 20;

/// The same in a large one.
const FEW: usize = 3;

/// The most boxes in one layout.
pub const MAX_BOXES: usize = 100_000;

/// What is drawn of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackOptions {
    /// Whether every node is drawn, and none stands for others.
    pub all_nodes: bool,
    /// Whether what is inside loops is drawn.
    pub all_bodies: bool,
    /// Groups whose members, and loops whose bodies, are drawn: a group by its first member,
    /// both by their paths without iterations.
    pub open: BTreeSet<String>,
    /// Whether the ids of all nodes are listed, those inside groups and loops as well.
    pub ids: bool,
}

/// A definition's graph, laid out. Lengths are in CSS pixels; `x` and `y` are those of the
/// upper left corner.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Packed {
    /// The shape of this object; 1.
    pub v: u32,
    /// The workflow's name for people, or its id.
    pub title: String,
    /// Of the whole picture.
    pub width: i64,
    /// Of the whole picture.
    pub height: i64,
    /// Nodes of the definition, with those that are not drawn.
    pub total: usize,
    /// What `nodes.kind` numbers.
    pub kinds: [&'static str; KINDS.len()],
    /// The boxes.
    pub nodes: Boxes,
    /// The arrows.
    pub edges: Arrows,
    /// Bodies that are drawn. `nodes.frame` numbers them.
    pub frames: Vec<Frame>,
    /// By box, the nodes that a group stands for.
    pub members: BTreeMap<usize, Vec<Progression>>,
    /// By number, the path of every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
}

/// Boxes as parallel arrays.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Boxes {
    /// The path without iterations; of a group, that of its first member.
    pub id: Vec<String>,
    /// What people call it.
    pub label: Vec<String>,
    /// What it does.
    pub detail: Vec<String>,
    /// Its place in `kinds`.
    pub kind: Vec<u8>,
    /// Its number in the definition; of a group, that of its first member.
    pub index: Vec<usize>,
    /// How many nodes it stands for.
    pub count: Vec<usize>,
    /// The left edge.
    pub x: Vec<i64>,
    /// The upper edge.
    pub y: Vec<i64>,
    /// The width.
    pub w: Vec<i64>,
    /// The height; that of a loop whose body is drawn has the body in it.
    pub h: Vec<i64>,
    /// The body that it is in; -1 for the top level.
    pub frame: Vec<i64>,
}

/// Arrows as parallel arrays.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Arrows {
    /// The box that it leaves.
    pub from: Vec<usize>,
    /// The box that it reaches.
    pub to: Vec<usize>,
    /// 0 after success, 1 after failure, 2 always.
    pub kind: Vec<u8>,
    /// Its number in the definition; of several, that of the first.
    pub index: Vec<usize>,
    /// By arrow, its condition or the cases that lead this way.
    pub label: BTreeMap<usize, String>,
    /// By arrow, the points that it passes between its ends: `[x, y, x, y, …]`.
    pub via: BTreeMap<usize, Vec<i64>>,
    /// By arrow, the edges that it stands for, where there are several.
    pub members: BTreeMap<usize, Vec<Progression>>,
}

/// A body that is drawn.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Frame {
    /// The box of its loop.
    pub node: usize,
    /// The left edge.
    pub x: i64,
    /// The upper edge.
    pub y: i64,
    /// The width.
    pub w: i64,
    /// The height.
    pub h: i64,
    /// The body that its loop is in; -1 for the top level.
    pub frame: i64,
}

/// What nodes are, by their number.
const KINDS: [NodeKind; 7] = [
    NodeKind::Action,
    NodeKind::ForEach,
    NodeKind::While,
    NodeKind::RetryUntil,
    NodeKind::Subworkflow,
    NodeKind::Signal,
    NodeKind::Delay,
];

/// Lays a definition's graph out.
///
/// # Errors
/// What is drawn has more boxes than [`MAX_BOXES`].
pub fn pack(definition: &Definition, options: &PackOptions) -> Result<Packed, TooManyBoxes> {
    let numbers = Numbers::of(definition);
    let mut packed = Packed {
        v: 1,
        title: Graph::title_of(definition),
        total: numbers.paths.len(),
        kinds: KINDS.map(kind_name),
        ..Packed::default()
    };
    let scene = Scene::new(&definition.nodes, "", options)?;
    (packed.width, packed.height) = (scene.width, scene.height);
    let area = Area {
        left: 0,
        top: 0,
        frame: -1,
    };
    scene.write(&numbers, area, &mut packed);
    if options.ids {
        packed.ids = Some(numbers.paths);
    }
    Ok(packed)
}

fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Action => "action",
        NodeKind::ForEach => "forEach",
        NodeKind::While => "while",
        NodeKind::RetryUntil => "retryUntil",
        NodeKind::Subworkflow => "subworkflow",
        NodeKind::Signal => "signal",
        NodeKind::Delay => "delay",
    }
}

/// A layout would have more boxes than [`MAX_BOXES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyBoxes {
    boxes: usize,
}

impl fmt::Display for TooManyBoxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let boxes = self.boxes;
        write!(
            f,
            "the layout would have {boxes} boxes, and has at most {MAX_BOXES}; let alike nodes be \
             drawn as one (without `collapse=none`), and open fewer of them with `open`"
        )
    }
}

impl std::error::Error for TooManyBoxes {}

/// The numbers that a plan gives to nodes and edges.
struct Numbers {
    /// By node, its path without iterations.
    paths: Vec<String>,
    /// By the path of a loop, the numbers of the first node and the first edge of its body;
    /// the empty path is the top level.
    bodies: BTreeMap<String, (usize, usize)>,
}

impl Numbers {
    fn of(definition: &Definition) -> Self {
        let mut numbers = Self {
            paths: Vec::new(),
            bodies: BTreeMap::new(),
        };
        let mut edges = 0;
        let mut waiting: VecDeque<(String, &[Node])> =
            VecDeque::from([(String::new(), &*definition.nodes)]);
        while let Some((path, nodes)) = waiting.pop_front() {
            let first = (numbers.paths.len(), edges);
            edges += Graph::count_edges(nodes);
            for node in nodes {
                let inner = join(&path, &node.id);
                if let Some(body) = model::body(node) {
                    waiting.push_back((inner.clone(), &body.nodes));
                }
                numbers.paths.push(inner);
            }
            numbers.bodies.insert(path, first);
        }
        numbers
    }
}

/// A node's path inside a loop.
fn join(inside: &str, id: &str) -> String {
    match inside {
        "" => id.to_owned(),
        inside => format!("{inside}/{id}"),
    }
}
