//! What a set of histories covers, and what it must. Names of variants come from one list
//! that is both matched and required, so that a new variant does not compile until it is
//! named here, and does not pass until a history has it.

use std::collections::BTreeSet;

use windlass_core::definition::{
    CompensationPolicy, Definition, ExecutionMode, FailurePolicy, InFlight, Isolation, Join, Node,
    OnItemFailure, When,
};
use windlass_core::event::{
    After, AttemptResult, Compensation, Event, IterationResult, RULES, StopCause, Transition,
};
use windlass_core::plan::NodeKind;
use windlass_core::run::Run;
use windlass_core::value::Stored;
use windlass_core::{NodeStatus, RunStatus};
use windlass_orchestrator::codec::RECORD_VERSION;

use windlass_test_support::histories::file::RecordedHistory;
use windlass_test_support::histories::replay::{Graphs, decoded};

/// An enum whose every variant a history must have.
trait Covered {
    /// `Enum::Variant` of each.
    const VARIANTS: &[&str];
    fn covered(&self) -> &'static str;
}

macro_rules! covered {
    ($($enum:ident { $($variant:ident),* $(,)? })*) => {
        $(impl Covered for $enum {
            const VARIANTS: &[&str] = &[$(concat!(stringify!($enum), "::", stringify!($variant))),*];
            fn covered(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => {
                        concat!(stringify!($enum), "::", stringify!($variant))
                    })*
                }
            }
        })*

        /// Every variant of every enum above.
        fn variants() -> impl Iterator<Item = &'static str> {
            let all: [&[&str]; _] = [$(<$enum as Covered>::VARIANTS),*];
            all.into_iter().flatten().copied()
        }
    };
}

covered! {
    Event {
        Queued, Started, AttemptStarted, AttemptEnded, Routed, Expanded, Looped, IterationEnded,
        Waiting, SignalReceived, ChildStarted, Stopping, GraceEnded, Paused, Resumed, Accepted,
        Reattempted, SetByHand, Reused, Compensating, CompensationEnded, CompensationRetried,
        CompensationSkipped, Healed, Imported, Recovered, Checkpointed, Warning, Finished,
    }
    AttemptResult { Succeeded, Failed, Retrying, Skipped, Stopped }
    IterationResult { Succeeded, Failed }
    After { Death, Stop, Requeue }
    StopCause { FailFast, Timeout, Cancel }
    Compensation { Complete, Incomplete }
    Stored { Inline, Blob }
    RunStatus { Pending, Running, Paused, Succeeded, Failed, Cancelled }
    NodeStatus {
        Pending, Queued, Running, Waiting, Succeeded, Failed, Skipped, Blocked, Cancelled,
    }
    NodeKind { Action, ForEach, While, RetryUntil, Subworkflow, Signal, Delay }
    FailurePolicy { Partial, FailFast }
    ExecutionMode { Parallel, Sequential, Levels }
    InFlight { Pinned, Healing }
    CompensationPolicy { OnFailure, OnFailureOrCancel, Manual }
    OnItemFailure { Fail, Collect }
    Isolation { Isolated, Shared, Transactional }
    Join { All, Any, AtLeast }
    When { Success, Failure, Always }
}

/// What no list of variants says.
const OTHERS: &[&str] = &[
    "a forEach in parallel",
    "a forEach one after the other",
    "a loop in a loop",
    "a switch",
    "a condition",
    "an onFailure",
    "an attempt to undo that is tried again",
    "an attempt to undo that a worker still has",
    "a stop of an iteration alone",
    "a transactional child that is undone",
    "a success that was taken back and is still undone",
    "a node set by hand as skipped",
    "a run with a parent",
    "a run with an origin",
    "a run with a tenant",
    "a run with a gate",
    "a run whose first graph is its own",
    "parameters, meta and resources of an attempt",
    "variables that a node set",
    "something after the run had ended",
    "a command with an idempotency key",
];

/// Everything that must be covered.
pub(crate) fn required() -> BTreeSet<String> {
    let rules = (1..=RULES).map(|rules| format!("rules {rules}"));
    let records = (1..=RECORD_VERSION).map(|version| format!("records of version {version}"));
    let kinds = NodeKind::VARIANTS.iter().flat_map(|kind| {
        let ends = [NodeStatus::Succeeded, NodeStatus::Failed];
        ends.map(|end| format!("{kind} that is {end}"))
    });
    let names = variants().chain(OTHERS.iter().copied());
    let names = names.map(str::to_owned);
    names.chain(rules).chain(records).chain(kinds).collect()
}

/// What one history covers.
pub(crate) fn covers(history: &RecordedHistory) -> BTreeSet<String> {
    let mut found = Found::default();
    for record in &history.records {
        found.add(format!("records of version {}", record.version));
    }
    for text in history.graphs.values() {
        let definition: Definition = serde_json::from_str(text).expect("a definition");
        found.definition(&definition);
    }
    let graphs = Graphs::of(history);
    let mut run: Option<Run> = None;
    for record in &decoded(history) {
        if run.as_ref().is_some_and(|run| run.status().is_final()) {
            found.add("something after the run had ended");
        }
        found.transition(record);
        let folded = graphs.fold(history, run.take(), record);
        found.state(&folded);
        run = Some(folded);
    }
    found.0
}

