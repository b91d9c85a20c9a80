//! Lists of runs, and a run as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::num::NonZeroU64;

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::{RunId, RunStatus};
use windlass_engine::view::{self, AttemptFilter, Nodes};
use windlass_service::filter::labels;
use windlass_service::moment::{now, since};
use windlass_service::progress::ProgressCache;
use windlass_service::run_item::RunDetails;
use windlass_service::run_list::{self, RunSelection};
use windlass_service::wait_state::has_instance;
use windlass_service::why::no_such_node;
use windlass_service::{Failure, FailureKind, RunQueries};
use windlass_store::{RunFilter, RunPage, RunRow, Wait as _};

use super::shapes::ExecutionShape;
use crate::answer::{Page, RawJson};
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::error::ApiError;
use crate::extract::{Json, Path, Query};
use crate::failures::{self, LOOKING};
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    routes
        .add(
            Method::GET,
            "/api/v1/executions",
            Access::read(),
            &[
                failures::CURSOR_INVALID,
                failures::STATUS_UNKNOWN,
                failures::TIME_INVALID,
                failures::LABEL_INVALID,
                failures::RUN_NOT_FOUND,
                failures::USAGE,
                failures::STORE_TIMEOUT,
                failures::STORE_UNAVAILABLE,
            ],
            "Lists runs, newest first",
            list,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}",
            Access::read(),
            LOOKING,
            "Shows a run with its nodes",
            show,
        );
}

/// A run in the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunPath {
    /// The run's id.
    pub(super) id: String,
}

/// Which runs to select.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListQuery {
    /// Of this workflow.
    workflow: Option<String>,
    /// That started on this version of the workflow, which has to be named too.
    version: Option<u32>,
    /// In one of these statuses; several with commas, or repeated.
    status: Vec<String>,
    /// With all of these labels, each as `key=value`.
    label: Vec<String>,
    /// Created at or after: a moment, or a time ago such as `2h`.
    from: Option<String>,
    /// Started by this run.
    parent: Option<String>,
    /// Forked from this run.
    origin: Option<String>,
    /// Failed with this code, or with a root cause of this code.
    error: Option<String>,
    /// Those that wait for a time or a signal alone.
    waiting: bool,
    /// Those that are dead letters.
    dead: bool,
    /// Those that have begun and that no process executes.
    orphaned: bool,
    /// Without those that were forked.
    unresolved: bool,
    /// Whether child runs are listed beside those that a person or a program started; they are by
    /// default.
    children: Option<bool>,
    /// Runs whose id begins with this prefix; may be repeated. Other conditions are ignored.
    prefix: Vec<String>,
    /// The `next` of the previous page: continues after it.
    cursor: Option<String>,
    /// Older than this run, by its id.
    before: Option<String>,
    /// How many at most.
    limit: Option<Between<1, 1000>>,
}

impl ListQuery {
    /// What it says of a page, by its name: a condition where one page is asked for, and
    /// none on which runs are meant.
    pub(super) fn of_a_page(&self) -> Option<&'static str> {
        let given = [
            ("prefix", !self.prefix.is_empty()),
            ("cursor", self.cursor.is_some()),
            ("before", self.before.is_some()),
            ("limit", self.limit.is_some()),
        ];
        let found = given.into_iter().find(|(_, given)| *given);
        found.map(|(name, _)| name)
    }
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<RunDetails>>, ApiError> {
    let page = app
        .read(&caller, move |queries| match query.prefix.as_slice() {
            prefixes @ [_, ..] => with_prefixes(queries, prefixes),
            [] => {
                let page = run_list::page(queries, &selection(queries, &query)?)?;
                run_page(queries, &page)
            }
        })
        .await?;
    Ok(Json(page))
}

/// A page of runs as clients read it.
pub(crate) fn run_page(queries: &RunQueries, page: &RunPage) -> Result<Page<RunDetails>, Failure> {
    let items = run_list::details(queries, &page.rows)?;
    let next = page.next.map(|next| encode(next.as_bytes()));
    Ok(Page { items, next })
}

/// How many runs are read for one prefix.
const SAME_PREFIX: usize = 100;

/// How many prefixes can be asked for together.
const PREFIXES: usize = 100;

