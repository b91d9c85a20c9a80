//! `windlass show`: a run and its nodes. Small runs show every node; of large ones what
//! failed and what is under way, and numbers for the rest.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::ops::ControlFlow;

use serde_json::Value;
use windlass_core::plan::NodeIndex;
use windlass_core::run::Run;
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::history::for_each_event;
use windlass_engine::view::{self, Counts, Overview};
use windlass_store::Queries as _;

use crate::args::{Include, Show};
use crate::commands::events::Lines;
use crate::ending::one_line;
use crate::exit::{Exit, Failure};
use crate::moment::{ago, duration, now, readable};
use crate::output::closed_pipe;
use crate::paint::{BOLD, DIM, RED, node_glyph, node_style, paint, run_glyph, run_style};
use crate::session::{Session, Settings};
use crate::table::{Cell, Table};

/// Runs with more nodes than this show what matters first.
const ALL_NODES: usize = 50;

/// Of what failed and of what is under way, large runs show this many each.
const SOME_NODES: usize = 20;

/// Shows a run.
pub(crate) fn run(settings: &Settings, arguments: &Show) -> Result<Exit, Failure> {
    let session = Session::look(settings.clone())?;
    let id = session.find_run(&arguments.run)?;
    if settings.output.json {
        write_json(&session, id, arguments)?;
        return Ok(Exit::Done);
    }
    let overview = view::overview(&session.store, &session.plans, id)?;
    let chosen = chosen(&overview.run, &arguments.nodes)?;
    let page = Page {
        session: &session,
        overview: &overview,
        short: session.short_id(id)?,
    };
    let mut text = page.header();
    text.push('\n');
    text.push_str(&page.nodes(chosen.as_ref())?);
    for include in &arguments.include {
        match include {
            Include::Actions => text.push_str(&page.attempts(chosen.as_ref())?),
            Include::Resources => text.push_str(&page.resources()?),
            Include::Events => text.push_str(&page.events()?),
        }
    }
    settings.output.data(&text)?;
    if let Some(next) = page.next_command() {
        settings.output.say(&format!("\nnext: {next}"));
    }
    Ok(Exit::Done)
}

/// Writes a run as JSON to stdout.
pub(crate) fn write_json(session: &Session, id: RunId, arguments: &Show) -> Result<(), Failure> {
    let nodes = if arguments.nodes.is_empty() {
        None
    } else {
        let loaded = windlass_engine::load_run(&session.store, &session.plans, id, |_, _| {})?;
        chosen(&loaded.run, &arguments.nodes)?
    };
    let options = view::Options {
        existing: None,
        actions: arguments.include.contains(&Include::Actions),
        resources: arguments.include.contains(&Include::Resources),
        events: arguments.include.contains(&Include::Events),
        nodes,
    };
    let mut out = io::BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    match view::write(&session.store, &session.plans, id, &options, &mut out) {
        Ok(()) => out.flush().or_else(closed_pipe),
        Err(view::Error::Write(error)) => closed_pipe(error),
        Err(error) => {
            // What was written is not whole; it must not look as if it were.
            let _ = out.flush();
            Err(error.into())
        }
    }
}

/// The nodes that were asked for by name.
fn chosen(run: &Run, names: &[String]) -> Result<Option<BTreeSet<NodeIndex>>, Failure> {
    if names.is_empty() {
        return Ok(None);
    }
    let found = names.iter().map(|name| node(run, name));
    found.collect::<Result<_, _>>().map(Some)
}

/// The node with this path.
pub(crate) fn node(run: &Run, name: &str) -> Result<NodeIndex, Failure> {
    run.plan().index(name).ok_or_else(|| {
        let message = format!("the run has no node '{name}'");
        Failure::new(Exit::NotFound, "NODE_NOT_FOUND", message)
            .hint("`windlass show RUN` lists them")
    })
}

/// What is shown of a run.
struct Page<'a> {
    session: &'a Session,
    overview: &'a Overview,
    short: String,
}

