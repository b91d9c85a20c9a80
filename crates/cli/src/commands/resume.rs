//! `windlass resume`: an interrupted or paused run is carried on in the foreground.

use crate::args::Resume;
use crate::commands::goes_on;
use crate::commands::many::Which;
use crate::deed::{Deed, Doing};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Carries a run on.
pub(crate) fn run(settings: &Settings, arguments: &Resume) -> Result<Exit, Failure> {
    let options = arguments.foreground.options()?;
    let act = &arguments.act;
    let doing = Doing::new(Deed::Resume, act.reason.as_ref());
    goes_on::run(settings, Which::of(act), &doing, act.dry_run, options)
}
