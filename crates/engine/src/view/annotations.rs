//! What the log says about instances and the state does not keep: child runs, results set by
//! hand, errors of undoing, and which iterations belong to a loop's present round.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::RunId;
use windlass_core::event::{Actor, AttemptResult, Event};
use windlass_core::run::{Change, Instance, Run, SWITCH_UNMATCHED};
use windlass_core::value::Stored;

use super::Times;
use crate::load::LoadError;
use crate::replay::{EventPosition, Visitor};

/// A result given by hand.
#[derive(Clone, Debug)]
pub struct ByHand {
    /// Whether the node is shown as skipped.
    pub skipped: bool,
    /// Who asked for it, and why.
    pub actor: Actor,
}

/// What is known of instances besides their state, for as long as the run knows them.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    children: BTreeMap<Instance, RunId>,
    by_hand: BTreeMap<Instance, ByHand>,
    /// Why undoing failed, by the instance that undoes.
    undo_errors: BTreeMap<Instance, Stored>,
    /// The first instance of the first iteration of each loop's present round.
    begun: BTreeMap<Instance, Instance>,
    /// Loops that began more than once: their earlier iterations had the same paths.
    restarted: BTreeSet<Instance>,
    /// What a node's switch said when no case matched.
    unmatched: BTreeMap<Instance, Box<str>>,
    /// The node whose result is about to be given by hand.
    own: Option<Instance>,
    /// The number of the first instance that the event at hand makes, if it makes any.
    next: Instance,
}

impl Annotations {
    /// The last child run of a node.
    pub fn child(&self, node: Instance) -> Option<RunId> {
        self.children.get(&node).copied()
    }

    /// How a node's result was given by hand.
    pub fn by_hand(&self, node: Instance) -> Option<&ByHand> {
        self.by_hand.get(&node)
    }

    /// Why the last attempt of an instance that undoes a node failed.
    pub fn undo_error(&self, undoing: Instance) -> Option<&Stored> {
        self.undo_errors.get(&undoing)
    }

    /// What a node's switch said when it chose nothing.
    pub fn unmatched(&self, node: Instance) -> Option<&str> {
        self.unmatched.get(&node).map(|message| &**message)
    }

    /// The nodes whose switches chose nothing.
    pub fn unmatched_nodes(&self) -> impl Iterator<Item = Instance> {
        self.unmatched.keys().copied()
    }

    /// Whether an instance belongs to the present round of every loop it is in.
    pub(super) fn is_present(&self, run: &Run, node: Instance) -> bool {
        let mut inside = node;
        while let Some((owner, _)) = run.owner(inside) {
            if self.begun.get(&owner).is_some_and(|&first| node < first) {
                return false;
            }
            inside = owner;
        }
        true
    }

    fn iteration_started(&mut self, run: &Run, node: Instance) {
        // An iteration whose results are all reused may be over with the event that opens it.
        let first = run.iteration(node, 0).first().copied();
        let first = first.unwrap_or(self.next);
        if self.begun.insert(node, first).is_some() {
            self.restarted.insert(node);
        }
    }

    /// Loops whose iterations were forgotten have none that counts, until they begin.
    fn forget_rounds(&mut self, run: &Run) {
        for (&node, first) in &mut self.begun {
            let opened = run.cycle(node).map(windlass_core::run::Loop::opened);
            if run.find_status(node).is_some() && opened == Some(0) {
                *first = Instance::MAX;
                self.restarted.insert(node);
            }
        }
    }
}

impl Visitor for Annotations {
    type Error = LoadError;

    fn before(&mut self, run: &Run, event: &Event, _place: EventPosition) -> Result<(), LoadError> {
        self.next = run.next_instance();
        if let Event::SetByHand(set) = event {
            // Once it is applied, the path may lead there no more.
            self.own = run.resolve(&set.node);
        }
        Ok(())
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        _place: EventPosition,
        changes: &[Change],
    ) -> Result<(), LoadError> {
        match event {
            Event::Reattempted { .. } => self.forget_rounds(run),
            Event::SetByHand(set) => {
                self.forget_rounds(run);
                if let Some(node) = self.own.take() {
                    let (skipped, actor) = (set.skipped, set.actor.clone());
                    self.by_hand.insert(node, ByHand { skipped, actor });
                }
            }
            Event::Warning {
                node: Some(node),
                code,
                message,
            } if &**code == SWITCH_UNMATCHED => {
                if let Some(node) = run.resolve(node) {
                    self.unmatched.insert(node, message.clone());
                }
            }
            Event::CompensationEnded(ended) => {
                if let Some(undoing) = run.undoing_at(&ended.node, ended.attempt) {
                    match &ended.result {
                        AttemptResult::Failed(error) | AttemptResult::Retrying { error, .. } => {
                            self.undo_errors.insert(undoing, error.clone());
                        }
                        _ => {
                            self.undo_errors.remove(&undoing);
                        }
                    }
                }
            }
            _ => {}
        }
        for change in changes {
            match *change {
                Change::ChildStarted(node, _, child) => {
                    self.children.insert(node, child);
                }
                Change::IterationStarted(node, 0) => self.iteration_started(run, node),
                _ => {}
            }
        }
        Ok(())
    }

    fn freeing(&mut self, _run: &Run, node: Instance) -> Result<(), LoadError> {
        self.children.remove(&node);
        self.by_hand.remove(&node);
        self.unmatched.remove(&node);
        if !self.restarted.contains(&node) {
            self.begun.remove(&node);
        }
        Ok(())
    }
}

/// Times and notes together, as one walk gathers them.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    pub(super) times: Times,
    pub(super) notes: Annotations,
}

impl Visitor for Gathered {
    type Error = LoadError;

    fn before(&mut self, run: &Run, event: &Event, place: EventPosition) -> Result<(), LoadError> {
        self.times.before(run, event, place)?;
        self.notes.before(run, event, place)
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), LoadError> {
        self.times.after(run, event, place, changes)?;
        self.notes.after(run, event, place, changes)
    }

    fn freeing(&mut self, run: &Run, node: Instance) -> Result<(), LoadError> {
        self.times.freeing(run, node)?;
        self.notes.freeing(run, node)
    }
}
