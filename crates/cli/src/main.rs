//! The windlass binary: arguments, wiring, output. `main` maps results to exit codes
//! and does nothing else.

mod access;
mod args;
mod bench;
mod carry;
mod commands;
mod config;
mod control;
mod definition_file;
mod ending;
mod foreground;
mod hub;
mod interrupt;
mod output;
mod paint;
mod progress;
mod registry;
mod remote;
mod secrets;
mod session;
mod source;
mod table;

use std::process::ExitCode;

use clap::Parser as _;
use windlass_service::failure as exit;
use windlass_service::{
    act, catalogue, deed, filter, forking, launch, moment, overrides, standing,
};

use args::Arguments;
use config::Config;
use exit::{Exit, Failure};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error).into(),
    };
    let config = Config::resolve(&arguments.global);
    let json = match &config {
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

/// A command line that cannot be read, or that asks for help.
fn refuse(error: &clap::Error) -> Exit {
    // Help and version are answers, not errors. A closed pipe is nobody's fault.
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
