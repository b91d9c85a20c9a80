//! Simulates a definition in virtual time, many times over, with random outcomes, delays and
//! crashes. Nothing is stored, and no action with an effect is called.

mod evaluate;
mod json;
mod script;
mod summary;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use windlass_core::defaults::Defaults;
use windlass_sim::account::Account;
pub use windlass_sim::simulate::Simulation;

pub use self::json::{as_json, events, one_as_json, problems};
pub use self::summary::{Durations, Ended, FailedAttempts, Summary};
use crate::failure::Failure;
use crate::source::PreparedDefinition;

/// What is simulated, beside the definition. The texts are those of the options of
/// `windlass simulate`.
#[derive(Clone, Debug)]
pub struct SimulateOptions {
    /// What the run is started with, as JSON.
    pub trigger: String,
    /// How often nodes fail: `NODE=RATE[:CODE]`.
    pub fail: Vec<String>,
    /// How long nodes take: `NODE=MS..MS`.
    pub delay: Vec<String>,
    /// What nodes return: `NODE=JSON`.
    pub returns: Vec<String>,
    /// The signals that are sent: `NAME[=JSON]`.
    pub signals: Vec<String>,
    /// Whether the process dies now and then.
    pub crashes: bool,
    /// A run that takes more steps than this is given up.
    pub max_steps: u64,
}

/// Prepares the simulation of a definition.
///
/// # Errors
///
/// The trigger does not fit, or an option names what the definition does not have.
pub fn simulation(
    definition: PreparedDefinition,
    options: &SimulateOptions,
    defaults: Defaults,
) -> Result<Simulation, Failure> {
    windlass_engine::check_trigger(&definition.plan, &options.trigger)?;
    let script = Arc::new(script::of(options, &definition.plan)?);
    let text = String::from_utf8_lossy(&definition.text).into_owned();
    Ok(Simulation {
        text: text.into(),
        script,
        plan: definition.plan,
        trigger: options.trigger.clone(),
        defaults,
        crashes: options.crashes,
        max_steps: options.max_steps,
    })
}

/// Runs the seeds on so many threads, and counts.
pub fn run_all(simulation: &Simulation, seeds: u64, threads: usize) -> Summary {
    let threads = threads.max(1) as u64;
    let mut accounts: Vec<Account> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                let mine = (first..seeds).step_by(threads as usize);
                scope.spawn(move || {
                    let one = |seed| Account {
                        story: Vec::new(),
                        ..simulation.run(seed)
                    };
                    mine.map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|accounts| accounts.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    accounts.sort_by_key(|account| account.seed);
    summary(simulation, &accounts)
}

/// Counts what runs did.
pub fn summary(simulation: &Simulation, accounts: &[Account]) -> Summary {
    summary::of(&simulation.plan, accounts)
}

/// Runs the seeds one after the other until it is stopped, and counts those that it finished.
pub fn run_unless(simulation: &Simulation, seeds: u64, stopped: &Arc<AtomicBool>) -> Summary {
    let accounts = (0..seeds).map_while(|seed| {
        let account = simulation.run_unless(seed, stopped)?;
        Some(Account {
            story: Vec::new(),
            ..account
        })
    });
    summary(simulation, &accounts.collect::<Vec<_>>())
}
