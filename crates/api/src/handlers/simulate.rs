//! Simulations of definitions: runs in virtual time with mocked actions, one simulation at a
//! time and each for a few seconds at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::State;
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::definition::Definition;
use windlass_service::Failure;
use windlass_service::simulate::{self, SimulateOptions, Simulation};

use super::definition_bytes;
use super::shapes::SimulatedShape;
use super::workflows::prepared;
use crate::answer::RawJson;
use crate::app::{App, Caller};
use crate::bounds::Between;
use crate::code;
use crate::error::ApiError;
use crate::extract::{Query, RawDocument};
use crate::failures::{self, DEFINING};
use crate::route::{Access, Routes};
use crate::serve::Draining;

/// How long one simulation may take; what was simulated by then is the answer.
const TIME: Duration = Duration::from_secs(2);

/// How long a step may take that is under way when the time is over.
const LAST_STEP: Duration = Duration::from_secs(2);

/// A run that takes more steps is given up.
const MAX_STEPS: u64 = 20_000;

/// How many runs are simulated if the request does not say.
const SEEDS: u16 = 200;

pub(super) fn add(routes: &mut Routes<App>) {
    let failures = [
        failures::TRIGGER_INVALID,
        failures::TRIGGER_NOT_JSON,
        failures::TRIGGER_TOO_LARGE,
        failures::NESTING_LIMIT,
        failures::SCHEMA_INVALID,
        failures::SCHEMA_LIMIT,
        failures::CHECKS_BUSY,
        failures::UNKNOWN_NODE,
        failures::UNKNOWN_SIGNAL,
        failures::USAGE,
    ];
    routes.add(
        Method::POST,
        "/api/v1/workflows/simulate",
        Access::manage().body(definition_bytes()),
        &failures::together(&[DEFINING, &failures]),
        "Simulates a definition in virtual time with mocked actions, and says how runs can end",
        simulate,
    );
}

/// The options of `windlass simulate`, in the same form.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SimulateQuery {
    /// How many runs to simulate; 200, if it is left out.
    seeds: Option<Between<1, 1000>>,
    /// Simulate only this one, and tell what happens in it.
    seed: Option<u64>,
    /// The run's trigger, as JSON.
    trigger: Option<String>,
    /// How often a node fails, and with which code: `charge=10%:DECLINED`, `*=1%`.
    fail: Vec<String>,
    /// How long a node takes, in milliseconds: `charge=200..1500`.
    delay: Vec<String>,
    /// What a node returns, as JSON: `charge={"id":1}`.
    returns: Vec<String>,
    /// A signal that is sent when the run waits for it: `approved={"by":"ada"}`.
    signal: Vec<String>,
    /// Whether the process dies now and then; it does, if this is left out.
    crashes: Option<bool>,
}

/// Stops a simulation when its request ends, also because its client left.
struct Stopper(Arc<AtomicBool>);

impl Drop for Stopper {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn simulate(
    State(app): State<App>,
    caller: Caller,
    draining: Draining,
    Query(query): Query<SimulateQuery>,
    document: RawDocument<Definition>,
) -> Result<RawJson<SimulatedShape>, ApiError> {
    let definition = prepared(&app, &caller, document.bytes, &draining).await?;
    let options = SimulateOptions {
        trigger: query.trigger.unwrap_or_else(|| "{}".to_owned()),
        fail: query.fail,
        delay: query.delay,
        returns: query.returns,
        signals: query.signal,
        crashes: query.crashes.unwrap_or(true),
        max_steps: MAX_STEPS,
    };
    let defaults = app.engine().defaults().clone();
    let turn = app.simulating().acquire_owned().await;
    let turn = turn.expect("the semaphore is never closed");
    let stopper = Stopper(Arc::default());
    let stopped = Arc::clone(&stopper.0);
    let seeds = query.seeds.map_or(usize::from(SEEDS), Between::get) as u64;
    let mut working = tokio::task::spawn_blocking(move || {
        // The turn ends with the work, which may outlive its request by a step.
        let _turn = turn;
        let simulation = simulate::simulation(definition, &options, defaults)?;
        Ok::<_, Failure>(match query.seed {
            Some(seed) => one(&simulation, seed, &stopped),
            None => many(&simulation, seeds, &stopped),
        })
    });
    let done = tokio::select! {
        biased;
        done = &mut working => done,
        () = tokio::time::sleep(TIME) => {
            drop(stopper);
            let last = tokio::time::timeout(LAST_STEP, working).await;
            last.map_err(|_| code::TIMED_OUT.error("one step of the simulation takes too long"))?
        }
    };
    match done {
        Ok(answer) => Ok(RawJson::new(answer?.to_string())),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn many(simulation: &Simulation, seeds: u64, stopped: &Arc<AtomicBool>) -> Value {
    let summary = simulate::run_unless(simulation, seeds, stopped);
    let mut answer = simulate::as_json(simulation, &summary);
    if summary.runs < seeds {
        note_end(&mut answer, &format!("{} of {seeds} runs", summary.runs));
    }
    answer
}

fn one(simulation: &Simulation, seed: u64, stopped: &Arc<AtomicBool>) -> Value {
    let account = simulation.run_unless(seed, stopped);
    let summary = simulate::summary(simulation, account.as_slice());
    let mut answer = simulate::as_json(simulation, &summary);
    match &account {
        Some(account) => answer["events"] = simulate::events(account),
        None => note_end(&mut answer, "no run"),
    }
    answer
}

/// Says that the time was over before everything was simulated.
fn note_end(answer: &mut Value, what: &str) {
    let seconds = TIME.as_secs();
    let problem = format!(
        "{what} ended within {seconds} s of computing; `windlass simulate` has no such limit"
    );
    if let Some(problems) = answer["problems"].as_array_mut() {
        problems.push(json!(problem));
    }
}
