//! What the driver hands to other tasks: attempts to workers, values to be read, decisions to
//! be computed off the driver's task. Each result comes back as an input.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_core::RunId;
use windlass_core::run::{Dispatch, Instance, Interrupt, Outcome};
use windlass_core::value::ValueRef;
use windlass_orchestrator::{Evaluation, Pass, ShardInput};
use windlass_store::{Error, Wait as _, crash};

use super::{Driver, Message, Task};
use crate::engine_event::EngineEvent;
use crate::evaluators::{self, Next, Turn};
use crate::ownership::Permit;

impl Driver {
    pub(super) fn dispatch(&mut self, dispatch: Arc<Dispatch>) {
        crash::point("before-dispatch");
        self.observe(&EngineEvent::Dispatched {
            dispatch: &dispatch,
        });
        if self.workers.options.observer.is_some() {
            let now = self.workers.options.clock.now();
            self.attempts.dispatch(&dispatch, now);
        }
        // What an earlier owner had open its workers may still have: the queue knows.
        let asks = dispatch.reopened && self.shared.owned.is_shared();
        match asks || !self.workers.runs_here(&dispatch) {
            true => self.offer(dispatch),
            false => self.call(dispatch),
        }
    }

    /// Lets this process's own workers call an action.
    pub(super) fn call(&mut self, dispatch: Arc<Dispatch>) {
        let (run, node, attempt) = (dispatch.run, dispatch.node, dispatch.attempt);
        let stop = CancellationToken::new();
        let keep_output = dispatch.keep_output;
        let workers = Arc::clone(&self.workers);
        let outbox = self.outbox.clone();
        let token = stop.clone();
        let called = Arc::clone(&dispatch);
        let permit = Permit::now(&self.shared);
        let task = tokio::spawn(async move {
            // Without a report the run is dropped here: the lease is gone.
            let Some(report) = workers.run(&dispatch, &permit, token).await else {
                return;
            };
            let report = Box::new(report);
            if keep_output && let Outcome::Succeeded(output) = &report.outcome {
                workers.values.remember(output.digest(), output.text());
            }
            // The driver is gone only when the engine is: the attempt stays open.
            let ended = ShardInput::Ended {
                run,
                node,
                attempt,
                report,
            };
            let _ = outbox.send(Message::Input(ended)).await;
            crash::point("after-outcome-sent");
        });
        self.tasks.insert(
            (run, node),
            Task {
                dispatch: called,
                attempt,
                stop,
                abort: task.abort_handle(),
            },
        );
    }

    pub(super) fn stop(&mut self, run: RunId, node: Instance, attempt: u32, give_up: bool) {
        let Some(task) = self
            .tasks
            .get(&(run, node))
            .filter(|task| task.attempt == attempt)
        else {
            self.stop_remote(run, node, attempt, give_up);
            return;
        };
        task.stop.cancel();
        if give_up {
            task.abort.abort();
            self.tasks.remove(&(run, node));
        }
    }

    /// Reads values off the driver's task: it may touch the disk.
    pub(super) fn load(&self, run: RunId, wanted: Vec<ValueRef>) {
        let values = self.workers.values.clone();
        let outbox = self.outbox.clone();
        tokio::task::spawn_blocking(move || {
            let input = match values.read_many(run, &wanted).wait() {
                Ok(values) => ShardInput::Loaded { run, values },
                Err(error) => ShardInput::LoadFailed { run, error },
            };
            let _ = outbox.blocking_send(Message::Input(input));
        });
    }

    /// Computes a decision off the driver's task: its expressions take long.
    pub(super) fn evaluate(&mut self, evaluation: Box<Evaluation>) {
        let run = evaluation.run();
        let turn = Turn {
            tenant: evaluation.tenant().map(Into::into),
            run,
        };
        let interrupt = Interrupt::new();
        self.evaluations.insert(run, interrupt.clone());
        let job = evaluation_job(evaluation, interrupt, self.outbox.clone());
        self.workers.evaluators.submit(turn, job);
    }

    /// Ends the run's evaluation early; what it was asked for is asked again.
    pub(super) fn interrupt(&self, run: RunId) {
        if let Some(interrupt) = self.evaluations.get(&run) {
            interrupt.interrupt();
        }
    }
}

/// One pass of an evaluation after the other, each in the run's turn.
fn evaluation_job(
    evaluation: Box<Evaluation>,
    interrupt: Interrupt,
    outbox: mpsc::Sender<Message>,
) -> evaluators::EvaluationPass {
    Box::new(move || {
        let run = evaluation.run();
        let pass = AssertUnwindSafe(|| evaluation.pass(&interrupt));
        let input = match catch_unwind(pass) {
            Ok(Pass::Again(evaluation)) => {
                return Next::Again(evaluation_job(evaluation, interrupt, outbox));
            }
            Ok(Pass::Done(evaluated)) => ShardInput::Evaluated(evaluated),
            // The run is released and can be acquired again; other runs are not affected.
            Err(_) => ShardInput::LoadFailed {
                run,
                error: Error::Unavailable("an evaluation panicked".to_owned()),
            },
        };
        // The driver is gone only when the engine is.
        let _ = outbox.blocking_send(Message::Input(input));
        Next::Done
    })
}
