//! What became of a task that is not open in memory, read from the log. Only late or repeated
//! reports need this.

use std::sync::Arc;

use tokio::sync::Semaphore;
use windlass_core::RunId;
use windlass_core::event::Event;
use windlass_core::run::{Change, Input as RunInput, Run};
use windlass_store::WorkKey;

use super::WorkError;
use super::open::{Answer, Taken};
use super::report_kind::ReportKind;
use super::task_id::TaskId;
use crate::command::CommandError;
use crate::engine::Engine;
use crate::load::LoadError;
use crate::replay::{EventPosition, Visitor, replay};

/// How many logs are read at once for this: a client that asks for old tasks again and again
/// must not keep others from the disk.
const LOOKS: usize = 2;

static LOOKING: Semaphore = Semaphore::const_new(LOOKS);

/// What became of a task.
pub(super) enum Found {
    /// It is open in the log.
    Open(Box<Taken>),
    /// A worker's report ended it, maybe this one.
    EndedUnder { same: bool },
    /// It ended in another way, or by a report of this lease that says something else.
    Ended,
}

impl Engine {
    /// What became of a task that a worker asks about; `kind` is what its report says, if it
    /// sent one.
    pub(super) async fn look_up(
        &self,
        tenant: Option<&str>,
        task: TaskId,
        lease: &str,
        kind: Option<ReportKind>,
    ) -> Result<Found, WorkError> {
        let row = self.store().run(task.0.run).await?;
        let own = row.is_some_and(|row| row.tenant.as_deref() == tenant);
        if !own {
            return Err(WorkError::TaskNotFound);
        }
        if let Some(ended) = self.shared().remote.open.ended_by(task.0) {
            return Ok(match ended.recorded {
                Some((recorded, first)) => match *recorded == *lease {
                    true if kind.is_some_and(|kind| kind != first) => Found::Ended,
                    same => Found::EndedUnder { same },
                },
                None if ended.last.is_some_and(|last| *last != *lease) => {
                    Found::EndedUnder { same: false }
                }
                None => Found::Ended,
            });
        }
        self.look_up_log(task, lease, kind).await
    }

    /// The same by the log alone, for a caller that has checked whose task it is.
    pub(super) async fn look_up_log(
        &self,
        task: TaskId,
        lease: &str,
        kind: Option<ReportKind>,
    ) -> Result<Found, WorkError> {
        let _looking = LOOKING.acquire().await.map_err(|_| WorkError::Stopped)?;
        let engine = self.clone();
        let lease = lease.to_owned();
        let looking = tokio::task::spawn_blocking(move || engine.read_log(task, &lease, kind));
        looking.await.map_err(|_| WorkError::Stopped)?
    }

    fn read_log(
        &self,
        task: TaskId,
        lease: &str,
        kind: Option<ReportKind>,
    ) -> Result<Found, WorkError> {
        let WorkKey {
            run,
            instance,
            attempt,
        } = task.0;
        let mut seen = ReportSearch {
            key: task.0,
            lease,
            kind,
            ended: None,
            contradicted: false,
            began: false,
        };
        let loaded = replay(&**self.store(), self.plans(), run, &mut seen);
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(LoadError::Store(error)) => return Err(error.into()),
            Err(_) => return Err(WorkError::TaskNotFound),
        };
        match seen.ended {
            Some(true) if seen.contradicted => return Ok(Found::Ended),
            Some(same) => return Ok(Found::EndedUnder { same }),
            None => {}
        }
        let state = &loaded.run;
        let is_there = state.find_status(instance).is_some() && !state.is_structural(instance);
        if is_there && state.is_open(instance, attempt) && state.attempt(instance) == attempt {
            let dispatch = Arc::new(state.dispatch(instance, self.now()));
            return Ok(Found::Open(Box::new(Taken {
                dispatch,
                assigned: None,
                since: None,
                stop: state.is_told_to_stop(instance),
            })));
        }
        let existed = seen.began || (is_there && state.attempts(instance) >= attempt);
        match existed && attempt > 0 {
            true => Ok(Found::Ended),
            false => Err(WorkError::TaskNotFound),
        }
    }

    /// Records a report for a run that this process does not execute, in the way of a command.
    pub(super) async fn submit_report(&self, run: RunId, input: RunInput) -> Answer {
        match self.submit(run, input).await {
            Ok(()) => Ok(()),
            Err(CommandError::Stopped) => Err(WorkError::Stopped),
            Err(CommandError::Load(LoadError::Store(error))) => Err(error.into()),
            Err(CommandError::Load(_)) => Err(WorkError::Stopped),
            Err(_) => Err(WorkError::TaskEnded),
        }
    }
}

/// Looks for the end of an attempt in a log.
struct ReportSearch<'a> {
    key: WorkKey,
    lease: &'a str,
    /// What the report says that is looked for.
    kind: Option<ReportKind>,
    /// A worker's report ended it; whether it was under this lease.
    ended: Option<bool>,
    /// Whether that one says something else.
    contradicted: bool,
    began: bool,
}

impl Visitor for ReportSearch<'_> {
    type Error = LoadError;

    fn before(&mut self, run: &Run, event: &Event, _: EventPosition) -> Result<(), LoadError> {
        let (Event::AttemptEnded(ended) | Event::CompensationEnded(ended)) = event else {
            return Ok(());
        };
        let is_there = run.find_status(self.key.instance).is_some();
        let is_meant = is_there
            && ended.attempt == self.key.attempt
            && run.attempt(self.key.instance) == self.key.attempt
            && *run.path(self.key.instance) == *ended.node;
        if !is_meant {
            return Ok(());
        }
        self.began = true;
        if let Some(lease) = &ended.lease {
            let same = **lease == *self.lease;
            self.contradicted |= same && self.kind.is_some_and(|it| it.contradicts(ended));
            self.ended = Some(same || self.ended == Some(true));
        }
        Ok(())
    }

    fn after(
        &mut self,
        _: &Run,
        _: &Event,
        _: EventPosition,
        _: &[Change],
    ) -> Result<(), LoadError> {
        Ok(())
    }
}
