//! `windlass cancel`: a run ends; running work is asked to stop.

use crate::args::Cancel;
use crate::command::{RunCommand, request};
use crate::commands::act_bulk::{self, Target};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Cancels runs.
pub(crate) fn run(settings: &Settings, arguments: &Cancel) -> Result<Exit, Failure> {
    let act = &arguments.act;
    let compensate = arguments.compensate;
    let request = request(RunCommand::Cancel { compensate }, act.reason.as_ref());
    act_bulk::run(settings, Target::of(act), &request, act.dry_run, None)
}
