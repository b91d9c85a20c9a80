//! `windlass runs`: a page of the list of runs, newest first.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::RunStatus;
use windlass_service::run_item::RunItem;
use windlass_store::{RunFilter, RunPage, TenantFilter, Wait as _};

use crate::args::Runs;
use crate::exit::{Exit, Failure};
use crate::moment::{ago, duration, now, since};
use crate::paint::{DIM, RED, run_glyph, run_style};
use crate::session::{Session, Settings};
use crate::table::{Cell, Table};

/// The most runs that are listed at once; the cursor gives the next page.
const LIMIT: usize = 1000;

/// Lists runs.
pub(crate) fn run(settings: &Settings, arguments: &Runs) -> Result<Exit, Failure> {
    let mut filter = filter(arguments)?;
    let session = Session::queries(settings.clone())?;
    if let Some(parent) = &arguments.parent {
        filter.parent = Some(session.find_run(parent)?);
    }
    let page = session.store.runs(&filter).wait()?;
    if settings.output.json {
        let items: Vec<RunItem> = page.rows.iter().map(Into::into).collect();
        let next = page.next.map(|next| next.to_string());
        settings
            .output
            .json(&json!({ "items": items, "next": next }))?;
        return Ok(Exit::Done);
    }
    if page.rows.is_empty() {
        settings.output.say(match narrowed(arguments) {
            true => "No runs match. `windlass runs` lists them all.",
            false => "No runs yet. `windlass run FILE` starts one.",
        });
        return Ok(Exit::Done);
    }
    settings.output.data(&table(&session, &page)?)?;
    if let Some(next) = page.next {
        settings.output.say(&format!("more: --cursor {next}"));
    }
    Ok(Exit::Done)
}

fn table(session: &Session, page: &RunPage) -> Result<String, Failure> {
    let now = now();
    let mut table = Table::new(&[
        "", "RUN", "WORKFLOW", "STATUS", "CREATED", ">TOOK", "DETAIL",
    ]);
    for row in &page.rows {
        let style = run_style(row.status);
        let until = row.ended_at.unwrap_or(now);
        let took = row
            .started_at
            .map(|started| until.0.saturating_sub(started.0));
        let took = took.map(|took| duration(u64::try_from(took).unwrap_or(0)));
        let labels = row
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let labels = labels.collect::<Vec<_>>().join(" ");
        let detail = match (&row.error_code, &row.error_message) {
            (Some(code), Some(message)) => Cell::styled(format!("{code}: {message}"), RED),
            (Some(code), None) => Cell::styled(code.to_string(), RED),
            (None, _) => Cell::styled(labels, DIM),
        };
        table.row([
            Cell::styled(run_glyph(row.status), style),
            session.short_id(row.run)?.into(),
            format!("{} v{}", row.workflow, row.version).into(),
            Cell::styled(row.status.as_str(), style),
            ago(row.created_at, now).into(),
            took.unwrap_or_default().into(),
            detail,
        ]);
    }
    Ok(table.render(&session.settings.output))
}

fn narrowed(arguments: &Runs) -> bool {
    arguments.workflow.is_some()
        || !arguments.status.is_empty()
        || arguments.since.is_some()
        || !arguments.label.is_empty()
        || arguments.cursor.is_some()
        || arguments.parent.is_some()
}

fn filter(arguments: &Runs) -> Result<RunFilter, Failure> {
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
    Ok(RunFilter {
        tenant: TenantFilter::Any,
        workflow: arguments.workflow.as_deref().map(Into::into),
        statuses,
        labels: labels(&arguments.label)?,
        parent: None,
        since: since.transpose()?,
        before,
        limit: arguments.limit,
    })
}

/// `key=value` pairs.
pub(crate) fn labels(texts: &[String]) -> Result<BTreeMap<Box<str>, Box<str>>, Failure> {
    texts
        .iter()
        .map(|text| match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
            _ => {
                let message = format!("'{text}' is not a label");
                Err(Failure::new(Exit::Usage, "LABEL_INVALID", message).hint("write key=value"))
            }
        })
        .collect()
}
