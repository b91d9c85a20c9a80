//! One run's durable log as the oracle sees it: the state after each record, and rules
//! that hold for every log, checked on the events themselves as they become durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use windlass_core::event::{Actor, AttemptEnded, ChildStarted, Event, StopCause, Transition};
use windlass_core::plan::NodeKind;
use windlass_core::run::{Change, Instance, Run};
use windlass_core::{Digest, Millis, RunId, RunStatus};

use crate::catalogue::WorkflowCatalogue;
use crate::ledger::{Signals, Undoing};
use crate::rules;

pub use crate::rules::CheckResult;

/// Who ends attempts that no worker has.
const ENGINE: &str = "engine";

/// What a record says that others must agree with.
#[derive(Debug)]
pub enum Claimed {
    /// An attempt ended, as a worker must have said.
    Outcome {
        /// The node instance.
        node: Instance,
        /// The attempt's number.
        attempt: u32,
        /// Digest of the value.
        digest: Digest,
    },
    /// A child run is to be started.
    Child(Box<ChildStarted>),
    /// A child run's end is recorded.
    ChildEnded {
        /// The child.
        child: RunId,
        /// Whether it succeeded.
        succeeded: bool,
    },
}

/// A run's durable past.
#[derive(Debug)]
pub struct History {
    catalogue: Arc<WorkflowCatalogue>,
    /// The state after each of the last records; those before are needed no more.
    states: VecDeque<Run>,
    records: u64,
    /// Whether states are kept and rules are asked.
    strict: bool,
    /// Attempts with an outcome; those of undoing apart.
    outcomes: BTreeSet<(Box<str>, bool, u32)>,
    /// Iterations that began, or were given a time, by their loop's attempt.
    rounds: BTreeSet<(Box<str>, u32, u32, bool)>,
    signals: Signals,
    undoing: Undoing,
    /// Who did something by hand.
    actors: BTreeSet<Box<str>>,
    last_at: Millis,
    reattempts: u32,
    changed: bool,
    /// Whether a graph was put on the run after it failed: nothing of it starts before a
    /// reattempt.
    replaced: bool,
    /// Whether the event before, of the same record, put a graph on the failed run, or warned of
    /// what that does.
    importing: bool,
    /// What the run reuses of the one that it was forked from, with the attempts.
    reused: BTreeMap<Box<str>, u32>,
}

impl History {
    /// The history of a run whose first record is about to be durable.
    pub fn new(catalogue: Arc<WorkflowCatalogue>, strict: bool) -> Self {
        Self {
            catalogue,
            states: VecDeque::new(),
            records: 0,
            strict,
            outcomes: BTreeSet::new(),
            rounds: BTreeSet::new(),
            signals: Signals::default(),
            undoing: Undoing::default(),
            actors: BTreeSet::new(),
            last_at: Millis(i64::MIN),
            reattempts: 0,
            changed: false,
            replaced: false,
            importing: false,
            reused: BTreeMap::new(),
        }
    }

    /// The state after this many records.
    pub fn state(&self, records: u64) -> Option<&Run> {
        let behind = usize::try_from(self.records.checked_sub(records)?).ok()?;
        let place = self.states.len().checked_sub(behind + 1)?;
        self.states.get(place)
    }

