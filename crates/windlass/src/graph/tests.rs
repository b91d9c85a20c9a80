//! One test for each rule of dynamic graphs.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::Millis;

use super::{FrozenError, FrozenGraph, Graph, NodeSpec};
use crate::workflow::{BuildError, Problem};

const ECHO: &str = "core.echo";

/// The graph as `name<names of dependencies`, in the order of declaration.
fn shape(graph: &FrozenGraph) -> String {
    let names: HashMap<&str, &str> = graph
        .nodes()
        .iter()
        .map(|node| (&*node.id, node.name.as_deref().expect("a name")))
        .collect();
    let node = |node: &windlass_core::definition::Node| {
        let from: Vec<&str> = node.depends_on.iter().map(|id| names[&**id]).collect();
        format!("{}<{}", names[&*node.id], from.join(","))
    };
    let nodes: Vec<String> = graph.nodes().iter().map(node).collect();
    nodes.join(" ")
}

fn frozen(graph: Graph) -> FrozenGraph {
    graph.freeze_at(Millis(0)).expect("frozen")
}

fn problems(graph: Graph) -> Vec<Problem> {
    let error: BuildError = graph.freeze().expect_err("refused");
    error.problems
}

#[test]
fn a_node_comes_after_the_previous_one_unless_it_says_otherwise() {
    // The five lines of the source design.
    let mut graph = Graph::builder();
    graph.node("a", ECHO, ());
    graph.node("b", ECHO, ());
    graph.node("c", ECHO, ()).entry();
    graph.node("d", ECHO, ()).depends_on(["a"]);
    graph.node("e", ECHO, ()).depends_on(["c", "d"]);
    assert_eq!(shape(&frozen(graph)), "a< b<a c< d<a e<c,d");
}

#[test]
fn dependencies_are_named_by_id_or_name_and_count_once() {
    let mut graph = Graph::builder();
    let a = graph.node("a", ECHO, ()).id();
    graph.node("b", ECHO, ()).entry();
    graph
        .node("c", ECHO, ())
        .depends_on([&a, &a])
        .depends_on(["b", "a"]);
    graph.node("d", ECHO, ()).depends_on(["e"]);
    graph.node("e", ECHO, ()).depends_on([a]);
    assert_eq!(shape(&frozen(graph)), "a< b< c<a,b d<e e<a");
}

#[test]
fn a_fan_out_stands_side_by_side_and_what_follows_joins_it() {
    let mut graph = Graph::builder();
    graph.node("start", ECHO, ());
    let ids = graph.fan_out(1..=3, |n| {
        NodeSpec::new(format!("m{n}"), ECHO, json!({ "n": n }))
    });
    graph.node("join", ECHO, ());
    let frozen = frozen(graph);
    assert_eq!(
        shape(&frozen),
        "start< m1<start m2<start m3<start join<m1,m2,m3"
    );
    assert_eq!(frozen.ids_of("m2"), [ids[1].as_str()]);
}

#[test]
fn a_fan_out_at_the_beginning_makes_entries() {
    let mut graph = Graph::builder();
    let ids = graph.fan_out(["x", "y"], |name| NodeSpec::new(name, ECHO, ()));
    graph.node("join", ECHO, ()).depends_on(&ids);
    assert_eq!(shape(&frozen(graph)), "x< y< join<x,y");
}

#[test]
fn an_empty_fan_out_changes_nothing() {
    let mut graph = Graph::builder();
    graph.node("start", ECHO, ());
    assert!(graph.fan_out([0; 0], |_| unreachable!()).is_empty());
    graph.node("end", ECHO, ());
    assert_eq!(shape(&frozen(graph)), "start< end<start");
}

#[test]
fn a_fanned_out_node_may_say_what_it_depends_on() {
    let mut graph = Graph::builder();
    graph.node("a", ECHO, ());
    graph.node("b", ECHO, ());
    graph.fan_out(["x"], |name| {
        NodeSpec::new(name, ECHO, ()).depends_on(["a"])
    });
    assert_eq!(shape(&frozen(graph)), "a< b<a x<a");
}

#[test]
fn a_node_has_its_settings() {
    let mut graph = Graph::builder();
    graph
        .node("a", ECHO, json!({ "x": 1 }))
        .retry(3)
        .timeout(Duration::from_secs(2))
        .compensate("core.echo", json!({ "undo": "{{ output.x }}" }));
    let json: Value = serde_json::from_str(&frozen(graph).to_json()).expect("JSON");
    let nodes = json["nodes"].as_object().expect("nodes by id");
    let node = nodes.values().next().expect("a node");
    assert_eq!(node["parameters"], json!({ "x": 1 }));
    assert_eq!(node["policies"]["retry"]["maxAttempts"], 3);
    assert_eq!(node["policies"]["timeoutMs"], 2000);
    assert_eq!(node["compensate"]["actionType"], "core.echo");
}

#[test]
fn a_frozen_graph_is_data_with_a_signature() {
    let mut graph = Graph::builder();
    let a = graph.node("a", ECHO, json!({ "x": 1 })).id();
    let b = graph.node("b", ECHO, json!({})).id();
    let frozen = frozen(graph);
    let json: Value = serde_json::from_str(&frozen.to_json()).expect("JSON");
    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(keys[..4], ["version", "signature", "frozenAt", "id"]);
    assert_eq!(keys.last().map(|key| key.as_str()), Some("nodes"));
    assert_eq!(json["version"], 1);
    assert_eq!(json["frozenAt"], "1970-01-01T00:00:00.000Z");
    assert_eq!(json["nodes"][b.as_str()]["dependsOn"], json!([a.as_str()]));
    // The signature is that of every graph: SHA-256 of the sorted ids and dependencies.
    let mut entries = [format!("[\"{a}\",[]]"), format!("[\"{b}\",[\"{a}\"]]")];
    entries.sort();
    let canonical = format!("[{}]", entries.join(","));
    let expected = windlass_core::Digest::of(canonical.as_bytes());
    assert_eq!(json["signature"], expected.to_string());
    let again = FrozenGraph::from_json(&frozen.to_json()).expect("read");
    assert_eq!(again.to_json(), frozen.to_json());
}

