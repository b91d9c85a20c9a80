//! `windlass import`: the graph of a paused or failed run is replaced.

use windlass_engine::load_run;

use crate::args::Import;
use crate::command::{RunCommand, not_importable, request};
use crate::commands::act_bulk::{self, Target};
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};
use crate::source::build;
use windlass_service::frozen::Expected;

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
    let expected = Expected {
        workflow: Some(&workflow),
        plain_graphs: true,
        ..Expected::default()
    };
    let accepted = definition_file::accept_source(&name, &text, expected);
    let accepted = accepted.map_err(not_importable)?.parsed;
    let prepared = build(accepted.definition, accepted.json).map_err(not_importable)?;
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
