//! A picture that stands alone: no script, no font and no file beside it, light or dark
//! as the reader prefers, with every status in words as well as in colour.

mod style;

use std::borrow::Cow;
use std::fmt::Write;

use windlass_core::NodeStatus;
use windlass_core::definition::When;
use windlass_core::routing::EdgeState;

use super::collapse::{collapse, furthest};
use super::layout::{Layout, Segment, Sizes, layout};
use super::text::{clean, text_width, truncate};
use super::{Format, Graph, GraphNode, TooLarge, glyph};

/// Larger graphs are drawn with alike nodes as one.
const MAX_NODES: usize = 2000;

const MARGIN: i64 = 24;
const TITLE_HEIGHT: i64 = 34;
const LEGEND_HEIGHT: i64 = 26;
const NODE_HEIGHT: i64 = 50;
const LAYER_GAP: i64 = 52;
/// Taken by a channel whose edges have labels, so that these stand free of the curves.
const LABEL_GAP: i64 = 22;
const MAX_LABEL: usize = 28;
const MAX_TITLE: usize = 36;

pub(super) fn render(graph: &Graph) -> Result<String, TooLarge> {
    let (mut panels, mut links) = (Vec::new(), Vec::new());
    collect(graph, &mut panels, &mut links)?;
    let pictures: Vec<Picture<'_>> = panels.iter().map(Panel::picture).collect();
    let width = pictures.iter().map(|picture| picture.width).max();
    let width = width.unwrap_or(2 * MARGIN);
    let height: i64 = pictures.iter().map(|picture| picture.height).sum();
    let mut out = String::new();
    let title = escape(&graph.title);
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"windlass-title\">"
    );
    let _ = writeln!(out, "<title id=\"windlass-title\">{title}</title>");
    out += style::STYLE;
    out += style::MARKERS;
    let _ = writeln!(
        out,
        "<rect class=\"page\" width=\"{width}\" height=\"{height}\" rx=\"12\"/>"
    );
    draw_links(&pictures, &links, &mut out);
    let mut top = 0;
    for (index, picture) in pictures.iter().enumerate() {
        if index == 0 {
            picture.draw(&mut out);
        } else {
            let _ = writeln!(
                out,
                "<g id=\"windlass-body-{index}\" transform=\"translate(0 {top})\">"
            );
            picture.draw_frame(&mut out);
            picture.draw(&mut out);
            out += "</g>\n";
        }
        top += picture.height;
    }
    out += "</svg>\n";
    Ok(out)
}

/// Leads from a loop's node to the panel of its body.
struct BodyLink {
    panel: usize,
    node: usize,
    body: usize,
}

/// The graph, and every body in it as a panel of its own beneath.
fn collect<'a>(
    graph: &'a Graph,
    panels: &mut Vec<Panel<'a>>,
    links: &mut Vec<BodyLink>,
) -> Result<(), TooLarge> {
    let panel = panels.len();
    panels.push(Panel::new(graph)?);
    for node in &graph.nodes {
        let Some(body) = node.body.as_deref() else {
            continue;
        };
        let drawn = panels[panel].graph.nodes.iter();
        let place = drawn.clone().position(|it| it.id == node.id);
        links.extend(place.map(|place| BodyLink {
            panel,
            node: place,
            body: panels.len(),
        }));
        collect(body, panels, links)?;
    }
    Ok(())
}

/// Lines from loops to their bodies, along the left edge and under everything else.
fn draw_links(pictures: &[Picture<'_>], links: &[BodyLink], out: &mut String) {
    let tops: Vec<i64> = pictures
        .iter()
        .scan(0, |top, picture| {
            let here = *top;
            *top += picture.height;
            Some(here)
        })
        .collect();
    for (number, link) in links.iter().enumerate() {
        let picture = &pictures[link.panel];
        let slot = &picture.layout.slots[link.node];
        let x = picture.left() + slot.center - picture.boxes[link.node].width / 2;
        let y = tops[link.panel] + picture.tops[slot.layer] + NODE_HEIGHT / 2;
        let gutter = 3 + 3 * (number as i64 % 3);
        let _ = writeln!(
            out,
            "<path class=\"link\" fill=\"none\" d=\"M{x} {y}H{gutter}V{}H{}\"/>",
            tops[link.body] + MARGIN + 6,
            MARGIN / 2
        );
    }
}

/// One graph with its layout.
struct Panel<'a> {
    graph: Cow<'a, Graph>,
    layout: Layout,
    boxes: Vec<Box>,
    labels: Vec<String>,
}

