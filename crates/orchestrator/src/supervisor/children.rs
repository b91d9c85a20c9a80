//! What one run does to another (semantics §8): a parent starts its children, gives them
//! commands and hears of their end. A job about a child is a small state machine: it names the
//! next step, the runtime carries the step out and answers. The engine runs jobs on tasks, the
//! simulator on virtual time; both do the jobs about one child in order. Every job may be
//! repeated without harm, and recovery relies on that.
//!
//! ```text
//! start       row read ─┬ ended ──────────────────────────────▶ report
//!                       ├ asleep ─────────────────────────────▶ done
//!                       ├ there ──────────────────────────────▶ recover
//!                       └ none ─▶ start ─┬ started ─▶ paused? ▶ command or done
//!                                        ├ store failed ──────▶ row read, none: fail
//!                                        └ failed ────────────▶ fail
//! compensate  load ─┬ being undone ───────────────────────────▶ recover
//!                   ├ undone, or nothing to undo ─────────────▶ report
//!                   └ else command ─┬ refused ────────────────▶ report
//!                                   └ lost ───────────────────▶ again
//! ended       find place ─┬ the parent is here ───────────────▶ report
//!                         └ it is not ────────────────────────▶ acquire the parent
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::run::{ChildEnd, ChildStart, Failure, Held, Input, Instance, Run};
use windlass_core::value::{Payload, Stored};
use windlass_core::{RunId, RunStatus};
use windlass_store::RunRow;

use crate::shard::ChildCommand;

/// The node of the parent that has a child, and its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildPlace {
    /// The parent.
    pub run: RunId,
    /// Its node.
    pub node: Instance,
    /// The attempt's number.
    pub attempt: u32,
}

/// A job about a child.
#[derive(Clone, Debug)]
pub enum ChildWork {
    /// Its parent wants something of it.
    Command(ChildPlace, ChildCommand),
    /// It has ended, or may have: its parent, which is named, must be notified.
    Ended(RunId),
}

/// A command of a parent to its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentCommand {
    /// To end.
    Cancel,
    /// To end as its parent does: its time is over.
    TimeOut,
    /// To start nothing more.
    Pause,
    /// To continue.
    Resume,
    /// To undo what it did.
    Compensate,
}

impl ParentCommand {
    /// The input that the child gets.
    pub fn input(self, actor: Actor) -> Input {
        let command = match self {
            Self::Cancel => RunCommand::Cancel { compensate: false },
            Self::TimeOut => return Input::TimedOutAbove(actor),
            Self::Pause => RunCommand::Pause,
            Self::Resume => RunCommand::Resume,
            Self::Compensate => RunCommand::Compensate,
        };
        Input::command(command, actor)
    }
}

/// What to do next for a job. Those without an answer end it.
#[derive(Debug)]
pub enum ChildStep {
    /// Read the child's row, and answer with [`ChildJob::row_read`].
    ReadRow,
    /// Load the child, and answer with [`ChildJob::loaded`].
    Load,
    /// Start it, and answer with [`ChildJob::started`].
    Start(ChildPlace, Box<ChildStart>),
    /// Read whether this run, its parent, is paused; answer with [`ChildJob::paused`].
    IsPaused(RunId),
    /// Tell the child, and answer with [`ChildJob::answered`].
    Tell(ParentCommand),
    /// Find its node in the parent, if that is in memory; answer with [`ChildJob::placed`].
    FindPlace(RunId),
    /// Recover the child.
    Recover,
    /// Acquire this run, its parent: it then looks at all its children.
    AcquireParent(RunId),
    /// Tell the parent how it ended.
    Report(ChildPlace),
    /// Tell the parent that it could not be started.
    Fail(ChildPlace, Box<Failure>),
    /// Do all of it again after a while.
    Again,
    /// Nothing.
    Done,
}

/// How a command to a child went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildAnswer {
    /// It was carried out.
    Accepted,
    /// The child's state does not allow it.
    Refused,
    /// The outcome is not known: the store failed, or the child was lost.
    Lost,
}

/// A job about one child.
#[derive(Debug)]
pub struct ChildJob {
    work: ChildWork,
    /// The parent's node, which is notified if the child refuses to be undone.
    undoing: Option<ChildPlace>,
    /// Why the child was not started here, if that does not say whether it was started.
    failed: Option<Box<Failure>>,
}

impl ChildJob {
    /// The job, not begun.
    pub fn new(work: ChildWork) -> Self {
        Self {
            work,
            undoing: None,
            failed: None,
        }
    }