#[derive(Default)]
struct Found(BTreeSet<String>);

impl Found {
    fn add(&mut self, name: impl Into<String>) {
        self.0.insert(name.into());
    }

    fn variant(&mut self, value: &impl Covered) {
        self.add(value.covered());
    }

    fn when(&mut self, holds: bool, name: &str) {
        if holds {
            self.add(name);
        }
    }

    fn state(&mut self, run: &Run) {
        self.variant(&run.status());
        for node in run.instances() {
            let (kind, status) = (run.kind_of(node), run.node_status(node));
            self.variant(&kind);
            self.variant(&status);
            self.add(format!("{} that is {status}", kind.covered()));
        }
        let mut undone = run.undo().into_iter().flat_map(|undo| undo.steps());
        let kept = undone.any(|(target, _)| run.is_taken_back(target));
        self.when(kept, "a success that was taken back and is still undone");
        let mut undone = run.undo().into_iter().flat_map(|undo| undo.steps());
        let child = undone.any(|(target, status)| {
            let node = run.undoing_of(target);
            let child = node.and_then(|node| run.undone_child(node));
            status == NodeStatus::Succeeded && child.is_some()
        });
        self.when(child, "a transactional child that is undone");
    }

    fn transition(&mut self, transition: &Transition) {
        for event in &transition.events {
            self.variant(event);
            for value in event.values() {
                self.variant(value);
            }
            self.event(event);
        }
    }

    fn event(&mut self, event: &Event) {
        let keyed = event.actor().is_some_and(|actor| actor.request.is_some());
        self.when(keyed, "a command with an idempotency key");
        match event {
            Event::Queued(queued) => {
                self.add(format!("rules {}", queued.rules));
                self.when(queued.parent.is_some(), "a run with a parent");
                self.when(queued.origin.is_some(), "a run with an origin");
                self.when(queued.tenant.is_some(), "a run with a tenant");
                self.when(queued.gate.is_some(), "a run with a gate");
                self.when(queued.frozen, "a run whose first graph is its own");
            }
            Event::AttemptEnded(ended) => {
                self.variant(&ended.result);
                let told = ended.parameters.is_some() && ended.meta.is_some();
                let told = told && !ended.resources.is_empty();
                self.when(told, "parameters, meta and resources of an attempt");
                self.when(!ended.vars.is_empty(), "variables that a node set");
            }
            Event::CompensationEnded(ended) => {
                let again = matches!(ended.result, AttemptResult::Retrying { .. });
                self.when(again, "an attempt to undo that is tried again");
            }
            Event::AttemptStarted(started) => {
                self.when(started.undo, "an attempt to undo that a worker still has");
            }
            Event::IterationEnded { result, .. } => self.variant(result),
            Event::Recovered { after, .. } => self.variant(after),
            Event::Stopping(stopping) => {
                self.variant(&stopping.cause);
                let scope = stopping.scope.is_some();
                self.when(scope, "a stop of an iteration alone");
            }
            Event::SetByHand(set) => self.when(set.skipped, "a node set by hand as skipped"),
            Event::Finished(finished) => {
                if let Some(compensation) = &finished.compensation {
                    self.variant(compensation);
                }
            }
            _ => {}
        }
    }

    fn definition(&mut self, definition: &Definition) {
        self.variant(&definition.failure_policy);
        self.variant(&definition.execution_mode);
        self.variant(&definition.in_flight);
        self.variant(&definition.compensation.when);
        for node in &definition.nodes {
            self.node(node, false);
        }
    }

    fn node(&mut self, node: &Node, inside: bool) {
        for edge in &node.edges {
            self.variant(&edge.when);
            self.when(edge.condition.is_some(), "a condition");
        }
        if let Some(join) = &node.join {
            self.variant(join);
        } else {
            self.variant(&Join::All);
        }
        self.when(node.switch.is_some(), "a switch");
        self.when(node.on_failure.is_some(), "an onFailure");
        if let Some(each) = &node.for_each {
            self.variant(&each.on_item_failure);
            let parallel = each.parallel != Some(false);
            self.when(parallel, "a forEach in parallel");
            self.when(!parallel, "a forEach one after the other");
        }
        if let Some(child) = &node.subworkflow {
            self.variant(&child.isolation);
        }
        let bodies = [
            node.for_each.as_ref().map(|each| &each.body),
            node.while_loop.as_ref().map(|cycle| &cycle.body),
            node.retry_until.as_ref().map(|cycle| &cycle.body),
        ];
        for body in bodies.into_iter().flatten() {
            self.when(inside, "a loop in a loop");
            body.nodes.iter().for_each(|node| self.node(node, true));
        }
    }
}
