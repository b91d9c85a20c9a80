//! `windlass publish`: a definition into the catalogue, as a new version if it is new.

use serde_json::json;
use windlass_store::Published;

use crate::access::{self, Access};
use crate::args::Publish;
use crate::catalogue;
use crate::commands::plan;
use crate::control::{Answer, Client, Heard, Request};
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::remote;
use crate::session::Settings;
use crate::source::{Prepared, prepare_named};

/// Publishes a file.
pub(crate) fn run(settings: &Settings, arguments: &Publish) -> Result<Exit, Failure> {
    let text = definition_file::read(&arguments.file)?;
    let definition = prepare_named(&arguments.file.display().to_string(), &text)?;
    drop(text);
    if arguments.plan {
        return plan::run(settings, &definition);
    }
    let workflow = definition.plan.workflow().to_owned();
    let Published { version, created } = publish(settings, definition)?;
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

/// Publishes here, or through the process that holds the data directory.
fn publish(settings: &Settings, definition: Prepared) -> Result<Published, Failure> {
    loop {
        let client = match access::open(settings, true)? {
            Access::Held(session) => {
                return Ok(catalogue::publish(&*session.store, None, definition)?);
            }
            Access::Through(_, client) => client,
            Access::Server(_, server) => return remote::publish(&server, &definition),
        };
        if let Some(published) = ask(&client, &definition)? {
            return Ok(published);
        }
        // The holder went away before it answered. Publishing the same twice changes nothing.
    }
}

fn ask(client: &Client, definition: &Prepared) -> Result<Option<Published>, Failure> {
    let request = Request::Publish {
        definition_bytes: definition.text.len(),
    };
    let bodies: [&[u8]; 1] = [&definition.text];
    match access::runtime()?.block_on(client.ask(request, &bodies))? {
        Heard::Answer(Answer::Published { version, created }) => {
            Ok(Some(Published { version, created }))
        }
        Heard::Answer(_) => Err(client.unexpected()),
        Heard::Gone => Ok(None),
    }
}
