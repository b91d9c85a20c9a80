//! What one run does to another: children are started, told and heard (semantics §8).
//!
//! Everything about one child goes through one lane, in order: a child that is started
//! and then cancelled must not be cancelled before it exists. All of it is harmless to
//! repeat, which is how recovery does it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::{Notify, mpsc};
use windlass_core::event::{Hand, Parent};
use windlass_core::run::{ChildEnd, ChildStart, Failure, Instance, Run};
use windlass_core::trace::TraceParent;
use windlass_core::value::Payload;
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::{Begin, ChildCommand, Command, Input};

use crate::command::CommandError;
use crate::driver::Message;
use crate::engine::{Engine, Inner};
use crate::load::LoadError;
use crate::start::{StartError, StartRequest};

/// How many children are acted on at once.
const LANES: usize = 64;

/// Something to do about a child run.
#[derive(Debug)]
pub(crate) enum Job {
    /// A parent wants something of its child.
    Command {
        place: Place,
        child: RunId,
        command: ChildCommand,
    },
    /// A child has ended.
    Ended { parent: RunId, child: RunId },
    /// A child's end came while its parent slept.
    Wake(RunId),
    /// Another process wrote to a run that is ours.
    Reload(RunId),
    /// The store has lost records of a run that it had acknowledged.
    Quarantine(RunId, windlass_store::Error),
}

/// Who has a child: the node of the parent, and its attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) run: RunId,
    pub(crate) node: Instance,
    pub(crate) attempt: u32,
}

/// Hands jobs to their lanes. The queues have no bound of their own: each entry stands
/// for a child run, which is a row already.
pub(crate) struct Clerk {
    lanes: Vec<mpsc::UnboundedSender<Job>>,
    busy: Arc<Busy>,
}

/// How many jobs are not done.
#[derive(Default)]
pub(crate) struct Busy {
    jobs: AtomicUsize,
    done: Notify,
}

impl Busy {
    fn end(&self) {
        if self.jobs.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.notify_waiters();
        }
    }

    /// Ends when there is nothing to do.
    async fn idle(&self) {
        loop {
            let done = self.done.notified();
            tokio::pin!(done);
            // Listening begins before the look, so that nothing is missed between the two.
            done.as_mut().enable();
            if self.jobs.load(Ordering::Acquire) == 0 {
                return;
            }
            done.await;
        }
    }
}

impl Clerk {
    /// Starts the lanes; they end when the clerk or the engine is gone.
    pub(crate) fn start(engine: &Weak<Inner>, busy: &Arc<Busy>) -> Self {
        let lanes = (0..LANES).map(|_| {
            let (lane, jobs) = mpsc::unbounded_channel();
            tokio::spawn(work(engine.clone(), jobs, Arc::clone(busy)));
            lane
        });
        Self {
            lanes: lanes.collect(),
            busy: Arc::clone(busy),
        }
    }

    pub(crate) fn hand(&self, job: Job) {
        let run = match &job {
            Job::Command { child, .. } | Job::Ended { child, .. } => child,
            Job::Wake(run) | Job::Reload(run) | Job::Quarantine(run, _) => run,
        };
        let lane = usize::from(run.as_bytes()[15]) % self.lanes.len();
        self.busy.jobs.fetch_add(1, Ordering::AcqRel);
        // A lane is gone only when the engine is.
        if self.lanes[lane].send(job).is_err() {
            self.busy.end();
        }
    }
}

async fn work(engine: Weak<Inner>, mut jobs: mpsc::UnboundedReceiver<Job>, busy: Arc<Busy>) {
    while let Some(job) = jobs.recv().await {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine = Engine::of(inner);
        match job {
            Job::Ended { parent, child } => engine.tell_parent(parent, child).await,
            // Waking it makes it ask for all its children.
            Job::Wake(parent) => {
                let _ = engine.wake(parent).await;
            }
            Job::Reload(run) => engine.reload(run).await,
            Job::Quarantine(run, error) => engine.quarantine(run, error).await,
            Job::Command {
                place,
                child,
                command,
            } => engine.command_child(place, child, command).await,
        }
        busy.end();
    }
}

impl Engine {
    /// Ends when what runs had to tell each other is told: a parent that was paused or
    /// cancelled has told its children, and they theirs. Children that begin or end count.
    pub async fn told(&self) {
        loop {
            // What the driver has done is handed over when it answers.
            let (before, _) = (self.busy().jobs.load(Ordering::Acquire), self.held().await);
            if before == 0 && self.busy().jobs.load(Ordering::Acquire) == 0 {
                return;
            }
            tokio::select! {
                () = self.busy().idle() => {}
                () = self.stopped() => return,
            }
        }
    }

