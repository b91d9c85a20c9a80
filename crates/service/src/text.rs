//! Small pieces of text that several answers share.

use serde_json::Value;
use windlass_core::printable;
use windlass_core::run::{Instance, Run, with_name};
use windlass_engine::view::NodeCounts;
use windlass_store::Wait as _;

use crate::failure::Failure;
use crate::run_queries::RunQueries;

/// The text on one line, without control characters.
pub fn one_line(text: &str) -> String {
    printable::one_line(text).into_owned()
}

/// `4 succeeded · 1 failed`.
pub fn summary(counts: &NodeCounts) -> String {
    let parts = counts.list().into_iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    parts.join(" · ")
}

/// A failed node's error in one line.
///
/// # Errors
/// Its value cannot be read.
pub fn error_of(
    queries: &RunQueries,
    run: &Run,
    node: Instance,
) -> Result<Option<String>, Failure> {
    let Some(value) = run.value(node) else {
        return Ok(None);
    };
    let text = queries.values().read(run.id(), &value).wait()?;
    let error: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(Some(one_line(&error_text(&error))))
}

/// `CODE: message`.
pub fn error_text(error: &Value) -> String {
    let part = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{}: {}", part("code"), part("message"))
}

/// A node's path, with its name for people beside it.
pub fn named(run: &Run, path: &str) -> String {
    with_name(path, run.plan().name_at(path))
}

/// A few names, and how many more.
pub fn names(run: &Run, nodes: &[Instance]) -> String {
    const NAMED: usize = 3;
    let named = nodes
        .iter()
        .take(NAMED)
        .map(|&node| named(run, &run.path(node)));
    let named = named.collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
