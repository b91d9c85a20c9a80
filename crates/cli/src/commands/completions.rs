//! `windlass completions`: a shell's completion script.

use clap::CommandFactory as _;

use crate::args::{Arguments, Completions};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Prints the script.
pub(crate) fn run(settings: &Settings, arguments: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    let mut command = Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "windlass", &mut script);
    settings.output.data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
