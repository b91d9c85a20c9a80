//! `windlass export`: a run's graph as JSON, for people and for `import`.

use std::io::Write as _;

use windlass_service::export::export;

use crate::args::RunReference;
use crate::exit::{Exit, Failure};
use crate::output::closed_pipe;
use crate::session::{Session, Settings};

/// Prints the graph.
pub(crate) fn run(settings: &Settings, arguments: &RunReference) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let id = session.find_run(&arguments.run)?;
    let graph = export(&session, id)?;
    let mut out = settings.output.stdout();
    graph
        .write(&mut out)
        .and_then(|()| out.flush())
        .or_else(closed_pipe)?;
    Ok(Exit::Done)
}
