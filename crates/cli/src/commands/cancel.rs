//! `windlass cancel`: a run ends; what runs is told to stop.

use crate::args::Act;
use crate::commands::many::{self, Kind};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Cancels runs.
pub(crate) fn run(settings: &Settings, arguments: &Act) -> Result<Exit, Failure> {
    many::run(settings, Kind::Cancel, arguments, None)
}
