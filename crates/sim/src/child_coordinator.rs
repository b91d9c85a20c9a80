//! What runs do to each other, on virtual time. `ChildJob` decides the steps, as in the engine;
//! this module has the lanes, which keep everything about one child in order, and the time that
//! each step takes. The open jobs of a process are lost with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use windlass_core::RunId;
use windlass_core::event::{Parent, Queued, RULES};
use windlass_core::run::{ChildEnd, ChildStart, Failure, Held};
use windlass_core::value::{Payload, Stored};
use windlass_orchestrator::supervisor::{
    ChildAnswer, ChildJob, ChildPlace, ChildStep, ChildValues, ChildWork, ParentCommand, child_end,
};
use windlass_orchestrator::{AcquireMode, Begin, CommandId, ShardInput, Start};

use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::store::SimStore;
use crate::users::actor;
use crate::world::{Event, World};

/// What a lane waits for before it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Start,
    Command(CommandId),
    Report,
}

/// The jobs about one child in one process.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    jobs: VecDeque<ChildWork>,
    /// The job that waits for an answer.
    awaits: Option<(ChildJob, Awaits)>,
    /// The job that has its answer, with what follows.
    next: Option<(ChildJob, ChildStep)>,
}

pub(crate) type Lanes = BTreeMap<(ProcessId, RunId), Lane>;

impl ChildValues for SimStore {
    fn held(&self, run: RunId, held: &Held) -> Option<Arc<str>> {
        let text = held.text().cloned();
        text.or_else(|| self.value(run, &held.blob()?))
    }

    fn stored(&self, stored: &Stored) -> Option<Arc<str>> {
        self.resolve(stored)
    }
}

impl World {
    pub(crate) fn hand_job(&mut self, id: ProcessId, child: RunId, job: ChildWork) {
        if let ChildWork::Command(place, _) = &job {
            self.note_child(place.run, child);
        }
        let lane = self.lanes.entry((id, child)).or_default();
        lane.jobs.push_back(job);
        if lane.jobs.len() == 1 && lane.awaits.is_none() && lane.next.is_none() {
            let delay = self.moment(20);
            self.after(delay, Event::Job(id, child));
        }
    }

    /// The lane goes on, or its next job begins.
    pub(crate) fn next_job(&mut self, id: ProcessId, child: RunId) {
        let Some(lane) = self.lanes.get_mut(&(id, child)) else {
            return;
        };
        if lane.awaits.is_some() {
            return;
        }
        if !self.may_work(id, child) {
            if self.holds_lease(id, child) {
                // It is in doubt: either it is renewed, or the lane is gone with it.
                return self.after(200, Event::Job(id, child));
            }
            self.lanes.remove(&(id, child));
            return;
        }
        let Some(lane) = self.lanes.get_mut(&(id, child)) else {
            return;
        };
        if let Some((job, step)) = lane.next.take() {
            return self.do_steps(id, child, job, step);
        }
        let Some(work) = lane.jobs.pop_front() else {
            self.lanes.remove(&(id, child));
            return;
        };
        self.trace
            .say(self.now, || format!("p{id} job for {child}: {work:?}"));
        let mut job = ChildJob::new(work);
        let step = job.begin();
        self.do_steps(id, child, job, step);
    }