    /// The parent.
    pub fn parent(&self) -> RunId {
        match &self.work {
            ChildWork::Command(place, _) => place.run,
            ChildWork::Ended(parent) => *parent,
        }
    }

    /// The first step.
    pub fn begin(&mut self) -> ChildStep {
        self.undoing = None;
        self.failed = None;
        match &self.work {
            ChildWork::Ended(parent) => ChildStep::FindPlace(*parent),
            ChildWork::Command(_, command) => match command {
                ChildCommand::Start(_) => ChildStep::ReadRow,
                ChildCommand::Compensate => ChildStep::Load,
                ChildCommand::Cancel => ChildStep::Tell(ParentCommand::Cancel),
                ChildCommand::TimeOut => ChildStep::Tell(ParentCommand::TimeOut),
                ChildCommand::Pause => ChildStep::Tell(ParentCommand::Pause),
                ChildCommand::Resume => ChildStep::Tell(ParentCommand::Resume),
            },
        }
    }

    /// A child that is to be started may already have been started before a crash, or by the
    /// process that had its parent before, whose record became durable late.
    pub fn row_read(&mut self, row: Option<&RunRow>) -> ChildStep {
        let ChildWork::Command(place, ChildCommand::Start(start)) = &self.work else {
            return ChildStep::Done;
        };
        match row {
            Some(row) if row.status.is_final() => ChildStep::Report(*place),
            Some(row) if row.asleep => ChildStep::Done,
            Some(_) => ChildStep::Recover,
            None => match self.failed.take() {
                Some(failure) => ChildStep::Fail(*place, failure),
                None => ChildStep::Start(*place, start.clone()),
            },
        }
    }

    /// A child's first record is durable, or it could not be started. A store that failed, or
    /// refused the record, may have the child all the same.
    pub fn started(&mut self, result: Result<(), Failure>) -> ChildStep {
        match (&self.work, result) {
            (ChildWork::Command(place, _), Ok(())) => ChildStep::IsPaused(place.run),
            (ChildWork::Command(..), Err(failure)) if failure.retriable => {
                self.failed = Some(Box::new(failure));
                ChildStep::ReadRow
            }
            (ChildWork::Command(place, _), Err(failure)) => {
                ChildStep::Fail(*place, Box::new(failure))
            }
            (ChildWork::Ended(_), _) => ChildStep::Done,
        }
    }

    /// The parent may have been paused meanwhile: then the child starts nothing either.
    pub fn paused(&self, parent: Option<&RunRow>) -> ChildStep {
        match parent.is_some_and(|row| row.status == RunStatus::Paused) {
            true => ChildStep::Tell(ParentCommand::Pause),
            false => ChildStep::Done,
        }
    }

    /// A child that is to be undone; one that is undone already only reports.
    pub fn loaded(&mut self, child: Option<&Run>) -> ChildStep {
        let (ChildWork::Command(place, _), Some(child)) = (&self.work, child) else {
            return ChildStep::Done;
        };
        let undone = child.undo().is_some();
        if undone && !child.status().is_final() {
            return ChildStep::Recover;
        }
        if undone || child.would_undo().next().is_none() {
            return ChildStep::Report(*place);
        }
        self.undoing = Some(*place);
        ChildStep::Tell(ParentCommand::Compensate)
    }

    /// A refused command needs nothing more: the child has ended, or never began. If undoing
    /// was refused, the parent is notified of the child as it is.
    pub fn answered(&self, answer: ChildAnswer) -> ChildStep {
        match (self.undoing, answer) {
            (Some(place), ChildAnswer::Refused) => ChildStep::Report(place),
            // It is not known whether the child is undone, and its parent waits for that.
            (Some(_), ChildAnswer::Lost) => ChildStep::Again,
            _ => ChildStep::Done,
        }
    }

    /// The parent of a child that has ended is here, or has to be acquired.
    pub fn placed(&self, place: Option<ChildPlace>) -> ChildStep {
        match (&self.work, place) {
            (_, Some(place)) => ChildStep::Report(place),
            (ChildWork::Ended(parent), None) => ChildStep::AcquireParent(*parent),
            (ChildWork::Command(..), None) => ChildStep::Done,
        }
    }
}

/// Where the values of a run are read from.
pub trait ChildValues {
    /// A value of the run, as JSON text.
    fn held(&self, run: RunId, held: &Held) -> Option<Arc<str>>;

    /// A stored value, as JSON text.
    fn stored(&self, stored: &Stored) -> Option<Arc<str>>;
}

