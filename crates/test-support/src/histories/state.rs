//! The state of a run as text: what the state machine answers about it, in words
//! that a reviewer reads. Written out by hand and not by `Debug`, because recorded texts must
//! hold for ever and names in the code need not. Only what `apply` makes is asked for: what a
//! later decision would be may change, because it is recorded when it is made. It must not
//! know how histories are stored.

use std::fmt::Write as _;

use windlass_core::definition::When;
use windlass_core::event::StopCause;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Instance, PendingDecision, Run};
use windlass_core::value::ValueRef;
use windlass_core::{Digest, Millis, NodeStatus};

/// What is known of a run: a name and what it stands for, in a fixed order. No name twice.
pub type State = Vec<(String, String)>;

const STATUSES: [NodeStatus; 9] = [
    NodeStatus::Pending,
    NodeStatus::Queued,
    NodeStatus::Running,
    NodeStatus::Waiting,
    NodeStatus::Succeeded,
    NodeStatus::Failed,
    NodeStatus::Skipped,
    NodeStatus::Blocked,
    NodeStatus::Cancelled,
];

/// Everything that can be asked of a run between two records.
pub fn state(run: &Run) -> State {
    let mut state = head(run);
    // The next event frees these; a checkpoint does not hold them.
    let to_free = run.instances_to_free();
    for node in run.instances().filter(|node| !to_free.contains(node)) {
        state.push((format!("node {}", name(run, node)), instance(run, node)));
    }
    for (target, status) in run.undo().into_iter().flat_map(|undo| undo.steps()) {
        let node = run.undoing_of(target).expect("a step has an instance");
        let text = format!("{status} by {node}{}", attempt(run, node));
        state.push((format!("undo {}", name(run, target)), text));
    }
    for (variable, held) in run.vars() {
        let text = match (held.text(), held.blob()) {
            (Some(text), _) => text.to_string(),
            (None, blob) => blob.map_or_else(String::new, |blob| value(&blob)),
        };
        state.push((format!("var {variable}"), text));
    }
    for answered in run.answered() {
        let text = answered.status().to_string();
        state.push((format!("request {}", answered.key()), text));
    }
    state.retain(|(_, text)| !text.is_empty());
    state
}

/// What changed from one state to the next, one line each, indented.
pub fn changes(before: &State, after: &State) -> Vec<String> {
    let gone = before.iter().filter(|(name, _)| {
        let mut names = after.iter().map(|(name, _)| name);
        !names.any(|kept| kept == name)
    });
    let new = after.iter().filter(|entry| !before.contains(entry));
    let gone = gone.map(|(name, _)| format!("  {name}: gone"));
    let new = new.map(|(name, text)| format!("  {name}: {text}"));
    gone.chain(new).collect()
}

fn head(run: &Run) -> State {
    let own = if run.is_frozen() { ", its own" } else { "" };
    let heals = if run.is_healing() { ", heals" } else { "" };
    let graph = format!("version {} {}", run.version(), short(&run.definition()));
    let finished = run.finished().map(serde_json::to_string);
    let finished = finished.map(|text| text.expect("what ended serialises"));
    let entries = [
        ("status", run.status().to_string()),
        ("graph", format!("{graph}{own}{heals}")),
        ("times", times(run)),
        ("nodes", counts(|status| run.count(status))),
        ("next instance", run.next_instance().to_string()),
        ("stop", stop(run)),
        ("asleep", word(run.is_asleep(), "yes")),
        ("wakes", moment(run, run.wake_at())),
        (
            "next",
            run.pending_decision()
                .map_or_else(String::new, |pending_decision| next(run, pending_decision)),
        ),
        ("deaths", number(run.deaths())),
        ("failed", names(run, run.failed())),
        ("would undo", names(run, run.would_undo())),
        ("signals kept", signals(run)),
        ("children", children(run)),
        ("finished", finished.unwrap_or_default()),
    ];
    let entries = entries.into_iter();
    entries
        .map(|(name, text)| (name.to_owned(), text))
        .collect()
}

fn times(run: &Run) -> String {
    let about = run.about();
    let mut text = String::new();
    for (word, at) in [
        ("started", run.started_at()),
        ("ended", run.ended_at()),
        ("reopened", about.reopened_at),
        ("times out", run.timeout_at()),
    ] {
        if let Some(at) = at {
            let _ = write!(text, " {word} {}", moment(run, Some(at)));
        }
    }
    if about.levels > 0 {
        let _ = write!(text, " levels {}", about.levels);
    }
    text.trim_start().to_owned()
}

fn stop(run: &Run) -> String {
    let grace = run.grace_deadline();
    let grace = grace.map(|at| format!(" grace until {}", moment(run, Some(at))));
    let cause = match run.stop_cause() {
        Some(StopCause::FailFast) => "fail fast",
        Some(StopCause::Timeout) => "timeout",
        Some(StopCause::Cancel) => "cancel",
        None => "",
    };
    let actor = run.stop_actor();
    let by = actor.and_then(|actor| actor.by.as_deref());
    let reason = actor.and_then(|actor| actor.reason.as_deref());
    let mut text = cause.to_owned();
    for (word, said) in [(" by ", by), (" because ", reason)] {
        text.extend(said.map(|said| format!("{word}{said}")));
    }
    text + &grace.unwrap_or_default()
}

