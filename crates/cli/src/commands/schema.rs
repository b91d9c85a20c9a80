//! `windlass schema`: the JSON Schema of definitions, for editors.

use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Prints the schema.
pub(crate) fn run(settings: &Settings) -> Result<Exit, Failure> {
    settings
        .output
        .json(&windlass_service::definition_schema::schema())?;
    Ok(Exit::Done)
}
