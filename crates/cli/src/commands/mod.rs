//! One command a file. Each takes its arguments and the settings, and says how the
//! program ends.

mod bench;

use crate::args::{Arguments, Command};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let settings = Settings::new(&arguments.global);
    if let Some(url) = &arguments.global.server {
        let message = format!("this version cannot act on a server ({url})");
        return Err(Failure::new(Exit::Usage, "SERVER_UNSUPPORTED", message)
            .hint("leave --server out to act on a data directory"));
    }
    match arguments.command {
        Command::Bench(arguments) => bench::run(&settings, &arguments),
        _ => Err(Failure::new(Exit::Usage, "NOT_BUILT", "not built yet")),
    }
}
