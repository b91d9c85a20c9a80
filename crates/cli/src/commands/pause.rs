//! `windlass pause`: nothing more of a run starts until it is resumed.

use crate::args::Act;
use crate::commands::many::{self, Which};
use crate::deed::{Deed, Doing};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Pauses runs.
pub(crate) fn run(settings: &Settings, arguments: &Act) -> Result<Exit, Failure> {
    let doing = Doing::new(Deed::Pause, arguments.reason.as_ref());
    many::run(
        settings,
        Which::of(arguments),
        &doing,
        arguments.dry_run,
        None,
    )
}
