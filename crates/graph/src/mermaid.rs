//! A Mermaid flowchart, for Markdown that draws it.
//!
//! Nodes are named `n0`, `n1`, … so that no id can be a keyword; every character of a label
//! that Mermaid could interpret is written as an entity.

use std::collections::BTreeSet;
use std::fmt::Write;

use windlass_core::NodeStatus;
use windlass_core::definition::When;

use super::text::clean;
use super::{Graph, GraphNode, glyph};

pub(super) fn render(graph: &Graph) -> String {
    let mut out = String::new();
    let title = clean(&graph.title);
    if !title.is_empty() {
        // A JSON string is a YAML string.
        let title = title.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(out, "---\ntitle: \"{title}\"\n---");
    }
    out += "flowchart TD\n";
    let mut links = Links::default();
    scope(graph, "n", "    ", &mut links, &mut out);
    if !links.failures.is_empty() {
        let failures = links.failures.join(",");
        let _ = writeln!(out, "    linkStyle {failures} stroke:#cf222e");
    }
    for status in links.statuses {
        let _ = writeln!(out, "    classDef {} {}", class(status), style(status));
    }
    out
}

/// The styles and classes that are written at the end, for all graphs together.
#[derive(Default)]
struct Links {
    count: usize,
    failures: Vec<String>,
    statuses: BTreeSet<NodeStatus>,
}

/// The nodes and edges of one graph, each named by a prefix and its place.
fn scope(graph: &Graph, prefix: &str, indent: &str, links: &mut Links, out: &mut String) {
    for (index, node) in graph.nodes.iter().enumerate() {
        let name = format!("{prefix}{index}");
        let class = node.status.map(|status| format!(":::{}", class(status)));
        let class = class.unwrap_or_default();
        links.statuses.extend(node.status);
        match &node.body {
            None => {
                let _ = writeln!(out, "{indent}{name}[\"{}\"]{class}", label(node));
            }
            Some(body) => {
                let _ = writeln!(out, "{indent}subgraph {name} [\"{}\"]", label(node));
                let inner = format!("{indent}    ");
                scope(body, &format!("{name}_"), &inner, links, out);
                let _ = writeln!(out, "{indent}end");
                if let Some(status) = node.status {
                    let _ = writeln!(out, "{indent}class {name} {}", self::class(status));
                }
            }
        }
    }
    for edge in &graph.edges {
        let arrow = match edge.when {
            When::Success => "-->",
            When::Failure => "-.->",
            When::Always => "==>",
        };
        let words = edge
            .words()
            .map(|words| format!("|\"{}\"|", escape(&words)));
        let words = words.unwrap_or_default();
        let (from, to) = (edge.from, edge.to);
        let _ = writeln!(out, "{indent}{prefix}{from} {arrow}{words} {prefix}{to}");
        if edge.when == When::Failure {
            links.failures.push(links.count.to_string());
        }
        links.count += 1;
    }
}

fn label(node: &GraphNode) -> String {
    let mark = node.status.map(|status| format!("{} ", glyph(status)));
    let mut label = format!("{}{}", mark.unwrap_or_default(), escape(node.title()));
    let subtitle = escape(&node.subtitle());
    if !subtitle.is_empty() {
        let _ = write!(label, "<br/><small>{subtitle}</small>");
    }
    label
}

fn class(status: NodeStatus) -> String {
    status.as_str().to_lowercase()
}

fn style(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Succeeded => "fill:#dafbe1,stroke:#1a7f37,color:#0b3d1a",
        NodeStatus::Failed => "fill:#ffebe9,stroke:#cf222e,color:#6e0b14",
        NodeStatus::Running => "fill:#ddf4ff,stroke:#0969da,color:#0a3069",
        NodeStatus::Waiting | NodeStatus::Queued => "fill:#fff8c5,stroke:#9a6700,color:#4d2d00",
        NodeStatus::Blocked => "fill:#fff1e5,stroke:#bc4c00,color:#5c2200",
        NodeStatus::Cancelled => "fill:#f0ecfb,stroke:#8250df,color:#3c1e70",
        NodeStatus::Pending => "fill:#f6f8fa,stroke:#6e7781,color:#24292f",
        NodeStatus::Skipped => "fill:#f6f8fa,stroke:#8c959f,color:#57606a,stroke-dasharray:4 3",
    }
}

/// Letters, digits and harmless punctuation stay; the rest becomes `#number;`.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in clean(text).chars() {
        if character.is_alphanumeric() || !character.is_ascii() || " ._-/,+=()".contains(character)
        {
            escaped.push(character);
        } else {
            let _ = write!(escaped, "#{};", u32::from(character));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_switch() {
        assert_eq!(
            render(&samples::switch()),
            r#"---
title: "orders"
---
flowchart TD
    n0["classify<br/><small>core.script</small>"]
    n1["europe<br/><small>http.request</small>"]
    n2["americas<br/><small>http.request</small>"]
    n3["elsewhere<br/><small>core.fail</small>"]
    n4["ship<br/><small>core.echo</small>"]
    n0 -->|"eu #124; uk"| n1
    n0 -->|"us"| n2
    n0 -->|"default"| n3
    n1 --> n4
    n2 --> n4
    n3 ==>|"always"| n4
"#
        );
    }

    #[test]
    fn what_is_inside_a_loop_is_a_subgraph() {
        assert_eq!(
            render(&samples::nested()),
            r#"---
title: "orders"
---
flowchart TD
    n0["list<br/><small>core.echo</small>"]
    subgraph n1 ["each<br/><small>forEach, 2 nodes</small>"]
        n1_0["charge<br/><small>core.echo</small>"]
        subgraph n1_1 ["poll<br/><small>while, 1 node</small>"]
            n1_1_0["ask<br/><small>core.echo</small>"]
        end
        n1_0 --> n1_1
    end
    n2["sorry<br/><small>core.echo</small>"]
    n0 --> n1
    n1 -.->|"failure"| n2
    linkStyle 2 stroke:#cf222e
"#
        );
    }

    #[test]
    fn a_run_has_a_class_for_each_status() {
        let text = render(&samples::payment());
        assert!(text.contains(
            "n2[\"✗ Charge the card<br/><small>charge · http.request · 3 attempts</small>\"]:::failed"
        ));
        assert!(text.contains("    n0 -->|\"output.total #62; 0\"| n1\n"));
        assert!(text.contains("    n2 -.->|\"failure\"| n5\n"));
        assert!(text.contains("    linkStyle 1,5 stroke:"));
        assert_eq!(text.matches("classDef").count(), 5);
    }

    #[test]
    fn hostile_labels_stay_in_their_quotes() {
        for line in render(&samples::hostile()).lines().skip(4) {
            let quotes = line.matches('"').count();
            assert!(quotes == 0 || quotes == 2, "{line}");
            assert!(!line.contains('`') && !line.contains("<script"), "{line}");
        }
    }
}