impl<'a> Panel<'a> {
    fn new(graph: &'a Graph) -> Result<Self, TooLarge> {
        let collapsed = if graph.nodes.len() > MAX_NODES {
            collapse(graph)
        } else {
            None
        };
        let graph = collapsed.map_or(Cow::Borrowed(graph), Cow::Owned);
        if graph.nodes.len() > MAX_NODES {
            return Err(TooLarge {
                format: Format::Svg,
                nodes: graph.nodes.len(),
                limit: MAX_NODES,
            });
        }
        let boxes: Vec<Box> = graph.nodes.iter().map(Box::new).collect();
        let labels: Vec<String> = graph
            .edges
            .iter()
            .map(|edge| truncate(&clean(edge.label.as_deref().unwrap_or("")), MAX_LABEL))
            .collect();
        let sizes = Sizes {
            nodes: boxes.iter().map(|shape| shape.width).collect(),
            labels: labels.iter().map(|label| label_width(label)).collect(),
            gap: 28,
            via_gap: 16,
            bundle: true,
            limit: None,
        };
        let layout = layout(&graph, &sizes).expect("without a limit every graph has a layout");
        Ok(Self {
            graph,
            layout,
            boxes,
            labels,
        })
    }

    fn picture(&self) -> Picture<'_> {
        Picture::new(&self.graph, &self.layout, &self.boxes, &self.labels)
    }
}

/// A node's texts and the width they need.
struct Box {
    title: String,
    subtitle: String,
    width: i64,
}

impl Box {
    fn new(node: &GraphNode) -> Self {
        let title = truncate(&clean(node.title()), MAX_TITLE);
        let subtitle = truncate(&clean(&node.subtitle()), MAX_TITLE + 8);
        let mut first = text_width(&title, 14.0) * 1.06;
        let mut second = text_width(&subtitle, 11.5);
        if let Some(status) = node.status {
            first += 22.0;
            second += text_width(status.as_str(), 11.5) + 16.0;
        }
        let width = (first.max(second) + 32.0).max(112.0) as i64;
        Self {
            title,
            subtitle,
            width: width | 1,
        }
    }
}

struct Picture<'a> {
    graph: &'a Graph,
    layout: &'a Layout,
    boxes: &'a [Box],
    labels: &'a [String],
    /// The top of each layer.
    tops: Vec<i64>,
    width: i64,
    height: i64,
    has_legend: bool,
}

impl<'a> Picture<'a> {
    fn new(graph: &'a Graph, layout: &'a Layout, boxes: &'a [Box], labels: &'a [String]) -> Self {
        let mut gaps = vec![LAYER_GAP; layout.layers.len()];
        for segment in &layout.segments {
            let spread = layout.slots[segment.from].center - layout.slots[segment.to].center;
            // A long way sideways needs a longer way down, or the curve lies flat.
            let slack = (spread.abs() / 12).min(60);
            let label = if segment.label.is_some() {
                LABEL_GAP
            } else {
                0
            };
            let gap = &mut gaps[layout.slots[segment.from].layer];
            *gap = (*gap).max(LAYER_GAP + label + slack);
        }
        let mut tops = Vec::new();
        let mut top = MARGIN + TITLE_HEIGHT;
        for gap in &gaps {
            tops.push(top);
            top += NODE_HEIGHT + gap;
        }
        let bottom = tops.last().map_or(top, |last| last + NODE_HEIGHT);
        let has_legend = graph.edges.iter().any(|edge| edge.when != When::Success);
        let legend = if has_legend { LEGEND_HEIGHT } else { 0 };
        let least = heading_width(&clean(&graph.title)).ceil() as i64;
        let legend_width = if has_legend { 330 } else { 0 };
        let title_width = least.clamp(legend_width, 600.max(layout.width).max(legend_width));
        Self {
            graph,
            layout,
            boxes,
            labels,
            tops,
            width: layout.width.max(title_width) + 2 * MARGIN,
            height: bottom + legend + MARGIN,
            has_legend,
        }
    }

    /// The box around a body.
    fn draw_frame(&self, out: &mut String) {
        let (width, height) = (self.width - MARGIN, self.height - MARGIN / 2);
        let _ = writeln!(
            out,
            "<rect class=\"body\" x=\"{}\" y=\"0\" width=\"{width}\" height=\"{height}\" \
             rx=\"10\"/>",
            MARGIN / 2
        );
    }

