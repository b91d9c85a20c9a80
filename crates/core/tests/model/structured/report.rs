//! What can be seen of a run of the model, in the form that fixtures write.

use windlass_test_support::report::{CompensationReport, NodeReport, RunReport};

use super::{Model, Status};

/// What the model says can be seen.
pub(crate) fn report(model: &Model) -> RunReport {
    let compensation = model.compensation().map(|status| CompensationReport {
        status: status.to_owned(),
        done: model.undoing.done.clone(),
        next: model.undoing.left.first().cloned(),
    });
    // A run that stops has no error before it has ended, or is undone.
    let has_error = model.has_ended() || compensation.is_some();
    let nodes = model.seen().into_iter().map(|(path, seen)| {
        let has_value = matches!(seen.status, Status::Succeeded | Status::Failed);
        let node = NodeReport {
            status: format!("{:?}", seen.status),
            attempt: seen.attempt,
            blocked_by: seen.blocked_by,
            handled: seen.handled,
            value: seen.value.filter(|_| has_value),
        };
        (path, node)
    });
    RunReport {
        status: format!("{:?}", model.life),
        output: model.output.clone(),
        error: model.error.filter(|_| has_error).map(str::to_owned),
        nodes: nodes.collect(),
        compensation,
    }
}
