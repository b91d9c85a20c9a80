//! The invariants of every world, whatever goes wrong: the oracle sees each record when it
//! becomes durable and each effect when a process carries it out, and keeps the first
//! violation. It knows the log and the outside, never a shard's inside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::definition::ExecutionMode;
use windlass_core::event::Transition;
use windlass_core::run::{Dispatch, Instance, Refusal, Run};
use windlass_core::{Digest, Millis, NodeStatus, RunId, RunStatus};
use windlass_orchestrator::{CommandId, row};
use windlass_store::RunRow;

use crate::catalogue::WorkflowCatalogue;
use crate::compare;
use crate::families::Families;
use crate::history::{Claimed, History};
use crate::rules::{self, CheckResult};

/// A process, counted from 1.
pub type ProcessId = u64;

/// The lowest of all run ids.
const FIRST: RunId = RunId::from_bytes([0; 16]);

/// What a process knows of a run while it holds it.
#[derive(Debug, Default)]
struct Tenure {
    /// Tenures are counted over all processes.
    number: u64,
    /// How many of the run's records the store confirmed to the process as durable.
    answered: u64,
    /// With a worker, as far as the process knows.
    outstanding: BTreeMap<Instance, u32>,
    /// Handed out in this tenure.
    dispatched: BTreeSet<(Instance, u32)>,
    /// Results that arrived in this tenure, maybe of an execution that an earlier one began.
    reported: BTreeSet<(Instance, u32)>,
    /// The state that was last found equal to what is durable.
    compared: Option<Compared>,
}

/// Which state was compared with which: how many events and records are folded into the
/// live one, and how many records are known to be durable.
type Compared = (u64, u64, u64);

/// The judge.
#[derive(Debug, Default)]
pub struct Oracle {
    catalogue: Arc<WorkflowCatalogue>,
    strict: bool,
    histories: BTreeMap<RunId, History>,
    /// Runs that a user asked for, or that a process tried to start for a parent.
    asked: BTreeSet<RunId>,
    tenures: BTreeMap<(ProcessId, RunId), Tenure>,
    /// The process and run that a command went to, and the user that the log must then name.
    commands: BTreeMap<CommandId, (ProcessId, RunId, String)>,
    families: Families,
    /// Idempotency keys that the outside has seen.
    keys: BTreeMap<(RunId, Instance, u32), String>,
    /// Outcomes that workers really had.
    reported: BTreeSet<(RunId, Instance, u32, Digest)>,
    max_parallel: u32,
    tenure_count: u64,
    /// In which tenure each run was last written to.
    written_in: BTreeMap<RunId, u64>,
    /// Writes that were answered as not written.
    denied: BTreeSet<u64>,
    violation: Option<String>,
}

impl Oracle {
    /// A judge of shards with this default bound.
    pub fn new(max_parallel: u32, catalogue: Arc<WorkflowCatalogue>, strict: bool) -> Self {
        Self {
            max_parallel,
            catalogue,
            strict,
            ..Self::default()
        }
    }

    /// The first rule that was broken.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Keeps the first violation.
    pub fn record_verdict(&mut self, run: RunId, verdict: CheckResult) {
        if let Err(reason) = verdict {
            self.violation
                .get_or_insert_with(|| format!("run {run}: {reason}"));
        }
    }

    /// A run's durable history.
    pub fn history(&self, run: RunId) -> Option<&History> {
        self.histories.get(&run)
    }

    /// All runs with a durable log.
    pub fn histories(&self) -> impl Iterator<Item = (RunId, &History)> {
        self.histories.iter().map(|(&run, history)| (run, history))
    }

    /// A process has acquired a run, with this many records behind it.
    pub fn held(&mut self, process: ProcessId, run: RunId, records: u64) {
        self.asked.insert(run);
        self.tenure_count += 1;
        let tenure = Tenure {
            number: self.tenure_count,
            answered: records,
            ..Tenure::default()
        };
        self.tenures.insert((process, run), tenure);
    }

    /// The tenure in which a process has a run now.
    pub fn tenure(&self, process: ProcessId, run: RunId) -> u64 {
        let tenure = self.tenures.get(&(process, run));
        tenure.map_or(0, |tenure| tenure.number)
    }

