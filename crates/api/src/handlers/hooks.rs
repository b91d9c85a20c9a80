//! Hooks: runs that signed requests from outside start.

use std::collections::BTreeMap;

use axum::extract::State;
use http::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_core::{Digest, RunId};
use windlass_engine::names::is_request_id;
use windlass_engine::{StartError, StartRequest, Started, canonical, load_latest};
use windlass_service::moment::now;
use windlass_service::{Failure, catalogue, listing, secrets};
use windlass_store::{Hook, Wait as _};

use super::executions::{decode, encode, foreign};
use super::shapes::{Any, HookMadeShape, HookShape, HookStartedShape, RemovedShape};
use super::signature::Call;
use super::{WORDS_BYTES, value_bytes};
use crate::answer::{Page, RawJson};
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::code::BODY_MALFORMED;
use crate::error::ApiError;
use crate::extract::{IdempotencyKey, Json, Path, Query, RawDocument};
use crate::failures::{
    CURSOR_INVALID, HOOK_INVALID, HOOK_NOT_FOUND, HOOK_SIGNATURE_INVALID, SECRET_KEY_UNUSABLE,
    STARTING, STORE_TIMEOUT, STORE_UNAVAILABLE, TOO_MANY_HOOKS, WORKFLOW_NOT_FOUND, together,
};
use crate::route::{Access, Rate, Routes, TokenScope};

/// How many headers reach the run, and how long each may be.
const HEADERS: (usize, usize) = (64, 1024);