/// What notifies a parent of a child that has ended; `None` if it has not, or a value is
/// missing.
pub fn child_end(run: &Run, values: &impl ChildValues) -> Option<ChildEnd> {
    let finished = run.finished()?;
    let output = match &finished.output {
        Some(stored) => Payload::new(values.stored(stored)?),
        None => Payload::null(),
    };
    Some(ChildEnd {
        child: run.id(),
        status: finished.status,
        output,
        error: finished.error.clone(),
        vars: vars_of(run, values),
        compensation: finished.compensation,
    })
}

/// The variables that a child which shares them gives back: its own, and those of its parent
/// that it changed. One that it only read may have changed in the parent since, and must not
/// be set back.
fn vars_of(run: &Run, values: &impl ChildValues) -> BTreeMap<Box<str>, Payload> {
    let is_only_read = |name: &str, text: &str| {
        let given = run.queued().vars.get(name);
        let given = given.and_then(|stored| values.stored(stored));
        let own = run.plan().vars().get(name).map(|raw| raw.get());
        given.as_deref() == Some(text) && own != Some(text)
    };
    let vars = run.vars().iter();
    vars.filter_map(|(name, held)| Some((name.clone(), values.held(run.id(), held)?)))
        .filter(|(name, text)| !is_only_read(name, text))
        .map(|(name, text)| (name, Payload::new(text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use windlass_core::Digest;
    use windlass_core::definition::Isolation;
    use windlass_core::value::ValueRef;

    use super::*;
    use crate::supervisor::gates::tests::row;

    const PARENT: RunId = RunId::from_bytes([1; 16]);

    fn job(command: ChildCommand) -> ChildJob {
        let place = ChildPlace {
            run: PARENT,
            node: 3,
            attempt: 1,
        };
        ChildJob::new(ChildWork::Command(place, command))
    }

    #[test]
    fn an_undoing_whose_answer_is_lost_is_asked_for_again_and_a_refused_one_reported() {
        let mut job = job(ChildCommand::Compensate);
        assert!(matches!(job.begin(), ChildStep::Load));
        assert!(matches!(job.loaded(None), ChildStep::Done));
        job.undoing = Some(ChildPlace {
            run: PARENT,
            node: 3,
            attempt: 1,
        });
        let answered = |answer| job.answered(answer);
        assert!(matches!(answered(ChildAnswer::Lost), ChildStep::Again));
        assert!(matches!(
            answered(ChildAnswer::Refused),
            ChildStep::Report(_)
        ));
        assert!(matches!(answered(ChildAnswer::Accepted), ChildStep::Done));
    }

    fn start() -> ChildCommand {
        ChildCommand::Start(Box::new(ChildStart {
            workflow: "child".into(),
            version: None,
            input: ValueRef {
                digest: Digest::of(b"null"),
                size: 4,
                record: 1,
            },
            isolation: Isolation::Isolated,
            vars: Vec::new(),
            path: "n".into(),
            depth: 1,
            tenant: None,
            correlation_id: "c".into(),
            priority: 5,
            traceparent: None,
        }))
    }

    #[test]
    fn a_child_that_another_process_started_is_recovered() {
        let mut job = job(start());
        let row = row(RunStatus::Running, false);
        assert!(matches!(job.begin(), ChildStep::ReadRow));
        assert!(matches!(job.row_read(None), ChildStep::Start(..)));
        let refused = || {
            Err(Failure {
                retriable: true,
                ..Failure::permanent("STORE_UNAVAILABLE", "the record was refused")
            })
        };
        assert!(matches!(job.started(refused()), ChildStep::ReadRow));
        assert!(matches!(job.row_read(Some(&row)), ChildStep::Recover));
        // Where no process started it, the parent hears why.
        assert!(matches!(job.started(refused()), ChildStep::ReadRow));
        assert!(matches!(job.row_read(None), ChildStep::Fail(..)));
        let unknown = Err(Failure::permanent("WORKFLOW_NOT_FOUND", "none"));
        assert!(matches!(job.started(unknown), ChildStep::Fail(..)));
    }

    #[test]
    fn other_commands_are_told_once() {
        let mut job = job(ChildCommand::Cancel);
        assert!(matches!(
            job.begin(),
            ChildStep::Tell(ParentCommand::Cancel)
        ));
        assert!(matches!(job.answered(ChildAnswer::Lost), ChildStep::Done));
    }

    #[test]
    fn a_parent_that_is_not_in_memory_is_acquired_to_hear_of_its_child() {
        let mut job = ChildJob::new(ChildWork::Ended(PARENT));
        assert!(matches!(job.begin(), ChildStep::FindPlace(PARENT)));
        assert!(matches!(job.placed(None), ChildStep::AcquireParent(PARENT)));
    }
}
