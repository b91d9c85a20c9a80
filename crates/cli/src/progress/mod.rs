//! Progress of a run on stderr: drawn live on a terminal, as plain lines elsewhere,
//! and not at all where quiet was asked for.
//!
//! The engine's task only updates a model under a lock. A thread of its own draws, at
//! most ten times a second and only when something has changed.

mod frame;
mod line;
mod model;
mod plain;
mod screen;
mod tally;

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use windlass_core::plan::Plan;
use windlass_core::run::{Instance, Run, WaitingNode};
use windlass_core::{NodeStatus, RunId, RunStatus};

use crate::output::Output;
use model::Model;
pub(crate) use screen::{restore as restore_terminal, size as terminal_size};

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Nothing but errors.
    Quiet,
    /// Lines; `end` tells whether they include the end, which the command itself may print.
    Plain {
        /// Whether the end is said here.
        end: bool,
    },
    /// Drawn.
    Live {
        /// Whether with colour.
        color: bool,
    },
}

impl Style {
    /// The style that fits the terminal and what was asked for.
    pub(crate) fn of(output: Output, quiet: bool) -> Self {
        match (quiet, output.live) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Live {
                color: output.live_color,
            },
            (false, false) => Self::Plain { end: output.json },
        }
    }
}

/// What the last command asked of a run, as far as progress shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It continues.
    Running,
    /// Nothing starts.
    Paused,
    /// It is being cancelled.
    Stopping,
}

/// Shows the progress of one run.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    model: Mutex<Model>,
    wake: Condvar,
    style: Style,
}

impl Progress {
    /// Progress of a run that begins now.
    pub(crate) fn of_new(run: RunId, plan: &Arc<Plan>, style: Style) -> Arc<Self> {
        Self::with(Model::new(run, Arc::clone(plan)), style)
    }

    /// Progress of a run that continues from where it stands.
    pub(crate) fn of_run(run: &Run, style: Style) -> Arc<Self> {
        let mut model = Model::new(run.id(), Arc::clone(run.plan()));
        model.load(run);
        Self::with(model, style)
    }

    fn with(model: Model, style: Style) -> Arc<Self> {
        let shared = Shared {
            model: Mutex::new(model),
            wake: Condvar::new(),
            style,
        };
        Arc::new(Self {
            shared: Arc::new(shared),
            thread: Mutex::new(None),
        })
    }

    /// Begins to show.
    pub(crate) fn begin(&self) {
        if self.shared.style == Style::Quiet {
            return;
        }
        if let Style::Plain { .. } = self.shared.style {
            let mut model = self.shared.lock();
            plain::begin(&mut model);
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || draw(&shared));
        // Without a thread there is no progress, and the run continues all the same.
        *lock(&self.thread) = thread.ok();
    }

    /// Stops showing; what was to stay on the screen does.
    pub(crate) fn finish(&self, status: Option<RunStatus>) {
        {
            let mut model = self.shared.lock();
            model.finish(status);
        }
        self.shared.wake.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            // A thread that panicked has nothing more to draw.
            let _ = thread.join();
        }
    }

    /// Takes the run's state as it was read back just now, after a watcher has missed events.
    pub(crate) fn load(&self, run: &Run) {
        self.update(|model| model.load(run));
    }

    /// An attempt is with a worker.
    pub(crate) fn dispatched(&self, node: Instance, path: &str, action: &str) {
        self.update(|model| model.dispatched(node, path, action));
    }

    /// An attempt has been with a worker for so long.
    pub(crate) fn runs_for(&self, node: Instance, path: &str, action: &str, time: Duration) {
        self.update(|model| model.runs_for(node, path, action, time));
    }

    /// Nodes changed, and some of them have more to tell.
    pub(crate) fn changed(&self, nodes: &[(Instance, NodeStatus)], waiting_nodes: &[WaitingNode]) {
        self.update(|model| model.change(nodes, waiting_nodes));
    }

    /// An attempt failed.
    pub(crate) fn failed(&self, node: &str, code: &str, message: &str, again: bool) {
        self.update(|model| model.fail(node, code, message, again));
    }

    /// A command paused, resumed or cancelled the run.
    pub(crate) fn phase(&self, phase: Phase) {
        self.update(|model| model.set_phase(phase));
    }

    fn update(&self, change: impl FnOnce(&mut Model)) {
        if self.shared.style == Style::Quiet {
            return;
        }
        let mut model = self.shared.lock();
        change(&mut model);
        let was_changed = std::mem::replace(&mut model.changed, true);
        drop(model);
        if !was_changed {
            self.shared.wake.notify_one();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Model> {
        lock(&self.model)
    }
}

/// A panic elsewhere must not take progress, let alone the run, with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The drawing thread: waits for a change, draws, rests.
fn draw(shared: &Shared) {
    let mut screen = screen::Screen::new(shared.style);
    let mut last: Option<Instant> = None;
    let mut model = shared.lock();
    loop {
        let ended = model.ended;
        if ended || model.changed || screen.wants_tick() {
            let rested = last.is_none_or(|last| last.elapsed() >= FRAME);
            if ended || rested {
                model.changed = false;
                screen.show(&mut model);
                last = Some(Instant::now());
            }
        }
        if ended {
            return;
        }
        let rest = if model.changed {
            FRAME
        } else {
            screen.next_tick()
        };
        // A spurious wake-up only looks again.
        model = shared
            .wake
            .wait_timeout(model, rest)
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .0;
        // While changes pour in, rest between frames, but not beyond the end.
        if let Some(left) = last.and_then(|last| FRAME.checked_sub(last.elapsed())) {
            model = shared
                .wake
                .wait_timeout_while(model, left.min(FRAME / 4), |model| !model.ended)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
        }
    }
}
