//! What a node can call.

use axum::extract::State;
use http::Method;
use serde_json::json;

use super::shapes::ActionShape;
use crate::answer::{Page, RawJson};
use crate::app::App;
use crate::error::ApiError;
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    routes.add(
        Method::GET,
        "/api/v1/actions",
        Access::read(),
        &[],
        "Lists what a node can call, and with what",
        list,
    );
}

async fn list(State(app): State<App>) -> Result<RawJson<Page<ActionShape>>, ApiError> {
    let page = json!({ "items": app.actions(), "next": null });
    Ok(RawJson::new(page.to_string()))
}
