//! What can be seen of a run from outside, whatever played it: the state machine, a model
//! or a real engine. As lines it is what the command `report` of a fixture writes.
//!
//! Knows nothing of how a run got there, and leaves the messages of errors out: those are
//! the engine's to word.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// What is seen of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    pub status: String,
    pub output: Option<Value>,
    /// The code of the run's error; also while the run is being undone for it.
    pub error: Option<String>,
    /// Every instance by its path.
    pub nodes: BTreeMap<String, NodeReport>,
    pub compensation: Option<CompensationReport>,
}

/// What is seen of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport {
    /// `Open` where a worker has the attempt, or may have it.
    pub status: String,
    pub attempt: u32,
    /// The nodes that block it, by their names within its scope.
    pub blocked_by: BTreeSet<String>,
    pub handled: bool,
    /// The output of one that succeeded, the error of one that failed.
    pub value: Option<Value>,
}

/// What is seen of undoing a run.
#[derive(Clone, Debug, PartialEq)]
pub struct CompensationReport {
    /// `running`, `complete` or `incomplete`.
    pub status: String,
    /// What was undone so far, and whether that succeeded.
    pub done: Vec<(String, bool)>,
    pub next: Option<String>,
}

impl RunReport {
    /// The run, its instances in the order of their paths, and its compensation.
    pub fn lines(&self) -> Vec<String> {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(path, node)| node.line(path));
        let compensation = self.compensation.iter().map(CompensationReport::line);
        let first = std::iter::once(self.first_line());
        first.chain(nodes).chain(compensation).collect()
    }

    /// The lines about these: `run`, paths, `compensation`; all lines where none is named.
    pub fn lines_about(&self, names: &str) -> Vec<String> {
        let mut lines = self.lines();
        let names: Vec<&str> = names.split_whitespace().collect();
        lines.retain(|line| {
            let subject = line.split(' ').next();
            names.is_empty() || subject.is_some_and(|subject| names.contains(&subject))
        });
        lines
    }

    fn first_line(&self) -> String {
        let mut line = format!("run {}", self.status);
        if let Some(output) = &self.output {
            line.push_str(&format!(" = {output}"));
        }
        if let Some(error) = &self.error {
            line.push_str(&format!(" {error}"));
        }
        line
    }
}

impl NodeReport {
    fn line(&self, path: &str) -> String {
        let mut line = format!("{path} {}", self.status);
        // That a cancelled node had an attempt is worth saying; of others it is clear.
        if self.attempt > 1 || (self.attempt == 1 && self.status == "Cancelled") {
            line.push_str(&format!(" #{}", self.attempt));
        }
        if !self.blocked_by.is_empty() {
            let by: Vec<&str> = self.blocked_by.iter().map(String::as_str).collect();
            line.push_str(&format!(" by {}", by.join(", ")));
        }
        match (&*self.status, &self.value) {
            ("Succeeded", Some(value)) => line.push_str(&format!(" = {value}")),
            ("Failed", Some(error)) => line.push_str(&error_line(error)),
            _ => {}
        }
        if self.handled {
            line.push_str(", handled");
        }
        line
    }
}

impl CompensationReport {
    fn line(&self) -> String {
        let done = self.done.iter().map(|(path, succeeded)| {
            let failed = if *succeeded { "" } else { " failed" };
            format!("{path}{failed}")
        });
        let next = self.next.iter().map(|path| format!("{path} next"));
        let steps: Vec<String> = done.chain(next).collect();
        format!("compensation {}: {}", self.status, steps.join(", "))
    }
}

/// A value without the messages of the errors in it, and without details that say nothing.
pub fn without_messages(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let is_error = object.contains_key("code") && object.contains_key("retriable");
            let is_kept = |(key, part): &(&String, &Value)| {
                let is_empty = part.as_object().is_some_and(Map::is_empty);
                !is_error || !(*key == "message" || (*key == "details" && is_empty))
            };
            let kept = object.iter().filter(is_kept);
            let kept = kept.map(|(key, part)| (key.clone(), without_messages(part)));
            Value::Object(kept.collect())
        }
        Value::Array(list) => list.iter().map(without_messages).collect(),
        plain => plain.clone(),
    }
}

fn error_line(error: &Value) -> String {
    let code = error["code"].as_str().unwrap_or_default();
    match error.get("details") {
        Some(details) => format!(" {code} {}", by_codes(details)),
        None => format!(" {code}"),
    }
}

/// Errors inside errors by their codes alone.
fn by_codes(details: &Value) -> Value {
    let mut details = details.clone();
    if let Some(error) = details.get("error").filter(|error| error.is_object()) {
        let inner = error.get("details").map(by_codes);
        details["error"] = match inner {
            Some(inner) => json!([error["code"], inner]),
            None => error["code"].clone(),
        };
    }
    details
}
