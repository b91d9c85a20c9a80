//! Looking at one run: its graph, why it stands where it does, its events, its log.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{self, Stream};
use http::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::{Digest, RunId};
use windlass_engine::history::{PublicEvent, for_each_event};
use windlass_engine::{RunEventStream, StreamItem};
use windlass_graph::{Format, RenderOptions, render};
use windlass_service::node_view::{node_json, node_json_at};
use windlass_service::progress::ProgressCache;
use windlass_service::{
    Failure, FailureKind, RunQueries, drawing, export, listing, run_list, verifying, why,
};
use windlass_store::{RunRow, Wait as _};

use super::executions::{RunPath, decode, encode, foreign};
use super::shapes::{
    Any, EventShape, ExportShape, GraphShape, LogShape, NodeShape, VerifiedShape, WhyShape,
};
use crate::accept::wants_events;
use crate::answer::{Drawing, Either, EventStream, Page, RawJson, TextAnswer};
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::error::ApiError;
use crate::extract::{LastEventId, Path, Query};
use crate::failures::{self, LOOKING, together};
use crate::route::{Access, Routes};
use crate::stream::ServerSentEvent;

/// How often a quiet stream sends a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How many bytes of a log an answer has, roughly.
const LOG_BYTES: usize = 4 * 1024 * 1024;

