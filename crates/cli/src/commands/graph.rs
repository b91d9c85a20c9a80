//! `windlass graph`: the graph of a definition's file, or of a run with its statuses.

use std::path::Path;

use serde_json::{Value, json};
use windlass_core::definition::{Definition, When};
use windlass_core::plan::NodeIndex;
use windlass_core::routing::EdgeState;
use windlass_engine::load_run;

use crate::args::{Graph as Arguments, GraphFormat};
use crate::commands::workflows::definition;
use crate::definition_file;
use crate::exit::{Exit, Failure};
use crate::graph::{Format, Graph, RenderOptions, render};
use crate::session::{Session, Settings};
use crate::table::width;

/// Draws a graph.
pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<Exit, Failure> {
    let path = Path::new(&arguments.subject);
    let graph = if path.is_file() {
        let text = definition_file::read(path)?;
        let parsed = definition_file::accept(&arguments.subject, &text)?;
        Graph::from_definition(&parsed.definition)
    } else {
        of_run(settings, &arguments.subject)?
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
        width: width(&settings.output).unwrap_or(RenderOptions::default().width),
        color: settings.output.color,
    };
    let text = render(&graph, format, &options)
        .map_err(|error| Failure::new(Exit::Invalid, "GRAPH_TOO_LARGE", error))?;
    settings.output.data(&text)?;
    Ok(Exit::Done)
}

fn of_run(settings: &Settings, reference: &str) -> Result<Graph, Failure> {
    let looks_like_file = reference.contains(['/', '.']);
    if looks_like_file {
        // The error of a missing file, not that of a missing run.
        definition_file::read(Path::new(reference))?;
    }
    let session = Session::look(settings.clone())?;
    let id = session.find_run(reference)?;
    let run = load_run(&session.store, &session.plans, id, |_, _| {})?.run;
    let queued = run.queued();
    let row = definition(&session, &queued.workflow, Some(queued.version))?;
    let definition: Definition = serde_json::from_slice(&row.text)
        .map_err(|error| Failure::new(Exit::Storage, "DEFINITION_UNREADABLE", error))?;
    let mut graph = Graph::from_definition(&definition);
    for (index, node) in graph.nodes.iter_mut().enumerate() {
        node.status = Some(run.node_status(index as NodeIndex));
        node.attempts = run.attempts(index as NodeIndex);
    }
    // Both lists are sorted by source and drop the same repetitions; should they ever
    // differ, a graph without states is better than one with wrong ones.
    if graph.edges.len() == run.plan().edges().len() {
        for (index, edge) in graph.edges.iter_mut().enumerate() {
            edge.state = Some(run.edge_state(index as u32));
        }
    }
    Ok(graph)
}

fn to_json(graph: &Graph) -> Value {
    let id = |index: usize| graph.nodes.get(index).map(|node| node.id.as_str());
    let nodes = graph.nodes.iter().map(|node| {
        json!({
            "id": node.id,
            "name": node.label,
            "kind": node.detail,
            "status": node.status.map(|status| status.as_str()),
            "attempts": node.status.map(|_| node.attempts),
        })
    });
    let edges = graph.edges.iter().map(|edge| {
        json!({
            "from": id(edge.from),
            "to": id(edge.to),
            "when": match edge.when {
                When::Success => "success",
                When::Failure => "failure",
                When::Always => "always",
            },
            "label": edge.label,
            "state": edge.state.map(|state| match state {
                EdgeState::Unresolved => "unresolved",
                EdgeState::Taken => "taken",
                EdgeState::NotTaken => "notTaken",
                EdgeState::Lost => "lost",
            }),
        })
    });
    json!({
        "title": graph.title,
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
    })
}
