//! `windlass graph`: the graph of a definition's file, or of a run with its statuses. A
//! loop is one node, unless what is inside it is asked for.

use std::path::Path;

use windlass_graph::{Format, Graph, RenderOptions, render};
use windlass_service::drawing::{self, to_json};
use windlass_service::frozen::Expected;

use crate::args::{Graph as Arguments, GraphFormat};
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::paint::drawn;
use crate::session::{Session, Settings};
use crate::table::width;

/// Draws a graph.
pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<Exit, Failure> {
    let path = Path::new(&arguments.subject);
    let graph = if path.is_file() {
        let (name, text) = definition_file::read_named(path)?;
        let accepted = definition_file::accept_source(&name, &text, Expected::default())?;
        let parsed = accepted.parsed;
        Graph::from_definition(&parsed.definition, arguments.expand)
    } else {
        of_run(settings, &arguments.subject, arguments.expand)?
    };
    if settings.output.json {
        settings.output.json(&to_json(&graph))?;
        return Ok(Exit::Done);
    }
    let format = match arguments.format {
        GraphFormat::Mermaid => Format::Mermaid,
        GraphFormat::Dot => Format::Dot,
        GraphFormat::Svg => Format::Svg,
        GraphFormat::Ascii => Format::Ascii,
    };
    let options = RenderOptions {
        expand: arguments.expand,
        width: width(&settings.output).unwrap_or(RenderOptions::default().width),
        color: settings.output.color,
    };
    let text = render(&graph, format, &options)
        .map_err(|error| Failure::new(Exit::Invalid, "GRAPH_TOO_LARGE", error))?;
    settings.output.data(&drawn(&text))?;
    Ok(Exit::Done)
}

fn of_run(settings: &Settings, reference: &str, expand: bool) -> Result<Graph, Failure> {
    let looks_like_file = reference.contains(['/', '.']);
    if looks_like_file {
        // The error of a missing file, not that of a missing run.
        definition_file::read(Path::new(reference))?;
    }
    let session = Session::queries(settings.clone())?;
    let id = session.find_run(reference)?;
    Ok(drawing::of_run(&session, id, expand)?)
}
