//! What the oracle counts for itself, apart from the state of a run: signals that came
//! and were taken, and what succeeded in which order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::run::{Instance, Run};
use windlass_core::{Digest, Millis, NodeStatus};

use crate::rules::{self, CheckResult};

/// Signals that no node has taken, by name, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    kept: BTreeMap<Box<str>, VecDeque<Digest>>,
    /// A signal is recorded just before the end of the node that waited for it.
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
    ) -> CheckResult {
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
            None => Err(format!("{path} took a signal '{name}' that was never sent")),
        }
    }

    /// Checks that the run keeps exactly the signals that came and that no node took.
    pub(crate) fn agree(&mut self, run: &Run) -> CheckResult {
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

/// A success: the node instance's path, and the attempt that had it.
type Success = (Box<str>, u32);

/// What succeeded and says how it is undone, and how far the undoing is. Whatever becomes
/// of the node later, a success is undone once.
#[derive(Debug, Default)]
pub(crate) struct Undoing {
    /// In the order of their ends.
    completed: Vec<Success>,
    /// What is undone, in this order, each with whether that is over.
    steps: Vec<(Success, bool)>,
    begun: bool,
    /// Paths of which a user wants something undone again.
    again: BTreeSet<Box<str>>,
}

impl Undoing {
    /// Keeps the list after an event, and asks whether one at a time is undone.
    pub(crate) fn follow(&mut self, run: &Run, event: &Event) -> CheckResult {
        match event {
            Event::AttemptEnded(ended) if rules::succeeded(ended) => {
                self.ended_well(run, &ended.node, ended.attempt)
            }
            Event::SetByHand(set) => self.ended_well(run, &set.node, set.attempt),
            Event::Compensating { .. } => {
                self.begun = true;
                let steps = self.completed.iter().rev();
                self.steps = steps.map(|success| (success.clone(), false)).collect();
            }
            Event::CompensationRetried { nodes, .. } => self.again.extend(nodes.iter().cloned()),
            Event::CompensationSkipped { nodes, .. } => {
                for step in &mut self.steps {
                    step.1 |= nodes.contains(&step.0.0);
                }
            }
            _ => {}
        }
        let steps = run.undo().map(|undo| undo.steps().collect::<Vec<_>>());
        let steps = steps.unwrap_or_default();
        let planned: Vec<Instance> = match self.begun {
            true => steps.iter().map(|&(node, _)| node).collect(),
            false => run.would_undo().collect(),
        };
        self.agree(run, &planned)?;
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

    /// What the run undoes, or would, is what succeeded, in reverse order.
    fn agree(&self, run: &Run, planned: &[Instance]) -> CheckResult {
        let expected = self.completed.iter().rev().map(|(path, _)| path);
        let same = planned.len() == self.completed.len()
            && planned
                .iter()
                .zip(expected)
                .all(|(&node, path)| *run.path(node) == **path);
        if same {
            return Ok(());
        }
        let planned: Vec<_> = planned.iter().map(|&node| run.path(node)).collect();
        let completed = &self.completed;
        Err(format!("{planned:?} is undone, {completed:?} succeeded"))
    }

    fn ended_well(&mut self, run: &Run, path: &str, attempt: u32) {
        let Some(node) = run.resolve(path) else {
            return;
        };
        let is_transactional = run.would_undo().any(|undone| undone == node);
        if run.is_compensated(node) || is_transactional {
            self.completed.push((path.into(), attempt));
        }
    }

    /// An attempt to undo a node ended: it was its turn. The instance that undid it.
    pub(crate) fn ended(&mut self, run: &Run, ended: &AttemptEnded) -> Result<Instance, String> {
        let path = &ended.node;
        let is_over = !matches!(ended.result, AttemptResult::Retrying { .. });
        let first = self.steps.iter_mut().find(|(_, over)| !over);
        match first {
            Some((success, over)) if success.0 == *path => *over = is_over,
            _ if self.again.contains(path) => {}
            first => {
                return Err(format!("{path} is undone before {first:?}"));
            }
        }
        let undoing = run.open_instances().into_iter();
        let mut undoing = undoing.filter(|&node| run.undone(node).is_some());
        let node = undoing.find(|&node| *run.path(node) == **path);
        node.ok_or_else(|| format!("the undoing of {path} ended, but it was not open"))
    }
}
