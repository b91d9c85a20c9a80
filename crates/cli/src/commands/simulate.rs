//! `windlass simulate`: a definition in virtual time, many times over, with random
//! outcomes, delays and crashes. Nothing is stored, and no action with an effect is called.

mod report;

use std::path::PathBuf;

use clap::Args;
use windlass_service::simulate::{self, SimulateOptions};

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
    let options = SimulateOptions {
        trigger: super::run::trigger(arguments.trigger.as_deref())?,
        fail: arguments.fail.clone(),
        delay: arguments.delay.clone(),
        returns: arguments.returns.clone(),
        signals: arguments.signals.clone(),
        crashes: !arguments.no_crashes,
        max_steps: arguments.max_steps,
    };
    let defaults = settings.defaults.clone();
    let simulation = simulate::simulation(prepared.definition, &options, defaults)?;
    if let Some(seed) = arguments.seed {
        let account = simulation.run(seed);
        report::one(settings, &simulation, &account)?;
        return Ok(Exit::Done);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = simulate::run_all(&simulation, arguments.seeds, threads);
    report::all(settings, arguments, &simulation, &summary)?;
    Ok(Exit::Done)
}