    /// A record of a process became durable: after the first record of a newer tenure there is
    /// none of an older one, and none that the store said was not written.
    pub fn wrote(&mut self, process: ProcessId, run: RunId, write: u64, tenure: u64) {
        let last = self.written_in.entry(run).or_default();
        let newest = *last;
        *last = newest.max(tenure);
        if tenure < newest && tenure != 0 {
            let reason = format!("p{process} writes after its successor has written");
            self.record_verdict(run, Err(reason));
        }
        if self.denied.contains(&write) {
            let reason = "a record that was answered as not written is durable".to_owned();
            self.record_verdict(run, Err(reason));
        }
    }

    /// The store tells a process that nothing of a write is written, nor will be.
    pub fn denied(&mut self, write: u64) {
        self.denied.insert(write);
    }

    /// A process is gone, with all that it knew.
    pub fn died(&mut self, process: ProcessId) {
        self.tenures.retain(|&(owner, _), _| owner != process);
        self.commands.retain(|_, (owner, ..)| *owner != process);
    }

    /// A process has released a run without an end: no caller waits for its answers any more.
    pub fn released(&mut self, process: ProcessId, run: RunId) {
        self.tenures.remove(&(process, run));
        self.commands
            .retain(|_, (owner, of, _)| (*owner, *of) != (process, run));
    }

    /// The runs that a process has in memory.
    pub fn runs_of(&self, process: ProcessId) -> Vec<RunId> {
        let tenures = self.tenures.range((process, FIRST)..(process + 1, FIRST));
        tenures.map(|(&(_, run), _)| run).collect()
    }

    /// A process has released a run that only waits, until this time if it is known.
    pub fn asleep(&mut self, process: ProcessId, run: RunId, wake_at: Option<Millis>) {
        let verdict = match self.known(process, run) {
            _ if !self.strict => Ok(()),
            Ok(known) if known.status().is_final() => Err("an ended run sleeps".to_owned()),
            Ok(known) if known.wake_at() != wake_at => {
                let due = known.wake_at();
                Err(format!(
                    "it sleeps until {wake_at:?}, but is due at {due:?}"
                ))
            }
            Ok(_) => Ok(()),
            Err(reason) => Err(reason),
        };
        self.record_verdict(run, verdict);
        if self
            .commands
            .values()
            .any(|(owner, of, _)| (*owner, *of) == (process, run))
        {
            self.record_verdict(run, Err("it sleeps before it has answered".to_owned()));
        }
        self.released(process, run);
    }

    /// A record is durable, with the row that the store shows for its run.
    pub fn durable(
        &mut self,
        run: RunId,
        transition: &Transition,
        submitted: Millis,
        shown: Option<&RunRow>,
    ) {
        let verdict = self.fold(run, transition, submitted, shown);
        self.record_verdict(run, verdict);
    }

    fn fold(
        &mut self,
        run: RunId,
        transition: &Transition,
        submitted: Millis,
        shown: Option<&RunRow>,
    ) -> CheckResult {
        if !self.asked.contains(&run) {
            return Err("a record of a run that was never requested".to_owned());
        }
        let (catalogue, strict) = (&self.catalogue, self.strict);
        let history = self
            .histories
            .entry(run)
            .or_insert_with(|| History::new(Arc::clone(catalogue), strict));
        let claimed = history.fold(run, transition, submitted)?;
        if !strict {
            return Ok(());
        }
        self.forget(run);
        for claimed in claimed {
            self.agree(run, claimed)?;
        }
        let history = &self.histories[&run];
        if let (1, Some(state)) = (history.records(), history.last()) {
            self.families.begun(run, state)?;
        }
        let expected = history.last().map(|run| {
            let sleep = shown.map_or((false, None), |row| (row.asleep, row.wake_at));
            row(run, sleep)
        });
        if shown != expected.as_ref() {
            return Err(format!("the row is {shown:?}, the log says {expected:?}"));
        }
        match (shown, history.last()) {
            (Some(row), Some(state)) if row.asleep => sleeps(row, state),
            _ => Ok(()),
        }
    }

