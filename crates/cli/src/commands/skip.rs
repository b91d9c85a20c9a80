//! `windlass skip`: a node counts as succeeded, with null, and the run goes on.

use crate::args::Skip;
use crate::commands::goes_on::{self, words};
use crate::deed::{Deed, Doing};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Skips a node.
pub(crate) fn run(settings: &Settings, arguments: &Skip) -> Result<Exit, Failure> {
    let how = &arguments.how;
    let (which, rest) = words(how, &arguments.words, 1..=1, "windlass skip RUN NODE")?;
    let node = rest[0].clone();
    let doing = Doing::new(Deed::Skip { node }, how.reason.as_ref());
    let options = arguments.foreground.options()?;
    goes_on::run(settings, which, &doing, how.dry_run, options)
}
