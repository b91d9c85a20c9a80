//! `windlass reattempt`: failed or cancelled nodes are tried again, in the foreground.

use crate::args::Reattempt;
use crate::command::{RunCommand, request};
use crate::commands::act_bulk::Target;
use crate::commands::act_foreground;
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Tries nodes again.
pub(crate) fn run(settings: &Settings, arguments: &Reattempt) -> Result<Exit, Failure> {
    let options = arguments.foreground.options()?;
    let which = match &arguments.run {
        Some(run) => Target::One(run),
        None => Target::Filter(&arguments.filter),
    };
    let nodes = arguments.nodes.clone();
    let request = request(RunCommand::Reattempt { nodes }, arguments.reason.as_ref());
    act_foreground::run(settings, which, &request, arguments.dry_run, options)
}
