//! One run's durable log as the oracle sees it: the state after each record, and rules
//! that hold for every log, checked on the events themselves as they become durable.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::definition::{ExecutionMode, When};
use windlass_core::event::{AttemptEnded, Event, Finished, Hand, StopCause, Transition};
use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::routing::EdgeState;
use windlass_core::run::Run;
use windlass_core::{Digest, Millis, NodeStatus, RunId, RunStatus};

/// What is wrong, in words.
pub type Verdict = Result<(), String>;

/// A run's durable past.
#[derive(Debug)]
pub struct History {
    plan: Arc<Plan>,
    /// The state after each record, the first at 0.
    states: Vec<Run>,
    /// Attempts with an outcome, and its digest.
    outcomes: BTreeSet<(NodeIndex, u32)>,
    /// Who did something by hand.
    hands: BTreeSet<Box<str>>,
    last_at: Millis,
    reattempts: u32,
}

impl History {
    /// The history of a run whose first record is about to be durable.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self {
            plan,
            states: Vec::new(),
            outcomes: BTreeSet::new(),
            hands: BTreeSet::new(),
            last_at: Millis(i64::MIN),
            reattempts: 0,
        }
    }

    /// The state after this many records.
    pub fn state(&self, records: u64) -> Option<&Run> {
        let place = usize::try_from(records).ok()?.checked_sub(1)?;
        self.states.get(place)
    }

    /// The state now.
    pub fn last(&self) -> Option<&Run> {
        self.states.last()
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.states.len() as u64
    }

    /// Whether somebody's wish stands in the log.
    pub fn holds_hand(&self, by: &str) -> bool {
        self.hands.contains(by)
    }

    /// Whether anything was tried again by hand.
    pub fn was_reattempted(&self) -> bool {
        self.reattempts > 0
    }

    /// Folds a record that has become durable, decided at the latest at `submitted`.
    /// Yields the outcomes in it, for whoever knows what workers did.
    ///
    /// # Errors
    /// The rule that the record breaks.
    pub fn fold(
        &mut self,
        id: RunId,
        transition: &Transition,
        submitted: Millis,
    ) -> Result<Vec<(NodeIndex, u32, Digest)>, String> {
        if transition.at < self.last_at {
            return Err(format!(
                "the record's time goes back to {:?}",
                transition.at
            ));
        }
        self.last_at = transition.at;
        let mut run = match self.states.last() {
            Some(run) => run.clone(),
            None => self.first(id, transition)?,
        };
        let mut outcomes = Vec::new();
        for event in &transition.events {
            outcomes.extend(self.before(&run, event, submitted)?);
            run.apply(event, transition.at, &mut Vec::new())
                .map_err(|corrupt| format!("the durable log does not replay: {corrupt}"))?;
            if let Event::Finished(finished) = event {
                ended_properly(&run, finished)?;
            }
        }
        run.seal();
        self.states.push(run);
        Ok(outcomes)
    }

    fn first(&self, id: RunId, transition: &Transition) -> Result<Run, String> {
        match transition.events.first() {
            Some(Event::Queued(queued)) => {
                let queued = (**queued).clone();
                Run::new(id, Arc::clone(&self.plan), queued, transition.at)
                    .map_err(|corrupt| corrupt.to_string())
            }
            other => Err(format!("the log begins with {other:?}")),
        }
    }

    /// What must be true before an event.
    fn before(
        &mut self,
        run: &Run,
        event: &Event,
        submitted: Millis,
    ) -> Result<Option<(NodeIndex, u32, Digest)>, String> {
        let reopens = matches!(event, Event::Reattempted { .. });
        if run.status().is_final() && !reopens {
            return Err(format!(
                "an ended run goes on without a reattempt: {event:?}"
            ));
        }
        match event {
            Event::AttemptEnded(ended) => return self.attempt_ended(run, ended).map(Some),
            Event::GraceEnded { .. } => due(run.grace_deadline(), submitted, "the grace")?,
            Event::Stopping(stopping) => {
                self.note(&stopping.hand);
                if stopping.cause == StopCause::Timeout {
                    due(run.timeout_at(), submitted, "the run's time")?;
                }
            }
            Event::Paused(hand) | Event::Resumed(hand) => self.note(hand),
            Event::Reattempted { hand, .. } => {
                self.reattempts += 1;
                self.note(hand);
            }
            _ => {}
        }
        Ok(None)
    }

    fn note(&mut self, hand: &Hand) {
        self.hands.extend(hand.by.clone());
    }

    fn attempt_ended(
        &mut self,
        run: &Run,
        ended: &AttemptEnded,
    ) -> Result<(NodeIndex, u32, Digest), String> {
        let name = format!("attempt {} of {}", ended.attempt, ended.node);
        let node = self.plan.index(&ended.node);
        let node = node.ok_or_else(|| format!("{name}: there is no such node"))?;
        if !self.outcomes.insert((node, ended.attempt)) {
            return Err(format!("{name} has two outcomes"));
        }
        depends_on_ended(run, node)?;
        Ok((node, ended.attempt, ended.digest))
    }
}

