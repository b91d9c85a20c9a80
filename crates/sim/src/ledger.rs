//! What the oracle counts for itself, apart from the state of a run: signals that came
//! and were taken, and what succeeded in which order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::run::{Instance, Run};
use windlass_core::{Digest, Millis, NodeStatus};

use crate::rules::{self, Verdict};

/// Signals that nobody has taken, by name, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    kept: BTreeMap<Box<str>, VecDeque<Digest>>,
    /// A signal is recorded just before the end of who waited for it.
    in_hand: bool,
}

impl Signals {
    pub(crate) fn came(&mut self, name: &str, digest: Digest) {
        self.kept.entry(name.into()).or_default().push_back(digest);
        self.in_hand = true;
    }

    /// A wait ended: well with the oldest signal of its name, or badly at its time.
    pub(crate) fn ended(
        &mut self,
        run: &Run,
        node: Instance,
        ended: &AttemptEnded,
        submitted: Millis,
    ) -> Verdict {
        let path = &ended.node;
        if matches!(ended.result, AttemptResult::Failed(_)) {
            return rules::due(run.due(node), submitted, &format!("the wait of {path}"));
        }
        if !rules::succeeded(ended) {
            return Ok(());
        }
        let name = run.signal_of(node).unwrap_or_default();
        let kept = self.kept.get_mut(name);
        let oldest = kept.and_then(VecDeque::pop_front);
        match oldest {
            Some(digest) if digest == ended.digest => Ok(()),
            Some(_) => Err(format!(
                "{path} took a signal '{name}' that is not the oldest"
            )),
            None => Err(format!("{path} took a signal '{name}' that nobody sent")),
        }
    }

    /// The run keeps what came and nobody took.
    pub(crate) fn agree(&mut self, run: &Run) -> Verdict {
        if std::mem::take(&mut self.in_hand) {
            return Ok(());
        }
        let kept: BTreeMap<&str, usize> = run.kept_signals().collect();
        let mine = self.kept.iter().filter(|(_, signals)| !signals.is_empty());
        let mine: BTreeMap<&str, usize> = mine
            .map(|(name, signals)| (&**name, signals.len()))
            .collect();
        if kept == mine {
            Ok(())
        } else {
            Err(format!(
                "signals {kept:?} are kept, {mine:?} were not taken"
            ))
        }
    }
}

/// What succeeded and says how it is undone, and how far the undoing is.
#[derive(Debug, Default)]
pub(crate) struct Undoing {
    /// In the order of their ends.
    completed: Vec<Instance>,
    /// What is undone, in this order, each with whether that is over.
    steps: Vec<(Instance, bool)>,
    begun: bool,
    /// Steps that somebody wants done again.
    again: BTreeSet<Instance>,
}

impl Undoing {
    /// Keeps the list after an event, and asks whether one at a time is undone.
    pub(crate) fn follow(&mut self, run: &Run, event: &Event) -> Verdict {
        match event {
            Event::AttemptEnded(ended) if rules::succeeded(ended) => {
                self.ended_well(run, &ended.node)
            }
            Event::SetByHand(set) => self.ended_well(run, &set.node),
            Event::Compensating { .. } => {
                self.begun = true;
                let steps = self.completed.iter().rev();
                self.steps = steps.map(|&node| (node, false)).collect();
            }
            Event::CompensationRetried { nodes, .. } => {
                self.again
                    .extend(nodes.iter().filter_map(|node| run.resolve(node)));
            }
            Event::CompensationSkipped { nodes, .. } => {
                for node in nodes.iter().filter_map(|node| run.resolve(node)) {
                    self.close(node);
                }
            }
            _ => {}
        }
        if !self.begun {
            self.completed.retain(|&node| is_done(run, node));
            let expected: Vec<Instance> = self.completed.iter().rev().copied().collect();
            let planned: Vec<Instance> = run.would_undo().collect();
            if planned != expected {
                return Err(format!("{planned:?} would be undone, not {expected:?}"));
            }
            return Ok(());
        }
        let steps = run.undo().map(|undo| undo.steps().collect::<Vec<_>>());
        let steps = steps.unwrap_or_default();
        let is_open = |status: NodeStatus| {
            matches!(
                status,
                NodeStatus::Queued | NodeStatus::Running | NodeStatus::Waiting
            )
        };
        let open = steps.iter().filter(|(_, status)| is_open(*status)).count();
        if open > 1 {
            return Err(format!("{open} nodes are undone at once"));
        }
        Ok(())
    }

    fn ended_well(&mut self, run: &Run, path: &str) {
        let Some(node) = run.resolve(path) else {
            return;
        };
        let is_transactional = run.would_undo().any(|undone| undone == node);
        if run.is_compensated(node) || is_transactional {
            self.completed.retain(|&other| other != node);
            self.completed.push(node);
        }
    }

    /// An attempt to undo a node ended: it was its turn. The instance that undid it.
    pub(crate) fn ended(&mut self, run: &Run, ended: &AttemptEnded) -> Result<Instance, String> {
        let path = &ended.node;
        let node = run.resolve(path);
        let node = node.ok_or_else(|| format!("{path} is undone, but there is no such node"))?;
        let first = self.steps.iter().find(|(_, over)| !over);
        let is_first = first.is_some_and(|&(first, _)| first == node);
        if !is_first && !self.again.contains(&node) {
            let first = first.map(|&(first, _)| run.path(first));
            return Err(format!("{path} is undone before {first:?}"));
        }
        if !matches!(ended.result, AttemptResult::Retrying { .. }) {
            self.close(node);
        }
        let undoing = run.open_instances().into_iter();
        let mut undoing = undoing.filter(|&instance| run.undone(instance) == Some(node));
        undoing
            .next()
            .ok_or_else(|| format!("the undoing of {path} ended, but it was not open"))
    }

    fn close(&mut self, node: Instance) {
        self.again.remove(&node);
        for step in &mut self.steps {
            step.1 |= step.0 == node;
        }
    }
}

/// A node that was taken back, or is there no more, is not undone.
fn is_done(run: &Run, node: Instance) -> bool {
    run.find_status(node) == Some(NodeStatus::Succeeded)
}
