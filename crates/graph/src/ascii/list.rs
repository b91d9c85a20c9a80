//! The graph as a list, for what cannot be drawn in the width: each node with the
//! arrows that leave it, in an order in which arrows point down.

use std::fmt::Write;

use windlass_core::definition::When;

use super::super::layout::levels;
use super::super::text::{clean, truncate};
use super::super::{Graph, RenderOptions, glyph};
use super::heading;

pub(super) fn render(graph: &Graph, options: &RenderOptions) -> String {
    heading(graph, options) + &lines(graph, options, 0, false)
}

/// What is inside a loop, under its name; loops inside follow where they stand.
pub(super) fn render_body(graph: &Graph, options: &RenderOptions, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let title = truncate(&format!("{indent}{}", clean(&graph.title)), options.width);
    format!("{title}\n{}", lines(graph, options, depth + 1, true))
}

fn lines(graph: &Graph, options: &RenderOptions, depth: usize, bodies: bool) -> String {
    let levels = levels(graph);
    let mut order: Vec<usize> = (0..graph.nodes.len()).collect();
    order.sort_by_key(|&node| levels[node]);
    let mut outgoing = vec![Vec::new(); graph.nodes.len()];
    for edge in &graph.edges {
        outgoing[edge.from].push(edge);
    }
    let indent = "  ".repeat(depth);
    let mut out = String::new();
    let line = |out: &mut String, text: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{}",
            truncate(&format!("{indent}{text}"), options.width)
        );
    };
    for node in order {
        let shown = &graph.nodes[node];
        let mark = shown.status.map_or("•", glyph);
        let subtitle = clean(&shown.subtitle());
        let title = clean(shown.title());
        line(&mut out, format!("{mark} {title}  {subtitle}").trim_end());
        for edge in &outgoing[node] {
            let target = clean(graph.nodes[edge.to].title());
            let arrow = match edge.when {
                When::Success => "→",
                When::Failure => "╌ failure →",
                When::Always => "┄ always →",
            };
            let label = edge.label.as_deref().map(clean);
            let label = label.map(|label| format!("  [{label}]"));
            let label = label.unwrap_or_default();
            line(&mut out, &format!("    {arrow} {target}{label}"));
        }
        if let Some(body) = shown.body.as_ref().filter(|_| bodies) {
            out.push_str(&render_body(body, options, depth + 1));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::super::samples;
    use super::*;

    #[test]
    fn a_switch() {
        let options = RenderOptions {
            width: 24,
            ..RenderOptions::default()
        };
        assert_eq!(
            render(&samples::switch(), &options),
            "\
orders

• classify  core.script
    → europe  [eu | uk]
    → americas  [us]
    → elsewhere  [defau…
• europe  http.request
    → ship
• americas  http.request
    → ship
• elsewhere  core.fail
    ┄ always → ship
• ship  core.echo
"
        );
    }

    #[test]
    fn what_is_inside_a_loop_is_indented() {
        let graph = samples::nested();
        let body = graph.nodes[1].body.as_ref().expect("a body");
        assert_eq!(
            render_body(body, &RenderOptions::default(), 0),
            "\
each: forEach, 2 nodes
  • charge  core.echo
      → poll
  • poll  while, 1 node
    each/poll: while, 1 node
      • ask  core.echo
"
        );
    }
}