    async fn command_child(&self, place: Place, child: RunId, command: ChildCommand) {
        let hand = Hand {
            by: None,
            reason: Some(format!("its parent {} says so", place.run).into()),
        };
        let command = match command {
            ChildCommand::Start(start) => {
                self.start_child(place, child, *start).await;
                return;
            }
            ChildCommand::Compensate => {
                self.undo_child(place, child, hand).await;
                return;
            }
            ChildCommand::Cancel => Command::Cancel {
                hand,
                compensate: false,
            },
            ChildCommand::TimeOut => Command::TimeOut(hand),
            ChildCommand::Pause => Command::Pause(hand),
            ChildCommand::Resume => Command::Resume(hand),
        };
        // One that has ended, or never began, has nothing to be told.
        let _ = self.command(child, command).await;
    }

    /// Starts a child, or hears of one that was started before a crash.
    async fn start_child(&self, place: Place, child: RunId, start: ChildStart) {
        match self.store().run(child) {
            Ok(Some(row)) if row.status.is_final() => self.report_child(place, child).await,
            Ok(Some(row)) if row.asleep => {}
            Ok(Some(_)) => {
                let _ = self.recover(child).await;
            }
            Ok(None) => {
                let paused = self.parent_is_paused(place.run);
                if let Err(failure) = self.begin_child(place, child, start).await {
                    let input = Input::ChildFailed {
                        run: place.run,
                        node: place.node,
                        attempt: place.attempt,
                        failure: Box::new(failure),
                    };
                    self.send(input).await;
                } else if paused {
                    let _ = self.command(child, Command::Pause(Hand::default())).await;
                }
            }
            // The store is broken: whoever comes next asks again.
            Err(_) => {}
        }
    }

    fn parent_is_paused(&self, parent: RunId) -> bool {
        let row = self.store().run(parent).ok().flatten();
        row.is_some_and(|row| row.status == RunStatus::Paused)
    }

    async fn begin_child(
        &self,
        place: Place,
        child: RunId,
        start: ChildStart,
    ) -> Result<(), Failure> {
        let unreadable = |error: windlass_store::Error| Failure {
            retriable: true,
            ..Failure::permanent("STORE_UNAVAILABLE", error.to_string())
        };
        let tenant = start.tenant.as_deref();
        let row = self
            .store()
            .definition(tenant, &start.workflow, start.version);
        let row = row.map_err(unreadable)?.ok_or_else(|| {
            let message = match start.version {
                Some(version) => format!("workflow '{}' has no version {version}", start.workflow),
                None => format!("there is no workflow '{}'", start.workflow),
            };
            Failure::permanent("WORKFLOW_NOT_FOUND", message)
        })?;
        let plan = self.plans().plan(row.digest, &row.text);
        let plan =
            plan.map_err(|error| Failure::permanent("DEFINITION_INVALID", error.to_string()))?;
        let trigger = self.values().read(place.run, &start.input);
        let trigger = trigger.map_err(unreadable)?;
        let mut request = StartRequest::new(plan, row.version, row.digest);
        request.run = Some(child);
        request.trigger = trigger.to_string();
        request.correlation_id = Some(start.correlation_id);
        request.tenant = start.tenant;
        request.priority = start.priority;
        request.traceparent = self.handed_on(place.run, start.traceparent);
        request.begin = Begin::Now;
        request.depth = start.depth;
        request.parent = Some(Parent {
            execution_id: place.run,
            node: start.path,
        });
        for (name, held) in start.vars {
            let text = match (held.text(), held.blob()) {
                (Some(text), _) => Arc::clone(text),
                (None, Some(blob)) => self.values().read(place.run, &blob).map_err(unreadable)?,
                (None, None) => continue,
            };
            if let Ok(value) = serde_json::value::RawValue::from_string(text.to_string()) {
                request.vars.insert(name, value);
            }
        }
        match self.start(&request).await {
            Ok(_) | Err(StartError::Stopped) => Ok(()),
            Err(StartError::Store(error)) => Err(unreadable(error)),
            Err(error) => {
                let code = match error.code() {
                    // Of a child it is the template of its input that is wrong.
                    None | Some("NESTING_LIMIT" | "SCHEMA_INVALID") => "TRIGGER_INVALID",
                    Some(code) if code.starts_with("TRIGGER_") => "TRIGGER_INVALID",
                    Some(code) => code,
                };
                Err(Failure::permanent(code, error.to_string()))
            }
        }
    }