fn next(run: &Run, pending_decision: PendingDecision) -> String {
    match pending_decision {
        PendingDecision::Route(node) => format!("route {}", name(run, node)),
        PendingDecision::Stop(frame) => format!("stop {frame}"),
        PendingDecision::SettleBody(frame) => format!("settle iteration {frame}"),
        PendingDecision::Advance(node) => format!("advance {}", name(run, node)),
        PendingDecision::Open(node) => format!("open {}", name(run, node)),
        PendingDecision::Settle => "settle".to_owned(),
    }
}

fn instance(run: &Run, node: Instance) -> String {
    let mut text = run.node_status(node).to_string();
    text.push_str(&attempt(run, node));
    for (word, said) in [
        (
            " blocked by ",
            names(run, run.blocked_by(node).iter().copied()),
        ),
        (
            " value ",
            run.value(node).map_or_else(String::new, |it| value(&it)),
        ),
        (
            " ancestry ",
            run.ancestry(node).as_ref().map_or_else(String::new, short),
        ),
        (" since ", moment(run, run.since(node))),
        (" loop ", cycle(run, node)),
        (" signal ", signal(run, node)),
        (
            " child ",
            run.child(node)
                .map_or_else(String::new, |child| child.to_string()),
        ),
        (" edges ", edges(run, node)),
    ] {
        if !said.is_empty() {
            let _ = write!(text, "{word}{said}");
        }
    }
    for (holds, word) in [
        (run.is_reused(node), " reused"),
        (run.is_by_hand(node), " by hand"),
        (run.is_unopened(node), " unopened"),
    ] {
        text.push_str(if holds { word } else { "" });
    }
    text
}

/// The attempt of a node that began, or may: its number, what it is known by outside, when.
fn attempt(run: &Run, node: Instance) -> String {
    let (number, begun) = (run.attempt(node), run.attempts(node));
    if number == 0 {
        return String::new();
    }
    let key = run.idempotency_key(node);
    let key = key.strip_prefix(&format!("{}/", run.id())).unwrap_or(&key);
    let mut text = format!(" attempt {number}");
    if begun != number {
        let _ = write!(text, " begun {begun}");
    }
    if run.is_open(node, number) {
        let _ = write!(text, " key {key}");
        text.push_str(if run.may_hand_out(node) {
            " may go"
        } else {
            ""
        });
    }
    if let Some(due) = run.due(node) {
        let _ = write!(text, " due {}", moment(run, Some(due)));
    }
    text
}

fn cycle(run: &Run, node: Instance) -> String {
    run.cycle(node).map_or_else(String::new, |cycle| {
        let failed: Vec<String> = cycle.failed().map(|number| number.to_string()).collect();
        format!(
            "items {} opened {} running {} failed [{}] inside [{}]",
            cycle.items(),
            cycle.opened(),
            cycle.running(),
            failed.join(" "),
            counts(|status| cycle.count(status))
        )
    })
}

fn signal(run: &Run, node: Instance) -> String {
    let Some(name) = run.signal_of(node) else {
        return String::new();
    };
    let first = run.first_waiter(name) == Some(node);
    format!("{name}{}", if first { " first" } else { "" })
}

fn edges(run: &Run, node: Instance) -> String {
    let edges = run.edges_from(node).into_iter();
    let edges = edges.map(|(when, target, state)| {
        let when = match when {
            When::Success => "",
            When::Failure => "failure ",
            When::Always => "always ",
        };
        let state = match state {
            EdgeState::Unresolved => "open",
            EdgeState::Taken => "taken",
            EdgeState::NotTaken => "not taken",
            EdgeState::Lost => "lost",
        };
        format!("{when}{target} {state}")
    });
    edges.collect::<Vec<_>>().join(", ")
}

fn signals(run: &Run) -> String {
    let kept = run.signal_values();
    let kept = kept.map(|(name, kept)| format!("{name} {}", value(kept)));
    kept.collect::<Vec<_>>().join(", ")
}

fn children(run: &Run) -> String {
    let open = run.open_children();
    let open =
        open.map(|(node, attempt, child)| format!("{} attempt {attempt} {child}", name(run, node)));
    open.collect::<Vec<_>>().join(", ")
}

fn counts(count: impl Fn(NodeStatus) -> u32) -> String {
    let counted = STATUSES.into_iter().map(|status| (status, count(status)));
    let counted = counted.filter(|&(_, count)| count > 0);
    let words: Vec<String> = counted
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    words.join(" ")
}

fn names(run: &Run, nodes: impl IntoIterator<Item = Instance>) -> String {
    let names: Vec<String> = nodes.into_iter().map(|node| name(run, node)).collect();
    names.join(", ")
}

/// Numbers of instances are stored, and paths are what people know.
fn name(run: &Run, node: Instance) -> String {
    format!("{node} {}", run.path(node))
}

fn value(value: &ValueRef) -> String {
    let (digest, size) = (short(&value.digest), value.size);
    match value.record {
        0 => format!("{digest} {size} bytes in a blob"),
        record => format!("{digest} {size} bytes in record {record}"),
    }
}

fn short(digest: &Digest) -> String {
    digest.to_string()[..12].to_owned()
}

/// A moment, counted from when the run was asked for.
fn moment(run: &Run, at: Option<Millis>) -> String {
    at.map_or_else(String::new, |at| {
        format!("{:+}ms", at.0 - run.created_at().0)
    })
}

fn word(holds: bool, word: &str) -> String {
    if holds {
        word.to_owned()
    } else {
        String::new()
    }
}

fn number(number: u32) -> String {
    if number == 0 {
        String::new()
    } else {
        number.to_string()
    }
}
