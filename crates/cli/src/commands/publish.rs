//! `windlass publish`: a definition into the catalogue, as a new version if it is new.

use serde_json::json;
use windlass_store::Published;

use crate::access::{self, Access};
use crate::args::Publish;
use crate::catalogue;
use crate::commands::plan;
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::remote;
use crate::session::Settings;
use crate::source::{PreparedDefinition, prepare_named};

/// Publishes a file.
pub(crate) fn run(settings: &Settings, arguments: &Publish) -> Result<Exit, Failure> {
    let text = definition_file::read(&arguments.file)?;
    let definition = prepare_named(&arguments.file.display().to_string(), &text)?;
    drop(text);
    if arguments.plan {
        return plan::run(settings, &definition);
    }
    let workflow = definition.plan.workflow().to_owned();
    let Published { version, created } = publish(settings, &definition)?;
    let output = settings.output;
    if output.json {
        output.json(&json!({
            "workflowId": workflow, "version": version, "created": created,
        }))?;
    } else if created {
        output.line(&format!("published {workflow} version {version}"))?;
    } else {
        output.line(&format!(
            "unchanged: {workflow} version {version} is the same"
        ))?;
    }
    Ok(Exit::Done)
}

/// Publishes where it can be done. Publishing the same twice changes nothing.
fn publish(settings: &Settings, definition: &PreparedDefinition) -> Result<Published, Failure> {
    access::act(settings, true, |access| match access {
        Access::Held(session) => Ok(catalogue::publish(
            &*session.store,
            None,
            definition.clone(),
        )?),
        Access::Server(_, server) => remote::publish(server, definition),
    })
}
