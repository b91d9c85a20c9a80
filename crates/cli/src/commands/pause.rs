//! `windlass pause`: nothing more of a run starts until it is resumed.

use crate::args::Act;
use crate::commands::many::{self, Kind};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Pauses runs.
pub(crate) fn run(settings: &Settings, arguments: &Act) -> Result<Exit, Failure> {
    many::run(settings, Kind::Pause, arguments, None)
}
