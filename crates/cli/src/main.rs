//! The windlass binary: arguments, wiring, output. `main` maps results to exit codes
//! and does nothing else.

mod access;
mod act;
mod args;
mod bench;
mod carry;
mod catalogue;
mod commands;
mod config;
mod control;
mod definition_file;
mod ending;
mod exit;
mod filter;
mod foreground;
mod graph;
mod hub;
mod interrupt;
mod launch;
mod moment;
mod output;
mod overrides;
mod paint;
mod progress;
mod registry;
mod secrets;
mod session;
mod source;
mod table;

use std::process::ExitCode;

use clap::Parser as _;

use args::Arguments;
use exit::Exit;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are answers, not errors. A closed pipe is nobody's fault.
            let _ = error.print();
            let code = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            return code.into();
        }
    };
    match commands::run(arguments) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.print();
            failure.exit.into()
        }
    }
}
