//! What runs do to each other, as the engine's clerk does it: children are started, told
//! and heard, everything about one child in order, all of it harmless to repeat. What a
//! process had still to do is gone with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use windlass_core::event::{Parent, Queued, RULES};
use windlass_core::run::{ChildEnd, ChildStart, Failure, Instance, Run};
use windlass_core::value::{Payload, Stored};
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::{Adoption, Begin, ChildCommand, Command, CommandId, Input, Start};

use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::users::hand;
use crate::world::{Event, World};

/// Who has a child: the node of the parent, and its attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) run: RunId,
    pub(crate) node: Instance,
    pub(crate) attempt: u32,
}

/// Something to do about a child run.
#[derive(Debug)]
pub(crate) enum Job {
    /// A parent wants something of its child.
    Command(Place, ChildCommand),
    /// The child has ended.
    Ended(RunId),
}

/// What a lane waits for before its next job.
#[derive(Clone, Copy, Debug)]
enum Awaits {
    Start(Place),
    Command(CommandId),
    /// An undoing that, if it is refused, is reported at once.
    Undo(CommandId, Place),
    Report,
}

/// The jobs about one child in one process.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    jobs: VecDeque<Job>,
    awaits: Option<Awaits>,
}

pub(crate) type Lanes = BTreeMap<(ProcessId, RunId), Lane>;

impl World {
    pub(crate) fn hand_job(&mut self, id: ProcessId, child: RunId, job: Job) {
        let lane = self.lanes.entry((id, child)).or_default();
        lane.jobs.push_back(job);
        if lane.jobs.len() == 1 && lane.awaits.is_none() {
            let delay = self.moment(20);
            self.after(delay, Event::Job(id, child));
        }
    }

    /// The lane's next job begins.
    pub(crate) fn next_job(&mut self, id: ProcessId, child: RunId) {
        let Some(lane) = self.lanes.get_mut(&(id, child)) else {
            return;
        };
        if lane.awaits.is_some() {
            return;
        }
        let Some(job) = lane.jobs.pop_front() else {
            self.lanes.remove(&(id, child));
            return;
        };
        self.trace
            .say(self.now, || format!("p{id} job for {child}: {job:?}"));
        match job {
            Job::Ended(parent) => self.tell_parent(id, parent, child),
            Job::Command(place, command) => self.command_child(id, place, child, command),
        }
        let lane = self.lanes.get(&(id, child));
        if lane.is_some_and(|lane| lane.awaits.is_none()) {
            let delay = self.moment(5);
            self.after(delay, Event::Job(id, child));
        }
    }

    fn wait_for(&mut self, id: ProcessId, child: RunId, awaits: Awaits) {
        if let Some(lane) = self.lanes.get_mut(&(id, child)) {
            lane.awaits = Some(awaits);
        }
    }

    fn go_on(&mut self, id: ProcessId, child: RunId) -> Option<Awaits> {
        let awaits = self.lanes.get_mut(&(id, child))?.awaits.take()?;
        self.after(0, Event::Job(id, child));
        Some(awaits)
    }

    /// A child's first record is durable, or will never be as far as the process knows.
    pub(crate) fn child_answered(&mut self, id: ProcessId, child: RunId, broken: bool) {
        let lane = self.lanes.get(&(id, child));
        let Some(Some(Awaits::Start(place))) = lane.map(|lane| lane.awaits) else {
            return;
        };
        self.go_on(id, child);
        if broken {
            let failure = Failure {
                retriable: true,
                ..Failure::permanent("STORE_UNAVAILABLE", "as drawn")
            };
            self.after(0, Event::ChildFailed(id, place, Box::new(failure)));
        } else if self.is_paused(place.run)
            && let Some(lane) = self.lanes.get_mut(&(id, child))
        {
            lane.jobs
                .push_front(Job::Command(place, ChildCommand::Pause));
        }
    }

