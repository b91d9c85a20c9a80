//! The formats of a picture, and what each needs to know.

use std::fmt;

use crate::collapse::collapse_groups;
use crate::model::Graph;
use crate::{ascii, dot, mermaid, svg};

/// How the picture is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A flowchart for Markdown.
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A picture that stands alone.
    Svg,
    /// Boxes in a terminal.
    Ascii,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mermaid => "mermaid",
            Self::Dot => "dot",
            Self::Svg => "svg",
            Self::Ascii => "ascii",
        }
    }
}

/// What a terminal can show, and whether everything is drawn.
#[derive(Clone, Copy, Debug)]
pub struct RenderOptions {
    /// Whether alike nodes are drawn each for itself, however many there are, where the format
    /// has room for them.
    pub expand: bool,
    /// Columns; only text asks.
    pub width: usize,
    /// Whether escape sequences for colour are written.
    pub color: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            expand: false,
            width: 80,
            color: false,
        }
    }
}

/// The graph has more nodes than the format can show, even with equal ones drawn once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    pub(crate) format: Format,
    pub(crate) nodes: usize,
    pub(crate) limit: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the graph has {} nodes, and {} draws at most {}; use --format dot, which Graphviz \
             lays out (`sfdp -Tsvg` for graphs of this size)",
            self.nodes,
            self.format.name(),
            self.limit
        )
    }
}

impl std::error::Error for TooLarge {}

/// The most nodes in one picture, with those inside loops: a larger picture cannot be read.
const MAX_EXPANDED: usize = 2000;

/// Draws the graph.
///
/// # Errors
/// The graph is too large for the format; the message says what to use instead.
pub fn render(graph: &Graph, format: Format, options: &RenderOptions) -> Result<String, TooLarge> {
    let nodes = graph.total();
    if format != Format::Dot && nodes > graph.nodes.len() && nodes > MAX_EXPANDED {
        return Err(TooLarge {
            format,
            nodes,
            limit: MAX_EXPANDED,
        });
    }
    let summed_up = match format {
        Format::Mermaid | Format::Svg if !options.expand => wide_as_one(graph),
        _ => None,
    };
    let graph = summed_up.as_ref().unwrap_or(graph);
    match format {
        Format::Mermaid => Ok(mermaid::render(graph)),
        Format::Dot => Ok(dot::render(graph)),
        Format::Svg => svg::render(graph),
        Format::Ascii => ascii::render(graph, options),
    }
}

/// More alike nodes than this are drawn as one: a picture is read on a screen.
const WIDE: usize = 12;

/// The graph with every wide fan-out as one node; nothing if there is none.
fn wide_as_one(graph: &Graph) -> Option<Graph> {
    collapse_groups(graph, |group| group.len() > WIDE).map(|collapsed| collapsed.graph)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_wide_fan_out_is_one_node_unless_all_are_asked_for() {
        let (folded, all) = (
            RenderOptions::default(),
            RenderOptions {
                expand: true,
                ..RenderOptions::default()
            },
        );
        let drawn =
            |format, options| render(&samples::fan(200), format, options).expect("a picture");
        for format in [Format::Svg, Format::Mermaid] {
            assert!(drawn(format, &folded).contains("work-… ×200"));
            assert!(drawn(format, &all).contains("work-199"));
        }
        let width = |svg: String| -> u32 {
            let after = svg.split("width=\"").nth(1).unwrap_or_default();
            after
                .split('"')
                .next()
                .unwrap_or_default()
                .parse()
                .unwrap_or_default()
        };
        assert!(width(drawn(Format::Svg, &folded)) < 600);
        assert!(width(drawn(Format::Svg, &all)) > 10_000);
        let few = render(&samples::fan(12), Format::Mermaid, &folded).expect("a picture");
        assert!(few.contains("work-11"), "{few}");
    }

    #[test]
    fn every_format_is_the_same_each_time_and_survives_hostile_text() {
        let graph = samples::hostile();
        for format in [Format::Mermaid, Format::Dot, Format::Svg, Format::Ascii] {
            let first = render(&graph, format, &RenderOptions::default()).expect("a picture");
            let second = render(&graph, format, &RenderOptions::default()).expect("a picture");
            assert_eq!(first, second);
            assert!(
                !first.contains(|character: char| character.is_control() && character != '\n'),
                "{} lets a control character through",
                format.name()
            );
        }
    }

    #[test]
    fn too_large_says_what_to_use_instead() {
        let error = TooLarge {
            format: Format::Svg,
            nodes: 5000,
            limit: 2000,
        };
        assert_eq!(
            error.to_string(),
            "the graph has 5000 nodes, and svg draws at most 2000; use --format dot, which \
             Graphviz lays out (`sfdp -Tsvg` for graphs of this size)"
        );
    }
}
