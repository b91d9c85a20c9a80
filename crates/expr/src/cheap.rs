//! Which expressions are cheap by construction: a static estimate from the tree alone.
//!
//! Cheap is what does a bounded number of operations whatever the data: no functions called for
//! each element, no spread, no method that walks its receiver. A single operation may still
//! read one long string (`===`, `+`, `.length`), so callers evaluate with
//! [`Limits::inline`](crate::Limits::inline) and take the long way when that is exceeded.

use crate::ast::{Arguments, Chunk, Kind, Link, LinkKind, Node, Property};

/// Nodes that one cheap expression may have: a bound on time that no source limit lifts.
const MAX_NODES: usize = 500;

/// Functions that take a bounded number of operations of plain arguments.
const FUNCTIONS: &[&str] = &["Boolean", "Number", "isNaN", "isFinite", "Array.isArray"];

/// Methods that do.
const METHODS: &[&str] = &["at", "hasOwnProperty", "valueOf"];

/// Whether a checked tree does a bounded number of operations, whatever its inputs.
pub(crate) fn is_cheap(root: &Node) -> bool {
    let mut left = MAX_NODES;
    node(root, &mut left)
}

fn node(it: &Node, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else {
        return false;
    };
    *left = rest;
    match &it.kind {
        Kind::Undefined
        | Kind::Null
        | Kind::Bool(_)
        | Kind::Number(_)
        | Kind::String(_)
        | Kind::Input(_)
        | Kind::Local(_) => true,
        Kind::Name(_) => false,
        Kind::Template(chunks) => chunks.iter().all(|chunk| match chunk {
            Chunk::Text(_) => true,
            Chunk::Value(value) => node(value, left),
        }),
        Kind::Array(elements) => elements
            .iter()
            .all(|element| !element.spread && node(&element.node, left)),
        Kind::Object(properties) => properties.iter().all(|property| match property {
            Property::Named(_, value) => node(value, left),
            Property::Computed(key, value) => node(key, left) && node(value, left),
            Property::Spread(_) => false,
        }),
        Kind::Access(access) => {
            node(&access.base, left) && access.links.iter().all(|it| link(it, left))
        }
        Kind::Call(call) => {
            let known = FUNCTIONS.contains(&&*call.name)
                || call.name.starts_with("Math.")
                || call.name.starts_with("Number.is");
            known && arguments(&call.arguments, left)
        }
        Kind::Unary(_, operand) => node(operand, left),
        Kind::Binary(first, others) => {
            node(first, left) && others.iter().all(|(_, operand)| node(operand, left))
        }
        Kind::Power(operands) | Kind::Logical(_, operands) => {
            operands.iter().all(|operand| node(operand, left))
        }
        Kind::Conditional(parts) => parts.iter().all(|part| node(part, left)),
    }
}

fn link(it: &Link, left: &mut usize) -> bool {
    match &it.kind {
        LinkKind::Field(_) => true,
        LinkKind::Index(key) => node(key, left),
        LinkKind::Method(call) => {
            METHODS.contains(&&*call.name) && arguments(&call.arguments, left)
        }
    }
}

fn arguments(it: &Arguments, left: &mut usize) -> bool {
    it.callback.is_none()
        && it
            .values
            .iter()
            .all(|element| !element.spread && node(&element.node, left))
}