    /// States that no process may ask about any more are forgotten.
    fn forget(&mut self, run: RunId) {
        let tenures = self.tenures.iter().filter(|((_, of), _)| *of == run);
        let oldest = tenures.map(|(_, tenure)| tenure.answered).min();
        if let (Some(oldest), Some(history)) = (oldest, self.histories.get_mut(&run)) {
            history.forget_before(oldest);
        }
    }

    /// A record must agree with what workers and users really did.
    fn agree(&mut self, run: RunId, claimed: Claimed) -> CheckResult {
        match claimed {
            Claimed::Outcome {
                node,
                attempt,
                digest,
            } if !self.reported.contains(&(run, node, attempt, digest)) => {
                let state = self.histories[&run].last();
                let path = state.and_then(|state| {
                    state.find_status(node)?;
                    Some(state.path(node))
                });
                let path = path.unwrap_or_default();
                Err(format!(
                    "attempt {attempt} of {path} has an outcome that no worker had"
                ))
            }
            Claimed::Outcome { .. } => Ok(()),
            Claimed::Child(started) => self.families.started(run, &started),
            Claimed::ChildEnded { child, succeeded } if succeeded => {
                let history = self.histories.get(&child);
                let state = history.and_then(History::last);
                let status = state.map(Run::status);
                if status == Some(RunStatus::Succeeded) {
                    return Ok(());
                }
                Err(format!(
                    "child {child} is taken to have succeeded: {status:?}"
                ))
            }
            Claimed::ChildEnded { .. } => Ok(()),
        }
    }

    /// The store confirmed to a process that a run's log has this many records.
    pub fn answered(&mut self, process: ProcessId, run: RunId, records: u64) {
        let durable = self.histories.get(&run).map_or(0, History::records);
        if records > durable {
            let reason = format!("record {records} is answered, {durable} are durable");
            self.record_verdict(run, Err(reason));
        }
        if let Some(tenure) = self.tenures.get_mut(&(process, run)) {
            tenure.answered = records;
        }
        self.forget(run);
    }

    /// A process exchanges the state of a run that it has in memory for one from the log.
    pub fn acquired(&mut self, process: ProcessId, run: RunId) {
        if let Some(tenure) = self.tenures.get_mut(&(process, run)) {
            tenure.compared = None;
        }
    }

    /// A process with nothing undecided and nothing in flight shows its state. One that
    /// was compared, and to which nothing was added since, is as it was.
    pub fn quiet(&mut self, process: ProcessId, live: &Run) {
        let run = live.id();
        if let Some(tenure) = self.tenures.get_mut(&(process, run)) {
            let seen = (live.event_count(), live.records(), tenure.answered);
            if tenure.compared.replace(seen) == Some(seen) {
                return;
            }
        }
        let verdict = match self.known(process, run) {
            Ok(known) => compare::difference(live, known)
                .map_or(Ok(()), |difference| Err(format!("replay: {difference}"))),
            Err(reason) => Err(reason),
        };
        self.record_verdict(run, verdict);
    }

    /// What a process knows to be durable.
    fn known(&self, process: ProcessId, run: RunId) -> Result<&Run, String> {
        let tenure = self.tenures.get(&(process, run));
        let tenure = tenure.ok_or("an effect for a run that the process does not hold")?;
        self.histories
            .get(&run)
            .and_then(|history| history.state(tenure.answered))
            .ok_or_else(|| "an effect before any durable record".to_owned())
    }

    /// A process hands an attempt to a worker.
    pub fn dispatched(&mut self, process: ProcessId, dispatch: &Dispatch, now: Millis) {
        // What workers have is followed in every world: commands to stop are compared with it.
        if self.strict {
            let verdict = self.explain(process, dispatch, now);
            self.record_verdict(dispatch.run, verdict);
        }
        let key = (dispatch.run, dispatch.node, dispatch.attempt);
        let known = self.keys.entry(key);
        let known = known.or_insert_with(|| dispatch.idempotency_key());
        if *known != dispatch.idempotency_key() {
            let reason = format!("the idempotency key of {} changed", dispatch.path);
            self.record_verdict(dispatch.run, Err(reason));
        }
        if let Some(tenure) = self.tenures.get_mut(&(process, dispatch.run)) {
            let attempt = (dispatch.node, dispatch.attempt);
            if !tenure.reported.contains(&attempt) {
                tenure.outstanding.insert(dispatch.node, dispatch.attempt);
            }
            tenure.dispatched.insert(attempt);
        }
    }

