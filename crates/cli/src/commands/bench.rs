//! `windlass bench`: the figures of this machine, against its own disk's limit.

use crate::args;
use crate::bench::{Sizes, measure};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

pub(crate) fn run(settings: &Settings, arguments: &args::Bench) -> Result<Exit, Failure> {
    let sizes = if arguments.quick {
        Sizes::QUICK
    } else {
        Sizes::FULL
    };
    let output = settings.output;
    let report = measure(sizes, arguments.only.as_deref(), &mut |name| {
        output.say(&format!("measuring {name} …"));
    })?;
    if output.json {
        output.json(&report.json())?;
    } else {
        output.data(&report.table())?;
    }
    Ok(Exit::Done)
}
