//! Who is told what the engine does: the progress of this process's own run, other
//! processes that watch, and the list of runs that this process carries besides.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, mpsc};
use windlass_core::RunId;
use windlass_engine::{Notice, Observer};
use windlass_orchestrator::Command;

use crate::control::{Update, WATCH_QUEUE};
use crate::progress::{Phase, Progress};

/// Hears everything the engine says, and passes on what is wanted.
#[derive(Default)]
pub(crate) struct Hub {
    state: Mutex<State>,
    /// The list of other runs became shorter.
    fewer: Notify,
}

#[derive(Default)]
struct State {
    followed: Option<(RunId, Arc<Progress>)>,
    watchers: Vec<Watcher>,
    /// Runs that go on here besides the followed one.
    others: BTreeSet<RunId>,
}

struct Watcher {
    run: RunId,
    queue: mpsc::Sender<Update>,
    /// It was too slow, and something was left out.
    lagged: Arc<AtomicBool>,
}

/// What a watcher of one run hears.
pub(crate) struct Watching {
    pub(crate) queue: mpsc::Receiver<Update>,
    lagged: Arc<AtomicBool>,
}

impl Watching {
    /// Whether something was left out since the last time this was asked.
    pub(crate) fn take_lagged(&self) -> bool {
        self.lagged.swap(false, Ordering::Relaxed)
    }
}

impl Hub {
    /// Shows a run's progress from now on.
    pub(crate) fn follow(&self, run: RunId, progress: &Arc<Progress>) {
        self.lock().followed = Some((run, Arc::clone(progress)));
    }

    /// Shows no progress any more.
    pub(crate) fn unfollow(&self) {
        self.lock().followed = None;
    }

    /// Tells somebody what happens to a run.
    pub(crate) fn watch(&self, run: RunId) -> Watching {
        let (sender, queue) = mpsc::channel(WATCH_QUEUE);
        let lagged = Arc::new(AtomicBool::new(false));
        self.lock().watchers.push(Watcher {
            run,
            queue: sender,
            lagged: Arc::clone(&lagged),
        });
        Watching { queue, lagged }
    }

    /// A run goes on here besides the process's own.
    pub(crate) fn add_other(&self, run: RunId) {
        self.lock().others.insert(run);
    }

    /// A run does not go on here any more.
    pub(crate) fn remove_other(&self, run: RunId) {
        self.lock().others.remove(&run);
        self.fewer.notify_waiters();
    }

    /// How many other runs go on here.
    pub(crate) fn others(&self) -> usize {
        self.lock().others.len()
    }

    /// Ends when no other run goes on here.
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
    fn tell_watchers(&mut self, run: RunId, update: impl Fn() -> Update) {
        self.watchers.retain(|watcher| {
            if watcher.run != run {
                return !watcher.queue.is_closed();
            }
            match watcher.queue.try_send(update()) {
                Ok(()) => true,
                Err(mpsc::error::TrySendError::Closed(_)) => false,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    watcher.lagged.store(true, Ordering::Relaxed);
                    true
                }
            }
        });
    }

    /// Lets all watchers of a run read it anew.
    fn let_look_again(&self, run: RunId) {
        for watcher in self.watchers.iter().filter(|watcher| watcher.run == run) {
            watcher.lagged.store(true, Ordering::Relaxed);
        }
    }

    fn follows(&self, run: RunId) -> Option<&Progress> {
        let (followed, progress) = self.followed.as_ref()?;
        (*followed == run).then_some(&**progress)
    }
}

impl Observer for Hub {
    fn notice(&self, notice: &Notice<'_>) {
        let mut state = self.lock();
        match notice {
            Notice::Dispatched { dispatch } => {
                let (path, action) = (&dispatch.path, &*dispatch.action);
                if let Some(progress) = state.follows(dispatch.run) {
                    progress.dispatched(dispatch.node, path, action);
                }
                state.tell_watchers(dispatch.run, || Update::Dispatched {
                    node: dispatch.node,
                    path: path.clone(),
                    action: action.into(),
                });
            }
            Notice::Progress {
                run,
                nodes,
                standings,
            } => {
                if let Some(progress) = state.follows(*run) {
                    progress.changed(nodes, standings);
                }
                state.tell_watchers(*run, || Update::Nodes {
                    nodes: nodes.to_vec(),
                    standings: standings.to_vec(),
                });
            }
            Notice::Failed { run, failed } => {
                let node = match failed.undo {
                    true => format!("compensation of {}", failed.path),
                    false => failed.path.to_string(),
                };
                let failure = &failed.failure;
                if let Some(progress) = state.follows(*run) {
                    progress.failed(&node, &failure.code, &failure.message, failed.again);
                }
                state.tell_watchers(*run, || Update::Failed {
                    node: node.clone(),
                    code: failure.code.to_string(),
                    message: failure.message.to_string(),
                    again: failed.again,
                });
            }
            Notice::Commanded { run, command } => {
                if matches!(command, Command::Heal { .. } | Command::Import { .. }) {
                    // Its nodes are others now.
                    state.let_look_again(*run);
                }
                let phase = match command {
                    Command::Cancel { .. } | Command::TimeOut(_) => Phase::Stopping,
                    Command::Pause(_) => Phase::Paused,
                    Command::Resume(_) | Command::Reattempt(..) | Command::SetResult { .. } => {
                        Phase::Running
                    }
                    _ => return,
                };
                if let Some(progress) = state.follows(*run) {
                    progress.phase(phase);
                }
                state.tell_watchers(*run, || Update::Phase { phase });
                // Nobody waits here for a run that somebody paused.
                if phase == Phase::Paused && state.others.remove(run) {
                    self.fewer.notify_waiters();
                }
            }
            _ => {}
        }
    }
}
