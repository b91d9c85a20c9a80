//! What a run waits for that only its server knows.

use serde::Deserialize;
use serde_json::Value;
use windlass_service::why::Why;

use super::acting::read;
use super::failures;
use super::question::Question;
use super::server::Server;
use crate::exit::Failure;

/// Lets the server say why a run, which may be named as a person names it, or one node of it stands
/// where it does.
pub(crate) fn why(server: &Server, reference: &str, node: Option<&str>) -> Result<Why, Failure> {
    let mut url = server.url(&["executions", reference, "why"]);
    if let Some(node) = node {
        url.query_pairs_mut().append_pair("node", node);
    }
    let answer: Value = read(server, &server.ask(Question::get(url))?)?;
    let foreign = || failures::foreign(server.address(), "a reason that cannot be read");
    Why::from_json(&answer).ok_or_else(foreign)
}

/// One node instance as JSON text, by its path or a name that only one has.
pub(crate) fn node(server: &Server, reference: &str, node: &str) -> Result<Vec<u8>, Failure> {
    let mut parts = vec!["executions", reference, "nodes"];
    parts.extend(node.split('/'));
    server.ask(Question::get(server.url(&parts)))
}

/// Lets the server say what it alone knows: a run's place in line, and what nodes wait for
/// that workers outside the process do.
pub(crate) fn ask_why(server: &Server, why: &mut Why) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Shape {
        reason: String,
        nodes: Vec<Node>,
    }
    #[derive(Deserialize)]
    struct Node {
        node: String,
        reason: String,
        work: Option<Value>,
    }
    let url = server.url(&["executions", &why.run.to_string(), "why"]);
    let answer: Shape = read(server, &server.ask(Question::get(url))?)?;
    if !answer.reason.starts_with("The run is under way") {
        why.reason = answer.reason;
    }
    let nodes = answer.nodes.into_iter().filter(|node| node.work.is_some());
    for told in nodes {
        if let Some(node) = why.nodes.iter_mut().find(|it| it.path == told.node) {
            node.reason = told.reason;
            node.work = told.work;
        }
    }
    Ok(())
}
