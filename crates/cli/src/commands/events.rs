//! `windlass events`: what happened in a run, a line each.

use std::io::{self, Write as _};
use std::ops::ControlFlow;

use serde_json::Value;
use windlass_core::run::with_name;
use windlass_engine::history::{Level, PublicEvent, for_each_event};

use crate::args::Events;
use crate::exit::{Exit, Failure};
use crate::moment::duration;
use crate::output::{Output, closed_pipe};
use crate::paint::{BOLD, DIM, GREEN, RED, YELLOW, paint};
use crate::screen;
use crate::session::{Session, Settings};
use crate::table::folded;

/// The columns before an event's node: position, time and kind with their gaps.
const PREFIX: usize = 43;

/// Prints the events.
pub(crate) fn run(settings: &Settings, arguments: &Events) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let run = session.find_run(&arguments.run)?;
    // Lines for people are made printable one by one, and keep the program's own styles.
    let mut out = screen::stdout(settings.output.terminal && settings.output.json);
    let mut lines = Lines::new(settings.output);
    let mut written = Ok(());
    for_each_event(&*session.store, &session.plans, run, |event| {
        if event.position <= arguments.after {
            return ControlFlow::Continue(());
        }
        written = if settings.output.json {
            serde_json::to_writer(&mut out, &event)
                .map_err(io::Error::from)
                .and_then(|()| out.write_all(b"\n"))
        } else {
            let line = lines.line(&event);
            out.write_all(settings.output.shown(&line).as_bytes())
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    written.and_then(|()| out.flush()).or_else(closed_pipe)?;
    Ok(Exit::Done)
}

/// Events as lines for people; the date stands on a line of its own when it changes.
pub(crate) struct Lines {
    output: Output,
    date: String,
}

impl Lines {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            output,
            date: String::new(),
        }
    }

    /// The event with its newline.
    pub(crate) fn line(&mut self, event: &PublicEvent) -> String {
        let color = self.output.color;
        let at = event.at.to_string();
        let (date, time) = at.split_once('T').unwrap_or(("", &at));
        let mut text = String::new();
        if date != self.date {
            self.date = date.to_owned();
            text = paint(color, DIM, &format!("{date} UTC")) + "\n";
        }
        let time = time.trim_end_matches('Z');
        let style = match (event.level, event.kind) {
            (Level::Error, _) => RED,
            (Level::Warn, _) => YELLOW,
            (Level::Info, "NodeSucceeded" | "RunFinished" | "CompensationSucceeded") => GREEN,
            (Level::Info, kind) if kind.starts_with("Run") => BOLD,
            (Level::Info, _) => anstyle::Style::new(),
        };
        let position = format!("{:>4}", event.position);
        let node = event.node.as_deref().unwrap_or_default();
        let mut what = with_name(node, event.name.as_deref());
        if let Some(attempt) = event.attempt.filter(|&attempt| attempt > 1) {
            what.push_str(&format!(" #{attempt}"));
        }
        let detail = detail(event);
        let separator = if what.is_empty() || detail.is_empty() {
            ""
        } else {
            "  "
        };
        let rest = format!("{what}{separator}{detail}");
        text.push_str(&format!(
            "{}  {}  {}  ",
            paint(color, DIM, &position),
            paint(color, DIM, time),
            paint(color, style, &format!("{:<21}", event.kind)),
        ));
        let lines = folded(&self.output, &rest, PREFIX);
        text.push_str(&lines.join(&format!("\n{}", " ".repeat(PREFIX))));
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}

/// What is worth reading in an event's data, in one line.
fn detail(event: &PublicEvent) -> String {
    let data = &event.data;
    let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
    let took = || data.get("durationMs").and_then(Value::as_u64).map(duration);
    match event.kind {
        "RunQueued" => {
            let version = data.get("version").and_then(Value::as_u64).unwrap_or(0);
            super::runs::versioned(text("workflowId"), version)
        }
        "NodeSucceeded" if data.contains_key("reused") => "reused".to_owned(),
        "NodeSucceeded" | "CompensationSucceeded" => took().unwrap_or_default(),
        "NodeFailed" => format!(
            "{}  {}",
            took().unwrap_or_default(),
            error(data.get("error"))
        ),
        "NodeRetryScheduled" | "CompensationFailed" if data.contains_key("due") => {
            format!(
                "again at {}  {}",
                time(text("due")),
                error(data.get("error"))
            )
        }
        "CompensationFailed" => error(data.get("error")),
        "NodeBlocked" => format!("by {}", list(data.get("blockedBy"))),
        "NodeSkipped" => match text("reason") {
            "action" => "the action had nothing to do".to_owned(),
            "reused" => "reused".to_owned(),
            _ => "not chosen".to_owned(),
        },
        "NodeCancelled" => match text("cause") {
            "cancel" => "the run was cancelled".to_owned(),
            "failFast" => "another node failed".to_owned(),
            "timeout" => "the run's time was over".to_owned(),
            "removed" => "the new graph does not have it".to_owned(),
            _ => String::new(),
        },
        "RunFinished" => match data.get("error") {
            Some(failure) => format!("{}  {}", text("status"), error(Some(failure))),
            None => text("status").to_owned(),
        },
        "RunRecovered" => "recovered by another process".to_owned(),
        "Checkpointed" => "recovery reads on from here".to_owned(),
        "Warning" => format!("{}: {}", text("code"), text("message")),
        _ => structural(event),
    }
}

/// The same for loops, waits, child runs, undoing and hands.
fn structural(event: &PublicEvent) -> String {
    let data = &event.data;
    let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| data.get(key).and_then(Value::as_u64).unwrap_or(0);
    let actor = || by(text("by"), text("reason"));
    match event.kind {
        "LoopExpanded" => format!("{} items", number("count")),
        "IterationStarted" => format!("[{}]", number("iteration")),
        "IterationFinished" => format!("[{}] {}", number("iteration"), text("status")),
        "TimerSet" => format!("until {}", time(text("due"))),
        "NodeWaiting" => match text("due") {
            "" => format!("for signal '{}'", text("signal")),
            due => format!("for signal '{}' until {}", text("signal"), time(due)),
        },
        "SignalReceived" => {
            let kept = match data.get("kept") {
                Some(Value::Bool(true)) => ", kept for later",
                _ => "",
            };
            format!("'{}'{kept}  {}", text("name"), actor())
        }
        "ChildStarted" => format!("{} {}", text("workflowId"), text("executionId")),
        "ChildFinished" => format!("{} {}", text("executionId"), text("status")),
        "NodeSetByHand" if text("kind") == "skip" => format!("skipped  {}", actor()),
        "CompensationStarted" if event.node.is_none() => {
            format!("{} steps  {}", number("steps"), actor())
        }
        "GraphHealed" => format!("v{}", number("version")),
        _ => actor(),
    }
}

/// The time of day of a moment.
fn time(moment: &str) -> &str {
    let time = moment.split_once('T').map_or(moment, |(_, time)| time);
    time.split('.').next().unwrap_or(time)
}

fn by(who: &str, why: &str) -> String {
    match (who, why) {
        ("", "") => String::new(),
        ("", why) => format!("because: {why}"),
        (who, "") => format!("by {who}"),
        (who, why) => format!("by {who}, because: {why}"),
    }
}

/// `CODE: message`.
fn error(error: Option<&Value>) -> String {
    let text = |key: &str| {
        let value = error.and_then(|error| error.get(key));
        value.and_then(Value::as_str).unwrap_or_default()
    };
    format!("{}: {}", text("code"), text("message"))
}

fn list(names: Option<&Value>) -> String {
    let names: Vec<&str> = names
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match names.len() {
        0..=3 => names.join(", "),
        more => format!("{} and {} more", names[..3].join(", "), more - 3),
    }
}