    /// The state now.
    pub fn last(&self) -> Option<&Run> {
        self.states.back()
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Forgets the states before this many records.
    pub fn forget_before(&mut self, records: u64) {
        let first = self.records + 1 - self.states.len() as u64;
        let old = usize::try_from(records.saturating_sub(first)).unwrap_or(0);
        self.states
            .drain(..old.min(self.states.len().saturating_sub(1)));
    }

    /// Whether a command by this user is in the log.
    pub fn has_actor(&self, by: &str) -> bool {
        self.actors.contains(by)
    }

    /// Whether anything was tried again by hand.
    pub fn was_reattempted(&self) -> bool {
        self.reattempts > 0
    }

    /// Whether the run's graph was ever exchanged.
    pub fn was_changed(&self) -> bool {
        self.changed
    }

    /// Folds a record that has become durable, decided at the latest at `submitted`.
    /// Yields what it says that others must agree with.
    ///
    /// # Errors
    /// The rule that the record breaks.
    pub fn fold(
        &mut self,
        id: RunId,
        transition: &Transition,
        submitted: Millis,
    ) -> Result<Vec<Claimed>, String> {
        if transition.at < self.last_at {
            let at = transition.at;
            return Err(format!("the record's time goes back to {at:?}"));
        }
        self.last_at = transition.at;
        let mut run = match self.states.back() {
            Some(_) if !self.strict => self.states.pop_back().expect("there is a last state"),
            Some(run) => run.clone(),
            None => self.first(id, transition)?,
        };
        let mut claimed = Vec::new();
        let mut changes = Vec::new();
        self.importing = false;
        for event in &transition.events {
            self.bring_graph(&mut run, event);
            if self.strict {
                claimed.extend(self.before(&run, event, submitted)?);
            }
            changes.clear();
            let exchanged = matches!(event, Event::Healed { .. } | Event::Imported { .. });
            let before = (self.strict && exchanged).then(|| run.clone());
            run.apply(event, transition.at, &mut changes)
                .map_err(|corrupt| format!("the durable log does not replay: {corrupt}"))?;
            if self.strict {
                self.after(&run, event, &changes)?;
            }
            if let Some(before) = before {
                rules::kept_what_began(&before, &run)?;
            }
        }
        run.finish_record();
        self.records += 1;
        self.states.push_back(run);
        Ok(claimed)
    }

    fn first(&self, id: RunId, transition: &Transition) -> Result<Run, String> {
        match transition.events.first() {
            Some(Event::Queued(queued)) => {
                let queued = (**queued).clone();
                let plan = self.catalogue.graph(&queued.definition);
                let plan = plan.ok_or("the run's graph is unknown")?;
                Run::new(id, plan, queued, transition.at).map_err(|corrupt| corrupt.to_string())
            }
            other => Err(format!("the log begins with {other:?}")),
        }
    }

    fn bring_graph(&mut self, run: &mut Run, event: &Event) {
        if let Event::Healed { definition, .. } | Event::Imported { definition, .. } = event
            && let Some(plan) = self.catalogue.graph(definition)
        {
            self.changed = true;
            run.stage(*definition, plan);
        }
    }

    /// What must be true before an event.
    fn before(
        &mut self,
        run: &Run,
        event: &Event,
        submitted: Millis,
    ) -> Result<Option<Claimed>, String> {
        let reopens = matches!(
            event,
            Event::Reattempted { .. }
                | Event::SetByHand(_)
                | Event::Compensating { .. }
                | Event::CompensationRetried { .. }
                | Event::CompensationSkipped { .. }
        );
        if self.records > 0 && matches!(event, Event::Queued(_)) {
            return Err("it begins a second time".to_owned());
        }
        self.follow_replacement(run, event)?;
        if run.status().is_final() && !reopens && !self.importing {
            return Err(format!("an ended run goes on by itself: {event:?}"));
        }
        if let Some(actor) = event.actor() {
            self.note(actor)?;
        }
        match event {
            Event::AttemptEnded(ended) => return self.attempt_ended(run, ended, submitted),
            Event::CompensationEnded(ended) => return self.undo_ended(run, ended),
            Event::SetByHand(set) => {
                self.reopened(run, &set.node);
                self.one_outcome(&set.node, false, set.attempt)?;
            }
            Event::GraceEnded { .. } => rules::due(run.grace_deadline(), submitted, "the grace")?,
            Event::Stopping(stopping) => {
                // A parent whose time has passed ends its children, whatever theirs is.
                let by_parent = run.queued().parent.is_some() && stopping.actor.by.is_some();
                if stopping.cause == StopCause::Timeout && !by_parent {
                    rules::due(run.timeout_at(), submitted, "the run's time")?;
                }
            }
            Event::Looped {
                node,
                iteration,
                due,
            } => self.went_round(run, node, (*iteration, due.is_some()), submitted)?,
            Event::SignalReceived(signal) => {
                self.signals.came(&signal.name, signal.payload.digest());
            }
            Event::ChildStarted(started) => return Ok(Some(Claimed::Child(started.clone()))),
            Event::Reattempted { nodes, .. } => {
                self.reattempts += 1;
                nodes.iter().for_each(|node| self.reopened(run, node));
            }
            Event::Healed { version, .. } => {
                self.actors.insert(format!("v{version}").into());
            }
            Event::Reused(nodes) => {
                let reused = nodes.iter().map(|node| (node.node.clone(), node.attempt));
                self.reused.extend(reused);
            }
            _ => {}
        }
        Ok(None)
    }

    /// A graph may be put on a failed run, with warnings of what that does. Until something is
    /// tried again, only what the old graph did is undone.
    fn follow_replacement(&mut self, run: &Run, event: &Event) -> CheckResult {
        let has_failed = run.status() == RunStatus::Failed;
        self.importing = match event {
            Event::Imported { .. } => has_failed,
            Event::Warning { .. } => self.importing,
            _ => false,
        };
        self.replaced |= self.importing;
        self.replaced &= !matches!(event, Event::Reattempted { .. } | Event::SetByHand(_));
        let goes_on = match event {
            Event::AttemptStarted(started) => !started.undo,
            Event::AttemptEnded(_)
            | Event::Routed { .. }
            | Event::Expanded { .. }
            | Event::Looped { .. }
            | Event::IterationEnded { .. }
            | Event::Waiting { .. }
            | Event::ChildStarted(_) => true,
            _ => false,
        };
        if self.replaced && goes_on {
            return Err(format!("a replaced graph goes on by itself: {event:?}"));
        }
        Ok(())
    }

    /// What must be true after an event.
    fn after(&mut self, run: &Run, event: &Event, changes: &[Change]) -> CheckResult {
        for change in changes {
            if let Change::Ready(node, _) = *change
                && run.undone(node).is_none()
            {
                if self.replaced {
                    let path = run.path(node);
                    return Err(format!("{path} of a replaced graph begins by itself"));
                }
                rules::may_begin(run, node)?;
            }
        }
        self.signals.agree(run)?;
        self.undoing.follow(run, event)?;
        match event {
            Event::Compensating { ending, .. } if self.replaced => {
                rules::ended_replaced(run, ending)
            }
            Event::Finished(finished) if self.replaced => rules::ended_replaced(run, finished),
            Event::Compensating { ending, .. } if !run.status().is_final() => {
                rules::ended_properly(run, ending, self.changed)
            }
            Event::Finished(finished) if finished.compensation.is_none() => {
                rules::ended_properly(run, finished, self.changed)
            }
            _ => Ok(()),
        }
    }

    /// Each command has a number of its own, by which it is carried out at most once, however
    /// often users repeat it.
    fn note(&mut self, actor: &Actor) -> CheckResult {
        match &actor.by {
            Some(by) if !self.actors.insert(by.clone()) => {
                Err(format!("command {by} is carried out twice"))
            }
            _ => Ok(()),
        }
    }

    /// Loops around a node that is tried again go on with the attempt they had.
    fn reopened(&mut self, run: &Run, path: &str) {
        let mut inner = path;
        while let Some(bracket) = inner.rfind('[') {
            let number = inner[bracket + 1..].split(']').next();
            let number = number.and_then(|text| text.parse::<u32>().ok());
            inner = &inner[..bracket];
            // Later iterations follow anew.
            self.rounds
                .retain(|(path, _, round, _)| **path != *inner || Some(*round) <= number);
            if let Some(node) = run.resolve(inner) {
                let attempt = run.attempt(node);
                self.outcomes.remove(&(inner.into(), false, attempt));
            }
        }
    }

    fn one_outcome(&mut self, path: &str, undo: bool, attempt: u32) -> CheckResult {
        if self.outcomes.insert((path.into(), undo, attempt)) {
            return Ok(());
        }
        let what = if undo { "undoing " } else { "" };
        Err(format!(
            "attempt {attempt} of {what}{path} has two outcomes"
        ))
    }

    fn attempt_ended(
        &mut self,
        run: &Run,
        ended: &AttemptEnded,
        submitted: Millis,
    ) -> Result<Option<Claimed>, String> {
        let name = format!("attempt {} of {}", ended.attempt, ended.node);
        let node = run.resolve(&ended.node);
        let node = node.ok_or_else(|| format!("{name}: there is no such node"))?;
        self.one_outcome(&ended.node, false, ended.attempt)?;
        if self
            .reused
            .get(&ended.node)
            .is_some_and(|&reused| ended.attempt <= reused)
        {
            return Err(format!("{name}: its result was to be reused"));
        }
        match run.kind_of(node) {
            NodeKind::Action => {}
            NodeKind::Signal => self.signals.ended(run, node, ended, submitted)?,
            NodeKind::Delay => {
                if rules::succeeded(ended) {
                    rules::due(run.due(node), submitted, &name)?;
                }
            }
            NodeKind::Subworkflow => {
                let child = run.child(node);
                let succeeded = rules::succeeded(ended);
                return Ok(child.map(|child| Claimed::ChildEnded { child, succeeded }));
            }
            NodeKind::ForEach | NodeKind::While | NodeKind::RetryUntil => {}
        }
        if run.is_structural(node) || &*ended.worker == ENGINE {
            return Ok(None);
        }
        let claimed = Claimed::Outcome {
            node,
            attempt: ended.attempt,
            digest: ended.digest,
        };
        Ok(Some(claimed))
    }

    fn undo_ended(&mut self, run: &Run, ended: &AttemptEnded) -> Result<Option<Claimed>, String> {
        self.one_outcome(&ended.node, true, ended.attempt)?;
        let node = self.undoing.ended(run, ended)?;
        let claimed = Claimed::Outcome {
            node,
            attempt: ended.attempt,
            digest: ended.digest,
        };
        Ok((&*ended.worker != ENGINE).then_some(claimed))
    }

    /// An iteration begins once, and not before its time.
    fn went_round(
        &mut self,
        run: &Run,
        path: &str,
        (iteration, later): (u32, bool),
        submitted: Millis,
    ) -> CheckResult {
        let node = run.resolve(path);
        let node = node.ok_or_else(|| format!("{path}: there is no such loop"))?;
        if !later && run.due(node).is_some() {
            rules::due(run.due(node), submitted, &format!("the wait of {path}"))?;
        }
        let attempt = run.attempt(node);
        let round = (path.into(), attempt, iteration, later);
        if self.rounds.insert(round) {
            Ok(())
        } else {
            Err(format!("iteration {iteration} of {path} begins twice"))
        }
    }
}
