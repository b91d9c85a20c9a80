//! A run's log, values, ancestry and row against one another, as an answer.

use serde_json::{Value, json};
use windlass_core::RunId;
use windlass_engine::LoadError;
use windlass_engine::verify::{Verified, verify};
use windlass_store::{Damage, Error};

use crate::failure::Failure;
use crate::run_queries::RunQueries;

/// What a check found.
pub enum Checked {
    /// The log could be read; what fits, and what does not.
    Read(Verified),
    /// The log itself is damaged.
    Damaged(Box<Damage>),
}

/// Checks a run.
///
/// # Errors
/// There is no such run, or the store failed.
pub fn check(queries: &RunQueries, id: RunId) -> Result<Checked, Failure> {
    match verify(&*queries.store, &queries.plans, id) {
        Ok(verified) => Ok(Checked::Read(verified)),
        Err(LoadError::Store(Error::Damaged(damage))) => Ok(Checked::Damaged(damage)),
        Err(error) => Err(error.into()),
    }
}

impl Checked {
    /// Whether everything fits.
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Read(verified) if verified.misfit.is_none())
    }

    /// For programs.
    pub fn json(&self, id: RunId) -> Value {
        let verified = match self {
            Self::Read(verified) => verified,
            Self::Damaged(damage) => {
                return json!({
                    "executionId": id.to_string(),
                    "valid": false,
                    "records": null, "values": null, "hashes": null,
                    "misfit": {
                        "record": damage.sequence, "node": null, "reason": damage.to_string(),
                    },
                });
            }
        };
        let place = verified.misfit.as_ref().map(|misfit| {
            json!({ "record": misfit.record, "node": misfit.node, "reason": misfit.reason })
        });
        json!({
            "executionId": id.to_string(),
            "valid": self.is_valid(),
            "records": verified.records,
            "values": verified.values,
            "hashes": verified.hashes,
            "misfit": place,
        })
    }
}