pub(super) fn add(routes: &mut Routes<App>) {
    let list = "/api/v1/hooks";
    let store = [STORE_UNAVAILABLE, STORE_TIMEOUT];
    routes
        .add(
            Method::GET,
            list,
            Access::manage(),
            &together(&[&[CURSOR_INVALID], &store]),
            "Lists hooks, by id, without what they are called and signed with",
            list_hooks,
        )
        .add(
            Method::POST,
            list,
            Access::manage().body(WORDS_BYTES),
            &together(&[
                &[
                    HOOK_INVALID,
                    WORKFLOW_NOT_FOUND,
                    TOO_MANY_HOOKS,
                    SECRET_KEY_UNUSABLE,
                ],
                &store,
            ]),
            "Makes a hook, or replaces the one of that id; its secret is told only here",
            put_hook,
        )
        .add(
            Method::DELETE,
            "/api/v1/hooks/{id}",
            Access::manage(),
            &together(&[&[HOOK_NOT_FOUND], &store]),
            "Removes a hook; the runs that it started stay",
            remove_hook,
        )
        .add(
            Method::POST,
            "/hooks/{token}",
            Access::new(TokenScope::Public)
                .rate(Rate::Hook)
                .body(value_bytes()),
            &together(&[
                &[
                    HOOK_NOT_FOUND,
                    HOOK_SIGNATURE_INVALID,
                    BODY_MALFORMED,
                    SECRET_KEY_UNUSABLE,
                ],
                STARTING,
            ]),
            "Starts a run, if the request is signed as the hook wants it",
            call_hook,
        );
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ListQuery {
    /// The `next` of the previous page: continues after it.
    cursor: Option<String>,
    /// How many at most.
    limit: Option<Between<1, 1000>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HookPath {
    /// The hook's id.
    id: String,
}

/// What a hook starts.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HookBody {
    /// Its id.
    #[schemars(length(min = 1, max = 128))]
    id: String,
    /// The workflow whose newest version is run.
    #[schemars(length(min = 1, max = 128))]
    workflow_id: String,
}

fn item(hook: &Hook) -> Value {
    let mut item = json!({
        "id": hook.id,
        "tenantId": hook.tenant,
        "workflowId": hook.workflow,
        "createdAt": hook.created_at.to_string(),
    });
    listing::tell_damage(&mut item, hook.damage.as_deref());
    item
}

async fn list_hooks(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<RawJson<Page<HookShape>>, ApiError> {
    let page = app
        .read(&caller, move |queries| {
            let text = query.cursor.as_deref().map(decode).transpose()?;
            let text = text.map(String::from_utf8).transpose();
            let text = text.map_err(|_| foreign())?;
            let after = match &text {
                None => None,
                Some(text) => {
                    let (id, tenant) = text.split_once('/').ok_or_else(foreign)?;
                    Some((id, (!tenant.is_empty()).then_some(tenant)))
                }
            };
            let limit = query.limit.map_or(100, Between::get);
            let mut rows = queries
                .store
                .hooks(&queries.tenants, after, limit + 1)
                .wait()?;
            let more = rows.len() > limit;
            rows.truncate(limit);
            let next = rows.last().filter(|_| more).map(|last| {
                let tenant = last.tenant.as_deref().unwrap_or_default();
                encode(format!("{}/{tenant}", last.id).as_bytes())
            });
            let items: Vec<Value> = rows.iter().map(item).collect();
            Ok(json!({ "items": items, "next": next }))
        })
        .await?;
    Ok(RawJson::new(page.to_string()))
}

async fn put_hook(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<HookBody>,
) -> Result<RawJson<HookMadeShape>, ApiError> {
    let tenant = caller.principal.tenant.clone();
    let what = (&*body.id, &*body.workflow_id);
    let (store, keys) = (app.engine().store(), app.secrets());
    catalogue::must_have(&**store, tenant.as_deref(), &body.workflow_id).await?;
    let made = secrets::make_hook(&**store, keys, tenant.clone(), what, now()).await?;
    let mut answer = item(&made.hook);
    let detail = json!({ "workflowId": body.workflow_id });
    app.note(&caller, tenant, "hooks.put", body.id, &detail)
        .await?;
    answer["path"] = json!(format!("/hooks/{}", made.token));
    answer["token"] = json!(made.token);
    answer["secret"] = json!(made.secret);
    Ok(RawJson::new(answer.to_string()))
}

async fn remove_hook(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<HookPath>,
) -> Result<Json<RemovedShape>, ApiError> {
    let tenant = caller.tenant();
    let (store, keys) = (app.engine().store(), app.secrets());
    secrets::remove_hook(&**store, keys, tenant, &path.id).await?;
    let (tenant, id) = (tenant.map(Into::into), path.id.as_str());
    app.note(&caller, tenant, "hooks.remove", id, &json!({}))
        .await?;
    Ok(Json(RemovedShape { id: path.id }))
}

async fn call_hook(
    State(app): State<App>,
    caller: Caller,
    call: Call,
    key: IdempotencyKey,
    headers: HeaderMap,
    body: RawDocument<Any>,
) -> Result<Json<HookStartedShape>, ApiError> {
    call.check(&body.bytes)?;
    let hook = &call.hook;
    let own_key = key.0.is_some();
    let request = match key.0 {
        Some(key) => {
            let request = format!("hook:{}:key:{key}", hook.id);
            // A request id has a length, and the hook's own name takes a part of it.
            match is_request_id(&request) {
                true => request,
                false => format!("hook:{}:digest:{}", hook.id, Digest::of(key.as_bytes())),
            }
        }
        None => format!("hook:{}:{}", hook.id, call.digest(&body.bytes)),
    };
    let tenant = hook.tenant.clone();
    let trigger = trigger(&headers, &body.bytes)?;
    let request = StartRequest {
        tenant: tenant.clone(),
        trigger: trigger.clone(),
        request_id: Some(request.into()),
        correlation_id: Some(caller.correlation.as_str().into()),
        ..StartRequest::default()
    };
    let started = match app.engine().enqueue(&hook.workflow, None, request).await {
        // The same delivery, with other headers: it has its run.
        Err(StartError::RequestIdReused { run })
            if !own_key || has_body(&app, &caller, run, trigger).await? =>
        {
            Started {
                run,
                existing: true,
            }
        }
        other => other.map_err(Failure::from)?,
    };
    if !started.existing {
        let detail = json!({ "executionId": started.run.to_string() });
        app.note(&caller, tenant, "hooks.call", hook.id.clone(), &detail)
            .await?;
    }
    app.started(started.run).await?;
    Ok(Json(HookStartedShape {
        execution_id: started.run.to_string(),
        existing: started.existing,
    }))
}

/// Whether the run was started with the same body as this trigger has.
async fn has_body(
    app: &App,
    caller: &Caller,
    run: RunId,
    trigger: String,
) -> Result<bool, ApiError> {
    let body = |trigger: &str| {
        let parts: BTreeMap<String, &RawValue> = serde_json::from_str(trigger).ok()?;
        canonical(parts.get("body")?.get()).ok()
    };
    let same = move |queries: &windlass_service::RunQueries| {
        let loaded = load_latest(&*queries.store, &queries.plans, run)?;
        let first = queries
            .values()
            .resolve(&loaded.run.queued().trigger)
            .wait()?;
        Ok(body(&trigger).is_some() && body(&trigger) == body(&first))
    };
    app.read(caller, same).await
}

/// The run's trigger: the headers that are safe to keep, and the body.
fn trigger(headers: &HeaderMap, body: &[u8]) -> Result<String, ApiError> {
    let text = std::str::from_utf8(body).ok();
    let body: Option<&RawValue> = text.and_then(|text| serde_json::from_str(text).ok());
    let body = body.ok_or_else(|| BODY_MALFORMED.error("the body is not JSON"))?;
    let mut kept = Map::new();
    for (name, value) in headers {
        let name = name.as_str();
        let (most, bytes) = HEADERS;
        if !is_safe(name) || kept.len() >= most || value.len() > bytes {
            continue;
        }
        if let Ok(value) = value.to_str() {
            kept.insert(name.to_owned(), json!(value));
        }
    }
    let headers = Value::Object(kept);
    Ok(format!("{{\"headers\":{headers},\"body\":{}}}", body.get()))
}

/// Headers that describe the event; none with credentials, and none of the network path.
fn is_safe(name: &str) -> bool {
    const SECRET: [&str; 7] = [
        "auth",
        "cookie",
        "key",
        "secret",
        "signature",
        "token",
        "forwarded",
    ];
    let plain = matches!(name, "content-type" | "user-agent");
    plain || name.starts_with("x-") && !SECRET.iter().any(|word| name.contains(word))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "all of it is for tests")]
mod tests {
    use super::*;

    #[test]
    fn what_lets_somebody_in_does_not_reach_the_run() {
        for name in ["x-github-event", "content-type", "user-agent"] {
            assert!(is_safe(name), "{name}");
        }
        for name in [
            "authorization",
            "cookie",
            "x-api-key",
            "x-windlass-signature",
            "x-hub-signature-256",
            "x-forwarded-for",
            "x-csrf-token",
            "host",
        ] {
            assert!(!is_safe(name), "{name}");
        }
    }
}