fn with_prefixes(queries: &RunQueries, prefixes: &[String]) -> Result<Page<RunDetails>, Failure> {
    let mut runs = BTreeMap::new();
    for prefix in prefixes.iter().take(PREFIXES) {
        let digits = prefix.replace('-', "").to_ascii_lowercase();
        let Some(last) = last_with_prefix(&digits) else {
            continue;
        };
        // Asked as a list of the caller's own runs: those of others take no places in it.
        let filter = RunFilter {
            tenant: queries.tenants.clone(),
            before: Some(last),
            limit: SAME_PREFIX,
            ..RunFilter::default()
        };
        let own = queries.store.run(last).wait()?;
        let own = own.filter(|row| queries.tenants.matches(row.tenant.as_deref()));
        let fits = |row: &RunRow| row.run.to_string().replace('-', "").starts_with(&digits);
        let rows = own
            .into_iter()
            .chain(queries.store.runs(&filter).wait()?.rows);
        runs.extend(rows.take_while(fits).map(|row| (row.run, row)));
    }
    let items = runs.values().map(RunDetails::from).collect();
    Ok(Page { items, next: None })
}

/// The last of all ids that begin with these digits, if they are digits of an id.
fn last_with_prefix(digits: &str) -> Option<RunId> {
    let is_id = digits.len() <= 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(&format!("{digits:f<32}"), 16).ok()?;
    is_id.then(|| RunId::from_bytes(number.to_be_bytes()))
}

/// A run that a filter names by its whole id, if the caller may see it.
fn named(queries: &RunQueries, text: &str) -> Result<RunId, Failure> {
    let run: RunId = text.parse().map_err(|_| {
        Failure::new(
            FailureKind::RunNotFound,
            format!("there is no run '{text}'"),
        )
    })?;
    Ok(queries.row(run)?.run)
}

