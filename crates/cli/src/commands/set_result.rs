//! `windlass set-result`: a node's result is given by hand.

use crate::args::SetResult;
use crate::command::{RunCommand, request};
use crate::commands::act_foreground::{self, json_argument, words};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

const USAGE: &str = "windlass set-result RUN NODE JSON|@FILE";

/// Gives a node's result.
pub(crate) fn run(settings: &Settings, arguments: &SetResult) -> Result<Exit, Failure> {
    let how = &arguments.how;
    let (which, rest) = words(how, &arguments.words, 2..=2, USAGE)?;
    let (node, output) = (rest[0].clone(), json_argument(&rest[1])?);
    let request = request(RunCommand::SetResult { node }, how.reason.as_ref()).with(output);
    let options = arguments.foreground.options()?;
    act_foreground::run(settings, which, &request, how.dry_run, options)
}