    /// A command was answered, or nobody will answer it.
    pub(crate) fn child_told(&mut self, id: ProcessId, command: CommandId, refused: bool) {
        let found = self.lanes.iter().find_map(|(&(owner, child), lane)| {
            let waits = match lane.awaits? {
                Awaits::Command(waits) | Awaits::Undo(waits, _) => waits,
                _ => return None,
            };
            (owner == id && waits == command).then_some(child)
        });
        let Some(child) = found else { return };
        if let Some(Awaits::Undo(_, place)) = self.go_on(id, child)
            && refused
        {
            self.report_child(id, place, child);
        }
    }

    /// The process has lost a run: nobody answers what was asked of it.
    pub(crate) fn lanes_lost(&mut self, id: ProcessId, run: RunId) {
        self.child_answered(id, run, true);
        let lane = self.lanes.get(&(id, run)).and_then(|lane| lane.awaits);
        if let Some(Awaits::Command(_) | Awaits::Undo(..)) = lane {
            self.go_on(id, run);
        }
        // Somebody must ask again, as after a restart.
        if let (Some(Awaits::Undo(_, place)), Some(lane)) = (lane, self.lanes.get_mut(&(id, run))) {
            lane.jobs
                .push_front(Job::Command(place, ChildCommand::Compensate));
        }
    }

    fn is_paused(&self, run: RunId) -> bool {
        let row = self.store.row(run);
        row.is_some_and(|row| row.status == RunStatus::Paused)
    }

    fn command_child(&mut self, id: ProcessId, place: Place, child: RunId, command: ChildCommand) {
        match command {
            ChildCommand::Start(start) => self.start_child(id, place, child, &start),
            ChildCommand::Compensate => self.undo_child(id, place, child),
            ChildCommand::Cancel | ChildCommand::TimeOut
                if self.defect == Some(Defect::LoseChildCancel) => {}
            ChildCommand::TimeOut => self.tell_child(id, child, Command::TimeOut),
            ChildCommand::Cancel => self.tell_child(id, child, |hand| Command::Cancel {
                hand,
                compensate: false,
            }),
            ChildCommand::Pause => self.tell_child(id, child, Command::Pause),
            ChildCommand::Resume => self.tell_child(id, child, Command::Resume),
        }
    }

    /// Asks something of a child; one that has ended, or never began, is not told.
    fn tell_child(
        &mut self,
        id: ProcessId,
        child: RunId,
        command: impl FnOnce(windlass_core::event::Hand) -> Command,
    ) {
        if self.store.row(child).is_none() {
            return;
        }
        let number = self.next_command();
        self.wait_for(id, child, Awaits::Command(number));
        self.ask(id, child, number, command(hand(number)));
    }

    /// Starts a child, or hears of one that was started before a crash.
    fn start_child(&mut self, id: ProcessId, place: Place, child: RunId, start: &ChildStart) {
        let again = self.defect == Some(Defect::ChildAgain);
        match self.store.row(child).filter(|_| !again) {
            Some(row) if row.status.is_final() => self.report_child(id, place, child),
            Some(row) if row.asleep => {}
            Some(_) => self.hold(id, child, Adoption::RECOVER),
            None => self.begin_child(id, place, child, start),
        }
    }

    fn begin_child(&mut self, id: ProcessId, place: Place, child: RunId, start: &ChildStart) {
        let newest = self.published.get(&start.workflow).copied().unwrap_or(0);
        let number = start.version.unwrap_or(newest);
        let catalogue = Arc::clone(&self.catalogue);
        let Some(version) = catalogue.version(&start.workflow, number) else {
            let message = "there is no such workflow";
            let failure = Failure::permanent("WORKFLOW_NOT_FOUND", message);
            return self.child_failed(id, place, failure);
        };
        let Some(trigger) = self.store.value(place.run, &start.input) else {
            let reason = format!("the input of child {child} is not durable");
            return self.oracle.judge(place.run, Err(reason));
        };
        let trigger = Payload::new(trigger);
        let mut blobs = Vec::new();
        let mut store = |payload: Payload| {
            let stored = payload.stored();
            if matches!(stored, Stored::Blob { .. }) {
                blobs.push(payload);
            }
            stored
        };
        let mut vars = BTreeMap::new();
        for (name, held) in &start.vars {
            let text = held.text().cloned();
            let text = text.or_else(|| self.store.value(place.run, &held.blob()?));
            if let Some(text) = text {
                vars.insert(name.clone(), store(Payload::new(text)));
            }
        }
        let queued = Queued {
            rules: RULES,
            workflow: start.workflow.clone(),
            version: number,
            definition: version.digest,
            request_id: child.to_string().into(),
            tenant: start.tenant.clone(),
            correlation_id: start.correlation_id.clone(),
            priority: start.priority,
            labels: BTreeMap::new(),
            trigger: store(trigger),
            vars,
            parent: Some(Parent {
                execution_id: place.run,
                node: start.path.clone(),
            }),
            depth: start.depth,
            origin: None,
            frozen: false,
            gate: None,
            traceparent: None,
        };
        let input = Start {
            run: child,
            plan: Arc::clone(&version.plan),
            queued,
            blobs,
            claims: Vec::new(),
            begin: Begin::Now,
            reused: Vec::new(),
        };
        self.counts.children += 1;
        self.wait_for(id, child, Awaits::Start(place));
        self.oracle.held(id, child, 0);
        self.handle(id, Input::Start(Box::new(input)));
    }