    /// A dispatch must follow from what the process knows to be durable.
    fn explain(&self, process: ProcessId, dispatch: &Dispatch, now: Millis) -> CheckResult {
        let (node, attempt) = (dispatch.node, dispatch.attempt);
        let name = format!("dispatch of attempt {attempt} of {}", dispatch.path);
        let known = self.known(process, dispatch.run)?;
        let tenure = &self.tenures[&(process, dispatch.run)];
        if known.status() != RunStatus::Running {
            return Err(format!("{name}: the run is durably {}", known.status()));
        }
        if !known.is_open(node, attempt) {
            let status = known.find_status(node);
            let open = status.map(|_| known.attempt(node));
            return Err(format!(
                "{name}: durably it is {status:?}, attempt {open:?}"
            ));
        }
        if known.due(node).is_some_and(|due| due > now) {
            return Err(format!("{name}: too early, due {:?}", known.due(node)));
        }
        if !known.may_hand_out(node) {
            return Err(format!("{name}: the run is stopping"));
        }
        if tenure.dispatched.contains(&(node, attempt)) {
            return Err(format!("{name}: a second time"));
        }
        let history = &self.histories[&dispatch.run];
        let as_drawn = !history.was_changed();
        if as_drawn && !dispatch.undo {
            rules::may_begin(known, node)?;
        }
        if as_drawn && !history.was_reattempted() {
            rules::levels_ended(known, node)?;
        }
        within_bound(known, tenure, dispatch, self.max_parallel)
    }

    /// A worker ended an attempt with a value of this digest.
    pub fn executed(&mut self, run: RunId, node: Instance, attempt: u32, digest: Digest) {
        self.reported.insert((run, node, attempt, digest));
    }

    /// A result reached the process.
    pub fn reported(&mut self, process: ProcessId, run: RunId, node: Instance, attempt: u32) {
        if let Some(tenure) = self.tenures.get_mut(&(process, run)) {
            tenure.reported.insert((node, attempt));
        }
        self.no_longer_outstanding(process, run, node, attempt);
    }

    fn no_longer_outstanding(
        &mut self,
        process: ProcessId,
        run: RunId,
        node: Instance,
        attempt: u32,
    ) {
        if let Some(tenure) = self.tenures.get_mut(&(process, run))
            && tenure.outstanding.get(&node) == Some(&attempt)
        {
            tenure.outstanding.remove(&node);
        }
    }

    /// A process tells a worker to stop.
    pub fn stopped(
        &mut self,
        process: ProcessId,
        run: RunId,
        (node, attempt): (Instance, u32),
        give_up: bool,
    ) {
        let tenure = self.tenures.get(&(process, run));
        let known = tenure.is_some_and(|tenure| tenure.dispatched.contains(&(node, attempt)));
        if !known {
            let reason =
                format!("attempt {attempt} of node {node} is stopped, but no worker has it");
            self.record_verdict(run, Err(reason));
        }
        if give_up {
            self.no_longer_outstanding(process, run, node, attempt);
        }
    }

    /// A run is acknowledged.
    pub fn accepted(&mut self, process: ProcessId, run: RunId) {
        let verdict = self.known(process, run).map(|_| ());
        self.record_verdict(run, verdict);
    }

    /// A run was not started because a claim is held, by a run with this id.
    pub fn refused_start(&mut self, run: RunId, holder: Option<RunId>) {
        if self.histories.contains_key(&run) {
            self.record_verdict(run, Err("it has a log though a claim was held".to_owned()));
        }
        if holder.is_none_or(|holder| holder == run || !self.histories.contains_key(&holder)) {
            let reason = format!("the claim's holder {holder:?} has no log");
            self.record_verdict(run, Err(reason));
        }
    }

    /// A command was given to a process.
    pub fn commanded(&mut self, process: ProcessId, run: RunId, id: CommandId, by: String) {
        self.commands.insert(id, (process, run, by));
    }

    /// A caller learns that the outcome of its command is not known, or is gone itself.
    pub fn gave_up(&mut self, id: CommandId) {
        self.commands.remove(&id);
    }

