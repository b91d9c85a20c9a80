//! What a node can call.

use axum::extract::State;
use http::Method;
use serde_json::json;
use windlass_service::{Failure, listing};

use super::shapes::ActionShape;
use crate::answer::{Page, RawJson};
use crate::app::{App, Caller};
use crate::error::ApiError;
use crate::failures::{STORE_TIMEOUT, STORE_UNAVAILABLE};
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    routes.add(
        Method::GET,
        "/api/v1/actions",
        Access::read(),
        &[STORE_UNAVAILABLE, STORE_TIMEOUT],
        "Lists what a node can call, and with what",
        list,
    );
}

async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<RawJson<Page<ActionShape>>, ApiError> {
    let declared = app.engine().declared_actions(caller.tenant()).await;
    let declared = declared.map_err(Failure::from)?;
    let mut items = app.actions().as_array().cloned().unwrap_or_default();
    items.extend(declared.iter().map(listing::declared_action));
    let page = json!({ "items": items, "next": null });
    Ok(RawJson::new(page.to_string()))
}