    pub(crate) fn child_failed(&mut self, id: ProcessId, place: Place, failure: Failure) {
        let input = Input::ChildFailed {
            run: place.run,
            node: place.node,
            attempt: place.attempt,
            failure: Box::new(failure),
        };
        self.handle(id, input);
    }

    /// Undoes a child that had succeeded; one that is undone already only reports.
    fn undo_child(&mut self, id: ProcessId, place: Place, child: RunId) {
        let Some(state) = self.load_run(child) else {
            return;
        };
        let undone = state.undo().is_some();
        if undone && !state.status().is_final() {
            return self.hold(id, child, Adoption::RECOVER);
        }
        if undone || state.would_undo().next().is_none() {
            return self.report_child(id, place, child);
        }
        let number = self.next_command();
        self.wait_for(id, child, Awaits::Undo(number, place));
        self.ask(id, child, number, Command::Compensate(hand(number)));
    }

    /// A child has ended: its parent hears of it, and is woken for that if it sleeps.
    fn tell_parent(&mut self, id: ProcessId, parent: RunId, child: RunId) {
        let process = self.processes.get(&id);
        let state = process.and_then(|process| process.shard.run(parent));
        match state.and_then(|state| state.node_of_child(child)) {
            Some((node, attempt)) => {
                let run = parent;
                let place = Place { run, node, attempt };
                self.report_child(id, place, child);
            }
            None => self.wake(id, parent),
        }
    }

    /// Wakes a run: it asks for all its children then.
    pub(crate) fn wake(&mut self, id: ProcessId, run: RunId) {
        let row = self.store.row(run);
        if row.is_some_and(|row| !row.status.is_final()) {
            self.hold(id, run, Adoption::Wake);
        }
    }

    fn report_child(&mut self, id: ProcessId, place: Place, child: RunId) {
        if self.defect == Some(Defect::ForgetChildEnd) && self.random.chance(50) {
            return;
        }
        let Some(end) = self.child_end(child) else {
            return;
        };
        self.wait_for(id, child, Awaits::Report);
        let delay = self.moment(10);
        self.after(delay, Event::ChildEnd(id, place, Box::new(end)));
    }

    pub(crate) fn child_ended(&mut self, id: ProcessId, place: Place, end: Box<ChildEnd>) {
        self.go_on(id, end.child);
        let input = Input::ChildEnded {
            run: place.run,
            node: place.node,
            attempt: place.attempt,
            end,
        };
        self.handle(id, input);
    }

    fn child_end(&self, child: RunId) -> Option<ChildEnd> {
        let run = self.load_run(child)?;
        let finished = run.finished()?;
        let output = match &finished.output {
            Some(stored) => Payload::new(self.store.resolve(stored)?),
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

    fn vars_of(&self, run: &Run) -> BTreeMap<Box<str>, Payload> {
        let vars = run.vars().iter();
        vars.filter_map(|(name, held)| {
            let text = held.text().cloned();
            let text = text.or_else(|| self.store.value(run.id(), &held.blob()?))?;
            Some((name.clone(), Payload::new(text)))
        })
        .collect()
    }
}