    fn draw(&self, out: &mut String) {
        let heading = escape(&fitting(&self.graph.title, self.width - 2 * MARGIN));
        let _ = writeln!(
            out,
            "<text class=\"heading\" x=\"{MARGIN}\" y=\"{}\">{heading}</text>",
            MARGIN + 12
        );
        self.draw_edges(out);
        for index in 0..self.graph.nodes.len() {
            self.draw_node(out, index);
        }
        self.draw_labels(out);
        if self.has_legend {
            self.draw_legend(out);
        }
    }

    /// Centres the layout under a title that is wider.
    fn left(&self) -> i64 {
        (self.width - self.layout.width) / 2
    }

    fn draw_edges(&self, out: &mut String) {
        out.push_str("<g fill=\"none\">\n");
        for &edge in &self.layout.direct {
            let edge = &self.graph.edges[edge];
            let segment = Segment {
                from: edge.from,
                to: edge.to,
                when: edge.when,
                edges: Vec::new(),
                label: None,
                reversed: false,
            };
            self.draw_path(out, &segment, edge.state, "");
        }
        // What was taken is drawn last, over the rest.
        let mut segments: Vec<(u8, &Segment)> = self
            .layout
            .segments
            .iter()
            .map(|segment| {
                (
                    u8::from(self.state(segment) == Some(EdgeState::Taken)),
                    segment,
                )
            })
            .collect();
        segments.sort_by_key(|(taken, _)| *taken);
        for (_, segment) in segments {
            let title = self.edge_title(segment);
            self.draw_path(out, segment, self.state(segment), &title);
        }
        out.push_str("</g>\n");
    }

    fn draw_path(
        &self,
        out: &mut String,
        segment: &Segment,
        state: Option<EdgeState>,
        title: &str,
    ) {
        let (from, to) = (
            &self.layout.slots[segment.from],
            &self.layout.slots[segment.to],
        );
        let x1 = self.left() + from.center + self.port(segment);
        let x2 = self.left() + to.center;
        let top = self.tops[from.layer];
        let (y1, y2) = (top + NODE_HEIGHT, self.tops[to.layer]);
        let through = if from.is_node {
            format!("M{x1} {y1}")
        } else {
            format!("M{x1} {top}V{y1}")
        };
        let end = if to.is_node && !segment.reversed {
            y2 - 2
        } else {
            y2
        };
        let middle = (y1 + y2) / 2;
        let curve = if x1 == x2 {
            format!("V{end}")
        } else {
            format!("C{x1} {middle} {x2} {middle} {x2} {}V{end}", y2 - 8)
        };
        let class = edge_class(segment.when, state);
        let marker = if segment.reversed && from.is_node {
            format!(
                " marker-start=\"url(#windlass-{})\"",
                marker(segment.when, state)
            )
        } else if to.is_node && !segment.reversed {
            format!(
                " marker-end=\"url(#windlass-{})\"",
                marker(segment.when, state)
            )
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"{through}{curve}\"{marker}><title>{title}</title></path>"
        );
    }

    /// Where an edge leaves its node: success in the middle, the rest beside it.
    fn port(&self, segment: &Segment) -> i64 {
        let from = &self.layout.slots[segment.from];
        if segment.when == When::Success || !from.is_node {
            return 0;
        }
        let mut others = self.graph.edges.iter();
        let alone = !others.any(|edge| edge.from == segment.from && edge.when == When::Success);
        if alone {
            return 0;
        }
        let side = (self.layout.slots[segment.to].center - from.center).signum();
        let nudge = if segment.when == When::Failure {
            26
        } else {
            14
        };
        if side == 0 { nudge } else { side * nudge }
    }

    fn state(&self, segment: &Segment) -> Option<EdgeState> {
        let states = segment
            .edges
            .iter()
            .map(|&edge| self.graph.edges[edge].state);
        states.fold(None, furthest)
    }

    fn edge_title(&self, segment: &Segment) -> String {
        let titles = segment.edges.iter().take(12).map(|&index| {
            let edge = &self.graph.edges[index];
            let (from, to) = (&self.graph.nodes[edge.from], &self.graph.nodes[edge.to]);
            let words = edge.words().map(|words| format!(" ({words})"));
            let words = words.unwrap_or_default();
            escape(&format!("{} → {}{words}", from.title(), to.title()))
        });
        titles.collect::<Vec<_>>().join("\n")
    }

