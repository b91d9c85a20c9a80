//! What happens when a schedule's time comes.

use std::sync::Weak;
use std::time::Duration;

use windlass_core::{Millis, RunId};
use windlass_store::{CatchUp, Error, Fired, Overlap, Schedule};

use super::timing::Timing;
use crate::engine::{Engine, Inner};
use crate::start::{StartError, StartRequest};

/// How many schedules are read together.
const PAGE: usize = 64;

/// How many missed times start runs, at most: the last ones. A time is missed if no engine
/// served then.
const MOST_CAUGHT_UP: usize = 1000;

/// The lease of the process that starts what is due.
const LEASE: &str = "schedules";

/// How soon to look again when the store could not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// How often to look where several processes share the store.
const LOOK_AT_SHARED: Duration = Duration::from_secs(10);

/// Starts what is due until the engine is gone. Times before `began` are missed times.
pub(crate) async fn fire_always(engine: Weak<Inner>, began: Millis) {
    if let Some(inner) = engine.upgrade() {
        let engine = Engine::of(inner);
        // What cannot be read now is met when it is due.
        let _ = engine.look_at_schedules().await;
    }
    loop {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine = Engine::of(inner);
        let wait = match engine.fire_in_turn(began).await {
            Ok(Some(next)) => Some(until(next, engine.now())),
            Ok(None) => None,
            Err(_) => Some(AGAIN),
        };
        // Another process may have accepted a schedule, and may be gone since.
        let wait = match engine.shared().owned.is_shared() {
            true => Some(wait.unwrap_or(LOOK_AT_SHARED).min(LOOK_AT_SHARED)),
            false => wait,
        };
        let (shared, stop) = (engine.shared().clone(), engine.stop_token());
        drop(engine);
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.schedules.notified() => {}
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
}

fn until(at: Millis, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0))
}

impl Engine {
    /// The same, where this process is the scheduler. What two schedulers would start at one
    /// time is one run: its request id is the time's.
    async fn fire_in_turn(&self, began: Millis) -> Result<Option<Millis>, Error> {
        if !self.shared().owned.is_shared() {
            return self.fire_due(began).await;
        }
        let next = self.store().next_schedule().await?;
        if next.is_none_or(|next| next > self.now()) && self.shared().leaving.get().is_none() {
            return Ok(next);
        }
        if self.take_lease(LEASE).await?.is_none() {
            return Ok(None);
        }
        self.fire_due(began).await
    }

    /// Starts everything that is due, and says when to look again.
    async fn fire_due(&self, began: Millis) -> Result<Option<Millis>, Error> {
        loop {
            let (store, now) = (self.store(), self.now());
            let due = store.due_schedules(now, PAGE).await?;
            let next = store.next_schedule().await?;
            if due.is_empty() {
                return Ok(next);
            }
            for schedule in due {
                if self.stop_token().is_cancelled() {
                    return Ok(None);
                }
                self.fire_guarded(schedule, began, now).await?;
            }
        }
    }

    /// As [`Self::fire`]; what is damaged for this one holds up no other.
    async fn fire_guarded(
        &self,
        schedule: Schedule,
        began: Millis,
        now: Millis,
    ) -> Result<(), Error> {
        let id = schedule.id.clone();
        match self.fire(schedule, began, now).await {
            Err(Error::Damaged(damage)) => {
                self.tell_damage(&format!("the schedule '{id}'"), &damage.to_string());
                Ok(())
            }
            other => other,
        }
    }

