//! `windlass simulate`: a definition in virtual time, many times over, with random
//! outcomes, delays and crashes. No action is called, and nothing is stored.

mod report;
mod script;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use windlass_sim::account::Account;
use windlass_sim::simulate::Simulation;

use crate::exit::{Exit, Failure};
use crate::overrides::Overrides;
use crate::session::Settings;
use crate::source;

/// `windlass simulate`
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// A definition in JSON or YAML
    pub(crate) file: PathBuf,
    /// How many runs to simulate
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) seeds: u64,
    /// Simulate only this one, and tell what happens
    #[arg(long, value_name = "SEED", conflicts_with = "seeds")]
    pub(crate) seed: Option<u64>,
    /// The run's trigger: JSON, or @file
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) trigger: Option<String>,
    /// How often a node fails, and with which code: charge=0.1, charge=10%:DECLINED, '*=1%'
    #[arg(long = "fail", value_name = "NODE=RATE[:CODE]")]
    pub(crate) fail: Vec<String>,
    /// How long a node takes, in milliseconds: charge=200..1500, '*=10'
    #[arg(long = "delay", value_name = "NODE=MS..MS")]
    pub(crate) delay: Vec<String>,
    /// What a node returns, instead of its parameters
    #[arg(long = "returns", value_name = "NODE=JSON")]
    pub(crate) returns: Vec<String>,
    /// A signal that is sent when the run waits for it, and what it carries
    #[arg(long = "signal", value_name = "NAME[=JSON]")]
    pub(crate) signals: Vec<String>,
    /// Do not let the process die now and then
    #[arg(long)]
    pub(crate) no_crashes: bool,
    /// Give a run up after so many steps
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub(crate) max_steps: u64,
}

/// Simulates, and reports what can happen.
pub(crate) fn run(settings: &Settings, arguments: &Simulate) -> Result<Exit, Failure> {
    let prepared = source::prepare(&arguments.file, &Overrides::default())?;
    let text = String::from_utf8_lossy(&prepared.definition.text).into_owned();
    let trigger = super::run::trigger(arguments.trigger.as_deref())?;
    windlass_engine::check_trigger(&prepared.definition.plan, &trigger)?;
    let simulation = Simulation {
        text: text.into(),
        script: Arc::new(script::of(arguments, &prepared.definition.plan)?),
        plan: prepared.definition.plan,
        trigger,
        defaults: settings.defaults.clone(),
        crashes: !arguments.no_crashes,
        max_steps: arguments.max_steps,
    };
    if let Some(seed) = arguments.seed {
        let account = simulation.run(seed);
        report::one(settings, &simulation, &account)?;
        return Ok(Exit::Done);
    }
    let accounts = run_all(&simulation, arguments.seeds);
    let summary = summary::of(&simulation.plan, &accounts);
    report::all(settings, arguments, &simulation, &summary)?;
    Ok(Exit::Done)
}

/// All seeds on all cores, in order.
fn run_all(simulation: &Simulation, seeds: u64) -> Vec<Account> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut accounts: Vec<Account> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|first| {
                let mine = (first..seeds).step_by(threads);
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
    accounts
}
