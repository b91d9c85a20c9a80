//! The lines about the run itself.

use anstyle::Style;
use windlass_core::event::{Cause, Compensation};
use windlass_core::run::Run;
use windlass_engine::view::NodeCounts;

use super::Page;
use crate::ending::cause_line;
use crate::exit::Failure;
use crate::moment::{ago, duration, now, readable};
use crate::paint::{BOLD, DIM, RED, paint, run_glyph, run_style};
use crate::table::folded;
use windlass_service::run_item::RunState;
use windlass_service::text::summary;

/// The columns before a value.
const LABEL: usize = 12;

impl Page<'_> {
    pub(super) fn header(&self) -> Result<String, Failure> {
        let run = &self.overview.run;
        let output = self.session.settings.output;
        let color = output.color;
        let queued = run.queued();
        let status = run.status();
        let state = self.item.state;
        let style = match state {
            RunState::Orphaned | RunState::DeadLettered => RED,
            _ => run_style(status),
        };
        let version = match run.version() {
            0 => " (frozen)".to_owned(),
            version => format!(" v{version}"),
        };
        let mut text = format!(
            "{} {}{version}  {}\n",
            paint(color, style, run_glyph(status)),
            paint(color, BOLD, &queued.workflow),
            paint(color, style, self.state()),
        );
        for (name, value) in self.lines()? {
            let is_error = matches!(name, "error" | "dead" | "orphaned");
            let name = paint(color, DIM, &format!("{name:<10}"));
            let style = if is_error { RED } else { Style::new() };
            let mut before = format!("  {name}");
            for line in folded(&output, &value, LABEL) {
                text.push_str(&format!("{before}{}\n", paint(color, style, &line)));
                before = " ".repeat(LABEL);
            }
        }
        Ok(text)
    }

    /// The status, or the state where the status would mislead.
    fn state(&self) -> &'static str {
        match self.item.state {
            RunState::Orphaned | RunState::DeadLettered | RunState::Waiting => {
                self.item.state.word()
            }
            _ => self.overview.run.status().as_str(),
        }
    }

    fn lines(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let run = &self.overview.run;
        let queued = run.queued();
        let (now, created) = (now(), run.created_at());
        let when = format!("{} ({})", readable(created), ago(created, now));
        let mut lines = vec![("run", run.id().to_string()), ("created", when)];
        if let Some(started) = run.started_at() {
            let until = run.ended_at().unwrap_or(now);
            let took = u64::try_from(until.0.saturating_sub(started.0)).unwrap_or(0);
            let so_far = if run.ended_at().is_some() {
                ""
            } else {
                " so far"
            };
            lines.push(("took", format!("{}{so_far}", duration(took))));
        }
        if queued.request_id.as_ref() != run.id().to_string() {
            lines.push(("request", queued.request_id.to_string()));
        }
        if !queued.labels.is_empty() {
            let labels = queued.labels.iter();
            let labels = labels.map(|(key, value)| format!("{key}={value}"));
            lines.push(("labels", labels.collect::<Vec<_>>().join(" ")));
        }
        if let Some(parent) = &queued.parent {
            let value = format!("{} at {}", parent.execution_id, parent.node);
            lines.push(("parent", value));
        }
        if let Some(origin) = &queued.origin {
            let nodes = origin.nodes.join(", ");
            let mut value = format!("forked from {} at {nodes}", origin.execution_id);
            if let Some(by) = &origin.actor.by {
                value.push_str(&format!(" by {by}"));
            }
            if let Some(reason) = &origin.actor.reason {
                value.push_str(&format!(": {reason}"));
            }
            lines.push(("origin", value));
        }
        if !self.item.forked_as.is_empty() {
            let forks = self.item.forked_as.iter().map(ToString::to_string);
            lines.push(("forked as", forks.collect::<Vec<_>>().join(", ")));
        }
        if let Some(waits_for) = &self.item.waits_for {
            let name = match self.item.state {
                RunState::DeadLettered => "dead",
                RunState::Queued => "queued",
                RunState::Orphaned => "orphaned",
                _ => "waits",
            };
            lines.push((name, waits_for.clone()));
        }
        if let Some(graph) = graph(run) {
            lines.push(("graph", graph));
        }
        if let Some(error) = run.finished().and_then(|finished| finished.error.as_ref()) {
            let message = format!("{}: {}", error.code, error.message);
            lines.push(("error", message));
            // The message names the first; one of another run, or one of several, is listed.
            let is_told = |cause: &Cause| cause.execution_id == run.id();
            if error.causes.len() > 1 || !error.causes.iter().all(is_told) {
                let causes = error.causes.iter();
                lines.extend(causes.map(|cause| ("cause", cause_line(run.id(), cause))));
            }
        }
        lines.push(("nodes", summary(&NodeCounts::of(run))));
        if let Some(words) = undoing(run) {
            lines.push(("undoing", words.to_owned()));
        }
        Ok(lines)
    }
}

/// Where the graph comes from, if not from the version the run began with.
fn graph(run: &Run) -> Option<String> {
    if run.is_frozen() {
        return Some("frozen: it belongs to this run alone".to_owned());
    }
    let began = run.queued().version;
    match (run.is_healing(), run.version() == began) {
        (false, _) => None,
        (true, true) => Some("healing: it follows newer versions".to_owned()),
        (true, false) => Some(format!("healing: it began with v{began}")),
    }
}

/// How undoing stands.
fn undoing(run: &Run) -> Option<&'static str> {
    match run.finished().map(|finished| finished.compensation) {
        Some(Some(Compensation::Complete)) => Some("complete"),
        Some(Some(Compensation::Incomplete)) => Some("incomplete"),
        Some(None) => None,
        None => run.undo().map(|_| "under way"),
    }
}
