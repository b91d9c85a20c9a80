//! `windlass verify`: a run's log, values, ancestry and row against one another.

use serde_json::{Value, json};
use windlass_engine::LoadError;
use windlass_engine::verify::{Verified, verify};
use windlass_store::Error;

use crate::args::RunReference;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};

/// Checks a run.
pub(crate) fn run(settings: &Settings, arguments: &RunReference) -> Result<Exit, Failure> {
    let session = Session::look(settings.clone())?;
    let id = session.find_run(&arguments.run)?;
    let damage = match verify(&session.store, &session.plans, id) {
        Ok(verified) => return report(settings, &id.to_string(), &verified),
        Err(LoadError::Store(Error::Damaged(damage))) => damage,
        Err(error) => return Err(error.into()),
    };
    if settings.output.json {
        settings.output.json(&json!({
            "executionId": id.to_string(),
            "valid": false,
            "records": null, "values": null, "hashes": null,
            "misfit": { "record": damage.sequence, "node": null, "reason": damage.to_string() },
        }))?;
        return Ok(Exit::Storage);
    }
    Err(Error::Damaged(damage).into())
}

fn report(settings: &Settings, id: &str, verified: &Verified) -> Result<Exit, Failure> {
    let misfit = verified.misfit.as_ref();
    if settings.output.json {
        let place = misfit.map_or(Value::Null, |misfit| {
            json!({ "record": misfit.record, "node": misfit.node, "reason": misfit.reason })
        });
        settings.output.json(&json!({
            "executionId": id,
            "valid": misfit.is_none(),
            "records": verified.records,
            "values": verified.values,
            "hashes": verified.hashes,
            "misfit": place,
        }))?;
        return Ok(if misfit.is_none() {
            Exit::Done
        } else {
            Exit::Storage
        });
    }
    let Some(misfit) = misfit else {
        settings.output.data(&format!(
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
