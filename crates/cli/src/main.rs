//! The windlass binary: arguments, wiring, output. `main` maps results to exit codes
//! and does nothing else.

mod access;
mod args;
mod bench;
mod commands;
mod config;
mod database;
mod definition_file;
mod ending;
mod event_fanout;
mod exit;
mod foreground;
mod help;
mod interrupt;
mod local_engine;
mod nats;
mod output;
mod paint;
mod progress;
mod registry;
mod remote;
mod screen;
mod secrets;
mod session;
mod socket;
mod source;
mod table;
mod verdict;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};
use windlass_core::printable::one_line;
use windlass_service::{
    catalogue, command, filter, forking, launch, moment, overrides, wait_state,
};

use args::Arguments;
use config::Config;
use exit::{Exit, Failure};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&printable(error)).into(),
    };
    let config = Config::resolve(&arguments.global);
    let is_server = matches!(
        arguments.command,
        args::Command::Serve(_) | args::Command::Dev(_)
    );
    let json = match &config {
        // Where a log for programs was asked for, nothing else stands in it.
        Ok(config) if is_server && config.value("log_format") == Some("json") => true,
        Ok(config) => config.json(),
        Err(_) => config::asks_for_json(),
    };
    match config.and_then(|config| commands::run(&arguments, &config)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.print(json);
            failure.exit.into()
        }
    }
}

/// Reads arguments; help is laid out by [`help`].
fn parse<T: Into<OsString> + Clone>(
    arguments: impl IntoIterator<Item = T>,
) -> Result<Arguments, clap::Error> {
    let mut command = help::arranged(Arguments::command());
    let matches = command.try_get_matches_from_mut(arguments)?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The same error about arguments that a terminal can show: clap quotes them as they are.
fn printable(error: clap::Error) -> clap::Error {
    let given: Vec<_> = std::env::args_os().collect();
    let shown = |argument: &OsString| one_line(&argument.to_string_lossy()).into_owned();
    let plain: Vec<_> = given.iter().map(shown).collect();
    if plain.iter().eq(given.iter().filter_map(|it| it.to_str())) {
        return error;
    }
    match parse(&plain) {
        Err(again) => again,
        // The argument was invalid because of the very characters that cannot be shown.
        Ok(_) => {
            let differs = |(shown, given): &(&String, &OsString)| given.to_str() != Some(shown);
            let hostile = plain.iter().zip(&given).find(differs);
            let named = hostile.map_or("", |(shown, _)| shown);
            let message =
                format!("the argument '{named}' has characters that are not allowed here");
            Arguments::command().error(ErrorKind::InvalidValue, message)
        }
    }
}

/// A command line that cannot be read, or that asks for help.
fn refuse(error: &clap::Error) -> Exit {
    // Help and version are answers, not errors. A closed pipe is no error either.
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done;
    }
    if config::asks_for_json() {
        let text = error.render().to_string();
        let message = text.trim_start_matches("error: ").trim_end();
        Failure::new(Exit::Usage, "USAGE", message).print(true);
    } else {
        let _ = error.print();
    }
    Exit::Usage
}
