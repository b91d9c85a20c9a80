//! Boxes and lines in a terminal.
//!
//! A picture is tried in decreasing comfort: as it is, with short names, with alike
//! nodes drawn once, and at last as a list, which always fits. A line that passes
//! under another is interrupted (`─│─`); `┼` always joins.

mod canvas;
mod channel;
mod list;

#[cfg(test)]
mod tests;

use windlass_core::NodeStatus;
use windlass_core::definition::When;

use self::canvas::{Canvas, Paint};
use self::channel::Channel;
use super::collapse::collapse;
use super::layout::{Layout, Sizes, layout};
use super::text::{clean, columns, truncate};
use super::{Format, Graph, GraphNode, RenderOptions, TooLarge, glyph};

/// The most boxes that are drawn; past this, alike nodes are drawn once.
const MAX_BOXES: usize = 300;

/// The most nodes that are listed.
const MAX_LISTED: usize = 5000;

/// How much of names and labels is shown.
#[derive(Clone, Copy)]
struct Comfort {
    name: usize,
    label: usize,
    gap: i64,
}

const COMFORTS: [Comfort; 3] = [
    Comfort {
        name: 28,
        label: 20,
        gap: 3,
    },
    Comfort {
        name: 16,
        label: 12,
        gap: 1,
    },
    Comfort {
        name: 10,
        label: 8,
        gap: 1,
    },
];

pub(super) fn render(graph: &Graph, options: &RenderOptions) -> Result<String, TooLarge> {
    let mut text = picture(graph, options)?;
    for node in &graph.nodes {
        if let Some(body) = &node.body {
            text.push('\n');
            text.push_str(&list::render_body(body, options, 0));
        }
    }
    Ok(text)
}

fn picture(graph: &Graph, options: &RenderOptions) -> Result<String, TooLarge> {
    if graph.nodes.len() <= MAX_BOXES
        && let Some(picture) = boxes(graph, options)
    {
        return Ok(picture);
    }
    let collapsed = collapse(graph);
    if let Some(collapsed) = &collapsed
        && collapsed.nodes.len() <= MAX_BOXES
        && let Some(picture) = boxes(collapsed, options)
    {
        return Ok(picture);
    }
    let shown = match &collapsed {
        Some(collapsed) if graph.nodes.len() > MAX_BOXES => collapsed,
        _ => graph,
    };
    if shown.nodes.len() > MAX_LISTED {
        return Err(TooLarge {
            format: Format::Ascii,
            nodes: shown.nodes.len(),
            limit: MAX_LISTED,
        });
    }
    Ok(list::render(shown, options))
}

/// The picture, or nothing if it cannot be drawn in the width.
fn boxes(graph: &Graph, options: &RenderOptions) -> Option<String> {
    // Long edges that run together may meet where a line would suggest a way that is
    // not there; then they are tried apart.
    COMFORTS.iter().find_map(|comfort| {
        [true, false]
            .iter()
            .find_map(|bundle| Picture::new(graph, *comfort, *bundle, options)?.draw(options))
    })
}

/// A node's texts.
struct Box {
    lines: Vec<String>,
    width: i64,
}

impl Box {
    fn new(node: &GraphNode, limit: usize) -> Self {
        let mark = node.status.map(|status| format!("{} ", glyph(status)));
        let title = format!("{}{}", mark.unwrap_or_default(), clean(node.title()));
        let mut lines = vec![truncate(&title, limit)];
        let subtitle = clean(&node.subtitle());
        if !subtitle.is_empty() {
            lines.push(truncate(&subtitle, limit));
        }
        let text = lines.iter().map(|line| columns(line)).max().unwrap_or(0);
        // Odd, so that a box has a middle and lines between boxes are straight.
        let width = (text.max(5) as i64 + 4) | 1;
        Self { lines, width }
    }

    fn height(&self) -> usize {
        self.lines.len() + 2
    }
}

struct Picture<'a> {
    graph: &'a Graph,
    boxes: Vec<Box>,
    labels: Vec<String>,
    layout: Layout,
}

impl<'a> Picture<'a> {
    fn new(
        graph: &'a Graph,
        comfort: Comfort,
        bundle: bool,
        options: &RenderOptions,
    ) -> Option<Self> {
        let boxes: Vec<Box> = graph
            .nodes
            .iter()
            .map(|node| Box::new(node, comfort.name))
            .collect();
        let labels: Vec<String> = graph
            .edges
            .iter()
            .map(|edge| clean(edge.label.as_deref().unwrap_or("")))
            .map(|label| truncate(&label, comfort.label))
            .collect();
        let sizes = Sizes {
            nodes: boxes.iter().map(|shape| shape.width).collect(),
            labels: labels.iter().map(|label| columns(label) as i64).collect(),
            gap: comfort.gap,
            via_gap: 1,
            bundle,
            limit: Some(options.width as i64),
        };
        let layout = layout(graph, &sizes)?;
        let drawable = layout.direct.is_empty()
            && !layout.segments.iter().any(|segment| segment.reversed)
            && !graph.edges.iter().any(|edge| edge.from == edge.to);
        drawable.then_some(Self {
            graph,
            boxes,
            labels,
            layout,
        })
    }

