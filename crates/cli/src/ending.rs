//! How a run ended, printed: the execution as JSON, or a summary, its failures and its
//! output for people.

use std::fmt::Write as _;
use std::io::Write as _;

use windlass_core::event::{Cause, Compensation};
use windlass_core::run::{Failure as NodeFailure, Run};
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::{Plans, load_latest, view};
pub(crate) use windlass_service::text::one_line;
use windlass_store::Wait as _;

use crate::exit::{Exit, Failure};
use crate::foreground::WaitOptions;
use crate::moment::duration;
use crate::output::closed_pipe;
use crate::progress::terminal_size;
use crate::session::Session;
use crate::verdict::{self, Sheet};

/// Failed nodes beyond this many are counted.
const SHOWN: usize = 10;

/// Prints a run as it stands: how it ended on stderr, its output on stdout. Where quiet was asked
/// for, a success says nothing.
pub(crate) fn print(
    session: &Session,
    plans: &Plans,
    run: RunId,
    options: WaitOptions,
) -> Result<(), Failure> {
    let output = session.settings.output;
    if output.json {
        return execution(session, plans, run, options.existing);
    }
    let loaded = load_latest(&*session.store, plans, run)?;
    if !options.quiet || loaded.run.status() != RunStatus::Succeeded {
        output.say_styled(&match output.live {
            true => {
                let sheet = Sheet {
                    width: terminal_size().0.max(40),
                    color: output.live_color,
                };
                let short = session.short_id(run)?;
                verdict::text(&loaded.run, causes(&loaded.run), &short, sheet)
            }
            false => summary(session, &loaded.run),
        });
    }
    if let Some(text) = result(session, &loaded.run)? {
        output.data(&text)?;
    }
    Ok(())
}

/// The execution as JSON, written while it is read.
fn execution(
    session: &Session,
    plans: &Plans,
    run: RunId,
    existing: Option<bool>,
) -> Result<(), Failure> {
    let mut out = session.settings.output.stdout();
    let options = view::Options {
        existing,
        ..view::Options::default()
    };
    match view::write(&*session.store, plans, run, &options, &mut out) {
        Ok(()) => out.flush().or_else(closed_pipe),
        Err(view::Error::Write(error)) => closed_pipe(error),
        Err(error) => Err(error.into()),
    }
}

/// One line about the run, and one for each failed node.
fn summary(session: &Session, run: &Run) -> String {
    let mut text = format!("{} {} {}", run.plan().workflow(), run.id(), run.status());
    // Writing to a string cannot fail, here and below.
    if let (Some(from), Some(to)) = (run.started_at(), run.ended_at()) {
        let _ = write!(
            text,
            " in {}",
            duration(u64::try_from(to.0 - from.0).unwrap_or(0))
        );
    }
    let counts = [
        NodeStatus::Succeeded,
        NodeStatus::Failed,
        NodeStatus::Skipped,
        NodeStatus::Blocked,
        NodeStatus::Cancelled,
    ]
    .into_iter()
    .filter(|&status| run.count(status) > 0)
    .map(|status| format!("{} {}", run.count(status), status.as_str().to_lowercase()));
    let _ = writeln!(text, ": {}", counts.collect::<Vec<_>>().join(", "));
    if let Some(error) = run.finished().and_then(|finished| finished.error.as_ref()) {
        let _ = writeln!(text, "  {}: {}", error.code, one_line(&error.message));
    }
    match run.finished().and_then(|finished| finished.compensation) {
        Some(Compensation::Complete) => text.push_str("  what had succeeded was undone\n"),
        Some(Compensation::Incomplete) => {
            let _ = writeln!(
                text,
                "  not everything could be undone: windlass show {}",
                run.id()
            );
        }
        None => {}
    }
    let causes = causes(run);
    for cause in causes {
        let _ = writeln!(text, "  failed {}", cause_line(run.id(), cause));
    }
    // Loops and child runs that failed with what is behind them, and what was handled.
    let is_cause = |node: u32| {
        let path = run.path(node);
        let mut own = causes.iter().filter(|cause| cause.execution_id == run.id());
        own.any(|cause| cause.node == path)
    };
    let others = || run.failed().filter(|&node| !is_cause(node));
    let room = SHOWN.saturating_sub(causes.len());
    for node in others().take(room) {
        let handled = if run.is_handled(node) {
            " (handled)"
        } else {
            ""
        };
        let what = reason(session, run, node).unwrap_or_default();
        let _ = writeln!(text, "  failed {}: {what}{handled}", run.path(node));
    }
    let more = others().count().saturating_sub(room);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more: windlass show {}", run.id());
    }
    text
}

/// Why a run failed, if that is recorded.
pub(crate) fn causes(run: &Run) -> &[Cause] {
    let error = run.finished().and_then(|finished| finished.error.as_ref());
    error.map(|error| &*error.causes).unwrap_or_default()
}

/// A root cause on one line, with the run that it is in where that is another one.
pub(crate) fn cause_line(run: RunId, cause: &Cause) -> String {
    let whose = match cause.execution_id == run {
        true => String::new(),
        false => format!(" of run {}", cause.execution_id),
    };
    let Cause { code, message, .. } = cause;
    one_line(&format!("{}{whose}: {code}: {message}", cause.place()))
}

fn reason(session: &Session, run: &Run, node: u32) -> Option<String> {
    let text = session
        .values()
        .read(run.id(), &run.value(node)?)
        .wait()
        .ok()?;
    let failure: NodeFailure = serde_json::from_str(&text).ok()?;
    Some(one_line(&format!("{}: {}", failure.code, failure.message)))
}

/// The run's output, indented, if there is one to speak of.
fn result(session: &Session, run: &Run) -> Result<Option<String>, Failure> {
    let Some(stored) = run.finished().and_then(|finished| finished.output.as_ref()) else {
        return Ok(None);
    };
    let text = session.values().resolve(stored).wait()?;
    if &*text == "null" {
        return Ok(None);
    }
    // Never read as numbers: what is stored may have more digits than a number keeps.
    let mut pretty = Vec::new();
    view::Pretty::new(&mut pretty)
        .write_all(text.as_bytes())
        .map_err(|error| Failure::new(Exit::Storage, "OUTPUT_UNREADABLE", error))?;
    Ok(String::from_utf8(pretty).ok())
}
