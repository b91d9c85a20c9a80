//! The first HTML of each address, with what a person needs to see at once: lists, and a run's
//! status and causes.

use windlass_core::printable::one_line;
use windlass_core::{RunId, RunStatus};
use windlass_engine::view::NodeCounts;
use windlass_service::layout::{self, Drawable};
use windlass_service::moment::{duration, readable};
use windlass_service::progress::ProgressCache;
use windlass_service::run_item::RunItem;
use windlass_service::run_list::{self, RunSelection};
use windlass_service::text::summary;
use windlass_service::{Failure, FailureKind, RunQueries, catalogue, why};
use windlass_store::{RunFilter, RunRow, Wait as _, block_on};

use super::content::Content;
use super::html::Text;
use crate::handlers::{head_text, page_selection, recent_events, run_page, statuses_text};

/// How many rows a list has: what fills a tall screen, since the browser lays all of them out
/// before it shows any.
const ROWS: usize = 25;

/// How many rows the view of runs asks for, which its HTML has with it: `PAGE` in
/// `web/views/runs.js`.
const LISTED: usize = 100;

/// Up to how many nodes a run's layout and statuses are in its HTML. Those of larger graphs can
/// take long to compute, which must not delay the first byte.
const DRAWN: usize = 2000;

/// How large a run without its nodes may be in its HTML: one that is larger has no values there.
const HEAD_BYTES: usize = 64 * 1024;

/// How many of the newest events are in a run's HTML, and how large they may be together.
const EVENTS: u64 = 100;
const EVENT_BYTES: usize = 256 * 1024;

/// How many nodes are named beside the sentence about a run.
const NODES: usize = 20;

/// The newest runs, of those that the address chooses.
pub(super) fn runs(queries: &RunQueries, query: &str) -> Result<Content, Failure> {
    let selection = page_selection(queries, query);
    let mut body = Text::default();
    body.markup("<h1>Runs</h1>");
    if let Err(failure) = &selection {
        body.markup("<p class=\"error\" role=\"alert\">")
            .text(&failure.message)
            .markup("</p>");
    }
    // What the address says wrong is refused by the API too, and said by the view.
    let is_answer = selection.is_ok();
    let mut selection = selection.unwrap_or_else(|_| RunSelection {
        filter: RunFilter {
            tenant: queries.tenants.clone(),
            ..RunFilter::default()
        },
        orphaned: false,
    });
    selection.filter.limit = LISTED;
    let page = run_list::page(queries, &selection)?;
    if page.rows.is_empty() {
        body.markup("<p class=\"empty\">There are no such runs. ")
            .markup("<code>windlass run FILE</code> starts one.</p>");
    } else {
        rows(&page.rows[..page.rows.len().min(ROWS)], &mut body);
    }
    if page.next.is_some() || page.rows.len() > ROWS {
        body.markup("<p>There are more. <code>windlass runs</code> lists them.</p>");
    }
    let mut content = Content::new("Runs", body);
    if is_answer {
        let answer = run_page(queries, &page)?;
        let text = serde_json::to_string(&answer)
            .map_err(|error| Failure::new(FailureKind::OutputFailed, error))?;
        content.answer("list", &text);
    }
    Ok(content)
}

fn rows(rows: &[RunRow], body: &mut Text) {
    body.markup("<table class=\"runs\"><thead><tr><th>Status</th><th>Run</th><th>Workflow</th>")
        .markup("<th>Created</th><th>Took</th><th>Cause</th></tr></thead><tbody>");
    for row in rows {
        let run = row.run.to_string();
        body.markup("<tr").attribute("data-run", &run);
        body.attribute("data-status", row.status.as_str());
        body.attribute("data-workflow", &row.workflow).markup(">");
        body.cell(row.status.as_str());
        body.markup("<td>")
            .link("/runs/", &run, &run)
            .markup("</td>");
        body.markup("<td>");
        body.link("/workflows/", &row.workflow, &row.workflow);
        body.markup(" ").text(&format!("v{}", row.version));
        body.markup("</td>").cell(&readable(row.created_at));
        let took = row.started_at.zip(row.ended_at);
        let took = took.map(|(from, to)| duration(milliseconds(from.0, to.0)));
        body.cell(&took.unwrap_or_default());
        let error = RunItem::from(row).error;
        let cause = error.map(|error| match &error.message {
            Some(message) => message.to_string(),
            None => error.code.to_string(),
        });
        body.cell(&cause.unwrap_or_default()).markup("</tr>");
    }
    body.markup("</tbody></table>");
}

