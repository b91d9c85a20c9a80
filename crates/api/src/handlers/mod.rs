//! What can be asked over HTTP, one family of routes a file.

mod acting;
mod actions;
mod admin;
mod bulk;
mod executions;
mod hooks;
mod looking;
mod resuming;
mod schedules;
mod secrets;
mod shapes;
mod starting;
mod workflows;

use serde_json::{Map, Value, json};

pub(crate) use resuming::resume;

use crate::app::App;
use crate::health;
use crate::route::{Access, Gate, Routes};

/// The largest body with a value in it: a payload of 10 MiB and the words around it.
const VALUE_BYTES: u64 = 10 * 1024 * 1024 + 64 * 1024;

/// The largest body with a definition in it.
const DEFINITION_BYTES: u64 = 64 * 1024 * 1024;

/// The largest body that only says what to do.
const WORDS_BYTES: u64 = 1024 * 1024;

/// All routes; `probing` is what health and metrics need.
pub fn routes(gate: Gate, probing: Access) -> Routes<App> {
    let mut routes = Routes::new(gate);
    workflows::add(&mut routes);
    starting::add(&mut routes);
    executions::add(&mut routes);
    looking::add(&mut routes);
    acting::add(&mut routes);
    bulk::add(&mut routes);
    schedules::add(&mut routes);
    hooks::add(&mut routes);
    admin::add(&mut routes);
    secrets::add(&mut routes);
    actions::add(&mut routes);
    health::add(&mut routes, probing);
    routes
}

/// The limits of what is sent, to be joined by those of HTTP itself.
pub fn engine_limits() -> Map<String, Value> {
    let definition = windlass_core::definition::Limits::default();
    let limits = json!({
        "payloadBytes": windlass_engine::PAYLOAD_LIMIT_BYTES,
        "definitionBytes": definition.bytes,
        "valueBodyBytes": VALUE_BYTES,
        "definitionBodyBytes": DEFINITION_BYTES,
        "wordsBodyBytes": WORDS_BYTES,
        "requestIdBytes": windlass_service::launch::REQUEST_ID_BYTES,
        "labels": windlass_service::launch::LABELS,
        "labelBytes": windlass_service::launch::LABEL_BYTES,
        "secretNameBytes": windlass_service::secrets::NAME_LIMIT,
        "secretValueBytes": windlass_service::secrets::VALUE_LIMIT_BYTES,
        "hooks": windlass_service::secrets::HOOKS,
        "schedules": windlass_engine::SCHEDULE_LIMIT,
        "scheduleTriggerBytes": windlass_engine::SCHEDULE_TRIGGER_LIMIT_BYTES,
        "cronBytes": windlass_engine::CRON_LIMIT_BYTES,
        "pageItems": 1000,
        "eventPageItems": 10_000,
    });
    match limits {
        Value::Object(limits) => limits,
        _ => Map::new(),
    }
}
