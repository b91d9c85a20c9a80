//! What must hold in every world, whatever goes wrong: the oracle sees each record when
//! it becomes durable and each effect when a process carries it out, and keeps the
//! first rule that was broken. It knows the log and the outside, never a shard's inside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::definition::ExecutionMode;
use windlass_core::event::Transition;
use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::run::{Dispatch, Refusal, Run};
use windlass_core::{Digest, Millis, NodeStatus, RunId, RunStatus};
use windlass_orchestrator::{CommandId, row};
use windlass_store::RunRow;

use crate::compare;
use crate::history::{self, History, Verdict};

/// A process, counted from 1.
pub type ProcessId = u64;

/// What a process knows of a run while it holds it.
#[derive(Debug, Default)]
struct Tenure {
    /// How many of the run's records the process was told are durable.
    answered: u64,
    /// With a worker, as far as the process knows.
    outstanding: BTreeMap<NodeIndex, u32>,
    /// Handed out in this tenure.
    dispatched: BTreeSet<(NodeIndex, u32)>,
    /// Results that arrived in this tenure, maybe of an execution that an earlier one began.
    reported: BTreeSet<(NodeIndex, u32)>,
}

/// The judge.
#[derive(Debug, Default)]
pub struct Oracle {
    histories: BTreeMap<RunId, History>,
    plans: BTreeMap<RunId, Arc<Plan>>,
    tenures: BTreeMap<(ProcessId, RunId), Tenure>,
    commands: BTreeMap<CommandId, (ProcessId, RunId)>,
    /// Idempotency keys that the outside has seen.
    keys: BTreeMap<(RunId, NodeIndex, u32), String>,
    /// Outcomes that workers really had.
    reported: BTreeSet<(RunId, NodeIndex, u32, Digest)>,
    max_parallel: u32,
    violation: Option<String>,
}

impl Oracle {
    /// A judge of shards with this default bound.
    pub fn new(max_parallel: u32) -> Self {
        Self {
            max_parallel,
            ..Self::default()
        }
    }

