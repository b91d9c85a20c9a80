//! One node instance of an execution's JSON. Keys that only some nodes have are written only
//! for those: a loop's counts, a child, a result set by hand, how undoing stands.

use std::io::Write;

use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer as _};
use serde_json::value::RawValue;
use windlass_core::plan::NodeKind;
use windlass_core::run::{Failure, Instance, Loop, Run};
use windlass_core::value::Stored;
use windlass_core::{Millis, NodeStatus};

use super::json::{Error, View, field, moment};
use super::{NodeCounts, SeenInstance};
use crate::values::stored_text;

/// Writes `"path":{…}`.
pub(super) fn write_node(
    view: &View<'_>,
    seen: &SeenInstance<'_>,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let (run, node) = (seen.run, seen.node);
    let at_work = view.options.at_work.since(run, node);
    let status = match at_work {
        Some(_) => NodeStatus::Running,
        None => run.node_status(node),
    };
    let (plan, index) = run.place(node);
    serde_json::to_writer(&mut *out, seen.path)?;
    write!(out, ":{{\"status\":\"{status}\"")?;
    field(out, "name", &plan.name(index))?;
    field(out, "actionType", &plan.action(index))?;
    field(out, "attempts", &run.attempts(node))?;
    out.write_all(b",\"input\":")?;
    match seen.input {
        Some(input) => view.stored(input, out)?,
        None => out.write_all(b"null")?,
    }
    out.write_all(b",\"output\":")?;
    match seen.output {
        Some(output) => view.stored(output, out)?,
        None => out.write_all(b"null")?,
    }
    out.write_all(b",\"error\":")?;
    match seen.error {
        Some(error) => write_error(view, error, out)?,
        None => out.write_all(b"null")?,
    }
    let handled = (status == NodeStatus::Failed).then(|| run.is_handled(node));
    field(out, "handled", &handled)?;
    out.write_all(b",\"blockedBy\":")?;
    write_names(run, run.blocked_by(node), out)?;
    field(out, "ancestryHash", &run.ancestry(node))?;
    let (started, ended) = (seen.times.started(node).or(at_work), seen.times.ended(node));
    moment(out, "startedAt", started)?;
    moment(out, "endedAt", ended)?;
    field(out, "durationMs", &took(started, ended))?;
    write_structure(seen, out)?;
    write_hands(seen, out)?;
    write_undoing(view, node, out)?;
    out.write_all(b"}")?;
    Ok(())
}

/// How long a node took that has ended, from the start of its first attempt.
fn took(started: Option<Millis>, ended: Option<Millis>) -> Option<u64> {
    u64::try_from(ended?.0.saturating_sub(started?.0)).ok()
}

/// How far a loop is.
#[derive(Serialize)]
struct Iterations {
    /// Of a `forEach`, how many there will be.
    total: Option<u32>,
    started: u32,
    running: u32,
    failed: u32,
}

impl Iterations {
    fn of(kind: NodeKind, cycle: &Loop) -> Self {
        Self {
            total: (kind == NodeKind::ForEach).then(|| cycle.items()),
            started: cycle.opened(),
            running: cycle.running(),
            failed: cycle.failed().count() as u32,
        }
    }
}

/// What a node has that is not one call of an action.
fn write_structure(seen: &SeenInstance<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let (run, node) = (seen.run, seen.node);
    let kind = run.kind_of(node);
    if kind != NodeKind::Action {
        field(out, "kind", kind.as_str())?;
    }
    if kind.is_loop() {
        let counts = run.cycle(node).map(NodeCounts::of_loop).unwrap_or_default();
        field(out, "counts", &counts)?;
        let iterations = run.cycle(node).map(|cycle| Iterations::of(kind, cycle));
        field(out, "iterations", &iterations)?;
    }
    if kind == NodeKind::Subworkflow {
        field(out, "child", &seen.notes.child(node))?;
    }
    if let Some(signal) = run.signal_of(node) {
        field(out, "signal", signal)?;
    }
    if run.node_status(node) == NodeStatus::Waiting {
        moment(out, "due", run.due(node))?;
    }
    Ok(())
}

/// Where a result comes from, if not from the node itself.
fn write_hands(seen: &SeenInstance<'_>, out: &mut dyn Write) -> Result<(), Error> {
    #[derive(Serialize)]
    struct ByHandView<'a> {
        kind: &'static str,
        by: Option<&'a str>,
        reason: Option<&'a str>,
    }
    if seen.run.is_reused(seen.node) {
        field(out, "reused", &true)?;
    }
    let by_hand = seen.notes.by_hand(seen.node);
    if let Some(by_hand) = by_hand.filter(|_| seen.run.is_by_hand(seen.node)) {
        let actor = ByHandView {
            kind: if by_hand.skipped { "skip" } else { "result" },
            by: by_hand.actor.by.as_deref(),
            reason: by_hand.actor.reason.as_deref(),
        };
        field(out, "byHand", &actor)?;
    }
    Ok(())
}

/// How the undoing of a node stands.
fn write_undoing(view: &View<'_>, node: Instance, out: &mut dyn Write) -> Result<(), Error> {
    let Some(&(undoing, status)) = view.undoing.get(&node) else {
        return Ok(());
    };
    let attempts = view.overview.run.attempts(undoing);
    write!(
        out,
        ",\"compensation\":{{\"status\":\"{status}\",\"attempts\":{attempts},\"error\":"
    )?;
    match view.overview.notes.undo_error(undoing) {
        Some(error) => write_error(view, error, out)?,
        None => out.write_all(b"null")?,
    }
    out.write_all(b"}")?;
    Ok(())
}

/// An error with all its keys, whether or not the action gave details.
pub(super) fn write_error(
    view: &View<'_>,
    stored: &Stored,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let text = stored_text(view.store, stored)?;
    let Ok(failure) = serde_json::from_str::<Failure>(&text) else {
        // Not of this form, but what was recorded is still what is shown.
        out.write_all(text.as_bytes())?;
        return Ok(());
    };
    out.write_all(b"{\"code\":")?;
    serde_json::to_writer(&mut *out, &failure.code)?;
    field(out, "message", &failure.message)?;
    field(out, "retriable", &failure.retriable)?;
    let details = failure.details.as_deref().map_or("{}", RawValue::get);
    write!(out, ",\"details\":{details}}}")?;
    Ok(())
}

/// The paths of nodes as a list, without building one: a failure may block by thousands.
fn write_names(run: &Run, nodes: &[Instance], out: &mut dyn Write) -> Result<(), Error> {
    let mut serializer = serde_json::Serializer::new(out);
    let mut list = serializer.serialize_seq(Some(nodes.len()))?;
    for &node in nodes {
        list.serialize_element(&run.path(node))?;
    }
    list.end()?;
    Ok(())
}