    /// The trace context that a child gets: the parent's span, if spans are made at all, or
    /// what the parent was given itself.
    fn handed_on(&self, parent: RunId, asked: Option<Box<str>>) -> Option<Box<str>> {
        if !self.options().traces {
            return asked;
        }
        let place = TraceParent::of_run(parent, asked.as_deref());
        Some(place.to_string().into())
    }

    /// Undoes a child that had succeeded; one that is undone already only reports.
    async fn undo_child(&self, place: Place, child: RunId, hand: Hand) {
        let Ok(loaded) = self.load(child) else {
            return;
        };
        let undone = loaded.run.undo().is_some();
        if undone && !loaded.run.status().is_final() {
            let _ = self.recover(child).await;
            return;
        }
        let nothing = loaded.run.would_undo().next().is_none();
        if undone || nothing {
            self.report_child(place, child).await;
            return;
        }
        let answer = self.command(child, Command::Compensate(hand)).await;
        // Where the store failed it is not known whether the child is undone.
        if matches!(answer, Err(CommandError::Refused { .. })) {
            self.report_child(place, child).await;
        }
    }

    /// A child has ended: its parent hears of it, and is woken for that if it sleeps.
    async fn tell_parent(&self, parent: RunId, child: RunId) {
        match self.place_of(parent, child).await {
            Some(place) => self.report_child(place, child).await,
            // Taking it up makes it ask for all its children.
            None => {
                let _ = self.take_up(parent).await;
            }
        }
    }

    /// Takes a run up that has a child: one that sleeps is woken, one that nobody carries
    /// is recovered, one that has ended is left alone.
    async fn take_up(&self, run: RunId) -> Result<(), LoadError> {
        if self.has(run).await {
            self.wake(run).await
        } else {
            self.recover(run).await
        }
    }

    async fn place_of(&self, parent: RunId, child: RunId) -> Option<Place> {
        let question = |reply| Message::ChildNode {
            parent,
            child,
            reply,
        };
        let (node, attempt) = self.ask(question).await??;
        Some(Place {
            run: parent,
            node,
            attempt,
        })
    }

    async fn report_child(&self, place: Place, child: RunId) {
        let engine = self.clone();
        let end = tokio::task::spawn_blocking(move || engine.child_end(child)).await;
        let Ok(Some(end)) = end else { return };
        let input = Input::ChildEnded {
            run: place.run,
            node: place.node,
            attempt: place.attempt,
            end: Box::new(end),
        };
        self.send(input).await;
    }

    fn child_end(&self, child: RunId) -> Option<ChildEnd> {
        let run = self.load(child).ok()?.run;
        let finished = run.finished()?;
        let output = match &finished.output {
            Some(stored) => Payload::new(self.values().resolve(stored).ok()?),
            None => Payload::null(),
        };
        Some(ChildEnd {
            child,
            status: finished.status,
            output,
            error: finished.error.clone(),
            vars: self.vars_of(&run),
            compensation: finished.compensation,
        })
    }

    /// What comes back from a child that shares variables: those that it has of its own, and
    /// those of its parent that it changed. One that it only read may have changed there since,
    /// and must not be set back.
    fn vars_of(&self, run: &Run) -> std::collections::BTreeMap<Box<str>, Payload> {
        let read = |held: &windlass_core::run::Held| {
            let text = match (held.text(), held.blob()) {
                (Some(text), _) => Arc::clone(text),
                (None, Some(blob)) => self.values().read(run.id(), &blob).ok()?,
                (None, None) => return None,
            };
            Some(text)
        };
        let is_only_read = |name: &str, text: &str| {
            let given = run.queued().vars.get(name);
            let given = given.and_then(|stored| self.values().resolve(stored).ok());
            let own = run.plan().vars().get(name).map(|raw| raw.get());
            given.as_deref() == Some(text) && own != Some(text)
        };
        let vars = run.vars().iter();
        vars.filter_map(|(name, held)| Some((name.clone(), read(held)?)))
            .filter(|(name, text)| !is_only_read(name, text))
            .map(|(name, text)| (name, Payload::new(text)))
            .collect()
    }
}
