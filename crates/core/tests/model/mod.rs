//! A deliberately naive model of a run (semantics §2–§5). It shares nothing with the
//! engine: sets of names, no counters, and everything that can be derived is derived
//! anew after each step by going round until nothing changes.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses its own part of the models"
)]

pub(crate) mod derive;
pub(crate) mod generate;
pub(crate) mod structured;

use std::collections::{BTreeMap, BTreeSet};

use derive::Derived;

/// Names of nodes.
pub(crate) type Names = BTreeSet<String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Success,
    Failure,
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// With the value of its condition; true where there is none.
    Plain(bool),
    /// The target of a switch, and whether it is the chosen one.
    Switch(bool),
    OnFailure,
}

#[derive(Clone, Debug)]
pub(crate) struct Arrow {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) after: After,
    pub(crate) sort: Sort,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) names: Vec<String>,
    pub(crate) arrows: Vec<Arrow>,
    /// All attempts that a node may make by itself.
    pub(crate) tries: BTreeMap<String, u32>,
    pub(crate) fail_fast: bool,
    pub(crate) by_level: bool,
    pub(crate) has_timeout: bool,
}

/// How a node ended, where that is a fact and not derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    Failed,
    Skipped,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Pending,
    Running,
    Paused,
    Succeeded,
    Failed,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    FailFast,
    Timeout,
    Cancel,
}

/// The facts about one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) end: Option<End>,
    /// Its attempt is open: queued, running, or waiting for its time.
    pub(crate) open: bool,
    pub(crate) backs_off: bool,
    /// The number of the last attempt.
    pub(crate) attempt: u32,
    /// Attempts made since the budget was last fresh.
    pub(crate) made: u32,
    /// It failed while the run was stopping fast, outside what is exempt.
    pub(crate) failed_in_grace: bool,
    pub(crate) told_to_stop: bool,
    /// A process that is gone may have begun the open attempt.
    pub(crate) perhaps_begun: bool,
}

/// A worker's word on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Success,
    Failure,
    Retriable,
    Skip,
    /// It stopped because it was asked to.
    Stopped,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) graph: Graph,
    pub(crate) life: Life,
    pub(crate) facts: BTreeMap<String, Facts>,
    pub(crate) stop: Option<Cause>,
    pub(crate) exempt: Names,
    pub(crate) now: Derived,
}

