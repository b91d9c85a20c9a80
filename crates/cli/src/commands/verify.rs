//! `windlass verify`: a run's log, values, ancestry and row against one another.

use windlass_engine::verify::Verified;
use windlass_service::verifying::{Checked, check};
use windlass_store::Error;

use crate::args::RunReference;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};

/// Checks a run.
pub(crate) fn run(settings: &Settings, arguments: &RunReference) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let id = session.find_run(&arguments.run)?;
    let checked = check(&session, id)?;
    if settings.output.json {
        settings.output.json(&checked.json(id))?;
        return Ok(match checked.is_valid() {
            true => Exit::Done,
            false => Exit::Storage,
        });
    }
    match checked {
        Checked::Read(verified) => report(settings, &verified),
        Checked::Damaged(damage) => Err(Error::Damaged(damage).into()),
    }
}

fn report(settings: &Settings, verified: &Verified) -> Result<Exit, Failure> {
    let Some(misfit) = &verified.misfit else {
        settings.output.line(&format!(
            "verified: {} records, {} values and {} ancestry hashes fit",
            verified.records, verified.values, verified.hashes
        ))?;
        return Ok(Exit::Done);
    };
    let record = misfit.record.map(|record| format!("record {record}, "));
    let node = misfit.node.as_ref().map(|node| format!("node '{node}', "));
    let message = format!(
        "{}{}{}",
        record.unwrap_or_default(),
        node.unwrap_or_default(),
        misfit.reason
    );
    let failure = Failure::new(Exit::Storage, "VERIFY_FAILED", message);
    Err(match misfit.record {
        Some(_) => failure.hint("restore a backup, or keep a copy of the data directory as it is"),
        None => failure.hint("`windlass rebuild` makes anew what derives from the log"),
    })
}
