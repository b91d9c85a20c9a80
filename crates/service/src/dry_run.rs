//! What a command would do to each run, and which refusals it would meet. The run's own rules
//! decide, on the state from its log; nothing is written.

use std::collections::BTreeSet;

use windlass_core::run::{Evaluations, Facts, Input, Loaded, Run, Values, decide, required_values};
use windlass_engine::CommandError;
use windlass_store::Wait as _;

use crate::command::{self, CommandRequest, RunCommand};
use crate::failure::{Failure, FailureKind};
use crate::moment::now;
use crate::run_queries::RunQueries;

/// What a command would do to a run.
#[derive(Debug, Default)]
pub struct CommandPreview {
    /// Nodes that had ended and would be open, or decided, again.
    pub again: Vec<Box<str>>,
    /// Nodes that would be undone, in this order.
    pub undone: Vec<Box<str>>,
}

/// What a command would do, or the refusal that it would meet.
///
/// # Errors
/// The refusal, or a value that cannot be read.
pub fn effect(
    queries: &RunQueries,
    state: &Run,
    request: &CommandRequest,
) -> Result<CommandPreview, Failure> {
    command::refuse_orphan(
        (&*queries.store, &queries.plans),
        &request.command,
        state.id(),
    )?;
    let Some(input) = command::input(request, state)? else {
        return Ok(CommandPreview::default());
    };
    let values = values(queries, state, &input)?;
    let facts = Facts {
        now: now(),
        seed: 0,
        values: &values,
        running: &BTreeSet::new(),
        limits: &windlass_engine::limits().values,
        evaluations: &Evaluations::default(),
    };
    let decision = decide(state, &input, &facts).map_err(|refusal| {
        command::refused(&request.command, CommandError::refused(state, refusal))
    })?;
    let mut after = state.clone();
    for event in &decision.events {
        if let Some((definition, plan)) = input.graph() {
            after.stage(definition, plan.clone());
        }
        if let Err(corrupt) = after.apply(event, facts.now, &mut Vec::new()) {
            return Err(Failure::new(FailureKind::Conflict, corrupt));
        }
    }
    let undoes = matches!(
        request.command,
        RunCommand::Compensate | RunCommand::Cancel { compensate: true }
    );
    let undone = match undoes {
        true => state.would_undo().map(|node| state.path(node)).collect(),
        false => Vec::new(),
    };
    let is_over = |run: &Run, node| run.find_status(node).is_none_or(|it| it.is_final());
    let again = after
        .instances()
        .filter(|&node| state.find_status(node).is_some())
        .filter(|&node| is_over(state, node) && !is_over(&after, node))
        .map(|node| after.path(node))
        .collect();
    Ok(CommandPreview { again, undone })
}

/// The stored values that the decision rests on.
fn values(queries: &RunQueries, state: &Run, input: &Input) -> Result<Values, Failure> {
    let reader = queries.values();
    let mut values = Values::default();
    for wanted in required_values(state, input) {
        let text = reader.read(state.id(), &wanted).wait()?;
        values.insert(wanted.digest, Loaded::new(text));
    }
    Ok(values)
}
