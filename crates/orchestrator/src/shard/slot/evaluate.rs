//! Decisions that are computed elsewhere because their expressions take long. Until the answer
//! comes the run decides nothing else; a request to stop interrupts the evaluation.

use std::sync::Arc;

use windlass_core::command::RunCommand;
use windlass_core::run::{self, Evaluations, Input as RunInput, Outcome, PendingDecision, Run};
use windlass_core::value::ValueRef;

use super::Slot;
use crate::evaluation::{Evaluated, Evaluation};
use crate::shard::{CommandId, Context, Effect};

/// An evaluation under way.
#[derive(Debug)]
pub(super) struct Evaluating {
    ticket: u64,
    /// The command that waits for its answer.
    command: Option<CommandId>,
}

impl Slot {
    /// Whether values or an answer must come before the next decision.
    pub(super) fn is_waiting(&self) -> bool {
        self.loading || self.evaluating.is_some()
    }

    /// The state, to be changed.
    pub(super) fn run_mut(&mut self) -> &mut Run {
        Arc::get_mut(&mut self.run)
            .expect("an evaluation gives its share of the state back before it answers")
    }

    /// The bytes of values that a decision may read.
    pub(super) fn weight(&self, input: &RunInput, required: &[ValueRef]) -> usize {
        let wanted: usize = required.iter().map(|value| value.size as usize).sum();
        let vars = usize::try_from(self.run.vars_bytes()).unwrap_or(usize::MAX);
        let own = match input {
            RunInput::Ended { node, report, .. } if self.run.sets_vars(*node) => {
                match &report.outcome {
                    Outcome::Succeeded(output) => vars + output.text().len(),
                    _ => 0,
                }
            }
            RunInput::Command(command) if command.command.sets_result() => vars,
            RunInput::Pending(_) | RunInput::Due { .. } | RunInput::ChildEnded { .. } => vars,
            _ => 0,
        };
        wanted + own
    }

    /// Has a decision computed elsewhere; `evaluations` has the answers of its first pass.
    pub(super) fn evaluate(
        &mut self,
        (input, command): (RunInput, Option<CommandId>),
        seed: u64,
        evaluations: Evaluations,
        context: &mut Context<'_>,
    ) {
        *context.next_evaluation += 1;
        let ticket = *context.next_evaluation;
        self.evaluating = Some(Evaluating { ticket, command });
        let wanted = run::required_values(&self.run, &input).into_iter();
        let values = wanted.filter_map(|want| {
            let value = self.values.get(&want.digest)?;
            Some((want.digest, value.clone()))
        });
        let evaluation = Evaluation {
            ticket,
            run: Arc::clone(&self.run),
            input,
            now: context.now,
            seed,
            values: values.collect(),
            running: self.running.nodes().clone(),
            limits: context.options.limits,
            evaluations,
        };
        let evaluation = Box::new(evaluation);
        context.effects.push_back(Effect::Evaluate(evaluation));
        self.interrupt(context);
    }

    /// Takes a request to stop: it goes before what waits, also before an evaluation.
    pub(super) fn enqueue_urgent(
        &mut self,
        input: RunInput,
        command: Option<CommandId>,
        context: &mut Context<'_>,
    ) {
        let place = self.first_to_overtake();
        self.inbox.insert(place, (input, command));
        self.interrupt(context);
    }

    /// Ends an evaluation early if what comes next must not wait for it.
    fn interrupt(&self, context: &mut Context<'_>) {
        if self.is_urgent_next() && self.evaluating.is_some() {
            let run = self.run.id();
            context.effects.push_back(Effect::Interrupt { run });
        }
    }

    /// Whether the next input ends what the run does. Such an input goes before what the run
    /// itself asks for, because a loop may ask without end.
    pub(super) fn is_urgent_next(&self) -> bool {
        self.inbox
            .front()
            .is_some_and(|(input, _)| is_urgent(input))
    }

    /// Where urgent inputs are inserted: after those that say which process executes the run.
    fn first_to_overtake(&self) -> usize {
        let goes_first = |(input, _): &(RunInput, _)| {
            is_urgent(input) || matches!(input, RunInput::Begin | RunInput::Recover(_))
        };
        let last = self.inbox.iter().rposition(goes_first);
        last.map_or(0, |last| last + 1)
    }

    /// Takes the answer to an evaluation.
    pub(super) fn evaluated(&mut self, evaluated: Evaluated, context: &mut Context<'_>) {
        let is_current = |current: &mut Evaluating| current.ticket == evaluated.ticket;
        let Some(Evaluating { command, .. }) = self.evaluating.take_if(is_current) else {
            return;
        };
        match (evaluated.decided, evaluated.input) {
            (Some(decided), input) => self.conclude((input, command), decided, context),
            (None, RunInput::Pending(PendingDecision::Open(node))) if self.is_sequential() => {
                self.make_ready(node, self.run.attempt(node));
            }
            // The run asks for it again, after the urgent input.
            (None, RunInput::Pending(_)) => {}
            (None, input) => {
                let place = self.first_to_overtake();
                self.inbox.insert(place, (input, command));
            }
        }
    }
}

/// Whether an input ends what the run does, and needs no evaluation itself.
pub(super) fn is_urgent(input: &RunInput) -> bool {
    match input {
        RunInput::Command(command) => matches!(command.command, RunCommand::Cancel { .. }),
        input => matches!(
            input,
            RunInput::TimedOut | RunInput::TimedOutAbove(_) | RunInput::Abandon { .. }
        ),
    }
}
