//! `windlass show`: a run and its nodes. Small runs show every node; of large ones what
//! failed and what is under way, and numbers for the rest. A loop is one line, unless
//! what is inside it is asked for.

mod header;
mod node;
mod rows;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::ops::ControlFlow;

use serde_json::Value;
use windlass_core::event::Compensation;
use windlass_core::run::Run;
use windlass_core::{RunId, RunStatus};
use windlass_engine::LoadError;
use windlass_engine::history::for_each_event;
use windlass_engine::view::{self, Nodes, Overview};
use windlass_service::run_item::{RunItem, RunState};
use windlass_service::text::{error_text, one_line};
use windlass_service::why::no_such_node;
use windlass_store::Wait as _;

use crate::args::{Include, Show};
use crate::commands::events::Lines;
use crate::commands::version_word;
use crate::exit::{Exit, Failure};
use crate::moment::{duration, readable};
use crate::output::closed_pipe;
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::Table;
use crate::wait_state::has_instance;

/// Shows a run.
pub(crate) fn run(settings: &Settings, arguments: &Show) -> Result<Exit, Failure> {
    if let Some(node) = &arguments.node {
        return node::run(settings, &arguments.run, node);
    }
    let session = Session::queries(settings.clone())?;
    if settings.output.json {
        if let Some(server) = session.server() {
            let text = remote::execution(server, arguments)?;
            settings.output.data(&String::from_utf8_lossy(&text))?;
            return Ok(Exit::Done);
        }
        write_json(&session, session.find_run(&arguments.run)?, arguments)?;
        return Ok(Exit::Done);
    }
    let details = session.open_run(&arguments.run)?;
    let id = details.item.execution_id;
    let overview = match view::overview(&*session.store, &session.plans, id) {
        Err(error) if details.item.state == RunState::DeadLettered => {
            settings.output.data(&unreadable(&details.item, &error))?;
            return Ok(Exit::Done);
        }
        overview => overview?,
    };
    let chosen = chosen(&overview.run, arguments)?;
    let page = Page {
        session: &session,
        overview: &overview,
        item: &details.item,
        at_work: match overview.run.status().is_final() {
            true => view::AtWork::default(),
            false => session.at_work(id),
        },
        short: session.short_id(id)?,
    };
    let mut text = page.header()?;
    text.push('\n');
    text.push_str(&page.nodes(&chosen)?);
    text.push_str(&page.undoing()?);
    for include in &arguments.include {
        match include {
            Include::Actions => text.push_str(&page.attempts(&chosen)?),
            Include::Resources => text.push_str(&page.resources()?),
            Include::Events => text.push_str(&page.events()?),
        }
    }
    settings.output.data(&text)?;
    if let Some(next) = page.next_command() {
        settings.output.say_lines(&format!("\nnext: {next}"));
    }
    Ok(Exit::Done)
}

/// A dead letter whose log cannot be read: what its line says.
fn unreadable(item: &RunItem, error: &LoadError) -> String {
    let (run, workflow) = (item.execution_id, &item.workflow_id);
    let reason = item.waits_for.as_deref().unwrap_or_default();
    format!(
        "✗ {workflow} {}  {}\n  run       {run}\n  dead      {}\n  error     {}\n",
        version_word(item.version),
        item.state.word(),
        one_line(reason),
        one_line(&error.to_string()),
    )
}

/// Writes a run as JSON to stdout.
pub(crate) fn write_json(session: &Session, id: RunId, arguments: &Show) -> Result<(), Failure> {
    let nodes = if arguments.nodes.is_empty() && !arguments.expand {
        Nodes::Few
    } else {
        let loaded = windlass_engine::load_run(&*session.store, &session.plans, id, |_, _| {})?;
        chosen(&loaded.run, arguments)?
    };
    let options = view::Options {
        at: None,
        existing: None,
        actions: match arguments.include.contains(&Include::Actions) {
            true => view::AttemptFilter::All,
            false => view::AttemptFilter::None,
        },
        resources: arguments.include.contains(&Include::Resources),
        events: arguments.include.contains(&Include::Events),
        nodes,
        at_work: match session.status(id)?.is_final() {
            true => view::AtWork::default(),
            false => session.at_work(id),
        },
    };
    let mut out = session.settings.output.stdout();
    match view::write(&*session.store, &session.plans, id, &options, &mut out) {
        Ok(()) => out.flush().or_else(closed_pipe),
        Err(view::Error::Write(error)) => closed_pipe(error),
        Err(error) => {
            // The output is incomplete; the failure that follows says so.
            let _ = out.flush();
            Err(error.into())
        }
    }
}

