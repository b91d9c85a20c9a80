//! Whether the server lives, is ready, what it counts, what it knows and where its limits
//! are.

use axum::extract::State;
use http::Method;
use serde_json::json;
use windlass_service::Failure;

use super::shapes::{ActionShape, HealthShape, LimitsShape};
use super::{DEFINITION_BYTES, VALUE_BYTES, WORDS_BYTES};
use crate::answer::{RawJson, Text};
use crate::app::App;
use crate::code;
use crate::error::ApiError;
use crate::extract::Json;
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>, app: &App) {
    routes
        .add(
            Method::GET,
            "/health/live",
            Access::public(),
            &[],
            "Says that the server lives",
            live,
        )
        .add(
            Method::GET,
            "/health/ready",
            Access::public(),
            &[code::UNAVAILABLE],
            "Says whether the server can take requests: store and queue are asked",
            ready,
        )
        .add(
            Method::GET,
            "/api/v1/actions",
            Access::read(),
            &[],
            "Lists what a node can call, and with what",
            actions,
        )
        .add(
            Method::GET,
            "/api/v1/limits",
            Access::read(),
            &[],
            "Lists the limits of everything that can be sent",
            limits,
        );
    if app.metrics().is_some() {
        routes.add(
            Method::GET,
            "/metrics",
            Access::public(),
            &[],
            "Gives metrics in Prometheus' text format",
            metrics,
        );
    }
}

async fn live() -> Result<Json<HealthShape>, ApiError> {
    Ok(Json(HealthShape { status: "ok" }))
}

async fn ready(State(app): State<App>) -> Result<Json<HealthShape>, ApiError> {
    let engine = app.engine().clone();
    let checking = tokio::task::spawn_blocking(move || {
        engine.store().health()?;
        engine.store().depth(1)?;
        Ok::<_, windlass_store::Error>(())
    });
    let broken = |why: String| code::UNAVAILABLE.error(why);
    match checking.await {
        Ok(Ok(())) => Ok(Json(HealthShape { status: "ok" })),
        Ok(Err(error)) => Err(broken(Failure::from(error).message)),
        Err(error) => Err(broken(error.to_string())),
    }
}

async fn metrics(State(app): State<App>) -> Result<Text, ApiError> {
    let render = app.metrics().cloned();
    let rendering = tokio::task::spawn_blocking(move || render.map(|render| render()));
    let text = rendering.await.ok().flatten().unwrap_or_default();
    Ok(Text {
        media: "text/plain; version=0.0.4; charset=utf-8",
        text,
    })
}

async fn actions(State(app): State<App>) -> Result<RawJson<Vec<ActionShape>>, ApiError> {
    Ok(RawJson::new(app.actions().to_string()))
}

async fn limits() -> Result<RawJson<LimitsShape>, ApiError> {
    let definition = windlass_core::definition::Limits::default();
    let limits = json!({
        "payloadBytes": windlass_engine::PAYLOAD_LIMIT_BYTES,
        "definitionBytes": definition.bytes,
        "valueBodyBytes": VALUE_BYTES,
        "definitionBodyBytes": DEFINITION_BYTES,
        "wordsBodyBytes": WORDS_BYTES,
        "requestIdBytes": super::starting::REQUEST_ID_BYTES,
        "labels": super::starting::LABELS,
        "labelBytes": super::starting::LABEL_BYTES,
        "pageItems": 1000,
        "eventPageItems": 10_000,
    });
    Ok(RawJson::new(limits.to_string()))
}
