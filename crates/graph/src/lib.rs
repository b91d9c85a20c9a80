//! Pictures of a workflow's graph: Mermaid, Graphviz, SVG and text.
//!
//! Pure functions over a small model of their own, so that a definition on disk and a
//! run on a server are drawn by the same code. It knows definitions and statuses, and
//! neither storage, nor the engine, nor a terminal: what a terminal can show is an argument.

mod ascii;
mod collapse;
mod dot;
mod format;
mod glyph;
mod layout;
mod mermaid;
mod model;
mod packed;
mod svg;
mod text;

#[cfg(test)]
mod samples;

pub use collapse::urgency;
pub use format::{Format, RenderOptions, TooLarge, render};
pub use glyph::node_glyph;
pub use model::{Graph, GraphEdge, GraphNode};
pub use packed::{
    Arrows, Boxes, Frame, MAX_BOXES, PackOptions, Packed, Progression, TooManyBoxes, pack,
};

use glyph::node_glyph as glyph;
