//! `windlass workflows`: the catalogue of definitions.

use serde_json::{Value, json};
use windlass_service::listing::version_item;
use windlass_store::{TenantFilter, Wait as _, block_on};

use crate::access::{self, Access};
use crate::args::{Workflows, WorkflowsCommand};
use crate::catalogue::{self, unknown};
use crate::exit::{Exit, Failure};
use crate::moment::{ago, now, readable};
use crate::paint::{DIM, RED, YELLOW};
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::{Cell, Table};

/// Lists workflows, or does something with one.
pub(crate) fn run(settings: &Settings, arguments: &Workflows) -> Result<Exit, Failure> {
    match &arguments.command {
        None | Some(WorkflowsCommand::List) => list(settings),
        Some(WorkflowsCommand::Show { id, version }) => show(settings, id, *version),
        Some(WorkflowsCommand::Versions { id }) => versions(settings, id),
        Some(WorkflowsCommand::Disable { id }) => set_enabled(settings, id, false),
        Some(WorkflowsCommand::Enable { id }) => set_enabled(settings, id, true),
    }
}

fn list(settings: &Settings) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    if settings.output.json {
        let items = session.described_workflows()?;
        settings
            .output
            .json(&json!({ "items": items, "next": null }))?;
        return Ok(Exit::Done);
    }
    let rows = session.store.workflows(&TenantFilter::Any).wait()?;
    if rows.is_empty() {
        settings.output.say(
            "No workflows yet. `windlass publish FILE` adds one, `windlass run FILE` as well.",
        );
        return Ok(Exit::Done);
    }
    let now = now();
    let mut table = Table::new(&["WORKFLOW", ">VERSION", "UPDATED", "STATE", "NAME"]);
    for row in &rows {
        let state = match (&row.damage, row.enabled) {
            (Some(_), _) => Cell::styled("damaged", RED),
            (None, true) => Cell::styled("enabled", DIM),
            (None, false) => Cell::styled("disabled", YELLOW),
        };
        table.row([
            row.workflow.to_string().into(),
            row.version.to_string().into(),
            ago(row.updated_at, now).into(),
            state,
            row.display_name.as_deref().unwrap_or_default().into(),
        ]);
    }
    settings.output.data(&table.render(&settings.output))?;
    Ok(Exit::Done)
}

/// The definition itself, as JSON in either format.
fn show(settings: &Settings, id: &str, version: Option<u32>) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let row = session.definition(id, version)?;
    settings.output.pretty(&row.text)?;
    Ok(Exit::Done)
}

fn versions(settings: &Settings, id: &str) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let rows = session.store.versions(None, id).wait()?;
    if rows.is_empty() {
        return Err(block_on(unknown(&*session.store, None, id)).into());
    }
    if settings.output.json {
        let items: Vec<Value> = rows.iter().map(version_item).collect();
        settings
            .output
            .json(&json!({ "items": items, "next": null }))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&[">VERSION", "PUBLISHED", "DIGEST", "SIGNATURE"]);
    for row in &rows {
        table.row([
            row.version.to_string().into(),
            readable(row.at).into(),
            row.digest.to_string()[..12].to_owned().into(),
            Cell::styled(row.signature.to_string()[..12].to_owned(), DIM),
        ]);
    }
    settings.output.data(&table.render(&settings.output))?;
    Ok(Exit::Done)
}

fn set_enabled(settings: &Settings, id: &str, enabled: bool) -> Result<Exit, Failure> {
    // Asking twice changes nothing.
    access::act(settings, false, |access| match access {
        Access::Held(session) => Ok(catalogue::set_enabled(&*session.store, None, id, enabled)?),
        Access::Server(_, server) => remote::set_enabled(server, id, enabled),
    })?;
    if settings.output.json {
        settings
            .output
            .json(&json!({ "workflowId": id, "enabled": enabled }))?;
    } else {
        let state = if enabled {
            "enabled"
        } else {
            "disabled: new runs are refused"
        };
        settings.output.line(&format!("{id} is {state}"))?;
    }
    Ok(Exit::Done)
}
