//! One command a file. Each takes its arguments and the settings, and says how the
//! program ends.

mod bench;
mod cancel;
mod completions;
mod config;
mod events;
mod many;
mod pause;
mod reattempt;
mod result;
mod resume;
mod run;
mod runs;
mod show;
mod watch;

use crate::args::{Arguments, Command};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::resolve(&arguments.global)?;
    let settings = Settings::new(&config);
    if let Some(url) = config.value("server") {
        let message = format!("this version cannot act on a server ({url})");
        return Err(Failure::new(Exit::Usage, "SERVER_UNSUPPORTED", message)
            .hint("leave --server out to act on a data directory"));
    }
    match &arguments.command {
        Command::Run(arguments) => run::run(&settings, arguments),
        Command::Watch(arguments) => watch::run(&settings, arguments),
        Command::Cancel(arguments) => cancel::run(&settings, arguments),
        Command::Pause(arguments) => pause::run(&settings, arguments),
        Command::Resume(arguments) => resume::run(&settings, arguments),
        Command::Reattempt(arguments) => reattempt::run(&settings, arguments),
        Command::Config => config::run(&settings, &config),
        Command::Completions(arguments) => completions::run(&settings, arguments),
        Command::Runs(arguments) => runs::run(&settings, arguments),
        Command::Show(arguments) => show::run(&settings, arguments),
        Command::Result(arguments) => result::run(&settings, arguments),
        Command::Events(arguments) => events::run(&settings, arguments),
        Command::Bench(arguments) => bench::run(&settings, arguments),
        _ => Err(Failure::new(Exit::Usage, "NOT_BUILT", "not built yet")),
    }
}
