//! The graph for Graphviz, which lays out what the other formats find too large.

use std::collections::HashSet;
use std::fmt::Write;

use windlass_core::NodeStatus;
use windlass_core::definition::When;
use windlass_core::routing::EdgeState;

use super::text::clean;
use super::{Graph, GraphEdge, GraphNode, glyph};

pub(super) fn render(graph: &Graph) -> String {
    let mut out = String::from("digraph {\n");
    let title = quote(&[&graph.title]);
    let _ = writeln!(
        out,
        "    graph [label={title} labelloc=t fontname=\"Helvetica\"]"
    );
    out += "    node [shape=box style=\"rounded,filled\" fillcolor=\"#f6f8fa\" color=\"#6e7781\" \
            fontname=\"Helvetica\" fontsize=11]\n";
    out += "    edge [color=\"#57606a\" fontname=\"Helvetica\" fontsize=9]\n";
    scope(graph, "n", "    ", &mut out);
    out += "}\n";
    out
}

/// The nodes and edges of one graph. A loop that is drawn is a box around its body, with
/// the loop itself in it, so that edges have something to point at.
fn scope(graph: &Graph, prefix: &str, indent: &str, out: &mut String) {
    for (index, node) in graph.nodes.iter().enumerate() {
        let name = format!("{prefix}{index}");
        let attributes = node_attributes(node);
        let Some(body) = &node.body else {
            let _ = writeln!(out, "{indent}{name} [{attributes}]");
            continue;
        };
        let _ = writeln!(out, "{indent}subgraph cluster_{name} {{");
        let inner = format!("{indent}    ");
        let _ = writeln!(
            out,
            "{inner}graph [label=\"\" style=\"rounded,dashed\" color=\"#8c959f\"]"
        );
        let _ = writeln!(out, "{inner}{name} [{attributes}]");
        scope(body, &format!("{name}_"), &inner, out);
        for entry in entries(body) {
            let _ = writeln!(
                out,
                "{inner}{name} -> {name}_{entry} [style=dashed color=\"#8c959f\" arrowhead=none]"
            );
        }
        let _ = writeln!(out, "{indent}}}");
    }
    for edge in &graph.edges {
        let _ = write!(out, "{indent}{prefix}{} -> {prefix}{}", edge.from, edge.to);
        match edge_attributes(edge) {
            attributes if attributes.is_empty() => out.push('\n'),
            attributes => {
                let _ = writeln!(out, " [{attributes}]");
            }
        }
    }
}

/// Nodes that no edge leads to.
fn entries(graph: &Graph) -> impl Iterator<Item = usize> + '_ {
    let reached: HashSet<usize> = graph.edges.iter().map(|edge| edge.to).collect();
    (0..graph.nodes.len()).filter(move |node| !reached.contains(node))
}

fn node_attributes(node: &GraphNode) -> String {
    let mut title = node.title().to_owned();
    if let Some(status) = node.status {
        title = format!("{} {title}", glyph(status));
    }
    let mut lines = vec![title, node.subtitle()];
    lines.extend(node.status.map(|status| status.to_string()));
    lines.retain(|line| !line.is_empty());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut attributes = format!("label={} tooltip={}", quote(&lines), quote(&[&node.id]));
    if let Some(status) = node.status {
        let (fill, line) = colors(status);
        let _ = write!(attributes, " fillcolor=\"{fill}\" color=\"{line}\"");
    }
    attributes
}

fn edge_attributes(edge: &GraphEdge) -> String {
    let mut attributes = Vec::new();
    if let Some(words) = edge.words() {
        attributes.push(format!("label={}", quote(&[&words])));
    }
    match edge.when {
        When::Success => {}
        When::Failure => attributes.push("style=dashed color=\"#cf222e\"".to_owned()),
        When::Always => attributes.push("style=dotted".to_owned()),
    }
    match edge.state {
        Some(EdgeState::Taken) => attributes.push("penwidth=2".to_owned()),
        Some(EdgeState::NotTaken | EdgeState::Lost) => {
            attributes.push("color=\"#c8ccd1\"".to_owned());
        }
        Some(EdgeState::Unresolved) | None => {}
    }
    attributes.join(" ")
}

fn colors(status: NodeStatus) -> (&'static str, &'static str) {
    match status {
        NodeStatus::Succeeded => ("#dafbe1", "#1a7f37"),
        NodeStatus::Failed => ("#ffebe9", "#cf222e"),
        NodeStatus::Running => ("#ddf4ff", "#0969da"),
        NodeStatus::Waiting | NodeStatus::Queued => ("#fff8c5", "#9a6700"),
        NodeStatus::Blocked => ("#fff1e5", "#bc4c00"),
        NodeStatus::Cancelled => ("#f0ecfb", "#8250df"),
        NodeStatus::Pending | NodeStatus::Skipped => ("#f6f8fa", "#8c959f"),
    }
}

/// A quoted string of centred lines. Graphviz reads `\` escapes and HTML entities in
/// labels, so both are escaped.
fn quote(lines: &[&str]) -> String {
    let escaped: Vec<String> = lines
        .iter()
        .map(|line| {
            clean(line)
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('&', "&amp;")
        })
        .collect();
    format!("\"{}\"", escaped.join("\\n"))
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_switch() {
        assert_eq!(
            render(&samples::switch()),
            r##"digraph {
    graph [label="orders" labelloc=t fontname="Helvetica"]
    node [shape=box style="rounded,filled" fillcolor="#f6f8fa" color="#6e7781" fontname="Helvetica" fontsize=11]
    edge [color="#57606a" fontname="Helvetica" fontsize=9]
    n0 [label="classify\ncore.script" tooltip="classify"]
    n1 [label="europe\nhttp.request" tooltip="europe"]
    n2 [label="americas\nhttp.request" tooltip="americas"]
    n3 [label="elsewhere\ncore.fail" tooltip="elsewhere"]
    n4 [label="ship\ncore.echo" tooltip="ship"]
    n0 -> n1 [label="eu | uk"]
    n0 -> n2 [label="us"]
    n0 -> n3 [label="default"]
    n1 -> n4
    n2 -> n4
    n3 -> n4 [label="always" style=dotted]
}
"##
        );
    }

    #[test]
    fn what_is_inside_a_loop_is_a_cluster() {
        let text = render(&samples::nested());
        assert!(text.contains("    subgraph cluster_n1 {\n"), "{text}");
        assert!(text.contains("        subgraph cluster_n1_1 {\n"), "{text}");
        assert!(text.contains("            n1_1_0 [label="), "{text}");
        assert!(text.contains("        n1 -> n1_0 [style=dashed"), "{text}");
        assert!(text.contains("        n1_0 -> n1_1\n"), "{text}");
        assert!(text.contains("    n0 -> n1\n"), "{text}");
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn quotes_and_backslashes_stay_inside() {
        assert_eq!(quote(&["a\"b\\c\nd", "&lt;"]), r#""a\"b\\c d\n&amp;lt;""#);
    }

    #[test]
    fn a_run_shows_its_statuses() {
        let text = render(&samples::payment());
        assert!(text.contains(
            "n2 [label=\"✗ Charge the card\\ncharge · http.request · 3 attempts\\nFailed\" \
             tooltip=\"charge\" fillcolor=\"#ffebe9\" color=\"#cf222e\"]"
        ));
    }
}