/// The instances that were asked for: by name, all, or those of the top level.
fn chosen(run: &Run, arguments: &Show) -> Result<Nodes, Failure> {
    let names = &arguments.nodes;
    if names.iter().any(|name| name == "all") || (names.is_empty() && arguments.expand) {
        return Ok(Nodes::All);
    }
    if names.is_empty() {
        return Ok(Nodes::Top);
    }
    let found = names.iter().map(|name| {
        let path = run.plan().named_path(name);
        let path = path.map_err(windlass_service::Failure::from)?;
        if has_instance(run, &path) {
            return Ok(path.into());
        }
        Err(Failure::from(no_such_node(name)))
    });
    found
        .collect::<Result<BTreeSet<Box<str>>, _>>()
        .map(Nodes::Only)
}

/// What is shown of a run.
struct Page<'a> {
    session: &'a Session,
    overview: &'a Overview,
    /// The run as lists have it.
    item: &'a RunItem,
    /// What workers have now.
    at_work: view::AtWork,
    short: String,
}

impl Page<'_> {
    fn attempts(&self, chosen: &Nodes) -> Result<String, Failure> {
        let run = &self.overview.run;
        let mut table = Table::new(&["NODE", ">ATTEMPT", "ENDED", ">TOOK", "HOW", "DETAIL"]);
        for_each_event(
            &*self.session.store,
            &self.session.plans,
            run.id(),
            |event| {
                let how = match event.kind {
                    "NodeSucceeded" => "succeeded",
                    "NodeFailed" => "failed",
                    "NodeRetryScheduled" => "failed, retried",
                    "NodeSkipped" => "skipped",
                    "NodeCancelled" => "cancelled",
                    "NodeSetByHand" => "by hand",
                    "CompensationSucceeded" => "undone",
                    "CompensationFailed" => "not undone",
                    _ => return ControlFlow::Continue(()),
                };
                let (Some(node), Some(attempt)) = (&event.node, event.attempt) else {
                    return ControlFlow::Continue(());
                };
                if !chosen.includes(node) {
                    return ControlFlow::Continue(());
                }
                let took = event.data.get("durationMs").and_then(Value::as_u64);
                let error = event.data.get("error").map(error_text);
                table.row([
                    node.to_string().into(),
                    attempt.to_string().into(),
                    readable(event.at).into(),
                    took.map(duration).unwrap_or_default().into(),
                    how.into(),
                    error.unwrap_or_default().into(),
                ]);
                ControlFlow::Continue(())
            },
        )?;
        Ok(format!("\n{}", table.render(&self.session.settings.output)))
    }

    fn resources(&self) -> Result<String, Failure> {
        let rows = self
            .session
            .store
            .resources(self.overview.run.id())
            .wait()?;
        if rows.is_empty() {
            return Ok("\nno resources\n".to_owned());
        }
        let mut table = Table::new(&["SYSTEM", "TYPE", "ID", "NODE", "URL"]);
        for row in rows {
            table.row([
                row.system.to_string().into(),
                row.kind.to_string().into(),
                row.id.to_string().into(),
                row.node.to_string().into(),
                row.url.as_deref().unwrap_or_default().into(),
            ]);
        }
        Ok(format!("\n{}", table.render(&self.session.settings.output)))
    }

    fn events(&self) -> Result<String, Failure> {
        let mut lines = Lines::new(self.session.settings.output);
        let mut text = String::from("\n");
        let run = self.overview.run.id();
        for_each_event(&*self.session.store, &self.session.plans, run, |event| {
            text.push_str(&lines.line(&event));
            ControlFlow::Continue(())
        })?;
        Ok(text)
    }

    /// The command that the user most likely wants to type next.
    fn next_command(&self) -> Option<String> {
        let run = &self.overview.run;
        let short = &self.short;
        if self.item.state == RunState::DeadLettered {
            return Some(format!("windlass dead-letters requeue {short}"));
        }
        match run.status() {
            RunStatus::Succeeded => None,
            // Nodes that were compensated cannot be reattempted; a failed compensation can be
            // retried.
            RunStatus::Failed | RunStatus::Cancelled if run.undo().is_some() => {
                let finished = run.finished();
                let outcome = finished.and_then(|finished| finished.compensation);
                Some(match outcome {
                    Some(Compensation::Incomplete) => {
                        format!("windlass compensate {short} --preview")
                    }
                    _ => format!("windlass events {short}"),
                })
            }
            RunStatus::Failed if run.retriable_nodes().is_empty() => {
                Some(format!("windlass events {short}"))
            }
            RunStatus::Failed | RunStatus::Cancelled => Some(format!("windlass reattempt {short}")),
            RunStatus::Paused => Some(format!("windlass resume {short}")),
            RunStatus::Pending | RunStatus::Running => match &self.session.holder {
                Some(_) => Some(format!("windlass watch {short}")),
                None => Some(format!("windlass resume {short}  (no process executes it)")),
            },
        }
    }
}
