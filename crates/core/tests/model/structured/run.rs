//! The run as a whole: what may be said to it, and its end (semantics §4).

use std::collections::BTreeMap;

use serde_json::Value;

use super::expression::{Erred, Sight};
use super::read::{Flow, Kind, Node, flow};
use super::rounds::{Common, end, settle, succeed};
use super::scope::{Scope, Status, Stop};
use super::undo::Undoing;
use super::{Move, Word, error, error_of};
use crate::model::{Cause, Life, Names};

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) flow: Flow,
    pub(crate) life: Life,
    pub(crate) root: Scope,
    pub(crate) cause: Option<Cause>,
    /// The run's output, once it has succeeded.
    pub(crate) output: Option<Value>,
    /// The code of the run's error, once it has failed.
    pub(crate) error: Option<&'static str>,
    pub(crate) undoing: Undoing,
    /// Instances in the order in which they succeeded.
    pub(crate) completed: Vec<String>,
    /// How many scopes have been opened.
    opened: usize,
    waits: Vec<String>,
    mail: BTreeMap<String, Vec<Value>>,
}

/// What can be seen of an instance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) status: Status,
    pub(crate) attempt: u32,
    pub(crate) blocked_by: Names,
    pub(crate) handled: bool,
    /// Its output, or its error without messages.
    pub(crate) value: Option<Value>,
}