#[test]
fn what_was_changed_after_freezing_is_refused() {
    let mut graph = Graph::builder();
    graph.node("a", ECHO, ());
    graph.node("b", ECHO, ());
    let text = frozen(graph).to_json();
    let mut json: Value = serde_json::from_str(&text).expect("JSON");
    let ids: Vec<String> = json["nodes"]
        .as_object()
        .expect("nodes by id")
        .keys()
        .cloned()
        .collect();
    json["nodes"][&ids[1]]["dependsOn"] = json!([]);
    let changed = FrozenGraph::from_json(&json.to_string());
    assert!(matches!(changed, Err(FrozenError::Changed { .. })));
    let newer = FrozenGraph::from_json(&text.replace("\"version\": 1", "\"version\": 2"));
    let Err(FrozenError::NotAGraph(reason)) = newer else {
        panic!("a newer version is refused");
    };
    assert!(reason.contains("version 2"), "{reason}");
    let other = FrozenGraph::from_json("{}");
    assert!(matches!(other, Err(FrozenError::NotAGraph(_))));
    json["nodes"][&ids[0]]["dependsOn"] = json!(["nowhere"]);
    let invalid = FrozenGraph::from_json(&json.to_string());
    assert!(matches!(invalid, Err(FrozenError::Invalid(_))));
}

#[test]
fn names_that_lead_nowhere_or_to_several_nodes_are_problems() {
    let mut other = Graph::builder().salt("other");
    let foreign = other.node("x", ECHO, ()).id();
    let mut graph = Graph::builder();
    graph.node("same", ECHO, ());
    graph.node("same", ECHO, ());
    graph.node("a", ECHO, ()).depends_on(["same"]);
    graph.node("b", ECHO, ()).depends_on(["smae"]);
    graph.node("c", ECHO, ()).depends_on([foreign]);
    let found = problems(graph);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(matches!(&found[0], Problem::AmbiguousName { ids, .. } if ids.len() == 2));
    assert!(found[1].to_string().contains("did you mean 'same'?"));
    assert!(matches!(&found[2], Problem::UnknownNode { .. }));
}

#[test]
fn cycles_and_empty_graphs_are_refused() {
    let mut graph = Graph::builder();
    graph.node("a", ECHO, ()).depends_on(["b"]);
    graph.node("b", ECHO, ());
    let found = problems(graph);
    assert!(matches!(&found[..], [Problem::Definition(problem)] if problem.code == "CYCLE"));
    assert!(!problems(Graph::builder()).is_empty());
}

#[test]
fn what_is_not_json_is_said_when_freezing() {
    let odd: std::collections::BTreeMap<(u8, u8), u8> = [((1, 2), 3)].into();
    let mut graph = Graph::builder();
    graph.node("a", ECHO, &odd).compensate(ECHO, &odd);
    graph.fan_out([0], |_| NodeSpec::new("b", ECHO, &odd));
    assert_eq!(problems(graph).len(), 3);
}

#[test]
fn ten_thousand_nodes_freeze() {
    let mut graph = Graph::builder();
    let ids = graph.fan_out(0..10_000, |n| {
        NodeSpec::new(format!("m{n}"), ECHO, json!(n))
    });
    graph.node("join", ECHO, ()).depends_on(&ids);
    let frozen = frozen(graph);
    assert_eq!(frozen.nodes().len(), 10_001);
    assert_eq!(frozen.nodes()[10_000].depends_on.len(), 10_000);
}

#[test]
fn the_graph_of_the_design_is_written_with_names_alone() {
    let items = [1, 2, 3];
    let mut graph = Graph::builder();
    graph.node("start", ECHO, json!({ "user": 7 })).entry();
    graph.node("validate", ECHO, ());
    for item in items {
        let name = format!("process_{item}");
        graph
            .node(name, ECHO, json!({ "item": item }))
            .depends_on(["validate"]);
    }
    let processed = items.map(|item| format!("process_{item}"));
    graph.node("aggregate", ECHO, ()).depends_on(processed);
    graph.node("notify", ECHO, ());
    assert_eq!(
        shape(&frozen(graph)),
        "start< validate<start process_1<validate process_2<validate process_3<validate \
         aggregate<process_1,process_2,process_3 notify<aggregate"
    );
}

/// The form that earlier versions of the library wrote: a list of nodes, and no workflow.
#[test]
fn a_list_of_nodes_is_still_read() {
    let mut graph = Graph::builder();
    graph.node("a", ECHO, json!({ "x": 1 }));
    graph.node("b", ECHO, json!({}));
    let frozen = frozen(graph);
    let old = json!({
        "version": 1, "signature": frozen.signature(), "frozenAt": frozen.frozen_at(),
        "nodes": frozen.nodes(),
    });
    let read = FrozenGraph::from_json(&old.to_string()).expect("an old graph");
    assert_eq!(read.to_json(), frozen.to_json());
}