fn milliseconds(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

/// Up to how many node instances and events a run is read a second time, to say what each node
/// waits for.
const EXPLAINED: usize = 5000;
const EXPLAINED_EVENTS: u64 = 20_000;

/// A run: how it stands, why, and its root causes; and its graph, if it belongs to the HTML.
/// `is_now` says that the address means the run as it is, with no loop opened.
pub(super) fn run(
    queries: &RunQueries,
    runs: &ProgressCache,
    id: &str,
    is_now: bool,
) -> Result<(Content, Option<Drawable>), Failure> {
    let missing = || {
        let message = format!("there is no run {}", one_line(id));
        Failure::new(FailureKind::RunNotFound, message)
    };
    let run: RunId = id.parse().map_err(|_| missing())?;
    let row = queries.row(run)?;
    let mut body = Text::default();
    heading(&row, &mut body);
    let mut nodes = 0;
    let mut position = 0;
    let is_short = runs.read(queries, run, |progress| {
        let state = progress.run().expect("it was read");
        fact("Nodes", &summary(&NodeCounts::of(state)), &mut body);
        body.markup("</dl>");
        if let Some(error) = state.finished().and_then(|it| it.error.as_ref()) {
            body.markup("<h2>Why it failed</h2><p class=\"error\" role=\"alert\"><strong>")
                .text(&error.code)
                .markup("</strong> ")
                .text(&error.message)
                .markup("</p><ol class=\"causes\">");
            for cause in &error.causes {
                let owner = cause.execution_id.to_string();
                body.markup("<li>").link("/runs/", &owner, &cause.place());
                body.markup(" <strong>").text(&cause.code);
                body.markup("</strong> ").text(&cause.message);
                body.markup("</li>");
            }
            body.markup("</ol>");
        }
        nodes = state.plan().total();
        position = progress.position();
        let instances = state.instances().count();
        Ok(instances <= EXPLAINED && progress.position() <= EXPLAINED_EVENTS)
    })?;
    if is_short {
        reasons(queries, run, &mut body)?;
    }
    let title = format!("{} · {}", row.status, row.workflow);
    let mut content = Content::new(title, body);
    let is_drawn = is_now && nodes <= DRAWN;
    if is_now {
        let after = position.saturating_sub(EVENTS);
        let events = recent_events(queries, runs, run, after)?;
        if let Some(text) = events.filter(|text| text.len() <= EVENT_BYTES) {
            content.answer("events", &text);
        }
    }
    if is_drawn {
        content.answer("statuses", &statuses_text(queries, runs, run)?);
        if let Some(text) = head_text(queries, runs, run, HEAD_BYTES)? {
            content.answer("run", &text);
        }
    }
    let drawable = is_drawn.then(|| layout::of_run(queries, runs, run));
    Ok((content, drawable.transpose()?))
}

fn reasons(queries: &RunQueries, run: RunId, body: &mut Text) -> Result<(), Failure> {
    let why = why::why(queries, run, None)?;
    body.markup("<h2>How it stands</h2><p>")
        .text(&why.reason)
        .markup("</p><ul class=\"nodes\">");
    for node in why.nodes.iter().take(NODES) {
        body.markup("<li").attribute("data-node", &node.path);
        body.attribute("data-status", node.status.as_str());
        body.markup("><code>").text(&node.path);
        body.markup("</code> ").text(node.status.as_str());
        body.markup(": ").text(&node.reason).markup("</li>");
    }
    body.markup("</ul>");
    Ok(())
}

fn heading(row: &RunRow, body: &mut Text) {
    let run = row.run.to_string();
    body.markup("<h1").attribute("data-run", &run);
    body.attribute("data-status", row.status.as_str());
    body.markup(">Run <code>").text(&run);
    body.markup("</code></h1><dl>");
    fact("Status", row.status.as_str(), body);
    body.markup("<dt>Workflow</dt><dd>");
    body.link("/workflows/", &row.workflow, &row.workflow);
    body.markup(" ").text(&format!("v{}", row.version));
    body.markup("</dd>");
    fact("Created", &readable(row.created_at), body);
    if let Some(at) = row.started_at {
        fact("Started", &readable(at), body);
    }
    if let Some(at) = row.ended_at.filter(|_| row.status != RunStatus::Running) {
        fact("Ended", &readable(at), body);
    }
    for (key, value) in &row.labels {
        fact("Label", &format!("{key}={value}"), body);
    }
    if let Some(parent) = row.parent {
        let parent = parent.to_string();
        body.markup("<dt>Parent</dt><dd>");
        body.link("/runs/", &parent, &parent).markup("</dd>");
    }
}

fn fact(name: &'static str, value: &str, body: &mut Text) {
    body.markup("<dt>").markup(name).markup("</dt><dd>");
    body.text(value).markup("</dd>");
}

pub(super) fn workflows(queries: &RunQueries) -> Result<Content, Failure> {
    let rows = queries.store.workflows(&queries.tenants).wait()?;
    let mut body = Text::default();
    body.markup("<h1>Workflows</h1>");
    if rows.is_empty() {
        body.markup("<p class=\"empty\">There are no workflows. ")
            .markup("<code>windlass publish FILE</code> publishes one.</p>");
        return Ok(Content::new("Workflows", body));
    }
    body.markup("<table class=\"workflows\"><thead><tr><th>Workflow</th><th>Name</th>")
        .markup("<th>Version</th><th>Published</th><th>New runs</th></tr></thead><tbody>");
    for row in rows.iter().take(1000) {
        body.markup("<tr")
            .attribute("data-workflow", &row.workflow)
            .markup("><td>");
        body.link("/workflows/", &row.workflow, &row.workflow);
        body.markup("</td>");
        body.cell(row.display_name.as_deref().unwrap_or_default());
        body.cell(&row.version.to_string());
        body.cell(&readable(row.updated_at));
        body.cell(if row.enabled { "allowed" } else { "refused" });
        body.markup("</tr>");
    }
    body.markup("</tbody></table>");
    Ok(Content::new("Workflows", body))
}

/// One workflow: its versions and its newest runs.
pub(super) fn workflow(queries: &RunQueries, id: &str) -> Result<Content, Failure> {
    let versions = queries.store.versions(queries.tenant(), id).wait()?;
    if versions.is_empty() {
        let (store, tenant) = (&*queries.store, queries.tenant());
        return Err(block_on(catalogue::unknown(store, tenant, id)));
    }
    let mut body = Text::default();
    body.markup("<h1")
        .attribute("data-workflow", id)
        .markup(">Workflow <code>")
        .text(id)
        .markup("</code></h1><h2>Versions</h2><ul>");
    for version in versions.iter().take(ROWS) {
        body.markup("<li>").text(&format!("v{}", version.version));
        body.markup(", published ").text(&readable(version.at));
        body.markup("</li>");
    }
    body.markup("</ul><h2>Runs</h2>");
    let filter = RunFilter {
        tenant: queries.tenants.clone(),
        workflow: Some(id.into()),
        limit: ROWS,
        ..RunFilter::default()
    };
    let page = queries.store.runs(&filter).wait()?;
    if page.rows.is_empty() {
        body.markup("<p class=\"empty\">It has no runs yet. <code>windlass start ")
            .text(id)
            .markup("</code> starts one.</p>");
    } else {
        rows(&page.rows, &mut body);
    }
    Ok(Content::new(one_line(id), body))
}