impl Model {
    pub(crate) fn new(definition: &Value) -> Self {
        let flow = flow(definition);
        Self {
            root: Scope::new(&flow.top, String::new(), BTreeMap::new()),
            flow,
            life: Life::Pending,
            cause: None,
            output: None,
            error: None,
            undoing: Undoing::default(),
            completed: Vec::new(),
            opened: 0,
            waits: Vec::new(),
            mail: BTreeMap::new(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.life, Life::Pending | Life::Running | Life::Paused)
    }

    /// Every instance by its path.
    pub(crate) fn seen(&self) -> BTreeMap<String, Seen> {
        let mut seen = BTreeMap::new();
        for scope in self.root.all() {
            for (id, node) in &scope.nodes {
                let shown = Seen {
                    status: node.status,
                    attempt: node.attempt,
                    blocked_by: node.blocked_by.clone(),
                    handled: node.status == Status::Failed && scope.is_handled(id),
                    value: node.value.clone(),
                };
                seen.insert(scope.path(id), shown);
            }
        }
        seen
    }

    /// Every edge with its state, as `loop[0]/a -Success-> b Taken`.
    pub(crate) fn edges(&self) -> Vec<String> {
        let mut edges = Vec::new();
        for scope in self.root.all() {
            for (arrow, fate) in scope.body.arrows.iter().zip(&scope.fates) {
                let from = scope.path(&arrow.from);
                let word = fate.word();
                edges.push(format!("{from} -{:?}-> {} {word}", arrow.after, arrow.to));
            }
        }
        edges.sort();
        edges
    }

    /// Instances that wait for a word from outside, by the kind of their node.
    pub(crate) fn open(&self, wanted: fn(&Kind) -> bool) -> Names {
        let mut open = Names::new();
        for scope in self.root.all() {
            for id in scope.ids() {
                let is_open = matches!(scope.nodes[&id].status, Status::Open | Status::Waiting);
                if is_open && wanted(&scope.definition(&id).kind) {
                    open.insert(scope.path(&id));
                }
            }
        }
        open
    }

    /// Open actions, which a worker may take.
    pub(crate) fn work(&self) -> Names {
        self.open(|kind| matches!(kind, Kind::Action))
    }

    /// Everything that waits for its time: delays, waits with a timeout, and loops
    /// between two tries.
    pub(crate) fn timers(&self) -> Names {
        let mut timers = self.open(|kind| match kind {
            Kind::Delay | Kind::Until(_) => true,
            Kind::Signal { has_timeout, .. } => *has_timeout,
            _ => false,
        });
        timers.retain(|path| self.seen()[path].status == Status::Waiting);
        timers
    }

    /// Makes a move; says whether it was accepted.
    pub(crate) fn make(&mut self, step: &Move, running: &Names) -> bool {
        match step {
            Move::Start => self.start(),
            Move::Word(path, attempt, word) => self.word(path, *attempt, word, running),
            Move::Fire(path) => self.fire(path, running),
            Move::Signal(name, value) => self.signal(name, value.clone(), running),
            Move::Cancel => self.cancel(running),
            Move::TimeOut => self.time_out(running),
            Move::GraceEnds => self.grace_ends(running),
            Move::Undone(word) => self.undone(word),
        }
    }

    pub(crate) fn start(&mut self) -> bool {
        let may = self.life == Life::Pending;
        if may {
            self.life = Life::Running;
            self.settle(&Names::new());
        }
        may
    }

    pub(crate) fn word(&mut self, path: &str, attempt: u32, word: &Word, running: &Names) -> bool {
        if !self.work().contains(path) {
            return false;
        }
        let (scope, id) = self.root.find_mut(path).expect("an open instance");
        let exempt = scope.exempt.contains(&id);
        let may_repeat = scope.stop.is_none() || (scope.stop == Some(Stop::FailFast) && exempt);
        let dooms = scope.stops_fast && !exempt;
        let tries = scope.definition(&id).tries;
        let node = scope.node(&id);
        if node.attempt != attempt || (*word == Word::Stopped && !node.told_to_stop) {
            return false;
        }
        match word {
            Word::Retriable if may_repeat && attempt < tries => {
                node.attempt += 1;
                node.status = Status::Waiting;
                node.told_to_stop = false;
            }
            Word::Success(value) => {
                end(node, Status::Succeeded, value.clone());
                self.completed.push(path.to_owned());
            }
            Word::Failure | Word::Retriable => {
                node.failed_in_grace = dooms;
                end(node, Status::Failed, error_of(word));
            }
            Word::Skip => end(node, Status::Skipped, Value::Null),
            Word::Stopped => {
                node.status = Status::Cancelled;
                node.told_to_stop = false;
            }
        }
        self.settle(running);
        true
    }

    /// A timer's time has come: a delay's, a wait's, or that of the next iteration.
    pub(crate) fn fire(&mut self, path: &str, running: &Names) -> bool {
        if !self.timers().contains(path) {
            return false;
        }
        self.change(running, |root, common| {
            let (scope, id) = root.find_mut(path).expect("a waiting instance");
            match scope.definition(&id).kind {
                Kind::Delay => succeed(scope, &id, Value::Null, common),
                Kind::Signal { .. } => {
                    let error = error("SIGNAL_TIMEOUT", true, Value::Null);
                    end(scope.node(&id), Status::Failed, error);
                }
                _ => {
                    let node = scope.node(&id);
                    node.status = Status::Open;
                    node.waited = true;
                }
            }
        });
        true
    }

    /// A signal goes to the node that has waited longest, or is kept.
    pub(crate) fn signal(&mut self, name: &str, value: Value, running: &Names) -> bool {
        if self.has_ended() || !self.may_wait_for(name) {
            return false;
        }
        let waits = |path: &&String| {
            let (scope, id) = self.root.find(path).expect("an instance");
            let kind = &scope.definition(&id).kind;
            let named = matches!(kind, Kind::Signal { name: known, .. } if known == name);
            named && scope.nodes[&id].status == Status::Waiting
        };
        match self.waits.iter().find(waits).cloned() {
            Some(path) => self.change(running, |root, common| {
                let (scope, id) = root.find_mut(&path).expect("an instance");
                succeed(scope, &id, value, common);
            }),
            None => self.mail.entry(name.to_owned()).or_default().push(value),
        }
        true
    }

    /// A signal that no node can wait for any more is refused: no wait of that name stands in
    /// a body, and those of the top level have ended.
    fn may_wait_for(&self, name: &str) -> bool {
        let at_top = |node: &&Node| !self.root.nodes[&node.id].status.has_ended();
        let top = &self.flow.top;
        let mut open = top.nodes.iter().filter(at_top);
        open.any(|node| node.kind.waits_for(name))
            || top.nodes.iter().any(|node| node.kind.holds_wait_for(name))
    }

    pub(crate) fn cancel(&mut self, running: &Names) -> bool {
        if self.has_ended() || self.cause == Some(Cause::Cancel) || self.undoing.end.is_some() {
            return false;
        }
        self.stop_for(Cause::Cancel, running);
        if self.life == Life::Pending {
            self.life = Life::Cancelled;
            self.root.route(&Sight::default());
        }
        true
    }

    pub(crate) fn time_out(&mut self, running: &Names) -> bool {
        let begun = self.life == Life::Running && self.undoing.end.is_none();
        let may = self.flow.has_timeout && matches!(self.cause, None | Some(Cause::FailFast));
        if begun && may {
            self.stop_for(Cause::Timeout, running);
        }
        begun && may
    }

    /// What was asked to stop and has not ended is given up.
    pub(crate) fn grace_ends(&mut self, running: &Names) -> bool {
        let told: Vec<String> = self
            .work()
            .into_iter()
            .filter(|path| self.is_told(path))
            .collect();
        if self.has_ended() || told.is_empty() {
            return false;
        }
        for path in told {
            let (scope, id) = self.root.find_mut(&path).expect("an instance");
            scope.cancel(&id, &Names::new());
        }
        self.settle(running);
        true
    }

    pub(crate) fn is_told(&self, path: &str) -> bool {
        let (scope, id) = self.root.find(path).expect("an instance");
        scope.nodes[&id].told_to_stop
    }

    fn stop_for(&mut self, cause: Cause, running: &Names) {
        self.cause = Some(cause);
        self.root.stop_for(Stop::Outside, running);
        if self.life != Life::Pending {
            self.settle(running);
        }
    }

    fn settle(&mut self, running: &Names) {
        self.change(running, |_, _| ());
    }

    fn change(&mut self, running: &Names, change: impl FnOnce(&mut Scope, &mut Common<'_>)) {
        let mut common = Common {
            flow: &self.flow,
            opened: &mut self.opened,
            running,
            completed: &mut self.completed,
            waits: &mut self.waits,
            mail: &mut self.mail,
        };
        change(&mut self.root, &mut common);
        settle(&mut self.root, &mut common);
        if self.root.stop == Some(Stop::FailFast) {
            self.cause = Some(Cause::FailFast);
        }
        let undoes = self.undoing.end.is_some();
        if self.life == Life::Running && !undoes && self.root.has_ended() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let mut life = match self.cause {
            Some(Cause::Cancel) => Life::Cancelled,
            Some(Cause::Timeout) => Life::Failed,
            _ if self.root.unhandled().is_empty() => Life::Succeeded,
            _ => Life::Failed,
        };
        if life == Life::Failed {
            let timed_out = self.cause == Some(Cause::Timeout);
            self.error = Some(if timed_out {
                "RUN_TIMEOUT"
            } else {
                "NODE_FAILED"
            });
        }
        if life == Life::Succeeded {
            match self.root.output(&Sight::default()) {
                Ok(output) => self.output = Some(output),
                Err(Erred) => {
                    life = Life::Failed;
                    self.error = Some("OUTPUT_INVALID");
                }
            }
        }
        self.end_after_undoing(life);
    }
}
