//! The state of the server: whether it is alive, whether it is ready, its metrics and its
//! limits. The code that assembles the server supplies what the probes ask.

use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRef, State};
use futures_util::future::BoxFuture;
use http::Method;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::answer::{RawJson, TextAnswer};
use crate::auth::Auth;
use crate::code;
use crate::error::{ApiError, Detail};
use crate::extract::Json;
use crate::failures::STORE_FULL;
use crate::front::HeadLimits;
use crate::route::{Access, GateOptions, Rate, Routes};
use crate::serve::{Draining, ServerOptions};

type Ready = dyn Fn() -> BoxFuture<'static, Result<(), Vec<Detail>>> + Send + Sync;
type Metrics = dyn Fn() -> BoxFuture<'static, String> + Send + Sync;

/// Answers questions about the server's state. Cloning is cheap.
#[derive(Clone)]
pub struct Probes {
    ready: Arc<Ready>,
    metrics: Arc<Metrics>,
    limits: Arc<[u8]>,
    auth: Option<Auth>,
}

impl Probes {
    /// Probes that call these: `ready` returns what is not ready, each with a pointer
    /// (`/store`) and a message, and with the `code` `STORE_FULL` if the disk is full;
    /// `metrics` returns the Prometheus text; `limits` is the answer of `GET /api/v1/limits`.
    pub fn new(
        ready: impl Fn() -> BoxFuture<'static, Result<(), Vec<Detail>>> + Send + Sync + 'static,
        metrics: impl Fn() -> BoxFuture<'static, String> + Send + Sync + 'static,
        limits: Map<String, Value>,
    ) -> Self {
        Self {
            ready: Arc::new(ready),
            metrics: Arc::new(metrics),
            limits: Value::Object(limits).to_string().into_bytes().into(),
            auth: None,
        }
    }

    /// The same, reporting on the keys of tokens as well.
    #[must_use]
    pub fn with_auth(mut self, auth: Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// What is wrong with the keys. The reason may name internal addresses, so it is only in
    /// the log.
    async fn keys(&self) -> Option<(Detail, bool)> {
        let trouble = self.auth.as_ref()?.trouble().await?;
        let message = match trouble.expired {
            true => "the keys of tokens could not be read for too long: every token is refused",
            false => "the keys of tokens cannot be read; the old ones are used for a while",
        };
        Some((Detail::new("/auth_keys", message), trouble.expired))
    }
}

impl fmt::Debug for Probes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Probes").finish_non_exhaustive()
    }
}

/// Adds the routes; `access` is what health and metrics need.
pub fn add<S>(routes: &mut Routes<S>, access: Access)
where
    S: Clone + Send + Sync + 'static,
    Probes: FromRef<S>,
{
    let access = access.rate(Rate::Free);
    routes
        .add(
            Method::GET,
            "/health/live",
            access,
            &[],
            "Whether the process answers",
            live,
        )
        .add(
            Method::GET,
            "/health/ready",
            access,
            &[code::UNAVAILABLE, STORE_FULL],
            "Whether the server can work: its store answers and has space, and it does not drain",
            ready,
        )
        .add(
            Method::GET,
            "/metrics",
            access,
            &[],
            "What Prometheus collects",
            metrics,
        )
        .add(
            Method::GET,
            "/api/v1/limits",
            Access::read(),
            &[],
            "The limits that the server keeps, in bytes, milliseconds and numbers",
            limits,
        );
}

/// The limits of this crate, to be joined by those of the engine.
#[must_use]
pub fn http_limits(
    server: &ServerOptions,
    gate: &GateOptions,
    head: &HeadLimits,
) -> Map<String, Value> {
    let milliseconds = |duration: std::time::Duration| duration.as_millis() as u64;
    let limits = json!({
        "connections": server.max_connections,
        "connectionSharePercent": server.connection_share,
        "probeConnections": server.probe_connections,
        "bodyMemoryBytes": gate.bodies.memory,
        "bodySpoolBytes": gate.bodies.spool.as_ref().map_or(0, |spool| spool.bytes),
        "streamsPerConnection": server.max_streams,
        "uriBytes": head.uri,
        "headerBytes": head.headers,
        "headers": head.count,
        "headerTimeoutMs": milliseconds(server.header_timeout),
        "idleTimeoutMs": milliseconds(server.idle_timeout),
        "writeTimeoutMs": milliseconds(server.write_timeout),
        "drainTimeoutMs": milliseconds(server.drain_timeout),
        "bodyTimeoutMs": milliseconds(gate.body_timeout),
        "requestTimeoutMs": milliseconds(gate.request_timeout),
        "tokenBytes": crate::auth::MAX_TOKEN,
        "requestsPerMinutePerToken": gate.token_rate.per_minute,
        "requestsAtOncePerToken": gate.token_rate.burst,
        "readsPerMinutePerToken": gate.read_rate.per_minute,
        "readsAtOncePerToken": gate.read_rate.burst,
        "requestsPerMinutePerWorkflow": gate.workflow_rate.per_minute,
        "requestsAtOncePerWorkflow": gate.workflow_rate.burst,
    });
    match limits {
        Value::Object(limits) => limits,
        _ => Map::new(),
    }
}

/// The server's state.
#[derive(Debug, Serialize, JsonSchema)]
struct Health {
    /// `live` or `ready`.
    status: &'static str,
    /// Warnings: what will fail soon unless the operator acts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Detail>,
}

async fn live() -> Result<Json<Health>, ApiError> {
    Ok(Json(Health {
        status: "live",
        warnings: Vec::new(),
    }))
}

async fn ready(draining: Draining, State(probes): State<Probes>) -> Result<Json<Health>, ApiError> {
    if draining.is_begun() {
        return Err(code::UNAVAILABLE.error("the server drains"));
    }
    let (mut details, mut warnings) = (Vec::new(), Vec::new());
    match probes.keys().await {
        Some((detail, true)) => details.push(detail),
        Some((detail, false)) => warnings.push(detail),
        None => {}
    }
    if let Err(found) = (probes.ready)().await {
        details.extend(found);
    }
    if details.is_empty() {
        let status = "ready";
        return Ok(Json(Health { status, warnings }));
    }
    details.extend(warnings);
    Err(not_ready(&details).details(details))
}

/// A full disk has a code of its own: the operator must free space, and the server recovers by
/// itself then.
fn not_ready(details: &[Detail]) -> ApiError {
    let is_full = |detail: &Detail| {
        let code = detail.more.get("code").and_then(Value::as_str);
        code == Some(STORE_FULL.code)
    };
    match details.iter().any(is_full) {
        true => STORE_FULL
            .error("the store has no space left, and writes are refused")
            .hint("free space where the store keeps its data, or raise its limit"),
        false => code::UNAVAILABLE.error("the server is not ready"),
    }
}

async fn metrics(State(probes): State<Probes>) -> Result<TextAnswer, ApiError> {
    Ok(TextAnswer {
        media: "text/plain; version=0.0.4; charset=utf-8",
        text: (probes.metrics)().await,
    })
}

async fn limits(State(probes): State<Probes>) -> Result<RawJson<Map<String, Value>>, ApiError> {
    Ok(RawJson::new(probes.limits.to_vec()))
}
