//! Pools: named limits on attempts, with the attempts that hold their slots and that wait.

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_service::{Failure, pools};
use windlass_store::{PoolKey, PoolRemoval, Wait as _};

use super::WORDS_BYTES;
use super::executions::{decode, encode, foreign};
use super::shapes::{PoolShape, RemovedPoolShape, SetPoolShape};
use crate::answer::{Page, RawJson};
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::error::ApiError;
use crate::extract::{Json, Path, Query};
use crate::failures;
use crate::route::{Access, Routes};

const PATH: &str = "/api/v1/pools";

pub(super) fn add(routes: &mut Routes<App>) {
    let one = "/api/v1/pools/{name}";
    let store = failures::STORE_UNAVAILABLE;
    let setting = [failures::POOL_INVALID, store];
    routes
        .add(
            Method::GET,
            PATH,
            Access::read(),
            &[failures::CURSOR_INVALID, store],
            "Lists pools, with the attempts that hold their slots and that wait",
            list,
        )
        .add(
            Method::PUT,
            PATH,
            Access::admin().body(WORDS_BYTES),
            &setting,
            "Makes the pool that the body names, or changes its size",
            put_named,
        )
        .add(
            Method::GET,
            one,
            Access::read(),
            &[failures::POOL_NOT_FOUND, store],
            "Gives a pool, with the attempts that hold its slots and that wait",
            show,
        )
        .add(
            Method::PUT,
            one,
            Access::admin().body(WORDS_BYTES),
            &setting,
            "Makes a pool, or changes its size; those that hold slots keep them",
            put,
        )
        .add(
            Method::DELETE,
            one,
            Access::admin(),
            &[failures::POOL_NOT_FOUND, failures::POOL_IN_USE, store],
            "Removes a pool that no attempt uses and no newest version names",
            remove,
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

/// A pool in the path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PoolPath {
    /// The pool's name.
    name: String,
}

/// A pool's size.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PoolSize {
    /// How many slots it has.
    #[schemars(range(min = 1, max = 10_000))]
    slots: u32,
}

/// A pool and its size.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NamedPool {
    /// The pool's name.
    #[schemars(length(min = 1, max = 128))]
    name: String,
    /// How many slots it has.
    #[schemars(range(min = 1, max = 10_000))]
    slots: u32,
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<RawJson<Page<PoolShape>>, ApiError> {
    let page = app
        .read(&caller, move |queries| {
            let after = query.cursor.as_deref().map(after).transpose()?;
            let limit = query.limit.map_or(100, Between::get);
            let store = &queries.store;
            let mut rows = store
                .pools(&queries.tenants, after.as_ref(), limit + 1)
                .wait()?;
            let more = rows.len() > limit;
            rows.truncate(limit);
            let next = rows.last().filter(|_| more).map(|last| {
                let tenant = last.pool.tenant.as_deref().unwrap_or_default();
                encode(format!("{}\n{tenant}", last.pool.name).as_bytes())
            });
            let mut items: Vec<Value> = Vec::with_capacity(rows.len());
            for row in &rows {
                let usage = store.pool_use(&row.pool, pools::NAMED).wait()?;
                items.push(pools::item(row, &usage));
            }
            Ok(json!({ "items": items, "next": next }))
        })
        .await?;
    Ok(RawJson::new(page.to_string()))
}

/// The pool that a cursor names.
fn after(cursor: &str) -> Result<PoolKey, Failure> {
    let text = String::from_utf8(decode(cursor)?).map_err(|_| foreign())?;
    let (name, tenant) = text.split_once('\n').ok_or_else(foreign)?;
    Ok(PoolKey::new((!tenant.is_empty()).then_some(tenant), name))
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<PoolPath>,
) -> Result<RawJson<PoolShape>, ApiError> {
    let key = PoolKey::new(caller.tenant(), &path.name);
    let store = app.engine().store();
    let row = store.pool(&key).await.map_err(failed)?;
    let row = row.ok_or_else(|| ApiError::from(pools::unknown(&path.name)))?;
    let usage = store.pool_use(&key, pools::NAMED).await.map_err(failed)?;
    Ok(RawJson::new(pools::item(&row, &usage).to_string()))
}

fn failed(error: windlass_store::Error) -> ApiError {
    Failure::from(error).into()
}

async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<PoolPath>,
    Json(size): Json<PoolSize>,
) -> Result<Json<SetPoolShape>, ApiError> {
    set(&app, &caller, path.name, size.slots).await
}

async fn put_named(
    State(app): State<App>,
    caller: Caller,
    Json(pool): Json<NamedPool>,
) -> Result<Json<SetPoolShape>, ApiError> {
    set(&app, &caller, pool.name, pool.slots).await
}

async fn set(
    app: &App,
    caller: &Caller,
    name: String,
    slots: u32,
) -> Result<Json<SetPoolShape>, ApiError> {
    pools::check(&name, Some(slots))?;
    let tenant = caller.principal.tenant.clone();
    let key = PoolKey::new(tenant.as_deref(), &name);
    let before = app.engine().put_pool(key, slots).await.map_err(failed)?;
    let detail = json!({ "slots": slots, "before": before });
    app.note(caller, tenant, "pools.set", name.as_str(), &detail)
        .await?;
    Ok(Json(SetPoolShape {
        name,
        slots,
        created: before.is_none(),
    }))
}

async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<PoolPath>,
) -> Result<Json<RemovedPoolShape>, ApiError> {
    let name = path.name;
    let tenant = caller.principal.tenant.clone();
    let key = PoolKey::new(tenant.as_deref(), &name);
    let engine = app.engine();
    pools::refuse_named(&**engine.store(), &key).await?;
    match engine.remove_pool(&key).await.map_err(failed)? {
        PoolRemoval::Removed => {}
        PoolRemoval::Unknown => return Err(pools::unknown(&name).into()),
        PoolRemoval::InUse => return Err(pools::in_use(&name).into()),
    }
    app.note(&caller, tenant, "pools.remove", name.as_str(), &json!({}))
        .await?;
    Ok(Json(RemovedPoolShape { name }))
}