    /// Carries out steps until one takes time, or the job is done.
    fn do_steps(&mut self, id: ProcessId, child: RunId, mut job: ChildJob, step: ChildStep) {
        let mut step = step;
        loop {
            step = match step {
                ChildStep::ReadRow => {
                    let again = self.defect == Some(Defect::ChildAgain);
                    job.row_read(self.store.row(child).filter(|_| !again).as_ref())
                }
                ChildStep::IsPaused(parent) => job.paused(self.store.row(parent).as_ref()),
                ChildStep::Load => job.loaded(self.load_run(child).as_ref()),
                ChildStep::FindPlace(parent) => job.placed(self.place_of(id, parent, child)),
                ChildStep::Start(place, start) => match self.child_start(place, child, &start) {
                    Err(failure) => job.started(Err(failure)),
                    Ok(None) => break,
                    Ok(Some(start)) => return self.start_child(id, job, start),
                },
                ChildStep::Tell(told) if self.has_nothing_to_hear(child, told) => {
                    job.answered(ChildAnswer::Accepted)
                }
                ChildStep::Tell(told) => {
                    let number = self.next_command();
                    self.wait_for(id, child, job, Awaits::Command(number));
                    return self.ask(id, child, number, told.input(actor(number)));
                }
                ChildStep::Report(place) => {
                    let Some(end) = self.end_to_report(child) else {
                        break;
                    };
                    self.wait_for(id, child, job, Awaits::Report);
                    let delay = self.moment(10);
                    return self.after(delay, Event::ChildEnd(id, place, Box::new(end)));
                }
                ChildStep::Fail(place, failure) => {
                    self.after(0, Event::ChildFailed(id, place, failure));
                    break;
                }
                ChildStep::Recover => {
                    self.acquire(id, child, AcquireMode::RECOVER);
                    break;
                }
                ChildStep::AcquireParent(parent) => {
                    self.wake(id, parent);
                    break;
                }
                ChildStep::Again => {
                    let step = job.begin();
                    return self.go_on(id, child, job, step);
                }
                ChildStep::Done => break,
            };
        }
        if self.lanes.contains_key(&(id, child)) {
            let delay = self.moment(5);
            self.after(delay, Event::Job(id, child));
        }
    }

    fn wait_for(&mut self, id: ProcessId, child: RunId, job: ChildJob, awaits: Awaits) {
        if let Some(lane) = self.lanes.get_mut(&(id, child)) {
            lane.awaits = Some((job, awaits));
        }
    }

    /// A job has its answer: what follows is done in its own time.
    fn go_on(&mut self, id: ProcessId, child: RunId, job: ChildJob, step: ChildStep) {
        if let Some(lane) = self.lanes.get_mut(&(id, child)) {
            lane.next = Some((job, step));
            self.after(0, Event::Job(id, child));
        }
    }

    /// The job of a lane that waits for this.
    fn answered(
        &mut self,
        id: ProcessId,
        child: RunId,
        is_awaited: impl FnOnce(Awaits) -> bool,
    ) -> Option<ChildJob> {
        let lane = self.lanes.get_mut(&(id, child))?;
        let (job, _) = lane.awaits.take_if(|(_, awaits)| is_awaited(*awaits))?;
        Some(job)
    }

    /// A child's first record is durable, or will never be as far as the process knows.
    pub(crate) fn child_answered(&mut self, id: ProcessId, child: RunId, broken: bool) {
        let is_start = |awaits| awaits == Awaits::Start;
        let Some(mut job) = self.answered(id, child, is_start) else {
            return;
        };
        let result = match broken {
            false => Ok(()),
            true => Err(Failure {
                retriable: true,
                ..Failure::permanent("STORE_UNAVAILABLE", "as drawn")
            }),
        };
        let step = job.started(result);
        self.go_on(id, child, job, step);
    }

    /// A command was answered, or never will be.
    pub(crate) fn parent_command(
        &mut self,
        id: ProcessId,
        command: CommandId,
        answer: ChildAnswer,
    ) {
        let waits = Awaits::Command(command);
        let mut lanes = self.lanes.iter();
        let found = lanes.find_map(|(&(owner, child), lane)| {
            let (_, awaits) = lane.awaits.as_ref()?;
            (owner == id && *awaits == waits).then_some(child)
        });
        let Some(child) = found else { return };
        if let Some(job) = self.answered(id, child, |awaits| awaits == waits) {
            let step = job.answered(answer);
            self.go_on(id, child, job, step);
        }
    }