pub(super) fn add(routes: &mut Routes<App>) {
    routes
        .add(
            Method::GET,
            "/api/v1/executions/{id}/graph",
            Access::read(),
            &together(&[LOOKING, &[failures::GRAPH_TOO_LARGE]]),
            "Draws the run's graph with its statuses, or gives it as JSON",
            graph,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/why",
            Access::read(),
            LOOKING,
            "Says what a run, or one node of it, waits for, or why it ended so",
            why_of,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/export",
            Access::read(),
            LOOKING,
            "Gives the run's graph, as import takes it",
            export_of,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/verify",
            Access::read(),
            LOOKING,
            "Checks the run's log, values, ancestry and row against one another",
            verify,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/nodes/{*path}",
            Access::read(),
            LOOKING,
            "Shows one node instance with its attempts and values",
            node,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/events",
            Access::read(),
            &together(&[LOOKING, &[failures::CURSOR_INVALID]]),
            "Lists what happened; with `Accept: text/event-stream`, also as it happens",
            events,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/log",
            Access::read(),
            LOOKING,
            "Gives the run's records as they are stored, for readers that fold them",
            log,
        )
        .add(
            Method::GET,
            "/api/v1/executions/{id}/values/{digest}",
            Access::read(),
            &together(&[LOOKING, &[failures::VALUE_NOT_FOUND]]),
            "Gives a value that the run's log refers to",
            value,
        );
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct GraphQuery {
    /// As a drawing; JSON, if it is left out.
    format: Option<FormatName>,
    /// Whether what is inside loops is drawn.
    expand: bool,
    /// Columns of a drawing in text.
    width: Option<Between<20, 1000>>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum FormatName {
    Mermaid,
    Dot,
    Svg,
    Ascii,
    Json,
}

async fn graph(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
    Query(query): Query<GraphQuery>,
) -> Result<Either<RawJson<GraphShape>, Drawing>, ApiError> {
    let run = app.find(&caller, &path.id).await?.run;
    let (format, media) = match query.format {
        None | Some(FormatName::Json) => (None, ""),
        Some(FormatName::Mermaid) => (Some(Format::Mermaid), "text/plain; charset=utf-8"),
        Some(FormatName::Dot) => (Some(Format::Dot), "text/plain; charset=utf-8"),
        Some(FormatName::Svg) => (Some(Format::Svg), "image/svg+xml"),
        Some(FormatName::Ascii) => (Some(Format::Ascii), "text/plain; charset=utf-8"),
    };
    let options = RenderOptions {
        expand: query.expand,
        width: query.width.map_or(80, Between::get),
        color: false,
    };
    let text = app
        .read(&caller, move |queries| {
            let graph = drawing::of_run(queries, run, query.expand)?;
            let Some(format) = format else {
                return Ok(drawing::to_json(&graph).to_string());
            };
            render(&graph, format, &options)
                .map_err(|error| Failure::new(FailureKind::GraphTooLarge, error))
        })
        .await?;
    Ok(match format {
        None => Either::Left(RawJson::new(text)),
        Some(_) => Either::Right(Drawing(TextAnswer { media, text })),
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct WhyQuery {
    /// One node, by its path.
    node: Option<String>,
}

async fn why_of(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
    Query(query): Query<WhyQuery>,
) -> Result<RawJson<WhyShape>, ApiError> {
    let run = app.find(&caller, &path.id).await?.run;
    let answer = app
        .read(&caller, move |queries| {
            Ok(why::why(queries, run, query.node.as_deref())?.json())
        })
        .await?;
    Ok(RawJson::new(answer.to_string()))
}

async fn export_of(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
) -> Result<RawJson<ExportShape>, ApiError> {
    let run = app.find(&caller, &path.id).await?.run;
    let text = app
        .read(&caller, move |queries| {
            let mut text = Vec::new();
            let written = export::export(queries, run)?.write(&mut text);
            written.map_err(|error| Failure::new(FailureKind::OutputFailed, error))?;
            Ok(text)
        })
        .await?;
    Ok(RawJson::new(text))
}

async fn verify(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
) -> Result<RawJson<VerifiedShape>, ApiError> {
    let run = app.find(&caller, &path.id).await?.run;
    let answer = app
        .read(&caller, move |queries| {
            Ok(verifying::check(queries, run)?.json(run))
        })
        .await?;
    Ok(RawJson::new(answer.to_string()))
}

/// A node in the path; it may have slashes of its own.
#[derive(Debug, Deserialize, JsonSchema)]
struct NodePath {
    /// The run's id.
    id: String,
    /// The node instance, such as `charge-all[17]/charge`; or a name or id that only one has.
    path: String,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct NodeQuery {
    /// As it was after the event at this position, without what can be done about it; as it is
    /// now, if the run has had fewer events.
    at: Option<NonZeroU64>,
}

async fn node(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<NodePath>,
    Query(query): Query<NodeQuery>,
) -> Result<RawJson<NodeShape>, ApiError> {
    let run = app.find(&caller, &path.id).await?.run;
    let answer = app
        .read(&caller, move |queries| match query.at {
            None => node_json(queries, run, &path.path),
            Some(at) => node_json_at(queries, run, &path.path, at),
        })
        .await?;
    Ok(RawJson::new(answer))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct EventsQuery {
    /// Events after this position.
    after: Option<u64>,
    /// The `next` of the previous page: continues after it.
    cursor: Option<String>,
    /// How many at most.
    limit: Option<Between<1, 10_000>>,
}

async fn events(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
    Query(query): Query<EventsQuery>,
    last: LastEventId,
    headers: HeaderMap,
) -> Result<Either<RawJson<Page<EventShape>>, EventStream<EventShape>>, ApiError> {
    let run = app.find(&caller, &path.id).await?.run;
    let after = match (&query.cursor, query.after) {
        (Some(text), _) => position(text)?,
        (None, after) => after.unwrap_or(0),
    };
    if wants_events(&headers) {
        let last = last.0.as_deref().map(|text| {
            let message = "Last-Event-ID is not the position of an event";
            text.parse::<u64>()
                .map_err(|_| crate::code::HEADER_INVALID.error(message))
        });
        let after = last.transpose()?.unwrap_or(after);
        let event_stream = app.engine().event_stream(run, after);
        return Ok(Either::Right(EventStream::new(follow(event_stream))));
    }
    let limit = query.limit.map_or(1000, Between::get);
    let kept = app.clone();
    let page = app
        .read(&caller, move |queries| {
            if let Some(mut items) = kept.progress().events_after(queries, run, after)? {
                let more = items.len() > limit;
                items.truncate(limit);
                return Ok(page_of(&items, more));
            }
            let (mut items, mut more) = (Vec::new(), false);
            for_each_event(&*queries.store, &queries.plans, run, |event| {
                if event.position <= after {
                    return ControlFlow::Continue(());
                }
                if items.len() == limit {
                    more = true;
                    return ControlFlow::Break(());
                }
                items.push(Arc::new(event));
                ControlFlow::Continue(())
            })?;
            Ok(page_of(&items, more))
        })
        .await?;
    Ok(Either::Left(RawJson::new(page.to_string())))
}

/// The events after a position as clients read them, if they are at hand: the last ones are, of a
/// run that was read a moment ago.
pub(crate) fn recent_events(
    queries: &RunQueries,
    runs: &ProgressCache,
    run: RunId,
    after: u64,
) -> Result<Option<String>, Failure> {
    let items = runs.events_after(queries, run, after)?;
    Ok(items.map(|items| page_of(&items, false).to_string()))
}

fn page_of(items: &[Arc<PublicEvent>], more: bool) -> Value {
    let next = items.last().filter(|_| more);
    let next = next.map(|event| encode(&event.position.to_be_bytes()));
    let items: Vec<&PublicEvent> = items.iter().map(AsRef::as_ref).collect();
    json!({ "items": items, "next": next })
}

fn position(cursor: &str) -> Result<u64, Failure> {
    let bytes = decode(cursor)?;
    let bytes: [u8; 8] = bytes.try_into().map_err(|_| foreign())?;
    Ok(u64::from_be_bytes(bytes))
}

/// The events of a feed, with signs of life between them; it ends with the run.
fn follow(event_stream: RunEventStream) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    stream::unfold(Some(event_stream), |event_stream| async move {
        let mut event_stream = event_stream?;
        let item = match tokio::time::timeout(HEARTBEAT, event_stream.next()).await {
            Err(_) => return Some((ServerSentEvent::heartbeat(), Some(event_stream))),
            Ok(item) => item,
        };
        match item {
            StreamItem::Event(event) => {
                let id = event.position.to_string();
                let event = ServerSentEvent::json(event.kind, Some(&id), &*event);
                Some((event, Some(event_stream)))
            }
            // What was left out can be read again with `Last-ServerSentEvent-ID`.
            StreamItem::Lagged => Some((ServerSentEvent::written("lagged", None, "{}"), None)),
            StreamItem::Ended => Some((ServerSentEvent::written("end", None, "{}"), None)),
            StreamItem::Failed(error) => {
                let failure = json!({ "code": "EVENTS_BROKEN", "message": error.to_string() });
                Some((ServerSentEvent::json("error", None, &failure), None))
            }
        }
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct LogQuery {
    /// Records from this one on; the first is 1.
    from: Option<NonZeroU64>,
    /// `definitions` adds those that the run's graph comes from, the run's line as lists have it,
    /// the shortest name of the run, and what workers have now, so that one request is enough to
    /// show it.
    include: Option<String>,
}

async fn log(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RunPath>,
    Query(query): Query<LogQuery>,
) -> Result<RawJson<LogShape>, ApiError> {
    let row = app.find(&caller, &path.id).await?;
    let from = query.from.map_or(1, NonZeroU64::get);
    let with_definitions = match query.include.as_deref() {
        None => false,
        Some("definitions") => true,
        Some(other) => {
            let message = format!("include={other}: it is definitions");
            return Err(failures::USAGE.error(message));
        }
    };
    let answer = app
        .read(&caller, move |queries| {
            let head = queries.store.head(row.run).wait()?;
            let records = queries.store.read(row.run, from, LOG_BYTES).wait()?;
            let next = records.last().map(|record| record.sequence + 1);
            let next = next.filter(|next| *next <= head.sequence);
            let items: Vec<Value> = records
                .iter()
                .map(|record| {
                    json!({
                        "sequence": record.sequence,
                        "writer": format!("{:016x}", record.writer.0),
                        "appendId": record.append_id,
                        "chain": hex::encode(record.chain),
                        "bytes": STANDARD.encode(&record.bytes),
                    })
                })
                .collect();
            let mut answer = json!({
                "executionId": row.run.to_string(),
                "head": {
                    "sequence": head.sequence,
                    "appendId": head.append_id,
                    "chain": hex::encode(head.chain),
                },
                "row": windlass_service::run_item::RunDetails::from(&row),
                "records": items,
                "next": next,
            });
            if with_definitions {
                answer["row"] =
                    json!(run_list::details(queries, std::slice::from_ref(&row))?.pop());
                answer["shortId"] = queries.short_id(row.run)?.into();
                answer["definitions"] = definitions(queries, &row)?;
                let at_work = queries
                    .engine
                    .as_ref()
                    .map(|engine| engine.at_work(row.run));
                let at_work = at_work.unwrap_or_default();
                let at_work = at_work.attempts();
                answer["atWork"] = at_work
                    .map(|(node, attempt, since)| json!([node, attempt, since.0]))
                    .collect();
            }
            Ok(answer)
        })
        .await?;
    Ok(RawJson::new(answer.to_string()))
}

/// The definitions that a run's graph comes from: that of its first version, and of its present one.
fn definitions(queries: &RunQueries, row: &RunRow) -> Result<Value, Failure> {
    let loaded = windlass_engine::load_latest(&*queries.store, &queries.plans, row.run)?;
    let first = loaded.run.queued().version;
    let mut versions = vec![first, loaded.run.version()];
    versions.dedup();
    let mut found = Vec::new();
    for version in versions.into_iter().filter(|version| *version > 0) {
        let tenant = row.tenant.as_deref();
        let stored = queries
            .store
            .definition(tenant, &row.workflow, Some(version))
            .wait()?;
        found.extend(stored.map(|stored| {
            let mut item = listing::version_item(&stored);
            item["text"] = String::from_utf8_lossy(&stored.text).into();
            item
        }));
    }
    Ok(Value::Array(found))
}

/// A value in the path.
#[derive(Debug, Deserialize, JsonSchema)]
struct ValuePath {
    /// The run's id.
    id: String,
    /// The value's SHA-256, in hexadecimal.
    digest: String,
}

async fn value(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<ValuePath>,
) -> Result<RawJson<Any>, ApiError> {
    let run = app.find(&caller, &path.id).await?.run;
    let missing = || {
        let message = format!("the run refers to no value {}", path.digest);
        failures::VALUE_NOT_FOUND.error(message)
    };
    let quoted = json!(path.digest);
    let digest: Digest = serde_json::from_value(quoted).map_err(|_| missing())?;
    let bytes = app
        .read(&caller, move |queries| {
            // Values are shared between runs: the digest alone must not give access to another
            // run's value.
            Ok(match queries.store.uses(run, &digest).wait()? {
                true => queries.store.blob(&digest).wait()?,
                false => None,
            })
        })
        .await?;
    bytes.map(RawJson::new).ok_or_else(missing)
}
