//! Receives the engine's events: updates the progress of this process's own run, and the list of
//! the other runs that this process executes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use windlass_core::RunId;
use windlass_core::command::RunCommand;
use windlass_core::run::Input;
use windlass_engine::{EngineEvent, Observer};

use crate::progress::{Phase, Progress};

/// Hears everything the engine says, and passes on what is wanted.
#[derive(Default)]
pub(crate) struct EventFanout {
    state: Mutex<State>,
    /// The list of other runs became shorter.
    fewer: Notify,
}

#[derive(Default)]
struct State {
    followed: Option<(RunId, Arc<Progress>)>,
    /// Runs that this process executes besides the followed one.
    others: BTreeSet<RunId>,
}

impl EventFanout {
    /// Shows a run's progress from now on.
    pub(crate) fn follow(&self, run: RunId, progress: &Arc<Progress>) {
        self.lock().followed = Some((run, Arc::clone(progress)));
    }

    /// Shows no progress any more.
    pub(crate) fn unfollow(&self) {
        self.lock().followed = None;
    }

    /// This process executes a run besides its own.
    pub(crate) fn add_other(&self, run: RunId) {
        self.lock().others.insert(run);
    }

    /// This process has stopped executing a run.
    pub(crate) fn remove_other(&self, run: RunId) {
        self.lock().others.remove(&run);
        self.fewer.notify_waiters();
    }

    /// How many other runs this process executes.
    pub(crate) fn others(&self) -> usize {
        self.lock().others.len()
    }

    /// Ends when this process executes no other run.
    pub(crate) async fn alone(&self) {
        loop {
            let fewer = self.fewer.notified();
            tokio::pin!(fewer);
            fewer.as_mut().enable();
            if self.lock().others.is_empty() {
                return;
            }
            fewer.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    fn follows(&self, run: RunId) -> Option<&Progress> {
        let (followed, progress) = self.followed.as_ref()?;
        (*followed == run).then_some(&**progress)
    }
}

impl Observer for EventFanout {
    fn observe(&self, event: &EngineEvent<'_>) {
        let mut state = self.lock();
        match event {
            EngineEvent::Dispatched { dispatch } => {
                if let Some(progress) = state.follows(dispatch.run) {
                    progress.dispatched(dispatch.node, &dispatch.path, &dispatch.action);
                }
            }
            EngineEvent::Progress {
                run,
                nodes,
                waiting_nodes,
            } => {
                if let Some(progress) = state.follows(*run) {
                    progress.changed(nodes, waiting_nodes);
                }
            }
            EngineEvent::Failed { run, failed } => {
                let node = match failed.undo {
                    true => format!("compensation of {}", failed.path),
                    false => failed.path.to_string(),
                };
                let failure = &failed.failure;
                if let Some(progress) = state.follows(*run) {
                    progress.failed(&node, &failure.code, &failure.message, failed.again);
                }
            }
            EngineEvent::Commanded { run, input } => {
                let phase = match input {
                    Input::TimedOutAbove(_) | Input::Abandon { .. } => Phase::Stopping,
                    Input::Command(asked) => match &asked.command {
                        RunCommand::Cancel { .. } => Phase::Stopping,
                        RunCommand::Pause => Phase::Paused,
                        RunCommand::Resume => Phase::Running,
                        command if command.reopens() => Phase::Running,
                        _ => return,
                    },
                    _ => return,
                };
                if let Some(progress) = state.follows(*run) {
                    progress.phase(phase);
                }
                // This process does not wait for the end of a paused run.
                if phase == Phase::Paused && state.others.remove(run) {
                    self.fewer.notify_waiters();
                }
            }
            _ => {}
        }
    }
}