    /// The first rule that was broken.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// Keeps the first violation.
    pub fn judge(&mut self, run: RunId, verdict: Verdict) {
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

    /// A process begins to hold a run, with this many records behind it.
    pub fn held(&mut self, process: ProcessId, run: RunId, plan: &Arc<Plan>, records: u64) {
        self.plans.insert(run, Arc::clone(plan));
        let tenure = Tenure {
            answered: records,
            ..Tenure::default()
        };
        self.tenures.insert((process, run), tenure);
    }

    /// A process is gone, with all that it knew.
    pub fn died(&mut self, process: ProcessId) {
        self.tenures.retain(|&(owner, _), _| owner != process);
        self.commands.retain(|_, &mut (owner, _)| owner != process);
    }

    /// A process has let a run go without an end: nobody may wait for its answers.
    pub fn let_go(&mut self, process: ProcessId, run: RunId) {
        self.tenures.remove(&(process, run));
        self.commands.retain(|_, &mut of| of != (process, run));
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
        self.judge(run, verdict);
    }

    fn fold(
        &mut self,
        run: RunId,
        transition: &Transition,
        submitted: Millis,
        shown: Option<&RunRow>,
    ) -> Verdict {
        let Some(plan) = self.plans.get(&run) else {
            return Err("a record of a run that nobody asked for".to_owned());
        };
        let history = self
            .histories
            .entry(run)
            .or_insert_with(|| History::new(Arc::clone(plan)));
        let outcomes = history.fold(run, transition, submitted)?;
        for (node, attempt, digest) in outcomes {
            if !self.reported.contains(&(run, node, attempt, digest)) {
                let node = plan.id(node);
                return Err(format!(
                    "attempt {attempt} of {node} has an outcome that no worker had"
                ));
            }
        }
        let expected = history.last().map(|run| {
            let sleep = shown.map_or((false, None), |row| (row.asleep, row.wake_at));
            row(run, sleep)
        });
        if shown == expected.as_ref() {
            Ok(())
        } else {
            Err(format!("the row is {shown:?}, the log says {expected:?}"))
        }
    }

    /// The store told a process that a run's log has this many records.
    pub fn answered(&mut self, process: ProcessId, run: RunId, records: u64) {
        let durable = self.histories.get(&run).map_or(0, History::records);
        if records > durable {
            let reason = format!("record {records} is answered, {durable} are durable");
            self.judge(run, Err(reason));
        }
        if let Some(tenure) = self.tenures.get_mut(&(process, run)) {
            tenure.answered = records;
        }
    }

    /// A process with nothing undecided and nothing in flight shows its state.
    pub fn quiet(&mut self, process: ProcessId, live: &Run) {
        let run = live.id();
        let verdict = match self.known(process, run) {
            Ok(known) => compare::difference(live, known)
                .map_or(Ok(()), |difference| Err(format!("replay: {difference}"))),
            Err(reason) => Err(reason),
        };
        self.judge(run, verdict);
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
        let verdict = self.explain(process, dispatch, now);
        self.judge(dispatch.run, verdict);
        let key = (dispatch.run, dispatch.node, dispatch.attempt);
        let known = self.keys.entry(key);
        let known = known.or_insert_with(|| dispatch.idempotency_key.clone());
        if *known != dispatch.idempotency_key {
            let reason = format!("the idempotency key of {} changed", dispatch.path);
            self.judge(dispatch.run, Err(reason));
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
    fn explain(&self, process: ProcessId, dispatch: &Dispatch, now: Millis) -> Verdict {
        let (node, attempt) = (dispatch.node, dispatch.attempt);
        let name = format!("dispatch of attempt {attempt} of {}", dispatch.path);
        let known = self.known(process, dispatch.run)?;
        let tenure = &self.tenures[&(process, dispatch.run)];
        if known.status() != RunStatus::Running {
            return Err(format!("{name}: the run is durably {}", known.status()));
        }
        if !known.is_open(node, attempt) {
            let (status, open) = (known.node_status(node), known.attempt(node));
            return Err(format!("{name}: durably it is {status}, attempt {open}"));
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
        history::depends_on_ended(known, node)?;
        if !self.histories[&dispatch.run].was_reattempted() {
            history::levels_ended(known, node)?;
        }
        within_bound(known, tenure, dispatch, self.max_parallel)
    }

    /// A worker ended an attempt with a value of this digest.
    pub fn executed(&mut self, run: RunId, node: NodeIndex, attempt: u32, digest: Digest) {
        self.reported.insert((run, node, attempt, digest));
    }

    /// A result reached the process.
    pub fn reported(&mut self, process: ProcessId, run: RunId, node: NodeIndex, attempt: u32) {
        if let Some(tenure) = self.tenures.get_mut(&(process, run)) {
            tenure.reported.insert((node, attempt));
        }
        self.no_longer_outstanding(process, run, node, attempt);
    }

    fn no_longer_outstanding(
        &mut self,
        process: ProcessId,
        run: RunId,
        node: NodeIndex,
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
        (node, attempt): (NodeIndex, u32),
        give_up: bool,
    ) {
        let tenure = self.tenures.get(&(process, run));
        let known = tenure.is_some_and(|tenure| tenure.dispatched.contains(&(node, attempt)));
        if !known {
            let reason = format!("attempt {attempt} of node {node} is stopped, but nobody has it");
            self.judge(run, Err(reason));
        }
        if give_up {
            self.no_longer_outstanding(process, run, node, attempt);
        }
    }

    /// A run is acknowledged.
    pub fn accepted(&mut self, process: ProcessId, run: RunId) {
        let verdict = self.known(process, run).map(|_| ());
        self.judge(run, verdict);
    }

    /// A run was not started because a claim is held, by a run with this id.
    pub fn refused_start(&mut self, run: RunId, holder: Option<RunId>) {
        if self.histories.contains_key(&run) {
            self.judge(run, Err("it has a log though a claim was held".to_owned()));
        }
        if holder.is_none_or(|holder| holder == run || !self.histories.contains_key(&holder)) {
            let reason = format!("the claim's holder {holder:?} has no log");
            self.judge(run, Err(reason));
        }
    }

    /// A command was given to a process.
    pub fn commanded(&mut self, process: ProcessId, run: RunId, id: CommandId) {
        self.commands.insert(id, (process, run));
    }

    /// A command is answered.
    pub fn command_answered(&mut self, id: CommandId, result: &Result<(), Refusal>) {
        let Some((_, run)) = self.commands.remove(&id) else {
            return;
        };
        let by = format!("c{id}");
        let history = self.histories.get(&run);
        let durable = history.is_some_and(|history| history.holds_hand(&by));
        if result.is_ok() && !durable {
            self.judge(
                run,
                Err(format!("command {id} is answered but not durable")),
            );
        } else if result.is_err() && durable {
            self.judge(run, Err(format!("command {id} is refused but durable")));
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
        self.judge(run, verdict);
        self.tenures.remove(&(process, run));
    }

    /// After everything: each run has ended, and nobody waits for an answer.
    pub fn settled(&mut self) {
        let open = self.histories.iter().find_map(|(&run, history)| {
            let state = history.last()?;
            (!state.status().is_final()).then(|| (run, describe(state)))
        });
        if let Some((run, reason)) = open {
            self.judge(run, Err(format!("it never ended: {reason}")));
        }
        if let Some((id, &(_, run))) = self.commands.iter().next() {
            let reason = format!("command {id} was never answered");
            self.judge(run, Err(reason));
        }
    }
}

/// The run's bound, and for `sequential` the order of definition.
fn within_bound(known: &Run, tenure: &Tenure, dispatch: &Dispatch, default: u32) -> Verdict {
    let plan = known.plan();
    let sequential = plan.execution_mode() == ExecutionMode::Sequential;
    let own = plan.max_parallel().unwrap_or(default).max(1) as usize;
    let limit = if sequential { 1 } else { own };
    if tenure.outstanding.len() >= limit {
        let out = tenure.outstanding.len();
        return Err(format!("{} goes with {out} of {limit} out", dispatch.path));
    }
    let earlier = (0..dispatch.node)
        .find(|&other| known.node_status(other) == NodeStatus::Queued && known.may_hand_out(other));
    match earlier {
        Some(other) if sequential => {
            let other = plan.id(other);
            Err(format!("{} goes before {other}", dispatch.path))
        }
        _ => Ok(()),
    }
}

/// Where a run's nodes stand, for a reader.
pub fn describe(run: &Run) -> String {
    let nodes = (0..run.plan().len() as NodeIndex).map(|node| {
        let (id, status) = (run.plan().id(node), run.node_status(node));
        format!("{id}:{status}/{}", run.attempt(node))
    });
    let nodes = nodes.collect::<Vec<_>>().join(" ");
    format!("{} [{nodes}]", run.status())
}
