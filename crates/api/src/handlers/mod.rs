//! What can be asked over HTTP, one family of routes a file.

mod acting;
mod actions;
mod admin;
mod blobs;
mod bulk;
mod cluster;
mod executions;
mod hooks;
mod inspect;
mod layout;
mod pools;
mod resuming;
mod schedules;
mod secrets;
mod shapes;
mod signature;
mod simulate;
mod starting;
mod statistics;
mod workers;
mod workflows;

use serde_json::{Map, Value, json};
use windlass_engine::limits;

pub(crate) use executions::{head_text, page_selection, run_page};
pub(crate) use inspect::recent_events;
pub(crate) use layout::statuses_text;
pub(crate) use resuming::resume;

use crate::app::App;
use crate::health;
use crate::route::{Access, RequestGate, Routes};

/// The largest body with a value in it: a payload and the words around it.
fn value_bytes() -> u64 {
    limits().payload_bytes as u64 + 64 * 1024
}

/// The largest body with a definition in it.
fn definition_bytes() -> u64 {
    limits().definition.bytes as u64
}

/// The largest body that only says what to do.
const WORDS_BYTES: u64 = 1024 * 1024;

/// The largest body that any route takes under these limits.
#[must_use]
pub fn largest_body(limits: &windlass_engine::Limits) -> u64 {
    let value = limits.payload_bytes as u64 + 64 * 1024;
    let definition = limits.definition.bytes as u64;
    let output = workers::output_bytes(limits);
    value.max(definition).max(output).max(WORDS_BYTES)
}

/// All routes; `probing` is what health and metrics need.
pub fn routes(gate: RequestGate, probing: Access) -> Routes<App> {
    let mut routes = Routes::new(gate);
    workflows::add(&mut routes);
    simulate::add(&mut routes);
    starting::add(&mut routes);
    executions::add(&mut routes);
    inspect::add(&mut routes);
    blobs::add(&mut routes);
    layout::add(&mut routes);
    statistics::add(&mut routes);
    acting::add(&mut routes);
    bulk::add(&mut routes);
    pools::add(&mut routes);
    schedules::add(&mut routes);
    hooks::add(&mut routes);
    admin::add(&mut routes);
    secrets::add(&mut routes);
    actions::add(&mut routes);
    workers::add(&mut routes);
    cluster::add(&mut routes);
    health::add(&mut routes, probing);
    crate::page::add(&mut routes);
    routes
}

/// The limits of what is sent, to be joined by those of HTTP itself.
pub fn engine_limits() -> Map<String, Value> {
    let limits = json!({
        "payloadBytes": limits().payload_bytes,
        "definitionBytes": limits().definition.bytes,
        "valueBodyBytes": value_bytes(),
        "definitionBodyBytes": definition_bytes(),
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
        "outputBodyBytes": workers::output_bytes(limits()),
        "declaredActions": windlass_engine::ACTION_LIMIT,
        "declaredSchemaBytes": windlass_engine::DECLARED_SCHEMA_BYTES,
        "waitingWorkers": windlass_engine::POLLER_LIMIT,
        "pageItems": 1000,
        "eventPageItems": 10_000,
    });
    match limits {
        Value::Object(limits) => limits,
        _ => Map::new(),
    }
}
