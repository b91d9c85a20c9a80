//! Secrets: clients can write them, and read only their names.

use std::borrow::Cow;
use std::fmt;

use axum::extract::State;
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_service::moment::now;
use windlass_service::secrets;
use windlass_store::Wait as _;

use super::WORDS_BYTES;
use super::executions::encode;
use super::schedules::after;
use super::shapes::{RemovedSecretShape, RotatedShape, SecretShape, SetSecretShape};
use crate::answer::{Page, RawJson};
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::error::ApiError;
use crate::extract::{Json, Path, Query};
use crate::failures;
use crate::route::{Access, Routes};

const PATH: &str = "/api/v1/secrets";

pub(super) fn add(routes: &mut Routes<App>) {
    let store = failures::STORE_UNAVAILABLE;
    let removing = [failures::SECRET_NOT_FOUND, failures::SECRET_INVALID, store];
    routes
        .add(
            Method::GET,
            PATH,
            Access::admin(),
            &[failures::CURSOR_INVALID, store],
            "Lists the names of secrets, and when each was set",
            list,
        )
        .add(
            Method::POST,
            "/api/v1/secret-key/rotate",
            Access::admin(),
            &[
                failures::SECRET_KEY_MISSING,
                failures::SECRET_KEY_UNUSABLE,
                store,
            ],
            "Seals all secrets with a new key, and forgets the old one",
            rotate,
        )
        .add(
            Method::POST,
            PATH,
            Access::admin().body(WORDS_BYTES),
            &[
                failures::SECRET_INVALID,
                failures::SECRET_TOO_LARGE,
                failures::SECRET_KEY_UNUSABLE,
                store,
            ],
            "Sets a secret, in place of the one of that name",
            set,
        )
        .add(
            Method::DELETE,
            PATH,
            Access::admin(),
            &removing,
            "Forgets the secret that the query names",
            remove_named,
        )
        .add(
            Method::DELETE,
            "/api/v1/secrets/{name}",
            Access::admin(),
            &removing,
            "Forgets a secret",
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

async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<RawJson<Page<SecretShape>>, ApiError> {
    let page = app
        .read(&caller, move |queries| {
            let after = query.cursor.as_deref().map(after).transpose()?;
            let after = after
                .as_ref()
                .map(|(name, tenant)| (&**name, tenant.as_deref()));
            let limit = query.limit.map_or(100, Between::get);
            let mut rows = queries
                .store
                .secrets(&queries.tenants, after, limit + 1)
                .wait()?;
            let more = rows.len() > limit;
            rows.truncate(limit);
            let next = rows.last().filter(|_| more).map(|last| {
                let tenant = last.tenant.as_deref().unwrap_or_default();
                encode(format!("{}/{tenant}", last.name).as_bytes())
            });
            let items: Vec<Value> = rows.iter().map(secrets::item).collect();
            Ok(json!({ "items": items, "next": next }))
        })
        .await?;
    Ok(RawJson::new(page.to_string()))
}

/// Seals everything with a new key.
async fn rotate(State(app): State<App>, caller: Caller) -> Result<Json<RotatedShape>, ApiError> {
    // The key is that of all tenants.
    if caller.principal.tenants() != windlass_store::TenantFilter::Any {
        return Err(crate::code::FORBIDDEN.error("the key is for an admin without a tenant"));
    }
    let rotated = secrets::rotate(&**app.engine().store(), app.secrets()).await?;
    let shape = RotatedShape {
        secrets: rotated.secrets,
        hooks: rotated.hooks,
    };
    app.note(&caller, None, "secrets.rotate", "", &json!(shape))
        .await?;
    Ok(Json(shape))
}

/// A secret to set. Errors about it repeat none of it, and its `Debug` output hides the value.
#[derive(Deserialize)]
#[serde(try_from = "Value")]
struct NewSecret {
    name: String,
    value: String,
}

/// A secret to set.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "it is only described")]
struct NewSecretShape {
    /// What templates call it: `secrets.NAME`.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_-]+$"))]
    name: String,
    /// The value; no request returns it.
    #[schemars(length(min = 1))]
    value: String,
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

impl JsonSchema for NewSecret {
    fn schema_name() -> Cow<'static, str> {
        "NewSecret".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        NewSecretShape::json_schema(generator)
    }
}

impl TryFrom<Value> for NewSecret {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let Value::Object(mut members) = value else {
            return Err("it is no object with a name and a value");
        };
        match (members.remove("name"), members.remove("value")) {
            (Some(Value::String(name)), Some(Value::String(value))) if members.is_empty() => {
                Ok(Self { name, value })
            }
            (Some(Value::String(_)), Some(Value::String(_))) => {
                Err("it has members besides name and value")
            }
            _ => Err("name and value are needed, and both are texts"),
        }
    }
}

async fn set(
    State(app): State<App>,
    caller: Caller,
    Json(secret): Json<NewSecret>,
) -> Result<Json<SetSecretShape>, ApiError> {
    let store = app.engine().store();
    let NewSecret { name, value } = secret;
    let tenant = caller.tenant();
    let created = secrets::set(&**store, app.secrets(), tenant, &name, &value, now()).await?;
    let detail = json!({ "created": created });
    let tenant = caller.principal.tenant.clone();
    app.note(&caller, tenant, "secrets.set", name.as_str(), &detail)
        .await?;
    Ok(Json(SetSecretShape { name, created }))
}

/// A secret's name, in the path or in the query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Named {
    /// The secret's name.
    name: String,
}

async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path(named): Path<Named>,
) -> Result<Json<RemovedSecretShape>, ApiError> {
    forget(&app, &caller, named.name).await
}

async fn remove_named(
    State(app): State<App>,
    caller: Caller,
    Query(named): Query<Named>,
) -> Result<Json<RemovedSecretShape>, ApiError> {
    forget(&app, &caller, named.name).await
}

async fn forget(
    app: &App,
    caller: &Caller,
    name: String,
) -> Result<Json<RemovedSecretShape>, ApiError> {
    secrets::remove(
        &**app.engine().store(),
        app.secrets(),
        caller.tenant(),
        &name,
    )
    .await?;
    let tenant = caller.principal.tenant.clone();
    app.note(caller, tenant, "secrets.remove", name.as_str(), &json!({}))
        .await?;
    Ok(Json(RemovedSecretShape { name }))
}
