//! `windlass import`: the graph of a paused run is replaced, the surgeon's last resort.

use windlass_engine::load_run;

use crate::args::Import;
use crate::command::{RunCommand, not_importable, request};
use crate::commands::act_bulk::{self, Target};
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};
use crate::source::prepare_named;
use windlass_service::frozen;

/// Replaces a run's graph.
pub(crate) fn run(settings: &Settings, arguments: &Import) -> Result<Exit, Failure> {
    let (workflow, run) = {
        let session = Session::queries(settings.clone())?;
        let run = session.find_run(&arguments.run)?;
        let loaded = load_run(&*session.store, &session.plans, run, |_, _| {})?;
        (loaded.run.plan().workflow().to_owned(), run)
    };
    let name = arguments.file.display().to_string();
    let text = definition_file::read(&arguments.file)?;
    // The signature does not cover the edited graph.
    let (name, text) = match frozen::read(&name, &text).map_err(not_importable)? {
        Some(graph) => {
            let text = graph.into_definition(Some(&workflow))?;
            (format!("{name} as a definition"), text)
        }
        None => (name, text),
    };
    let prepared = prepare_named(&name, &text).map_err(not_importable)?;
    let text = String::from_utf8_lossy(&prepared.text).into_owned();
    let request = request(RunCommand::Import, arguments.reason.as_ref()).with(text);
    let run = run.to_string();
    act_bulk::run(
        settings,
        Target::One(&run),
        &request,
        arguments.dry_run,
        None,
    )
}
