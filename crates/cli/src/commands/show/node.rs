//! `windlass show RUN NODE`: one node instance with its parameters, output, attempts and times, what
//! it waits for, and the commands that can be used on it now.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_core::NodeStatus;
use windlass_core::event::Cause;
use windlass_core::printable::one_line;
use windlass_service::moment::since;
use windlass_service::node_view::node_json;
use windlass_service::text::error_text;

use crate::ending::cause_line;
use crate::exit::{Exit, Failure};
use crate::moment::{duration, now, readable};
use crate::output::Output;
use crate::paint::{BOLD, DIM, RED, node_glyph, node_style, paint};
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::folded;

/// Longer values are cut: JSON output has them whole.
const SHOWN: usize = 2000;

/// The columns before a value.
const LABEL: usize = 13;

/// As the API gives it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    execution_id: String,
    node: String,
    name: Option<String>,
    status: NodeStatus,
    action_type: Option<String>,
    kind: Option<String>,
    input: Option<Box<RawValue>>,
    output: Option<Box<RawValue>>,
    error: Option<Value>,
    handled: Option<bool>,
    child: Option<String>,
    started_at: Option<String>,
    ended_at: Option<String>,
    why: Option<String>,
    #[serde(default)]
    actions: Vec<Attempt>,
    #[serde(default)]
    commands: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attempt {
    attempt: u32,
    status: String,
    parameters: Option<Box<RawValue>>,
    error: Option<Value>,
    worker: Option<String>,
    started_at: Option<String>,
    ended_at: Option<String>,
    #[serde(default)]
    compensation: bool,
}

/// Shows a node.
pub(super) fn run(settings: &Settings, run: &str, node: &str) -> Result<Exit, Failure> {
    let output = settings.output;
    let text = match &settings.server {
        Some(server) => remote::node(server, run, node)?,
        None => {
            let session = Session::queries(settings.clone())?;
            let id = session.find_run(run)?;
            match session.holding_server() {
                // The process that executes the run knows its workers.
                Some(server) => remote::node(&server, &id.to_string(), node)
                    .or_else(|_| Ok::<_, Failure>(node_json(&session, id, node)?.into_bytes()))?,
                None => node_json(&session, id, node)?.into_bytes(),
            }
        }
    };
    if output.json {
        output.pretty(&text)?;
        return Ok(Exit::Done);
    }
    let node: Node = serde_json::from_slice(&text)
        .map_err(|error| Failure::new(Exit::Storage, "OUTPUT_UNREADABLE", error))?;
    output.data(&page(&node, output))?;
    Ok(Exit::Done)
}

/// The root causes of a node that failed because a child run did, also inside a loop.
fn causes(error: &Value) -> Vec<Cause> {
    let mut details = &error["details"];
    while details["causes"].is_null() && details["error"].is_object() {
        details = &details["error"]["details"];
    }
    Vec::deserialize(&details["causes"]).unwrap_or_default()
}

fn page(node: &Node, output: Output) -> String {
    let color = output.color;
    let style = node_style(node.status);
    let what = node.action_type.as_deref().or(node.kind.as_deref());
    let mut text = format!(
        "{} {}  {}  {}\n",
        paint(color, style, node_glyph(node.status)),
        paint(color, BOLD, &node.node),
        paint(color, style, node.status.as_str()),
        paint(color, DIM, what.unwrap_or_default()),
    );
    // Every value comes from a definition, an action or a worker.
    let mut styled = |name: &str, value: &str, is_red: bool| {
        let mut before = format!("  {}", paint(color, DIM, &format!("{name:<11}")));
        // A command is one line, also where a terminal shows it on two: it is copied.
        let lines = match name {
            "can" => vec![one_line(value).into_owned()],
            _ => folded(&output, value, LABEL),
        };
        for line in lines {
            let line = match is_red {
                true => paint(color, RED, &line),
                false => line,
            };
            text.push_str(&format!("{before}{line}\n"));
            before = " ".repeat(LABEL);
        }
    };
    styled("run", &node.execution_id, false);
    if let Some(name) = &node.name {
        styled("name", name, false);
    }
    if let Some(times) = times(node.started_at.as_deref(), node.ended_at.as_deref()) {
        styled("time", &times, false);
    }
    if let Some(child) = &node.child {
        styled("child", child, false);
    }
    if let Some(why) = &node.why {
        styled("why", why, false);
    }
    if let Some(error) = node.error.as_ref().filter(|error| !error.is_null()) {
        let handled = match node.handled {
            Some(true) => " (handled)",
            _ => "",
        };
        let words = format!("{}{handled}", error_text(error));
        styled("error", &words, true);
        for cause in causes(error) {
            let whose = match node.execution_id.parse() {
                Ok(run) => cause_line(run, &cause),
                Err(_) => cause.place(),
            };
            styled("cause", &whose, true);
        }
        if let Some(details) = error.get("details").filter(|it| !is_empty(it)) {
            styled("details", &preview(&details.to_string()), false);
        }
    }
    let last = node
        .actions
        .iter()
        .rev()
        .find(|attempt| !attempt.compensation);
    let parameters = last.and_then(|attempt| attempt.parameters.as_deref());
    if let Some(parameters) = parameters {
        styled("parameters", &preview(parameters.get()), false);
    } else if let Some(input) = node.input.as_deref().filter(|it| it.get() != "null") {
        styled("input", &preview(input.get()), false);
    }
    if let Some(value) = node.output.as_deref().filter(|value| value.get() != "null") {
        styled("output", &preview(value.get()), false);
    }
    for attempt in &node.actions {
        styled("attempt", &attempt_line(attempt), false);
    }
    for command in &node.commands {
        styled("can", command, false);
    }
    text
}

fn attempt_line(attempt: &Attempt) -> String {
    let mut words = format!("{}: {}", attempt.attempt, attempt.status);
    if attempt.compensation {
        words = format!("compensation, {words}");
    }
    if let Some(times) = times(attempt.started_at.as_deref(), attempt.ended_at.as_deref()) {
        words.push_str(&format!(", {times}"));
    }
    if let Some(worker) = attempt.worker.as_deref().filter(|it| !it.is_empty()) {
        words.push_str(&format!(", on {worker}"));
    }
    if let Some(error) = attempt.error.as_ref().filter(|error| !error.is_null()) {
        words.push_str(&format!(": {}", error_text(error)));
    }
    words
}

/// JSON without the white space between its parts.
fn compact(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let mut is_part = |c: &char| {
        let is_kept = in_text || !c.is_ascii_whitespace();
        if *c == '"' && !escaped {
            in_text = !in_text;
        }
        escaped = in_text && *c == '\\' && !escaped;
        is_kept
    };
    json.chars().filter(|c| is_part(c)).collect()
}

/// When something began, and how long it took or has taken.
fn times(from: Option<&str>, to: Option<&str>) -> Option<String> {
    let moment = |text: &str| since(text, now()).ok();
    let from = moment(from?)?;
    let ended = to.and_then(moment);
    let took = ended.unwrap_or_else(now).0.saturating_sub(from.0);
    let took = duration(u64::try_from(took).unwrap_or(0));
    let so_far = if ended.is_some() { "" } else { " so far" };
    Some(format!("{}, {took}{so_far}", readable(from)))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// A value's JSON on one line, digit by digit, cut if it is long.
fn preview(json: &str) -> String {
    let json = &*compact(json);
    if json.len() <= SHOWN {
        return json.to_owned();
    }
    let cut = &json[..json.floor_char_boundary(SHOWN)];
    format!("{cut}… ({} bytes; --output json has it whole)", json.len())
}
