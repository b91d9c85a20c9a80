//! `windlass skip`: a node counts as succeeded, with null, and the run continues.

use crate::args::Skip;
use crate::command::{RunCommand, request};
use crate::commands::act_foreground::{self, words};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Skips a node.
pub(crate) fn run(settings: &Settings, arguments: &Skip) -> Result<Exit, Failure> {
    let how = &arguments.how;
    let (which, rest) = words(how, &arguments.words, 1..=1, "windlass skip RUN NODE")?;
    let node = rest[0].clone();
    let request = request(RunCommand::Skip { node }, how.reason.as_ref());
    let options = arguments.foreground.options()?;
    act_foreground::run(settings, which, &request, how.dry_run, options)
}
