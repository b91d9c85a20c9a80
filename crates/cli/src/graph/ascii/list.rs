//! The graph as a list, for what cannot be drawn in the width: each node with the
//! arrows that leave it, in an order in which arrows point down.

use std::fmt::Write;

use windlass_core::definition::When;

use super::super::layout::levels;
use super::super::text::{clean, truncate};
use super::super::{Graph, RenderOptions, glyph};
use super::heading;

pub(super) fn render(graph: &Graph, options: &RenderOptions) -> String {
    let levels = levels(graph);
    let mut order: Vec<usize> = (0..graph.nodes.len()).collect();
    order.sort_by_key(|&node| levels[node]);
    let mut outgoing = vec![Vec::new(); graph.nodes.len()];
    for edge in &graph.edges {
        outgoing[edge.from].push(edge);
    }
    let mut out = heading(graph, options);
    let mut line = |text: &str| {
        let _ = writeln!(out, "{}", truncate(text, options.width));
    };
    for node in order {
        let shown = &graph.nodes[node];
        let mark = shown.status.map_or("•", glyph);
        let subtitle = clean(&shown.subtitle());
        let title = clean(shown.title());
        line(format!("{mark} {title}  {subtitle}").trim_end());
        for edge in &outgoing[node] {
            let target = clean(graph.nodes[edge.to].title());
            let arrow = match edge.when {
                When::Success => "→",
                When::Failure => "╌ failure →",
                When::Always => "┄ always →",
            };
            let label = edge.label.as_deref().map(clean);
            let label = label.map(|label| format!("  [{label}]"));
            line(&format!(
                "    {arrow} {target}{}",
                label.unwrap_or_default()
            ));
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
            color: false,
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
}