/// The runs that a query means.
pub(super) fn selection(queries: &RunQueries, query: &ListQuery) -> Result<RunSelection, Failure> {
    let statuses = query.status.iter().flat_map(|text| text.split(','));
    let statuses = statuses
        .map(|text| {
            text.parse::<RunStatus>().map_err(|_| {
                let known = RunStatus::ALL.map(RunStatus::as_str).join(", ");
                Failure::new(
                    FailureKind::StatusUnknown,
                    format!("'{text}' is not a status; they are {known}"),
                )
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let run = |text: &Option<String>| text.as_deref().map(|text| named(queries, text));
    let from = query.from.as_deref().map(|text| since(text, now()));
    let before = match (&query.cursor, &query.before) {
        (Some(text), _) => Some(cursor(text)?),
        (None, Some(text)) => Some(text.parse().map_err(|_| foreign())?),
        (None, None) => None,
    };
    let filter = RunFilter {
        tenant: queries.tenants.clone(),
        workflow: query.workflow.as_deref().map(Into::into),
        version: query.version,
        statuses,
        labels: labels(&query.label)?,
        parent: run(&query.parent).transpose()?,
        origin: run(&query.origin).transpose()?,
        error: query.error.as_deref().map(Into::into),
        waiting: query.waiting,
        dead: query.dead.then_some(true),
        roots: query.children == Some(false),
        unforked: query.unresolved,
        since: from.transpose()?,
        before,
        limit: query.limit.map_or(50, Between::get),
    };
    let selection = RunSelection {
        filter,
        orphaned: query.orphaned,
    };
    selection.check()?;
    Ok(selection)
}

/// The runs of an address of the page, which may say more than which runs are meant.
pub(crate) fn page_selection(queries: &RunQueries, query: &str) -> Result<RunSelection, Failure> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let pairs = pairs.filter(|(_, value)| !value.is_empty());
    let mut chosen = ListQuery::default();
    for (name, value) in pairs {
        let value = value.into_owned();
        match &*name {
            "workflow" => chosen.workflow = Some(value),
            "version" => chosen.version = Some(version(&value)?),
            "status" => chosen.status.push(value),
            "label" => chosen.label.push(value),
            "from" => chosen.from = Some(value),
            "parent" => chosen.parent = Some(value),
            "error" => chosen.error = Some(value),
            "cursor" => chosen.cursor = Some(value),
            "only" => match &*value {
                "waiting" => chosen.waiting = true,
                "dead" => chosen.dead = true,
                "orphaned" => chosen.orphaned = true,
                "unresolved" => chosen.unresolved = true,
                _ => {}
            },
            _ => {}
        }
    }
    let mut selection = selection(queries, &chosen)?;
    selection.fold_children();
    Ok(selection)
}

fn version(text: &str) -> Result<u32, Failure> {
    text.parse().map_err(|_| {
        let message = format!("version={text}: it is the number of a version");
        Failure::new(FailureKind::Usage, message)
    })
}

fn cursor(text: &str) -> Result<RunId, Failure> {
    let bytes = decode(text)?;
    let bytes: [u8; 16] = bytes.try_into().map_err(|_| foreign())?;
    Ok(RunId::from_bytes(bytes))
}

/// A cursor's text, which is opaque to clients.
pub(super) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn decode(text: &str) -> Result<Vec<u8>, Failure> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| foreign())
}

pub(super) fn foreign() -> Failure {
    Failure::new(FailureKind::CursorInvalid, "the cursor is not one of ours")
        .hint("take it from `next` of the page before")
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShowQuery {
    /// As it was after the event at this position; as it is now, if it has had fewer events.
    at: Option<NonZeroU64>,
    /// `actions`, `resources` and `events`, separated by commas.
    include: Option<String>,
    /// Node instances by their paths, repeated or separated by commas; `all` is every one,
    /// `none` leaves them out. Without it, those inside loops are listed where there are few.
    #[serde(default)]
    nodes: Vec<String>,
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
    Query(query): Query<ShowQuery>,
) -> Result<RawJson<ExecutionShape>, ApiError> {
    let run = app.find(&caller, &path.id).await?.run;
    let kept = app.clone();
    let body = app
        .write(&caller, move |queries, out| {
            whole(queries, kept.progress(), (run, &query), out)
        })
        .await?;
    Ok(RawJson::new(body))
}

fn whole(
    queries: &RunQueries,
    runs: &ProgressCache,
    (run, query): (RunId, &ShowQuery),
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let include = query.include.as_deref().unwrap_or_default();
    let mut options = view::Options::default();
    for part in include.split(',').filter(|part| !part.is_empty()) {
        match part.trim() {
            "actions" => options.actions = AttemptFilter::All,
            "resources" => options.resources = true,
            "events" => options.events = true,
            other => {
                let message = format!("include={other}: it is actions, resources or events");
                return Err(Failure::new(FailureKind::Usage, message));
            }
        }
    }
    if query.at.is_some() && options.resources {
        let message = "resources are known as they are now: leave out at, or resources";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    options.at = query.at;
    options.nodes = match query.at {
        None => nodes(queries, run, &query.nodes)?,
        Some(_) => nodes_then(&query.nodes),
    };
    if let (None, Some(engine)) = (query.at, &queries.engine) {
        options.at_work = engine.at_work(run);
    }
    // The page asks so for the head of a long run, again and again while it executes.
    let is_head = matches!(options.nodes, Nodes::None) && include.is_empty();
    if is_head && query.at.is_none() {
        return runs.write(queries, run, &options, out);
    }
    view::write(&*queries.store, &queries.plans, run, &options, out)?;
    Ok(())
}

/// A run without its nodes, as clients read it; without its values too, if it is larger than `most`
/// with them. None if it is larger all the same.
pub(crate) fn head_text(
    queries: &RunQueries,
    runs: &ProgressCache,
    run: RunId,
    most: usize,
) -> Result<Option<String>, Failure> {
    let query = ShowQuery {
        at: None,
        include: None,
        nodes: vec!["none".to_owned()],
    };
    let mut text = Vec::new();
    whole(queries, runs, (run, &query), &mut text)?;
    if text.len() > most {
        text = without_values(&text)?;
    }
    let text = String::from_utf8(text).ok();
    Ok(text.filter(|text| text.len() <= most))
}

/// A run as JSON without what its workflow gave it.
fn without_values(text: &[u8]) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::new(FailureKind::OutputFailed, error);
    let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_slice(text).map_err(failed)?;
    fields.retain(|name, _| !["trigger", "vars", "output"].contains(name));
    serde_json::to_vec(&fields).map_err(failed)
}

/// The instances that are named, which must exist now.
fn nodes(queries: &RunQueries, run: RunId, names: &[String]) -> Result<Nodes, Failure> {
    let chosen = nodes_then(names);
    let Nodes::Only(paths) = &chosen else {
        return Ok(chosen);
    };
    let loaded = windlass_engine::load_latest(&*queries.store, &queries.plans, run)?;
    let path = |name: &str| {
        let path = loaded.run.plan().named_path(name)?;
        match has_instance(&loaded.run, &path) {
            true => Ok(path.into()),
            false => Err(no_such_node(name)),
        }
    };
    let paths = paths.iter().map(|name| path(name));
    let paths = paths.collect::<Result<_, _>>()?;
    Ok(Nodes::Only(paths))
}

/// The instances that are named, as far as they exist in the state that is shown.
fn nodes_then(names: &[String]) -> Nodes {
    let names = names.iter().flat_map(|text| text.split(','));
    let names: BTreeSet<Box<str>> = names
        .filter(|name| !name.is_empty())
        .map(Into::into)
        .collect();
    if names.is_empty() {
        Nodes::Few
    } else if names.contains("all") {
        Nodes::All
    } else if names.contains("none") {
        Nodes::None
    } else {
        Nodes::Only(names)
    }
}
