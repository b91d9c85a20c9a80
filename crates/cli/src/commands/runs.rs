//! `windlass runs`: a page of the list of runs, newest first.

use serde_json::json;
use windlass_core::{RunId, RunStatus};
use windlass_service::filter::labels;
use windlass_service::run_item::{RunDetails, RunItem, RunState};
use windlass_service::run_list::{self, RunSelection};
use windlass_store::{Relatives, RunFilter, block_on};

use crate::args::Runs;
use crate::catalogue;
use crate::exit::{Exit, Failure};
use crate::moment::{ago, duration, now, since};
use crate::paint::{DIM, RED, run_glyph, run_style};
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::{Cell, Table};

/// The most runs that are listed at once; the cursor gives the next page.
const LIMIT: usize = 1000;

/// Lists runs.
pub(crate) fn run(settings: &Settings, arguments: &Runs) -> Result<Exit, Failure> {
    let mut selection = selection(arguments)?;
    let session = Session::queries(settings.clone())?;
    if let Some(parent) = &arguments.parent {
        selection.filter.parent = Some(session.find_run(parent)?);
    }
    if !arguments.children {
        selection.fold_children();
    }
    let (items, next) = page(&session, &selection)?;
    if settings.output.json {
        let items: Vec<&RunItem> = items.iter().map(|details| &details.item).collect();
        let next = next.map(|next| next.to_string());
        settings
            .output
            .json(&json!({ "items": items, "next": next }))?;
        return Ok(Exit::Done);
    }
    if items.is_empty() {
        settings.output.say(&nothing_found(&session, arguments));
        return Ok(Exit::Done);
    }
    settings.output.data(&table(&session, &items)?)?;
    if let Some(next) = next {
        settings.output.say(&format!("more: --cursor {next}"));
    }
    Ok(Exit::Done)
}

/// What is said of an empty list. A filter by a workflow that is not published was probably meant
/// for another one.
fn nothing_found(session: &Session, arguments: &Runs) -> String {
    let workflow = arguments.workflow.as_deref();
    let absent = workflow.and_then(|it| block_on(catalogue::absent(&*session.store, None, it)));
    match (absent, narrowed(arguments)) {
        (Some(absent), _) => format!("No runs match: {absent}"),
        (None, true) => "No runs match. `windlass runs` lists them all.".to_owned(),
        (None, false) => "No runs yet. `windlass run FILE` starts one.".to_owned(),
    }
}

/// A page, and where the next one begins. A server knows what its runs wait for; so does the
/// process that holds the data directory, if it can be asked.
fn page(
    session: &Session,
    selection: &RunSelection,
) -> Result<(Vec<RunDetails>, Option<RunId>), Failure> {
    if session.server().is_some() {
        return session.list_remote(selection);
    }
    if let Some(server) = session.holding_server()
        && let Ok(page) = remote::list_runs(&server, selection)
    {
        return Ok(page);
    }
    let page = run_list::page(session, selection)?;
    Ok((run_list::details(session, &page.rows)?, page.next))
}

fn table(session: &Session, items: &[RunDetails]) -> Result<String, Failure> {
    let now = now();
    let mut table = Table::new(&[
        "", "RUN", "WORKFLOW", "STATUS", "CREATED", ">TOOK", "LABELS", "DETAIL",
    ]);
    for RunDetails { item, .. } in items {
        let style = match item.state {
            RunState::Orphaned | RunState::DeadLettered => RED,
            _ => run_style(item.status),
        };
        let until = item.ended_at.map_or(now, |at| at.0);
        let took = item
            .started_at
            .map(|started| until.0.saturating_sub(started.0.0));
        let took = took.map(|took| duration(u64::try_from(took).unwrap_or(0)));
        let labels = item.labels.iter();
        let labels = labels.map(|(key, value)| format!("{key}={value}"));
        let labels = labels.collect::<Vec<_>>().join(" ");
        table.row([
            Cell::styled(run_glyph(item.status), style),
            session.short_id(item.execution_id)?.into(),
            versioned(&item.workflow_id, item.version.into()).into(),
            Cell::styled(item.state.word(), style),
            ago(item.created_at.0, now).into(),
            took.unwrap_or_default().into(),
            Cell::styled(labels, DIM),
            detail(session, item)?,
        ]);
    }
    Ok(table.render(&session.settings.output))
}

/// Why a run failed or what it waits for, then the runs that belong to it.
fn detail(session: &Session, item: &RunItem) -> Result<Cell, Failure> {
    let mut parts = Vec::new();
    if let Some(error) = &item.error {
        parts.push(match &error.message {
            Some(message) => format!("{}: {message}", error.code),
            None => error.code.to_string(),
        });
    }
    parts.extend(item.waits_for.clone());
    if let Some(fork) = item.forked_as.first() {
        parts.push(format!("forked as {}", session.short_id(*fork)?));
    }
    match item.children {
        0 => {}
        1 => parts.push("1 child run".to_owned()),
        count if count >= Relatives::MOST_CHILDREN => {
            parts.push(format!("{count} child runs and more"));
        }
        count => parts.push(format!("{count} child runs")),
    }
    let is_bad =
        item.error.is_some() || matches!(item.state, RunState::Orphaned | RunState::DeadLettered);
    Ok(Cell::styled(
        parts.join("; "),
        if is_bad { RED } else { DIM },
    ))
}

/// A workflow with the version of its graph; a graph of the run's own has none.
pub(crate) fn versioned(workflow: &str, version: u64) -> String {
    match version {
        0 => format!("{workflow} (frozen)"),
        version => format!("{workflow} v{version}"),
    }
}

fn narrowed(arguments: &Runs) -> bool {
    arguments.workflow.is_some()
        || !arguments.status.is_empty()
        || arguments.since.is_some()
        || !arguments.label.is_empty()
        || arguments.cursor.is_some()
        || arguments.parent.is_some()
        || arguments.error.is_some()
        || arguments.waiting
        || arguments.dead
        || arguments.orphaned
        || arguments.unresolved
}

fn selection(arguments: &Runs) -> Result<RunSelection, Failure> {
    let usage = |code, message: String| Failure::new(Exit::Usage, code, message);
    let statuses = arguments
        .status
        .iter()
        .flat_map(|text| text.split(','))
        .map(|text| {
            text.parse::<RunStatus>().map_err(|_| {
                let known = RunStatus::ALL.map(RunStatus::as_str).join(", ");
                usage(
                    "STATUS_UNKNOWN",
                    format!("'{text}' is not a status of runs"),
                )
                .hint(format!("they are {known}"))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let since = arguments.since.as_deref().map(|text| since(text, now()));
    let before = arguments
        .cursor
        .as_deref()
        .map(|text| {
            text.parse().map_err(|_| {
                usage("CURSOR_INVALID", format!("'{text}' is not a cursor"))
                    .hint("take it from `next` of the page before")
            })
        })
        .transpose()?;
    if arguments.limit == 0 || arguments.limit > LIMIT {
        return Err(usage(
            "LIMIT_INVALID",
            format!("--limit is between 1 and {LIMIT}"),
        ));
    }
    let filter = RunFilter {
        workflow: arguments.workflow.as_deref().map(Into::into),
        version: arguments.version,
        statuses,
        labels: labels(&arguments.label)?,
        error: arguments.error.as_deref().map(Into::into),
        waiting: arguments.waiting,
        dead: arguments.dead.then_some(true),
        unforked: arguments.unresolved,
        since: since.transpose()?,
        before,
        limit: arguments.limit,
        ..RunFilter::default()
    };
    Ok(RunSelection {
        filter,
        orphaned: arguments.orphaned,
    })
}
