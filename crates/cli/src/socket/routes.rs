//! The routes of the socket: two of its own, and behind them the API. All of them end when the
//! holder does: requests accepted before are answered, and later ones get `ENGINE_STOPPED`, after
//! which a client looks for the next holder.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_api::serve::Draining;
use windlass_core::{RunId, RunStatus};
use windlass_engine::Engine;
use windlass_store::crash;

use super::PROTOCOL;
use crate::exit::{Exit, Failure};

/// The API, made when it is first asked.
type Api = Arc<LazyLock<Router, Box<dyn FnOnce() -> Router + Send>>>;

/// All that is answered on the socket.
pub(super) fn router(engine: Engine, api: impl FnOnce() -> Router + Send + 'static) -> Router {
    let api: Api = Arc::new(LazyLock::new(Box::new(api)));
    let pass = move |request: Request| {
        let api = Arc::clone(&api);
        async move { (**api).clone().oneshot(request).await }
    };
    Router::new()
        .route("/holder", get(hello))
        .route("/holder/runs/{run}", get(carried))
        .route("/holder/runs/{run}/end", get(end))
        .with_state(engine)
        .fallback(pass)
        .layer(middleware::from_fn(until_the_end))
}

/// Lets nothing in once the holder ends.
async fn until_the_end(draining: Draining, request: Request, next: Next) -> Response {
    if draining.is_begun() {
        return ending();
    }
    let changes = !request.method().is_safe();
    let response = next.run(request).await;
    if changes && let Some(late) = crash::setting("WINDLASS_ANSWER_LATE_MS") {
        tokio::time::sleep(Duration::from_millis(late)).await;
    }
    response
}

async fn hello() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    let pid = std::process::id();
    answer(&json!({ "protocol": PROTOCOL, "version": version, "pid": pid }))
}

/// How a run stands, and whether this process executes it, or wakes it at its time.
async fn carried(State(engine): State<Engine>, Path(run): Path<RunId>) -> Response {
    let carried = engine.is_acquired_or_asleep(run).await;
    match engine.store().run(run).await {
        Ok(row) => {
            let status = row.map_or(RunStatus::Pending, |row| row.status);
            answer(&json!({ "status": status, "carried": carried }))
        }
        Err(error) => refusal(&error.into()),
    }
}

/// Waits for the end of a run that this process executes.
async fn end(State(engine): State<Engine>, Path(run): Path<RunId>, draining: Draining) -> Response {
    tokio::select! {
        ended = engine.wait(run) => match ended {
            Ok(status) => answer(&json!({ "status": status })),
            Err(_) if draining.is_begun() => ending(),
            Err(error) => refusal(&error.into()),
        },
        // The next holder recovers it.
        () = draining.begun() => ending(),
    }
}

fn answer(body: &Value) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, body.to_string()).into_response()
}

/// A failure in the shape that the API gives it.
fn refusal(failure: &Failure) -> Response {
    let body = json!({ "error": {
        "code": failure.code, "message": failure.message, "hint": failure.hint,
        "details": failure.parts.details,
    } });
    let status = match failure.exit {
        Exit::NotFound => StatusCode::NOT_FOUND,
        Exit::Conflict => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, answer(&body)).into_response()
}

fn ending() -> Response {
    let body = json!({ "error": {
        "code": "ENGINE_STOPPED", "message": "the process that holds the data directory ends",
    } });
    (StatusCode::SERVICE_UNAVAILABLE, answer(&body)).into_response()
}
