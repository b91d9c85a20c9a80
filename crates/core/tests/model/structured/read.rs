//! A definition as the model sees it, read from the same JSON that the engine gets.

use std::rc::Rc;

use serde_json::Value;

use crate::model::{After, Names};

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) top: Rc<Body>,
    pub(crate) fail_fast: bool,
    pub(crate) by_level: bool,
    pub(crate) has_timeout: bool,
    /// `onFailure`, `onFailureOrCancel` or `manual`.
    pub(crate) compensation: String,
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) nodes: Vec<Node>,
    pub(crate) arrows: Vec<Arrow>,
    pub(crate) output: Option<Value>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    /// All attempts that it may make by itself.
    pub(crate) tries: u32,
    /// How many taken edges are enough, where not all are waited for.
    pub(crate) enough: Option<usize>,
    /// All attempts of its compensation, if it has one.
    pub(crate) undo: Option<u32>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Action,
    Delay,
    Signal { name: String, has_timeout: bool },
    Each(Each),
    While(While),
    Until(Until),
}

impl Kind {
    /// Whether it is a wait for a signal of this name.
    pub(crate) fn waits_for(&self, wanted: &str) -> bool {
        matches!(self, Self::Signal { name, .. } if name == wanted)
    }

    /// Whether such a wait stands in its body, however deep.
    pub(crate) fn holds_wait_for(&self, name: &str) -> bool {
        let body = match self {
            Self::Each(each) => &each.body,
            Self::While(repeat) => &repeat.body,
            Self::Until(repeat) => &repeat.body,
            _ => return false,
        };
        let mut kinds = body.nodes.iter().map(|node| &node.kind);
        kinds.any(|kind| kind.waits_for(name) || kind.holds_wait_for(name))
    }
}

#[derive(Debug)]
pub(crate) struct Each {
    pub(crate) items: Value,
    pub(crate) item_name: Option<String>,
    /// How many iterations may be open at once.
    pub(crate) at_once: usize,
    pub(crate) collects: bool,
    pub(crate) body: Rc<Body>,
}

#[derive(Debug)]
pub(crate) struct While {
    pub(crate) condition: String,
    pub(crate) at_most: usize,
    pub(crate) body: Rc<Body>,
}

#[derive(Debug)]
pub(crate) struct Until {
    pub(crate) until: Option<String>,
    pub(crate) at_most: usize,
    pub(crate) backs_off: bool,
    pub(crate) body: Rc<Body>,
}

#[derive(Debug)]
pub(crate) struct Arrow {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) after: After,
    pub(crate) sort: Sort,
}

#[derive(Debug)]
pub(crate) enum Sort {
    /// With its condition.
    Plain(Option<String>),
    /// The `switch` that it belongs to.
    Switch(Value),
    OnFailure,
}

pub(crate) fn flow(definition: &Value) -> Flow {
    let word = |key: &str, default: &str| text(&definition[key]).unwrap_or_else(|| default.into());
    Flow {
        top: Rc::new(body(definition)),
        fail_fast: word("failurePolicy", "partial") == "failFast",
        by_level: word("executionMode", "parallel") == "levels",
        has_timeout: definition["timeoutMs"].is_u64(),
        compensation: word("compensation", "onFailure"),
    }
}

fn body(written: &Value) -> Body {
    let nodes = list(&written["nodes"]);
    Body {
        arrows: nodes.iter().flat_map(arrows).collect(),
        nodes: nodes.iter().map(node).collect(),
        output: written.get("output").cloned(),
    }
}

fn node(written: &Value) -> Node {
    let tries = |of: &Value| number(&of["policies"]["retry"]["maxAttempts"]).unwrap_or(1);
    let enough = match &written["join"] {
        Value::String(word) if word == "any" => Some(1),
        join => number(&join["atLeast"]),
    };
    Node {
        id: text(&written["id"]).expect("an id"),
        kind: kind(written),
        tries: tries(written).max(1) as u32,
        enough,
        undo: written
            .get("compensate")
            .map(|undo| tries(undo).max(1) as u32),
    }
}

fn kind(written: &Value) -> Kind {
    if let Some(each) = written.get("forEach") {
        let at_once = number(&each["maxConcurrency"]).unwrap_or(usize::MAX);
        let one_by_one = each["parallel"] == Value::Bool(false);
        Kind::Each(Each {
            items: each["items"].clone(),
            item_name: text(&each["itemName"]),
            at_once: if one_by_one { 1 } else { at_once },
            collects: each["onItemFailure"] == "collect",
            body: Rc::new(body(&each["body"])),
        })
    } else if let Some(repeat) = written.get("while") {
        Kind::While(While {
            condition: text(&repeat["condition"]).expect("a condition"),
            at_most: number(&repeat["maxIterations"]).unwrap_or(1000),
            body: Rc::new(body(&repeat["body"])),
        })
    } else if let Some(repeat) = written.get("retryUntil") {
        Kind::Until(Until {
            until: text(&repeat["until"]),
            at_most: number(&repeat["maxAttempts"]).expect("a bound"),
            backs_off: repeat.get("backoff").is_some(),
            body: Rc::new(body(&repeat["body"])),
        })
    } else if let Some(wait) = written.get("waitForSignal") {
        Kind::Signal {
            name: text(&wait["name"]).expect("a name"),
            has_timeout: wait["timeoutMs"].is_u64(),
        }
    } else if written.get("delay").is_some() {
        Kind::Delay
    } else {
        Kind::Action
    }
}

/// The edges that are written at a node, wherever they leave.
fn arrows(written: &Value) -> Vec<Arrow> {
    let id = text(&written["id"]).expect("an id");
    let arrow = |from: &str, to: &str, after, sort| Arrow {
        from: from.to_owned(),
        to: to.to_owned(),
        after,
        sort,
    };
    let mut arrows = Vec::new();
    for edge in list(&written["edges"]) {
        let target = text(&edge["targetNode"]).expect("a target");
        let sort = Sort::Plain(text(&edge["condition"]));
        arrows.push(arrow(&id, &target, after(&edge["when"]), sort));
    }
    for parent in list(&written["dependsOn"]) {
        let parent = text(&parent).expect("a node");
        arrows.push(arrow(&parent, &id, After::Success, Sort::Plain(None)));
    }
    if let Some(switch) = written.get("switch") {
        let cases = switch["cases"].as_object().expect("cases").values();
        let targets: Names = cases
            .chain(switch.get("default"))
            .filter_map(text)
            .collect();
        for target in targets {
            let sort = Sort::Switch(switch.clone());
            arrows.push(arrow(&id, &target, after(&switch["when"]), sort));
        }
    }
    if let Some(target) = text(&written["onFailure"]) {
        arrows.push(arrow(&id, &target, After::Failure, Sort::OnFailure));
    }
    arrows
}

fn after(when: &Value) -> After {
    match when.as_str() {
        Some("failure") => After::Failure,
        Some("always") => After::Always,
        _ => After::Success,
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn number(value: &Value) -> Option<usize> {
    value.as_u64().map(|number| number as usize)
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