impl Model {
    pub(crate) fn new(graph: Graph) -> Self {
        let facts = graph
            .names
            .iter()
            .map(|name| (name.clone(), Facts::default()));
        let mut model = Self {
            facts: facts.collect(),
            life: Life::Pending,
            stop: None,
            exempt: Names::new(),
            now: Derived::default(),
            graph,
        };
        model.now = derive::derive(&model);
        model
    }

    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.life, Life::Pending | Life::Running | Life::Paused)
    }

    pub(crate) fn is_open(&self, name: &str, attempt: u32) -> bool {
        let facts = &self.facts[name];
        !self.has_ended() && facts.open && facts.attempt == attempt
    }

    pub(crate) fn open(&self) -> Names {
        let open = self.facts.iter().filter(|(_, facts)| facts.open);
        open.map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn start(&mut self) -> bool {
        if self.life != Life::Pending {
            return false;
        }
        self.life = Life::Running;
        self.settle(None);
        true
    }

    pub(crate) fn word(&mut self, name: &str, attempt: u32, word: Word, running: &Names) -> bool {
        let told = self.facts[name].told_to_stop;
        if !self.is_open(name, attempt) || (word == Word::Stopped && !told) {
            return false;
        }
        let may_repeat = match self.stop {
            None => true,
            Some(Cause::FailFast) => self.exempt.contains(name),
            Some(_) => false,
        };
        let tries = self.graph.tries.get(name).copied().unwrap_or(1).max(1);
        let dooms = self.stop == Some(Cause::FailFast) && !self.exempt.contains(name);
        let facts = self.facts.get_mut(name).expect("a node");
        if word == Word::Retriable && may_repeat && facts.made < tries {
            facts.attempt += 1;
            facts.perhaps_begun = false;
            facts.made += 1;
            facts.backs_off = true;
            facts.told_to_stop = false;
            self.settle(None);
            return true;
        }
        let end = match word {
            Word::Success => End::Succeeded,
            Word::Failure | Word::Retriable => End::Failed,
            Word::Skip => End::Skipped,
            Word::Stopped => End::Cancelled,
        };
        facts.failed_in_grace = end == End::Failed && dooms;
        close(facts, end);
        let failed = (end == End::Failed).then_some((name, running));
        self.settle(failed);
        true
    }

    pub(crate) fn cancel(&mut self, running: &Names) -> bool {
        if self.has_ended() || self.stop == Some(Cause::Cancel) {
            return false;
        }
        let begun = self.life != Life::Pending;
        self.stop_for(Cause::Cancel, running);
        if begun {
            self.settle(None);
        } else {
            self.life = Life::Cancelled;
            self.now = derive::derive(self);
        }
        true
    }

    pub(crate) fn time_out(&mut self, running: &Names) -> bool {
        let begun = matches!(self.life, Life::Running | Life::Paused);
        let may = matches!(self.stop, None | Some(Cause::FailFast));
        if !begun || !may || !self.graph.has_timeout {
            return false;
        }
        self.stop_for(Cause::Timeout, running);
        self.settle(None);
        true
    }

    pub(crate) fn grace_ends(&mut self) -> bool {
        if self.has_ended() || !self.facts.values().any(|facts| facts.told_to_stop) {
            return false;
        }
        self.give_up();
        true
    }

    /// The workers that were asked to stop are gone with their process.
    pub(crate) fn recover(&mut self) -> bool {
        if self.has_ended() {
            return false;
        }
        for facts in self.facts.values_mut().filter(|facts| facts.open) {
            facts.perhaps_begun = true;
        }
        self.give_up();
        true
    }

    fn give_up(&mut self) {
        for facts in self.facts.values_mut().filter(|facts| facts.told_to_stop) {
            close(facts, End::Cancelled);
        }
        self.settle(None);
    }

    pub(crate) fn pause(&mut self) -> bool {
        let may = self.life == Life::Running && self.stop.is_none();
        if may {
            self.life = Life::Paused;
        }
        may
    }

    pub(crate) fn resume(&mut self) -> bool {
        let may = self.life == Life::Paused;
        if may {
            self.life = Life::Running;
        }
        may
    }

    /// Tries nodes again, or all that a retry of the run means; `None` says that it may.
    pub(crate) fn reattempt(&mut self, names: &Names) -> Option<Names> {
        let names = if names.is_empty() {
            self.failed_or_cancelled()
        } else {
            names.clone()
        };
        let ended_badly =
            |name: &String| matches!(self.facts[name].end, Some(End::Failed | End::Cancelled));
        let stopping = self.stop.is_some() && !self.has_ended();
        if names.is_empty() || stopping || !names.iter().all(ended_badly) {
            return Some(Names::new());
        }
        let mut again = names.clone();
        if self.stop == Some(Cause::FailFast) {
            again.extend(self.with_end(End::Cancelled));
        }
        again.extend(self.graph.after(&again, true));
        let mut in_the_way: Names = self.graph.after(&names, false);
        in_the_way.retain(|name| {
            let facts = &self.facts[name];
            facts.open || facts.end == Some(End::Succeeded)
        });
        in_the_way.extend(derive::held_back(self, &names, &again));
        if !in_the_way.is_empty() {
            return Some(in_the_way);
        }
        if self.has_ended() {
            self.life = Life::Running;
        }
        self.stop = None;
        self.exempt.clear();
        for name in &again {
            let facts = self.facts.get_mut(name).expect("a node");
            let attempt = facts.attempt;
            *facts = Facts {
                attempt,
                ..Facts::default()
            };
        }
        self.settle(None);
        None
    }

    /// Cancelled, or Failed and not handled.
    fn failed_or_cancelled(&self) -> Names {
        let mut names = self.with_end(End::Failed);
        names.retain(|name| !self.now.handled.contains(name));
        names.extend(self.with_end(End::Cancelled));
        names
    }

    fn with_end(&self, end: End) -> Names {
        let nodes = self
            .facts
            .iter()
            .filter(|(_, facts)| facts.end == Some(end));
        nodes.map(|(name, _)| name.clone()).collect()
    }

    fn stop_for(&mut self, cause: Cause, running: &Names) {
        self.stop = Some(cause);
        self.exempt.clear();
        if cause == Cause::FailFast {
            let through_always = self.graph.arrows.iter().zip(&self.now.arrows);
            let reached: Names = through_always
                .filter(|(arrow, fate)| arrow.after == After::Always && fate.is_taken())
                .map(|(arrow, _)| arrow.to.clone())
                .collect();
            self.exempt = self.graph.after(&reached, true);
            self.exempt.extend(reached);
        }
        for (name, facts) in &mut self.facts {
            if self.now.has_ended(name) || self.exempt.contains(name) {
                continue;
            }
            if running.contains(name) {
                facts.told_to_stop = true;
                continue;
            }
            if facts.open {
                // The open attempt was never begun.
                facts.attempt -= u32::from(!facts.perhaps_begun);
            }
            close(facts, End::Cancelled);
        }
        self.now = derive::derive(self);
    }

    /// What follows from the facts: which nodes are ready, whether to stop, whether it is
    /// over.
    fn settle(&mut self, failed: Option<(&str, &Names)>) {
        self.open_what_is_ready();
        if let Some((name, running)) = failed {
            let routed = self.graph.arrows.iter().zip(&self.now.arrows);
            let routed = routed
                .filter(|(arrow, _)| arrow.from == name && arrow.after == After::Failure)
                .any(|(_, fate)| fate.is_taken());
            if self.graph.fail_fast && self.stop.is_none() && !routed {
                self.stop_for(Cause::FailFast, running);
                self.open_what_is_ready();
            }
        }
        let begun = matches!(self.life, Life::Running | Life::Paused);
        if begun && self.open().is_empty() {
            let failed = self.with_end(End::Failed);
            self.life = match self.stop {
                Some(Cause::Cancel) => Life::Cancelled,
                Some(Cause::Timeout) => Life::Failed,
                _ if failed.is_subset(&self.now.handled) => Life::Succeeded,
                _ => Life::Failed,
            };
        }
    }

    fn open_what_is_ready(&mut self) {
        self.now = derive::derive(self);
        if self.life == Life::Pending {
            return;
        }
        for name in self.now.may_open.clone() {
            let facts = self.facts.get_mut(&name).expect("a node");
            facts.open = true;
            facts.attempt += 1;
            facts.perhaps_begun = false;
            facts.made = 1;
        }
    }
}

impl Graph {
    /// Everything after these, with or without crossing `always`.
    pub(crate) fn after(&self, names: &Names, always_too: bool) -> Names {
        let mut after = Names::new();
        loop {
            let before = after.len();
            for arrow in &self.arrows {
                let from_here = names.contains(&arrow.from) || after.contains(&arrow.from);
                if from_here && (always_too || arrow.after != After::Always) {
                    after.insert(arrow.to.clone());
                }
            }
            if after.len() == before {
                return after;
            }
        }
    }
}

fn close(facts: &mut Facts, end: End) {
    facts.end = Some(end);
    facts.open = false;
    facts.backs_off = false;
    facts.told_to_stop = false;
}