    fn draw_node(&self, out: &mut String, index: usize) {
        let node = &self.graph.nodes[index];
        let slot = &self.layout.slots[index];
        let shape = &self.boxes[index];
        let x = self.left() + slot.center - shape.width / 2;
        let y = self.tops[slot.layer];
        let class = node.status.map_or("plain".to_owned(), class);
        let (id, detail) = (escape(&node.id), escape(&node.detail));
        let status = node.status.map(|status| format!(", {status}"));
        let status = status.unwrap_or_default();
        let _ = writeln!(
            out,
            "<g class=\"node {class}\" transform=\"translate({x} {y})\">\
             <title>{id}: {detail}{status}</title>"
        );
        let _ = writeln!(
            out,
            "<rect width=\"{}\" height=\"{NODE_HEIGHT}\" rx=\"9\"/>",
            shape.width
        );
        let center = shape.width / 2;
        let mark = node
            .status
            .map(|status| format!("<tspan class=\"mark\">{}</tspan>\u{2002}", glyph(status)));
        let mark = mark.unwrap_or_default();
        let title_y = if shape.subtitle.is_empty() && node.status.is_none() {
            30
        } else {
            21
        };
        let _ = writeln!(
            out,
            "<text class=\"name\" x=\"{center}\" y=\"{title_y}\">{mark}{}</text>",
            escape(&shape.title)
        );
        let word = node.status.map(|status| {
            let dot = if shape.subtitle.is_empty() {
                ""
            } else {
                " · "
            };
            format!("{dot}<tspan class=\"mark\">{status}</tspan>")
        });
        let _ = writeln!(
            out,
            "<text class=\"detail\" x=\"{center}\" y=\"39\">{}{}</text>\n</g>",
            escape(&shape.subtitle),
            word.unwrap_or_default()
        );
    }

    /// Labels stand where their edge arrives in the next layer, over every line.
    fn draw_labels(&self, out: &mut String) {
        let mut beside: Vec<i64> = vec![0; self.layout.slots.len()];
        let mut room: Vec<i64> = beside.clone();
        for segment in &self.layout.segments {
            if let Some(edge) = segment.label {
                room[segment.to] += label_width(&self.labels[edge]);
            }
        }
        for segment in &self.layout.segments {
            let Some(edge) = segment.label else { continue };
            let slot = &self.layout.slots[segment.to];
            let width = label_width(&self.labels[edge]);
            let offset = beside[segment.to] + width / 2 - room[segment.to] / 2;
            beside[segment.to] += width;
            let x = self.left() + slot.center + offset;
            let y = self.tops[slot.layer] - 20;
            let _ = writeln!(
                out,
                "<text class=\"label\" x=\"{x}\" y=\"{y}\">{}</text>",
                escape(&self.labels[edge])
            );
        }
    }

    fn draw_legend(&self, out: &mut String) {
        let y = self.height - MARGIN;
        let mut x = MARGIN;
        for (when, words) in [(When::Failure, "after a failure"), (When::Always, "always")] {
            if !self.graph.edges.iter().any(|edge| edge.when == when) {
                continue;
            }
            let _ = writeln!(
                out,
                "<path class=\"{}\" fill=\"none\" d=\"M{x} {}h34\"/>\
                 <text class=\"legend\" x=\"{}\" y=\"{y}\">{words}</text>",
                edge_class(when, None),
                y - 4,
                x + 42
            );
            x += 160;
        }
    }
}

/// The width of a heading: its letters are bold.
fn heading_width(text: &str) -> f64 {
    text_width(text, 16.0) * 1.06
}

/// As much of a heading as has room in its box.
fn fitting(title: &str, room: i64) -> String {
    let title = clean(title);
    let mut columns = title.chars().count();
    let mut shown = title.clone();
    while columns > 1 && heading_width(&shown) > room as f64 {
        columns -= 1;
        shown = truncate(&title, columns);
    }
    shown
}

fn class(status: NodeStatus) -> String {
    status.as_str().to_lowercase()
}