    fn draw(&self, options: &RenderOptions) -> Option<String> {
        let mut channels = Vec::new();
        for layer in 0..self.layout.layers.len() {
            channels.push(Channel::route(self, layer)?);
        }
        let mut canvas = Canvas::default();
        let mut top = 0;
        for (layer, channel) in self.layout.layers.iter().zip(&channels) {
            let height = self.draw_layer(&mut canvas, layer, top);
            channel.draw(&mut canvas, top + height - 1);
            top += height + channel.height();
        }
        let mut text = heading(self.graph, options);
        text += &canvas.text(options.color);
        text += &legend(self.graph);
        Some(text)
    }

    /// Draws the boxes of a layer, all as high as the highest, and returns that height.
    fn draw_layer(&self, canvas: &mut Canvas, layer: &[usize], top: usize) -> usize {
        let nodes = layer
            .iter()
            .filter(|&&slot| self.layout.slots[slot].is_node);
        let height = nodes.map(|&slot| self.boxes[slot].height()).max();
        let height = height.unwrap_or(0);
        for &slot in layer {
            let center = self.layout.slots[slot].center as usize;
            if self.layout.slots[slot].is_node {
                self.draw_box(canvas, slot, (top, center), height);
            } else {
                let when = self.via_when(slot);
                for row in top..top + height {
                    canvas.put(row, center, vertical(when), Paint::of_edge(when));
                }
            }
        }
        height
    }

    fn draw_box(&self, canvas: &mut Canvas, node: usize, at: (usize, usize), height: usize) {
        let shape = &self.boxes[node];
        let (top, center) = at;
        let left = center - shape.width as usize / 2;
        let right = left + shape.width as usize - 1;
        let paint = Paint::of_status(self.graph.nodes[node].status);
        let bottom = top + height - 1;
        for column in left + 1..right {
            canvas.put(top, column, "─", paint);
            canvas.put(bottom, column, "─", paint);
        }
        for row in top + 1..bottom {
            canvas.put(row, left, "│", paint);
            canvas.put(row, right, "│", paint);
        }
        for (row, column, corner) in [
            (top, left, "┌"),
            (top, right, "┐"),
            (bottom, left, "└"),
            (bottom, right, "┘"),
        ] {
            canvas.put(row, column, corner, paint);
        }
        for (index, line) in shape.lines.iter().enumerate() {
            let paint = if index == 0 { paint } else { Paint::Dim };
            let start = center + 1 - columns(line).div_ceil(2);
            canvas.write(top + 1 + index, start, line, paint);
        }
    }

    /// A slot of a long edge carries edges of one kind only.
    fn via_when(&self, slot: usize) -> When {
        let mut segments = self.layout.segments.iter();
        segments
            .find(|segment| segment.to == slot)
            .map_or(When::Success, |segment| segment.when)
    }
}

fn heading(graph: &Graph, options: &RenderOptions) -> String {
    match truncate(&clean(&graph.title), options.width) {
        title if title.is_empty() => title,
        title => format!("{title}\n\n"),
    }
}

/// What the lines mean, where not all of them are plain.
fn legend(graph: &Graph) -> String {
    let has = |when| graph.edges.iter().any(|edge| edge.when == when);
    let mut parts = Vec::new();
    if has(When::Failure) {
        parts.push("╌╌ after a failure");
    }
    if has(When::Always) {
        parts.push("┄┄ always");
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("\n{}\n", parts.join("   "))
}

fn vertical(when: When) -> &'static str {
    match when {
        When::Success => "│",
        When::Failure => "╎",
        When::Always => "┆",
    }
}

fn horizontal(when: When) -> &'static str {
    match when {
        When::Success => "─",
        When::Failure => "╌",
        When::Always => "┄",
    }
}

impl Paint {
    fn of_status(status: Option<NodeStatus>) -> Self {
        match status {
            None => Self::Plain,
            Some(NodeStatus::Succeeded) => Self::Green,
            Some(NodeStatus::Failed) => Self::Red,
            Some(NodeStatus::Running) => Self::Blue,
            Some(NodeStatus::Queued | NodeStatus::Waiting) => Self::Yellow,
            Some(NodeStatus::Blocked | NodeStatus::Cancelled) => Self::Magenta,
            Some(NodeStatus::Pending | NodeStatus::Skipped) => Self::Dim,
        }
    }

    fn of_edge(when: When) -> Self {
        match when {
            When::Failure => Self::Red,
            When::Success | When::Always => Self::Plain,
        }
    }
}