    /// Starts the runs of a schedule that is due, and moves it on.
    async fn fire(&self, schedule: Schedule, began: Millis, now: Millis) -> Result<(), Error> {
        let Some(from) = schedule.next_at else {
            return Ok(());
        };
        let cron = schedule.cron.as_deref();
        let timing = match Timing::new(cron, schedule.every_ms, &schedule.timezone) {
            Ok(timing) => timing,
            // Such as a time zone that is gone: a caller that puts the schedule again sees what
            // is wrong.
            Err(problem) => {
                let fired = Fired {
                    error: Some(problem.message.into()),
                    next_at: None,
                    ..fired(&schedule, from)
                };
                self.store().mark_fired(fired).await?;
                return Ok(());
            }
        };
        let (times, next_at) = due_times(&schedule, &timing, began, now);
        if times.is_empty() {
            let passed = Fired {
                error: Some("no server ran at its time".into()),
                next_at,
                ..fired(&schedule, from)
            };
            self.store().mark_fired(passed).await?;
            return Ok(());
        }
        self.fire_times(schedule, &times, next_at).await
    }

    async fn fire_times(
        &self,
        mut schedule: Schedule,
        times: &[Millis],
        next_at: Option<Millis>,
    ) -> Result<(), Error> {
        for (index, &at) in times.iter().enumerate() {
            let result = self.fire_once(&schedule, at).await?;
            let fired = Fired {
                run: result.as_ref().ok().copied(),
                error: result.err().map(Into::into),
                next_at: times.get(index + 1).copied().or(next_at),
                ..fired(&schedule, at)
            };
            schedule.last_run = fired.run.or(schedule.last_run);
            // A schedule that was changed meanwhile has its own next time.
            if !self.store().mark_fired(fired).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Starts the run of one time, or says why not. The request id is the time's, so that
    /// a time whose run was started before a crash does not start another.
    async fn fire_once(
        &self,
        schedule: &Schedule,
        at: Millis,
    ) -> Result<Result<RunId, String>, Error> {
        let last = schedule
            .last_run
            .filter(|_| schedule.overlap == Overlap::Skip);
        if let Some(run) = last
            && self.goes(run).await?
        {
            return Ok(Err(format!("the run {run} of before has not ended")));
        }
        let id = &schedule.id;
        let request = StartRequest {
            tenant: schedule.tenant.clone(),
            trigger: schedule.trigger.to_string(),
            request_id: Some(format!("schedule:{id}:{at}").into()),
            correlation_id: Some(format!("schedule:{id}").into()),
            priority: schedule.priority,
            labels: schedule.labels.clone(),
            ..StartRequest::default()
        };
        match self.enqueue_stored(&schedule.workflow, None, request).await {
            Ok(started) => Ok(Ok(started.run)),
            Err(StartError::Store(error @ (Error::Damaged(_) | Error::TooNew(_)))) => {
                Ok(Err(error.to_string()))
            }
            Err(StartError::Store(error)) => Err(error),
            Err(StartError::Stopped) => {
                Err(Error::Unavailable("the engine has stopped".to_owned()))
            }
            Err(error) => Ok(Err(error.to_string())),
        }
    }
}

impl Engine {
    /// Whether an earlier run has not ended. One whose row is damaged does not hold up the
    /// schedule.
    async fn goes(&self, run: RunId) -> Result<bool, Error> {
        match self.store().run(run).await {
            Ok(row) => Ok(row.is_some_and(|row| !row.status.is_final() && !row.dead)),
            Err(Error::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn fired(schedule: &Schedule, at: Millis) -> Fired {
    Fired {
        id: schedule.id.clone(),
        tenant: schedule.tenant.clone(),
        revision: schedule.revision,
        at,
        run: None,
        error: None,
        next_at: None,
    }
}

/// The times that start runs now, and the one after.
fn due_times(
    schedule: &Schedule,
    timing: &Timing,
    began: Millis,
    now: Millis,
) -> (Vec<Millis>, Option<Millis>) {
    let Some(from) = schedule.next_at else {
        return (Vec::new(), None);
    };
    let most = match schedule.catch_up {
        CatchUp::None | CatchUp::One => 1,
        CatchUp::All => MOST_CAUGHT_UP,
    };
    let mut times = timing.between(from, now, most);
    if schedule.catch_up == CatchUp::None {
        times.retain(|&at| at >= began);
    }
    (times, timing.after(now, from))
}