fn edge_class(when: When, state: Option<EdgeState>) -> &'static str {
    use EdgeState::{Lost, NotTaken, Taken, Unresolved};
    match (when, state) {
        (When::Success, None | Some(Unresolved)) => "edge",
        (When::Success, Some(Taken)) => "edge taken",
        (When::Success, Some(NotTaken | Lost)) => "edge faint",
        (When::Failure, None | Some(Unresolved)) => "edge failure",
        (When::Failure, Some(Taken)) => "edge failure taken",
        (When::Failure, Some(NotTaken | Lost)) => "edge failure faint",
        (When::Always, None | Some(Unresolved)) => "edge always",
        (When::Always, Some(Taken)) => "edge always taken",
        (When::Always, Some(NotTaken | Lost)) => "edge always faint",
    }
}

fn marker(when: When, state: Option<EdgeState>) -> &'static str {
    match (when, state) {
        (_, Some(EdgeState::NotTaken | EdgeState::Lost)) => "tip-faint",
        (When::Failure, _) => "tip-failure",
        (_, Some(EdgeState::Taken)) => "tip-taken",
        _ => "tip",
    }
}

fn label_width(label: &str) -> i64 {
    if label.is_empty() {
        0
    } else {
        text_width(label, 11.0) as i64 + 12
    }
}

/// Text for an element or an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in clean(text).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_run_says_its_statuses_in_words() {
        let svg = render(&samples::payment()).expect("a picture");
        assert!(svg.starts_with("<svg xmlns="));
        assert!(svg.contains("<tspan class=\"mark\">Failed</tspan>"));
        assert!(svg.contains("<title>charge: http.request, Failed</title>"));
        assert!(svg.contains("Charge the card → refund (failure)"));
        assert!(svg.contains("prefers-color-scheme: dark"));
        assert!(svg.contains(">output.total &gt; 0</text>"));
        assert_eq!(svg.matches("<g class=\"node").count(), 8);
    }

    #[test]
    fn nothing_hostile_leaves_its_text() {
        let svg = render(&samples::hostile()).expect("a picture");
        assert!(!svg.contains("<script"));
        assert_eq!(svg.matches("</svg>").count(), 1);
        assert!(!svg.contains("<!--"));
        // Every element that opens also closes.
        for name in ["text", "title", "g", "path", "tspan"] {
            let opened = svg.matches(&format!("<{name} ")).count()
                + svg.matches(&format!("<{name}>")).count();
            let closed = svg.matches(&format!("</{name}>")).count();
            let alone = svg
                .split(&format!("<{name} "))
                .skip(1)
                .filter(|rest| rest.split('>').next().is_some_and(|tag| tag.ends_with('/')))
                .count();
            assert_eq!(opened, closed + alone, "{name}");
        }
    }

    #[test]
    fn a_thousand_nodes_are_drawn_and_more_are_refused() {
        let svg = render(&samples::tangle(1000, 3)).expect("a picture");
        assert_eq!(svg.matches("<g class=\"node").count(), 1000);
        let error = render(&samples::tangle(2001, 3)).expect_err("too large");
        assert_eq!(error.nodes, 2001);
    }

    #[test]
    fn a_wide_fan_is_summed_up() {
        let svg = render(&samples::fan(5000)).expect("a picture");
        assert!(svg.contains("work-… ×5000"));
    }

    #[test]
    fn what_is_inside_a_loop_has_a_panel_of_its_own() {
        let svg = render(&samples::nested()).expect("a picture");
        assert_eq!(svg.matches("class=\"body\"").count(), 2);
        assert_eq!(svg.matches("<g class=\"node").count(), 6);
        assert!(svg.contains(">each: forEach, 2 nodes</text>"), "{svg}");
        // Each body is joined to its loop.
        assert_eq!(svg.matches("class=\"link\"").count(), 2);
        assert!(svg.contains("id=\"windlass-body-2\""), "{svg}");
    }

    #[test]
    fn a_heading_stays_in_its_box() {
        let mut graph = samples::fan(2);
        graph.title = "W".repeat(300);
        let svg = render(&graph).expect("a picture");
        let heading = svg.split("class=\"heading\"").nth(1).expect("a heading");
        let heading = heading.split(['<', '>']).nth(1).expect("a text");
        let width = svg.split("width=\"").nth(1).expect("a width");
        let width: f64 = width
            .split('"')
            .next()
            .expect("a number")
            .parse()
            .expect("a number");
        assert!(heading.ends_with('…'), "{heading}");
        assert!(heading_width(heading) + 2.0 * MARGIN as f64 <= width);
    }

    #[test]
    fn an_empty_graph_is_a_picture_too() {
        let svg = render(&Graph::default()).expect("a picture");
        assert!(svg.ends_with("</svg>\n"));
    }
}