impl Page<'_> {
    fn header(&self) -> String {
        let run = &self.overview.run;
        let color = self.session.settings.output.color;
        let queued = run.queued();
        let status = run.status();
        let style = run_style(status);
        let dim = |text: &str| paint(color, DIM, text);
        let mut text = format!(
            "{} {} v{}  {}\n",
            paint(color, style, run_glyph(status)),
            paint(color, BOLD, &queued.workflow),
            queued.version,
            paint(color, style, status.as_str()),
        );
        let mut line = |name: &str, value: &str| {
            text.push_str(&format!("  {}{value}\n", dim(&format!("{name:<10}"))));
        };
        line("run", &run.id().to_string());
        let now = now();
        let created = run.created_at();
        line(
            "created",
            &format!("{} ({})", readable(created), ago(created, now)),
        );
        if let Some(started) = run.started_at() {
            let until = run.ended_at().unwrap_or(now);
            let took = u64::try_from(until.0.saturating_sub(started.0)).unwrap_or(0);
            let so_far = if run.ended_at().is_some() {
                ""
            } else {
                " so far"
            };
            line("took", &format!("{}{so_far}", duration(took)));
        }
        if queued.request_id.as_ref() != run.id().to_string() {
            line("request", &queued.request_id);
        }
        if !queued.labels.is_empty() {
            let labels = queued
                .labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"));
            line("labels", &labels.collect::<Vec<_>>().join(" "));
        }
        if let Some(error) = run.finished().and_then(|finished| finished.error.as_ref()) {
            let message = format!("{}: {}", error.code, error.message);
            line("error", &paint(color, RED, &message));
        }
        line("nodes", &summary(&Counts::of(run)));
        text
    }

    fn nodes(&self, chosen: Option<&BTreeSet<NodeIndex>>) -> Result<String, Failure> {
        let run = &self.overview.run;
        let count = run.plan().len();
        let all = || 0..count as NodeIndex;
        let (shown, hidden): (Vec<NodeIndex>, usize) = match chosen {
            Some(nodes) => (nodes.iter().copied().collect(), 0),
            None if count <= ALL_NODES => (all().collect(), 0),
            None => {
                let open = |node: &NodeIndex| {
                    let status = run.node_status(*node);
                    !status.is_final() && status != NodeStatus::Pending
                };
                let mut shown: Vec<NodeIndex> = run.failed().take(SOME_NODES).collect();
                shown.extend(all().filter(open).take(SOME_NODES));
                let hidden = count - shown.len();
                (shown, hidden)
            }
        };
        let mut text = String::new();
        if !shown.is_empty() {
            text = self.table(&shown)?;
        }
        if hidden > 0 {
            let short = &self.short;
            text.push_str(&format!(
                "  {hidden} more nodes: `windlass show {short} --nodes NODE,…` or `--json`\n"
            ));
        }
        Ok(text)
    }

    fn table(&self, nodes: &[NodeIndex]) -> Result<String, Failure> {
        let Overview { run, times } = self.overview;
        let now = now();
        let mut table = Table::new(&["", "NODE", "ACTION", "STATUS", ">TRIES", ">TOOK", "DETAIL"]);
        for &node in nodes {
            let status = run.node_status(node);
            let style = node_style(status);
            let attempts = run.attempts(node);
            let tries = if attempts > 0 {
                attempts.to_string()
            } else {
                String::new()
            };
            table.row([
                Cell::styled(node_glyph(status), style),
                run.plan().id(node).into(),
                Cell::styled(
                    run.plan()
                        .action(node)
                        .unwrap_or_else(|| run.plan().kind(node).as_str()),
                    DIM,
                ),
                Cell::styled(status.as_str(), style),
                tries.into(),
                times
                    .took(node, now)
                    .map(duration)
                    .unwrap_or_default()
                    .into(),
                self.detail(node)?.into(),
            ]);
        }
        Ok(table.render(&self.session.settings.output))
    }

    /// What a node's status does not say, in a few words.
    fn detail(&self, node: NodeIndex) -> Result<String, Failure> {
        let run = &self.overview.run;
        Ok(match run.node_status(node) {
            NodeStatus::Failed => {
                let handled = if run.is_handled(node) {
                    "handled; "
                } else {
                    ""
                };
                format!(
                    "{handled}{}",
                    error_of(self.session, run, node)?.unwrap_or_default()
                )
            }
            NodeStatus::Blocked => format!("by {}", names(run, run.blocked_by(node))),
            NodeStatus::Waiting => run
                .due(node)
                .map(|due| format!("next attempt at {}", readable(due)))
                .unwrap_or_default(),
            _ => run.plan().name(node).unwrap_or_default().to_owned(),
        })
    }

    fn attempts(&self, chosen: Option<&BTreeSet<NodeIndex>>) -> Result<String, Failure> {
        let run = &self.overview.run;
        let mut table = Table::new(&["NODE", ">ATTEMPT", "ENDED", ">TOOK", "HOW", "DETAIL"]);
        for_each_event(
            &self.session.store,
            &self.session.plans,
            run.id(),
            |event| {
                let how = match event.kind {
                    "NodeSucceeded" => "succeeded",
                    "NodeFailed" => "failed",
                    "NodeRetryScheduled" => "failed, retried",
                    "NodeSkipped" => "skipped",
                    "NodeCancelled" => "cancelled",
                    _ => return ControlFlow::Continue(()),
                };
                let (Some(node), Some(attempt)) = (&event.node, event.attempt) else {
                    return ControlFlow::Continue(());
                };
                let index = run.plan().index(node);
                if chosen.is_some_and(|nodes| index.is_none_or(|index| !nodes.contains(&index))) {
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
        let rows = self.session.store.resources(self.overview.run.id())?;
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
        for_each_event(&self.session.store, &self.session.plans, run, |event| {
            text.push_str(&lines.line(&event));
            ControlFlow::Continue(())
        })?;
        Ok(text)
    }

    /// What somebody who looks at this run most likely wants to do next.
    fn next_command(&self) -> Option<String> {
        let run = &self.overview.run;
        let short = &self.short;
        match run.status() {
            RunStatus::Succeeded => None,
            RunStatus::Failed if run.retriable_nodes().is_empty() => {
                Some(format!("windlass events {short}"))
            }
            RunStatus::Failed | RunStatus::Cancelled => Some(format!("windlass reattempt {short}")),
            RunStatus::Paused => Some(format!("windlass resume {short}")),
            RunStatus::Pending | RunStatus::Running => match self.session.store.holder() {
                Some(_) => Some(format!("windlass watch {short}")),
                None => Some(format!("windlass resume {short}  (nobody carries it on)")),
            },
        }
    }
}

/// `4 succeeded · 1 failed`.
pub(crate) fn summary(counts: &Counts) -> String {
    let parts = counts.list().into_iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    parts.join(" · ")
}

/// A failed node's error in one line.
pub(crate) fn error_of(
    session: &Session,
    run: &Run,
    node: NodeIndex,
) -> Result<Option<String>, Failure> {
    let Some(value) = run.value(node) else {
        return Ok(None);
    };
    let text = session.values().read(run.id(), &value)?;
    let error: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(Some(one_line(&error_text(&error))))
}

fn error_text(error: &Value) -> String {
    let part = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{}: {}", part("code"), part("message"))
}

/// A few names, and how many more.
pub(crate) fn names(run: &Run, nodes: &[NodeIndex]) -> String {
    const NAMED: usize = 3;
    let named = nodes.iter().take(NAMED).map(|&node| run.plan().id(node));
    let named = named.collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
