//! `windlass reattempt`: failed or cancelled nodes are tried again, in the foreground.

use crate::args::Reattempt;
use crate::commands::goes_on;
use crate::commands::many::Which;
use crate::deed::{Deed, Doing};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Tries nodes again.
pub(crate) fn run(settings: &Settings, arguments: &Reattempt) -> Result<Exit, Failure> {
    let options = arguments.foreground.options()?;
    let which = match &arguments.run {
        Some(run) => Which::One(run),
        None => Which::Filter(&arguments.filter),
    };
    let nodes = arguments.nodes.clone();
    let doing = Doing::new(Deed::Reattempt { nodes }, arguments.reason.as_ref());
    goes_on::run(settings, which, &doing, arguments.dry_run, options)
}
