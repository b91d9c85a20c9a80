//! `windlass publish`: a definition into the catalogue, as a new version if it is new.

use serde_json::json;
use windlass_core::Digest;
use windlass_core::definition::signature;
use windlass_store::{Catalogue as _, NewDefinition, block_on};

use crate::args::Publish;
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::moment::now;
use crate::session::{Session, Settings};

/// Publishes a file.
pub(crate) fn run(settings: &Settings, arguments: &Publish) -> Result<Exit, Failure> {
    let text = definition_file::read(&arguments.file)?;
    let name = arguments.file.display().to_string();
    let parsed = definition_file::accept(&name, &text)?;
    let session = Session::write(settings.clone(), true)?;
    let workflow = parsed.definition.id.clone();
    let published = block_on(session.store.publish(NewDefinition {
        workflow: workflow.clone(),
        display_name: parsed.definition.display_name.clone(),
        digest: Digest::of(&parsed.json),
        signature: signature(&parsed.definition),
        text: parsed.json.into(),
        at: now(),
    }))?;
    let version = published.version;
    if settings.output.json {
        settings.output.json(&json!({
            "workflowId": workflow,
            "version": version,
            "created": published.created,
        }))?;
    } else if published.created {
        settings
            .output
            .data(&format!("published {workflow} version {version}"))?;
    } else {
        settings.output.data(&format!(
            "unchanged: {workflow} version {version} is the same"
        ))?;
    }
    Ok(Exit::Done)
}
