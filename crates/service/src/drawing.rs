//! The graph of a run with its statuses. A loop is one node, unless what is inside it is
//! asked for.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::definition::{Definition, When};
use windlass_core::plan::NodeKind;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Loop, Run};
use windlass_core::{NodeStatus, RunId};
use windlass_engine::view::{self, Nodes, Overview};
use windlass_graph::{Graph, GraphNode, node_glyph, urgency};
use windlass_store::Wait as _;

use crate::failure::{Failure, FailureKind};
use crate::run_queries::RunQueries;

/// The graph of a run.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn of_run(queries: &RunQueries, id: RunId, expand: bool) -> Result<Graph, Failure> {
    let overview = view::overview(&*queries.store, &queries.plans, id)?;
    let run = &overview.run;
    let definition: Definition = serde_json::from_slice(&text_of(queries, run)?)
        .map_err(|error| Failure::new(FailureKind::DefinitionUnreadable, error))?;
    let mut graph = Graph::from_definition(&definition, expand);
    for node in &mut graph.nodes {
        let Some(instance) = run.resolve(&node.id) else {
            continue;
        };
        node.status = Some(run.node_status(instance));
        node.attempts = run.attempts(instance);
        let cycle = run.cycle(instance).filter(|cycle| cycle.opened() > 0);
        if let Some(cycle) = cycle {
            let kind = run.kind_of(instance);
            node.detail = kind.as_str().to_owned();
            node.tally = Some(short_tally(kind, cycle));
        }
    }
    // Both lists are sorted by source and drop the same repetitions; should they ever
    // differ, a graph without states is better than one with wrong ones.
    if graph.edges.len() == run.plan().edges().len() {
        for (index, edge) in graph.edges.iter_mut().enumerate() {
            edge.state = Some(run.edge_state(index as u32));
        }
    }
    if expand {
        let tallies = tallies(queries, &overview)?;
        for node in &mut graph.nodes {
            tell_inside(node, &node.id.clone(), &tallies);
        }
    }
    Ok(graph)
}

/// `4/200 ✗ 1 ◐ 2`: in a box there is little room.
fn short_tally(kind: NodeKind, cycle: &Loop) -> String {
    let done = cycle.opened() - cycle.running();
    let mut words = match kind {
        NodeKind::ForEach => format!("{done}/{}", cycle.items()),
        _ => format!("×{done}"),
    };
    for (count, status) in [
        (cycle.failed().count() as u32, NodeStatus::Failed),
        (cycle.running(), NodeStatus::Running),
    ] {
        if count > 0 {
            words.push_str(&format!(" {} {count}", node_glyph(status)));
        }
    }
    words
}

/// The definition whose graph a run has now: a version, or a value of its own.
pub(crate) fn text_of(queries: &RunQueries, run: &Run) -> Result<Vec<u8>, Failure> {
    if !run.is_frozen() {
        let queued = run.queued();
        let row = queries.definition_of(
            queued.tenant.as_deref(),
            &queued.workflow,
            Some(run.version()),
        )?;
        return Ok(row.text.to_vec());
    }
    let text = queries.store.blob(&run.definition()).wait()?;
    text.ok_or_else(|| {
        let message = "the graph that belongs to the run alone is missing";
        Failure::new(FailureKind::DefinitionUnreadable, message)
    })
}

/// How the instances of a body's node stand.
pub(crate) type Tally = BTreeMap<NodeStatus, u32>;

/// The tallies of everything inside loops, by the path without its iterations.
pub(crate) fn tallies(
    queries: &RunQueries,
    overview: &Overview,
) -> Result<BTreeMap<String, Tally>, Failure> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let (store, plans) = (&*queries.store, &queries.plans);
    view::for_each_instance::<Failure>(store, plans, overview, &Nodes::All, |seen| {
        if seen.path.contains('/') {
            let path = view::without_iterations(seen.path);
            let status = seen.run.node_status(seen.node);
            *tallies.entry(path).or_default().entry(status).or_default() += 1;
        }
        Ok(())
    })?;
    Ok(tallies)
}

fn tell_inside(node: &mut GraphNode, path: &str, tallies: &BTreeMap<String, Tally>) {
    let Some(body) = &mut node.body else {
        return;
    };
    for inner in &mut body.nodes {
        let path = format!("{path}/{}", inner.id);
        if let Some(tally) = tallies.get(&path) {
            inner.status = tally.keys().copied().max_by_key(|&status| urgency(status));
            let counts = tally
                .iter()
                .map(|(status, count)| format!("{} {count}", node_glyph(*status)));
            inner.tally = Some(counts.collect::<Vec<_>>().join(" "));
        }
        tell_inside(inner, &path, tallies);
    }
}

/// A graph, for programs.
pub fn to_json(graph: &Graph) -> Value {
    let id = |index: usize| graph.nodes.get(index).map(|node| node.id.as_str());
    let nodes = graph.nodes.iter().map(|node| {
        let mut value = json!({
            "id": node.id,
            "name": node.label,
            "kind": node.detail,
            "status": node.status.map(|status| status.as_str()),
            "attempts": node.status.map(|_| node.attempts),
        });
        if let (Some(tally), Some(object)) = (&node.tally, value.as_object_mut()) {
            object.insert("tally".to_owned(), json!(tally));
        }
        if let (Some(body), Some(object)) = (&node.body, value.as_object_mut()) {
            object.insert("body".to_owned(), to_json(body));
        }
        value
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
