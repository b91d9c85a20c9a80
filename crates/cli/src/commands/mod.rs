//! One command a file. Each takes its arguments and the settings, and says how the
//! program ends.

mod act_bulk;
mod act_foreground;
mod actions;
mod backup;
mod bench;
mod blob;
mod cancel;
mod cluster;
mod compensate;
mod complete;
mod completions;
mod config;
mod dead_letters;
mod diff;
mod doctor;
mod dry_run;
mod events;
mod export;
mod fork;
mod fork_many;
mod graph;
mod hooks;
mod import;
mod migrate;
mod pause;
mod plan;
mod pools;
mod publish;
mod query;
mod reattempt;
mod rebuild;
mod restore;
mod result;
mod resume;
mod run;
mod runs;
mod schedules;
mod schema;
mod secrets;
pub(crate) mod serve;
mod set_result;
mod show;
mod signal;
pub(crate) mod simulate;
mod skip;
mod start;
mod token;
mod validate;
mod verify;
mod watch;
mod why;
mod workflows;

pub(crate) use watch::dead_letter;

use crate::args::{Arguments, Command};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, config: &Config) -> Result<Exit, Failure> {
    let mut settings = Settings::new(config)?;
    if names_database(&arguments.command) && !config.is_flag("server") {
        settings = settings.here();
    }
    // Nothing has asked for them before: this is the first thing that a process does.
    windlass_engine::set_limits(config.limits());
    let done = obey(&arguments.command, config, &settings);
    match &settings.server {
        Some(server) => done.map_err(|failure| server.explain(failure)),
        None => done,
    }
}

/// Whether a command is about a database, so that a server that a variable or the file names for
/// other commands is not meant.
fn names_database(command: &Command) -> bool {
    match command {
        Command::Query(_) | Command::Migrate(_) => true,
        Command::Rebuild(arguments) => arguments.from.is_some(),
        Command::Doctor(arguments) => {
            arguments.database.postgres_url.is_some() || arguments.nats.nats_url.is_some()
        }
        _ => false,
    }
}

fn obey(command: &Command, config: &Config, settings: &Settings) -> Result<Exit, Failure> {
    match command {
        Command::Run(arguments) => run::run(settings, arguments),
        Command::Start(arguments) => start::run(settings, arguments),
        Command::Validate(arguments) => validate::run(settings, arguments),
        Command::Simulate(arguments) => simulate::run(settings, arguments),
        Command::Graph(arguments) => graph::run(settings, arguments),
        Command::Publish(arguments) => publish::run(settings, arguments),
        Command::Workflows(arguments) => workflows::run(settings, arguments),
        Command::Diff(arguments) => diff::run(settings, arguments),
        Command::Runs(arguments) => runs::run(settings, arguments),
        Command::Show(arguments) => show::run(settings, arguments),
        Command::Watch(arguments) => watch::run(settings, arguments),
        Command::Result(arguments) => result::run(settings, arguments),
        Command::Blob(arguments) => blob::run(settings, arguments),
        Command::Events(arguments) => events::run(settings, arguments),
        Command::Why(arguments) => why::run(settings, arguments),
        Command::Cancel(arguments) => cancel::run(settings, arguments),
        Command::Pause(arguments) => pause::run(settings, arguments),
        Command::Resume(arguments) => resume::run(settings, arguments),
        Command::Reattempt(arguments) => reattempt::run(settings, arguments),
        Command::Fork(arguments) => fork::run(settings, arguments),
        Command::Signal(arguments) => signal::run(settings, arguments),
        Command::SetResult(arguments) => set_result::run(settings, arguments),
        Command::Skip(arguments) => skip::run(settings, arguments),
        Command::Compensate(arguments) => compensate::run(settings, arguments),
        Command::Import(arguments) => import::run(settings, arguments),
        Command::Export(arguments) => export::run(settings, arguments),
        Command::Verify(arguments) => verify::run(settings, arguments),
        Command::Rebuild(arguments) => rebuild::run(settings, config, arguments),
        Command::Backup(arguments) => backup::run(settings, config, arguments),
        Command::Restore(arguments) => restore::run(settings, arguments),
        Command::DeadLetters(arguments) => dead_letters::run(settings, arguments),
        Command::Secrets(arguments) => secrets::run(settings, arguments),
        Command::Hooks(arguments) => hooks::run(settings, arguments),
        Command::Pools(arguments) => pools::run(settings, arguments),
        Command::Schedules(arguments) => schedules::run(settings, arguments),
        Command::Serve(arguments) => serve::run(&settings.here(), config, arguments),
        Command::Dev(arguments) => serve::dev(&settings.here(), config, arguments),
        Command::Cluster => cluster::run(settings),
        Command::Token(arguments) => token::run(settings, arguments),
        Command::Doctor(arguments) => doctor::run(settings, config, arguments),
        Command::Query(arguments) => query::run(settings, config, arguments),
        Command::Migrate(arguments) => migrate::run(settings, config, arguments),
        Command::Config => config::run(settings, config),
        Command::Schema => schema::run(settings),
        Command::Actions(arguments) => actions::run(settings, arguments),
        Command::Completions(arguments) => completions::run(settings, arguments),
        Command::Bench(arguments) => bench::run(settings, config, arguments),
        Command::Complete(arguments) => complete::run(settings, arguments),
    }
}

/// A version for people; a run with a graph of its own has none.
fn version_word(version: u32) -> String {
    match version {
        0 => "frozen".to_owned(),
        version => format!("v{version}"),
    }
}