    /// The process has lost a run: commands to it get no answer.
    pub(crate) fn lanes_lost(&mut self, id: ProcessId, run: RunId) {
        self.child_answered(id, run, true);
        let is_command = |awaits| matches!(awaits, Awaits::Command(_));
        if let Some(job) = self.answered(id, run, is_command) {
            let step = job.answered(ChildAnswer::Lost);
            self.go_on(id, run, job, step);
        }
    }

    /// A child that never began gets no command; nor does any, if that is the defect.
    fn has_nothing_to_hear(&self, child: RunId, told: ParentCommand) -> bool {
        let ends = matches!(told, ParentCommand::Cancel | ParentCommand::TimeOut);
        let loses = ends && self.defect == Some(Defect::LoseChildCancel);
        loses || self.store.row(child).is_none()
    }

    fn start_child(&mut self, id: ProcessId, job: ChildJob, start: Start) {
        let child = start.run;
        self.counts.children += 1;
        self.wait_for(id, child, job, Awaits::Start);
        self.oracle.held(id, child, 0);
        self.handle(id, ShardInput::Start(Box::new(start)));
    }

    /// The input that starts a child; none if its parent's values are not durable.
    fn child_start(
        &mut self,
        place: ChildPlace,
        child: RunId,
        start: &ChildStart,
    ) -> Result<Option<Start>, Failure> {
        let newest = self.published.get(&start.workflow).copied().unwrap_or(0);
        let number = start.version.unwrap_or(newest);
        let catalogue = Arc::clone(&self.catalogue);
        let Some(version) = catalogue.version(&start.workflow, number) else {
            let message = "there is no such workflow";
            return Err(Failure::permanent("WORKFLOW_NOT_FOUND", message));
        };
        let Some(trigger) = self.store.value(place.run, &start.input) else {
            let reason = format!("the input of child {child} is not durable");
            self.oracle.record_verdict(place.run, Err(reason));
            return Ok(None);
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
            partition: self.recorded_partition(child),
            defaults: self.defaults.clone(),
        };
        Ok(Some(Start {
            run: child,
            plan: Arc::clone(&version.plan),
            queued,
            blobs,
            claims: Vec::new(),
            begin: Begin::Now,
            reused: Vec::new(),
        }))
    }

    pub(crate) fn child_failed(&mut self, id: ProcessId, place: ChildPlace, failure: Failure) {
        let input = ShardInput::ChildFailed {
            run: place.run,
            node: place.node,
            attempt: place.attempt,
            failure: Box::new(failure),
        };
        self.handle(id, input);
    }

    fn place_of(&self, id: ProcessId, parent: RunId, child: RunId) -> Option<ChildPlace> {
        let state = self.processes.get(&id)?.shard.run(parent)?;
        let (node, attempt) = state.node_of_child(child)?;
        Some(ChildPlace {
            run: parent,
            node,
            attempt,
        })
    }

    /// Wakes a run: it asks for all its children then.
    pub(crate) fn wake(&mut self, id: ProcessId, run: RunId) {
        let row = self.store.row(run);
        if row.is_some_and(|row| !row.status.is_final()) {
            self.acquire(id, run, AcquireMode::Wake);
        }
    }

    fn end_to_report(&mut self, child: RunId) -> Option<ChildEnd> {
        if self.defect == Some(Defect::ForgetChildEnd) && self.random.chance(50) {
            return None;
        }
        child_end(&self.load_run(child)?, &self.store)
    }

    pub(crate) fn child_ended(&mut self, id: ProcessId, place: ChildPlace, end: Box<ChildEnd>) {
        if let Some(job) = self.answered(id, end.child, |awaits| awaits == Awaits::Report) {
            self.go_on(id, end.child, job, ChildStep::Done);
        }
        let input = ShardInput::ChildEnded {
            run: place.run,
            node: place.node,
            attempt: place.attempt,
            end,
        };
        self.handle(id, input);
    }
}
