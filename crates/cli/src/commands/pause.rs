//! `windlass pause`: nothing more of a run starts until it is resumed.

use crate::args::Act;
use crate::command::{RunCommand, request};
use crate::commands::act_bulk::{self, Target};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Pauses runs.
pub(crate) fn run(settings: &Settings, arguments: &Act) -> Result<Exit, Failure> {
    let request = request(RunCommand::Pause, arguments.reason.as_ref());
    act_bulk::run(
        settings,
        Target::of(arguments),
        &request,
        arguments.dry_run,
        None,
    )
}
