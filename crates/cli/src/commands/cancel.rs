//! `windlass cancel`: a run ends; what runs is told to stop.

use crate::args::Cancel;
use crate::commands::many::{self, Which};
use crate::deed::{Deed, Doing};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Cancels runs.
pub(crate) fn run(settings: &Settings, arguments: &Cancel) -> Result<Exit, Failure> {
    let act = &arguments.act;
    let compensate = arguments.compensate;
    let doing = Doing::new(Deed::Cancel { compensate }, act.reason.as_ref());
    many::run(settings, Which::of(act), &doing, act.dry_run, None)
}
