//! When nothing more will happen by itself, the world acts as an operator on the runs that are
//! left: it resumes paused runs, sends signals, and in the end cancels runs.

use windlass_core::command::RunCommand;
use windlass_core::run::{Input, Run};
use windlass_core::value::Payload;
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_orchestrator::supervisor::{ChildPlace, ChildWork};
use windlass_orchestrator::{AcquireMode, ChildCommand};

use crate::users::actor;
use crate::workload::UserAction;
use crate::world::World;

/// After so much help, what is left is cancelled.
const MOST_NUDGES: u64 = 80;

impl World {
    /// Helps one run; false if none can be helped.
    pub(crate) fn unblock(&mut self) -> bool {
        // Where users are simulated as well, only they help.
        if self.exact {
            return false;
        }
        self.counts.nudges += 1;
        if self.waits_for_ever() {
            return false;
        }
        if let Some(child) = self.forgotten_child() {
            return self.end_forgotten(child);
        }
        if let Some((parent, child)) = self.missed_end() {
            let Some(owner) = self.steward(child) else {
                return self.is_unowned(child);
            };
            self.hand_job(owner, child, ChildWork::Ended(parent));
            return self.counts.nudges < 4 * MOST_NUDGES;
        }
        if let Some((place, child)) = self.missed_undoing() {
            let job = ChildWork::Command(place, ChildCommand::Compensate);
            let Some(owner) = self.steward(child) else {
                return self.is_unowned(child);
            };
            self.hand_job(owner, child, job);
            return self.counts.nudges < 4 * MOST_NUDGES;
        }
        let unfinished: Vec<(RunId, RunStatus, Option<Box<str>>)> = self
            .oracle
            .histories()
            .filter_map(|(run, history)| Some((run, history.last()?)))
            .filter(|(_, state)| !state.status().is_final())
            .map(|(run, state)| (run, state.status(), awaited(state)))
            .collect();
        let queued = unfinished.iter().find(|it| it.1 == RunStatus::Pending);
        // Behind a gate they wait rightly, for one that waits for help.
        if let Some(&(run, ..)) = queued.filter(|_| !self.has_limits()) {
            if self.cluster.is_some() {
                // Owners look for what was started.
                return false;
            }
            self.acquire(self.current, run, AcquireMode::RECOVER);
            return self.counts.nudges < 4 * MOST_NUDGES;
        }
        let paused = unfinished.iter().find(|it| it.1 == RunStatus::Paused);
        if let Some(&(run, ..)) = paused {
            self.command(run, UserAction::Resume);
            return self.counts.nudges < 4 * MOST_NUDGES;
        }
        let waits = unfinished.iter().find(|it| it.2.is_some());
        match waits {
            Some(&(run, ..)) if self.counts.nudges > MOST_NUDGES => {
                self.command(run, UserAction::Cancel);
                self.counts.nudges < 4 * MOST_NUDGES
            }
            Some((run, _, Some(name))) => {
                let (run, name) = (*run, name.clone());
                self.send_signal(run, name, Payload::null());
                true
            }
            _ => false,
        }
    }

    pub(crate) fn send_signal(&mut self, run: RunId, name: Box<str>, payload: Payload) {
        let number = self.next_command();
        self.trace
            .say(self.now, || format!("signal '{name}' to {run}"));
        if self.exact {
            let signal = (run, name.clone(), payload.clone());
            self.unanswered.insert(number, signal);
        }
        let name = name.into();
        let command = RunCommand::Signal { name }.by(actor(number)).with(payload);
        if let Some(owner) = self.steward(run) {
            self.ask(owner, run, number, Input::from(command));
        }
    }

    fn is_unowned(&mut self, run: RunId) -> bool {
        let reason = format!("run {run}: no process works on its partition");
        self.violation.get_or_insert(reason);
        false
    }

    /// A child that has ended and whose parent does not know, because the process that
    /// ended it could not tell whether it had.
    fn missed_end(&self) -> Option<(RunId, RunId)> {
        if self.counts.losses == 0 {
            return None;
        }
        self.oracle.histories().find_map(|(run, history)| {
            let state = history.last().filter(|state| !state.status().is_final())?;
            let mut children = state.open_children();
            let ended = |child: &RunId| {
                let history = self.oracle.history(*child);
                let state = history.and_then(|history| history.last());
                state.is_some_and(|state| state.status().is_final())
            };
            let (_, _, child) = children.find(|(_, _, child)| ended(child))?;
            Some((run, child))
        })
    }

    /// A child whose undoing no process asks for any more, because the one that did lost its
    /// run.
    fn missed_undoing(&self) -> Option<(ChildPlace, RunId)> {
        if self.counts.losses == 0 {
            return None;
        }
        self.oracle.histories().find_map(|(run, history)| {
            let state = history.last()?;
            if state.status() != RunStatus::Running || state.undo().is_none() {
                return None;
            }
            let mut open = state.open_instances().into_iter();
            let (node, child) = open.find_map(|node| Some((node, state.undone_child(node)?)))?;
            // A child that was paused in the middle waits to be resumed.
            let child_state = self
                .oracle
                .history(child)
                .and_then(|history| history.last());
            if child_state.is_some_and(|child| child.status() == RunStatus::Paused) {
                return None;
            }
            let attempt = state.attempt(node);
            Some((ChildPlace { run, node, attempt }, child))
        })
    }

    /// A child that goes on although its parent has ended.
    fn forgotten_child(&self) -> Option<RunId> {
        self.oracle.histories().find_map(|(run, history)| {
            let state = history.last().filter(|state| !state.status().is_final())?;
            let parent = state.queued().parent.as_ref()?.execution_id;
            let parent = self.oracle.history(parent)?.last()?;
            // A child that is undone, or that an operator reattempted, goes on by itself.
            let own = history.was_reattempted() || state.undo().is_some();
            (parent.status().is_final() && !own).then_some(run)
        })
    }

    /// The last command of a parent to a child is lost if its process dies just then, and an
    /// operator must end the child. If no process died and no run was lost, that is a
    /// violation.
    fn end_forgotten(&mut self, child: RunId) -> bool {
        if self.counts.losses == 0 {
            let reason = format!("run {child}: it goes on, but its parent has ended");
            self.violation.get_or_insert(reason);
            return false;
        }
        self.counts.forgotten += 1;
        self.command(child, UserAction::Cancel);
        self.counts.nudges < 4 * MOST_NUDGES
    }
}

/// The signal that a run waits for.
pub(crate) fn awaited(state: &Run) -> Option<Box<str>> {
    let mut waiting = state
        .instances()
        .filter(|&node| state.node_status(node) == NodeStatus::Waiting);
    waiting.find_map(|node| state.signal_of(node).map(Into::into))
}
