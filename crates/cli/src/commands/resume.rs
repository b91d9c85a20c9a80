//! `windlass resume`: continues an interrupted or paused run in the foreground.

use crate::args::Resume;
use crate::command::{RunCommand, request};
use crate::commands::act_bulk::Target;
use crate::commands::act_foreground;
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Resumes the target here, or asks the server or process that has it.
pub(crate) fn run(settings: &Settings, arguments: &Resume) -> Result<Exit, Failure> {
    let options = arguments.foreground.options()?;
    let act = &arguments.act;
    let request = request(RunCommand::Resume, act.reason.as_ref());
    act_foreground::run(settings, Target::of(act), &request, act.dry_run, options)
}
