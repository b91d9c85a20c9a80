//! A decision whose expressions take too long for the thread that all runs share. It is
//! computed elsewhere, in passes, over a state that does not change meanwhile.
//!
//! Knows no thread and no clock: the caller chooses where a pass runs and when the next does.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use windlass_core::run::{
    self, Decision, Evaluations, Facts, Input, Instance, Interrupt, Refusal, Run, ValueLimits,
    Values,
};
use windlass_core::{Millis, RunId};

/// A decision to be computed elsewhere.
pub struct Evaluation {
    /// Tells its answer from that of an earlier evaluation.
    pub(crate) ticket: u64,
    pub(crate) run: Arc<Run>,
    pub(crate) input: Input,
    pub(crate) now: Millis,
    pub(crate) seed: u64,
    pub(crate) values: Values,
    pub(crate) running: BTreeSet<Instance>,
    pub(crate) limits: ValueLimits,
    pub(crate) evaluations: Evaluations,
}

impl fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evaluation({} of {})", self.ticket, self.run.id())
    }
}

/// Where an evaluation stands after a pass.
#[derive(Debug)]
pub enum Pass {
    /// It is over: to be answered with [`ShardInput::Evaluated`](crate::ShardInput::Evaluated).
    Done(Box<Evaluated>),
    /// It needs another pass, after those of other runs.
    Again(Box<Evaluation>),
}

/// The result of an evaluation.
#[derive(Debug)]
pub struct Evaluated {
    pub(crate) ticket: u64,
    pub(crate) run: RunId,
    pub(crate) input: Input,
    /// `None` if it was interrupted.
    pub(crate) decided: Option<Result<Decision, Refusal>>,
}

impl Evaluation {
    /// The run that waits for it.
    pub fn run(&self) -> RunId {
        self.run.id()
    }

    /// The tenant of the run.
    pub fn tenant(&self) -> Option<&str> {
        self.run.queued().tenant.as_deref()
    }

    /// Evaluates for about as long as one evaluation may take. Once `interrupt` is set, the
    /// pass ends soon.
    pub fn pass(mut self: Box<Self>, interrupt: &Interrupt) -> Pass {
        self.evaluations = std::mem::take(&mut self.evaluations).next_pass(interrupt);
        let facts = Facts {
            now: self.now,
            seed: self.seed,
            values: &self.values,
            running: &self.running,
            limits: &self.limits,
            evaluations: &self.evaluations,
        };
        let decided = run::decide(&self.run, &self.input, &facts);
        match (self.evaluations.is_unfinished(), interrupt.is_interrupted()) {
            (true, false) => Pass::Again(self),
            (unfinished, _) => Pass::Done(Box::new(self.over((!unfinished).then_some(decided)))),
        }
    }

    /// Gives the state back: the slot changes it again once it has the answer.
    fn over(self, decided: Option<Result<Decision, Refusal>>) -> Evaluated {
        Evaluated {
            ticket: self.ticket,
            run: self.run.id(),
            input: self.input,
            decided,
        }
    }
}

impl Evaluated {
    /// The run that waits for it.
    pub fn run(&self) -> RunId {
        self.run
    }
}