    /// The run that a command which is not answered yet went to.
    pub fn run_of_command(&self, id: CommandId) -> Option<RunId> {
        self.commands.get(&id).map(|&(_, run, _)| run)
    }

    /// Whether a command is not answered yet, as far as its process can answer it.
    pub fn awaits(&self, id: CommandId) -> bool {
        self.commands.contains_key(&id)
    }

    /// A command is answered.
    pub fn command_answered(&mut self, id: CommandId, result: &Result<(), Refusal>) {
        let Some((_, run, by)) = self.commands.remove(&id) else {
            return;
        };
        if !self.strict {
            return;
        }
        let history = self.histories.get(&run);
        let durable = history.is_some_and(|history| history.has_actor(&by));
        if result.is_ok() && !durable {
            self.record_verdict(
                run,
                Err(format!("command {id} is answered but not durable")),
            );
        } else if result.is_err() && durable && by.starts_with('c') {
            self.record_verdict(run, Err(format!("command {id} is refused but durable")));
        }
    }

    /// A process says that a run has ended.
    pub fn finished(&mut self, process: ProcessId, run: RunId, status: RunStatus) {
        let verdict = match self.known(process, run) {
            Ok(known) if known.status() == status && status.is_final() => Ok(()),
            Ok(known) => Err(format!(
                "it is told to have ended {status}, durably it is {}",
                known.status()
            )),
            Err(reason) => Err(reason),
        };
        self.record_verdict(run, verdict);
        self.tenures.remove(&(process, run));
    }

    /// Checks after everything that each run has ended and that no command waits for an answer.
    pub fn settled(&mut self) {
        let open = self.histories.iter().find_map(|(&run, history)| {
            let state = history.last()?;
            (!state.status().is_final()).then(|| (run, describe(state)))
        });
        if let Some((run, reason)) = open {
            self.record_verdict(run, Err(format!("it never ended: {reason}")));
        }
        if let Some((id, &(_, run, _))) = self.commands.iter().next() {
            let reason = format!("command {id} was never answered");
            self.record_verdict(run, Err(reason));
        }
    }
}

/// The run's bound, and for `sequential` the order of definition.
fn within_bound(known: &Run, tenure: &Tenure, dispatch: &Dispatch, default: u32) -> CheckResult {
    let plan = known.plan();
    let sequential = plan.execution_mode() == ExecutionMode::Sequential;
    let own = plan.max_parallel().unwrap_or(default).max(1) as usize;
    let limit = if sequential { 1 } else { own };
    if tenure.outstanding.len() >= limit {
        let out = tenure.outstanding.len();
        return Err(format!("{} goes with {out} of {limit} out", dispatch.path));
    }
    // One that has begun is not ready: it is the one that goes, also in another process.
    let has_begun = known.node_status(dispatch.node) == NodeStatus::Running;
    if !sequential || dispatch.undo || has_begun {
        return Ok(());
    }
    let order = known.order(dispatch.node);
    let is_earlier = |other: &Instance| {
        known.node_status(*other) == NodeStatus::Queued
            && !known.is_structural(*other)
            && known.may_hand_out(*other)
            && known.order(*other) < order
    };
    match known.instances().find(is_earlier) {
        Some(other) => {
            let other = known.path(other);
            Err(format!("{} goes before {other}", dispatch.path))
        }
        None => Ok(()),
    }
}

/// A row that sleeps is of a run that only waits, and says until when.
fn sleeps(row: &RunRow, state: &Run) -> CheckResult {
    let paused = state.status() == RunStatus::Paused;
    if !(state.is_asleep() || paused) {
        return Err(format!(
            "the row sleeps, the run does not: {}",
            describe(state)
        ));
    }
    if row.wake_at != state.wake_at() {
        let (row, due) = (row.wake_at, state.wake_at());
        return Err(format!(
            "the row sleeps until {row:?}, the run until {due:?}"
        ));
    }
    Ok(())
}

/// Where a run's nodes stand, for a reader.
pub fn describe(run: &Run) -> String {
    let nodes = run.instances().map(|node| {
        let (id, status) = (run.path(node), run.node_status(node));
        format!("{id}:{status}/{}", run.attempt(node))
    });
    let nodes = nodes.collect::<Vec<_>>().join(" ");
    format!("{} [{nodes}]", run.status())
}
