//! `windlass publish`: a definition into the catalogue, as a new version if it is new.

use serde_json::json;
use windlass_service::children;
use windlass_store::{Published, block_on};

use crate::access::{self, Access};
use crate::args::Publish;
use crate::catalogue;
use crate::commands::actions::declared_types;
use crate::commands::plan;
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::remote;
use crate::session::Settings;
use crate::source::prepare_named;

/// Publishes a file.
pub(crate) fn run(settings: &Settings, arguments: &Publish) -> Result<Exit, Failure> {
    let text = definition_file::read(&arguments.file)?;
    let name = arguments.file.display().to_string();
    let definition = prepare_named(&name, &text, || declared_types(settings))?;
    if arguments.plan {
        return plan::run(settings, &definition);
    }
    let workflow = definition.plan.workflow().to_owned();
    let published = access::act(settings, true, |access| match access {
        Access::Held(session) => {
            let store = &*session.store;
            if !arguments.allow_unknown {
                let refusing = children::refuse_unknown(store, None, &name, &definition, &text);
                block_on(refusing)?;
            }
            Ok(catalogue::publish(store, None, definition.clone())?)
        }
        Access::Server(_, server) => remote::publish(server, &definition, arguments.allow_unknown),
    });
    let Published { version, created } = published?;
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
