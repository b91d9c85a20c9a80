//! One node of an execution's JSON.

use std::io::Write;

use serde::ser::{SerializeSeq as _, Serializer as _};
use serde_json::value::RawValue;
use windlass_core::NodeStatus;
use windlass_core::event::{AttemptEnded, AttemptResult};
use windlass_core::plan::NodeIndex;
use windlass_core::run::{Failure, Run};
use windlass_core::value::Stored;

use super::json::{Error, View, field, moment};
use crate::values::stored_text;

/// The node whose present status this attempt brought about, if it is that.
pub(super) fn ended_by(run: &Run, ended: &AttemptEnded) -> Option<NodeIndex> {
    let node = run.plan().index(&ended.node)?;
    let status = match ended.result {
        AttemptResult::Succeeded(_) => NodeStatus::Succeeded,
        AttemptResult::Failed(_) => NodeStatus::Failed,
        AttemptResult::Skipped {} => NodeStatus::Skipped,
        AttemptResult::Stopped {} => NodeStatus::Cancelled,
        AttemptResult::Retrying { .. } => return None,
    };
    (run.attempt(node) == ended.attempt && run.node_status(node) == status).then_some(node)
}

/// A node, with the end of its last attempt if that ended it.
pub(super) struct Entry<'a> {
    pub(super) node: NodeIndex,
    pub(super) ended: Option<&'a AttemptEnded>,
}

impl Entry<'_> {
    pub(super) fn write(&self, view: &View<'_>, out: &mut dyn Write) -> Result<(), Error> {
        let (run, times) = (&view.overview.run, &view.overview.times);
        let (plan, node) = (run.plan(), self.node);
        let status = run.node_status(node);
        serde_json::to_writer(&mut *out, plan.id(node))?;
        write!(out, ":{{\"status\":\"{status}\"")?;
        field(out, "name", &plan.name(node))?;
        field(out, "actionType", &plan.action(node))?;
        field(out, "attempts", &run.attempts(node))?;
        out.write_all(b",\"output\":")?;
        match self.ended.map(|ended| &ended.result) {
            Some(AttemptResult::Succeeded(output)) => view.stored(output, out)?,
            _ => out.write_all(b"null")?,
        }
        out.write_all(b",\"error\":")?;
        match self.ended.map(|ended| &ended.result) {
            Some(AttemptResult::Failed(error)) => write_error(view, error, out)?,
            _ => out.write_all(b"null")?,
        }
        let handled = (status == NodeStatus::Failed).then(|| run.is_handled(node));
        field(out, "handled", &handled)?;
        out.write_all(b",\"blockedBy\":")?;
        write_names(run, run.blocked_by(node), out)?;
        field(out, "ancestryHash", &run.ancestry(node))?;
        moment(out, "startedAt", times.started(node))?;
        moment(out, "endedAt", times.ended(node))?;
        out.write_all(b"}")?;
        Ok(())
    }
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

/// The ids of nodes as a list, without building one: a failure may block by thousands.
fn write_names(run: &Run, nodes: &[NodeIndex], out: &mut dyn Write) -> Result<(), Error> {
    let mut serializer = serde_json::Serializer::new(out);
    let mut list = serializer.serialize_seq(Some(nodes.len()))?;
    for &node in nodes {
        list.serialize_element(run.plan().id(node))?;
    }
    list.end()?;
    Ok(())
}