/// Every node before this one has ended, and each edge between is resolved.
pub fn depends_on_ended(run: &Run, node: NodeIndex) -> Verdict {
    let plan = run.plan();
    for &edge in plan.incoming(node) {
        let source = plan.edge(edge).source;
        let status = run.node_status(source);
        if !status.is_final() || run.edge_state(edge) == EdgeState::Unresolved {
            let (node, source) = (plan.id(node), plan.id(source));
            return Err(format!("{node} went before {source}, which is {status}"));
        }
    }
    Ok(())
}

/// Every earlier level has ended.
pub fn levels_ended(run: &Run, node: NodeIndex) -> Verdict {
    let plan = run.plan();
    if plan.execution_mode() != ExecutionMode::Levels {
        return Ok(());
    }
    for other in 0..plan.len() as NodeIndex {
        if plan.level(other) < plan.level(node) && !run.node_status(other).is_final() {
            let (node, other) = (plan.id(node), plan.id(other));
            return Err(format!("{node} went before {other} of an earlier level"));
        }
    }
    Ok(())
}

fn due(deadline: Option<Millis>, submitted: Millis, what: &str) -> Verdict {
    match deadline {
        Some(deadline) if deadline <= submitted => Ok(()),
        Some(deadline) => Err(format!(
            "{what} ended at {submitted:?}, before {deadline:?}"
        )),
        None => Err(format!("{what} ended though nothing set it")),
    }
}

/// The end of a run (semantics §4), asked anew.
fn ended_properly(run: &Run, finished: &Finished) -> Verdict {
    let plan = run.plan();
    let nodes = 0..plan.len() as NodeIndex;
    let begun = run.started_at().is_some();
    if let Some(node) = nodes
        .clone()
        .find(|&node| begun && !run.node_status(node).is_final())
    {
        let status = run.node_status(node);
        return Err(format!("the run ended while {} is {status}", plan.id(node)));
    }
    let handled = |node: NodeIndex| {
        plan.outgoing(node).any(|edge| {
            let target = run.node_status(plan.edge(edge).target);
            plan.edge(edge).when == When::Failure
                && run.edge_state(edge) == EdgeState::Taken
                && !matches!(target, NodeStatus::Blocked | NodeStatus::Cancelled)
        })
    };
    let unhandled = nodes
        .filter(|&node| run.node_status(node) == NodeStatus::Failed && !handled(node))
        .count();
    let expected = match run.stop_cause() {
        Some(StopCause::Cancel) => RunStatus::Cancelled,
        Some(StopCause::Timeout) => RunStatus::Failed,
        _ if unhandled > 0 => RunStatus::Failed,
        _ => RunStatus::Succeeded,
    };
    if finished.status == expected {
        Ok(())
    } else {
        let status = finished.status;
        Err(format!("the run ended {status}, not {expected}"))
    }
}
