//! `windlass signal`: what a node waits for, from a person or another system.

use crate::args::Signal;
use crate::command::{RunCommand, request};
use crate::commands::act_foreground::{self, json_argument, words};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

const USAGE: &str = "windlass signal RUN NAME [JSON|@FILE]";

/// Gives runs a signal.
pub(crate) fn run(settings: &Settings, arguments: &Signal) -> Result<Exit, Failure> {
    let how = &arguments.how;
    let (which, rest) = words(how, &arguments.words, 1..=2, USAGE)?;
    let payload = match rest.get(1) {
        Some(payload) => json_argument(payload)?,
        None => "null".to_owned(),
    };
    let name = rest[0].clone();
    let request = request(RunCommand::Signal { name }, how.reason.as_ref()).with(payload);
    let options = arguments.foreground.options()?;
    act_foreground::run(settings, which, &request, how.dry_run, options)
}
