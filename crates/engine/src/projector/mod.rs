//! Writes the tables behind the log, and starts the runs that SQL asks for.
//!
//! One process projects at a time, by a lease; a process that takes the lease first walks the runs
//! whose logs are longer than what is projected of them, then follows the changes. Rows are fenced
//! by how far their run is projected, so a wrong lease costs work and nothing else. An idle process
//! looks once in ten seconds, with one statement.

mod fold;
mod plan_json;
mod requests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::RunId;
use windlass_store::{Bell, Error, ProjectedRun, Projections, UnprojectedRun, Wait as _};

use crate::Backend;
use crate::engine::{Engine, Inner};
use crate::load::LoadError;
use crate::ownership::ring;
use crate::plans::Plans;
use fold::RunFold;

/// How often an idle process looks.
const LOOK: Duration = Duration::from_secs(10);

/// How long a process projects after it has looked last.
const TERM_MS: u64 = 30_000;

/// How long changes gather before they are read.
const GATHER: Duration = Duration::from_millis(100);

/// While there is much to project, the projector pauses so many times as long as it worked, so that
/// runs have the processor and the database; not once the tables are too far behind.
const PAUSE_TIMES: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const FAR_BEHIND_MS: u64 = 5_000;

/// How often a process that does not project tells the one that does.
const TELL: Duration = Duration::from_secs(1);

/// How soon to look again when the store could not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// Requests that have waited for this long are started by any process: the one that projects may
/// be gone.
const ABANDONED_MS: u64 = 15_000;

/// How many runs become rows in one transaction, and how many are kept folded.
const RUNS: usize = 32;
const FOLDED: usize = 256;

/// How many runs a walk reads from the list together.
const PAGE: usize = 256;

/// How many definitions get their plans together.
const PLANS: usize = 16;

/// What the projector hears of, and how far it is behind.
#[derive(Default)]
pub(crate) struct Projecting {
    /// Rings for the task: a record was made here, or a bell was heard.
    bell: Notify,
    /// Whether there is a task to ring for.
    on: AtomicBool,
    recorded: AtomicBool,
    heard: AtomicBool,
    lag_ms: AtomicU64,
}

impl Projecting {
    /// A record of this process is durable.
    pub(crate) fn recorded(&self) {
        if self.on.load(Ordering::Relaxed) && !self.recorded.swap(true, Ordering::AcqRel) {
            self.bell.notify_one();
        }
    }

    /// Another process has rung.
    pub(crate) fn wake(&self) {
        if self.on.load(Ordering::Relaxed) && !self.heard.swap(true, Ordering::AcqRel) {
            self.bell.notify_one();
        }
    }
}

impl Engine {
    /// How far the tables behind the log were behind it when this process looked last, in
    /// milliseconds.
    pub fn projection_lag_ms(&self) -> u64 {
        self.shared().projecting.lag_ms.load(Ordering::Relaxed)
    }
}

/// Takes turns in projecting until the engine is gone.
pub(crate) async fn project_always(engine: Weak<Inner>) {
    let Some(first) = engine.upgrade().map(Engine::of) else {
        return;
    };
    let Some(projections) = first.options().projections.clone() else {
        return;
    };
    let (stop, shared) = (first.stop_token(), Arc::clone(first.shared()));
    let mut projector = Projector {
        holder: first.process_info().name.into(),
        projections,
        folds: HashMap::new(),
        holds: false,
        walk: None,
        looked: None,
    };
    drop(first);
    shared.projecting.on.store(true, Ordering::Relaxed);
    loop {
        let Some(engine) = engine.upgrade().map(Engine::of) else {
            return;
        };
        let next = projector.round(&engine).await;
        drop(engine);
        let waiting = async {
            match next {
                Next::After(pause) => tokio::time::sleep(pause).await,
                Next::WhenHeard(at_most) => {
                    let heard = shared.projecting.bell.notified();
                    if tokio::time::timeout(at_most, heard).await.is_ok() {
                        tokio::time::sleep(GATHER).await;
                    }
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            () = waiting => {}
        }
    }
    if projector.holds {
        let leaving = projector.projections.leave_projection(&projector.holder);
        // Without an answer the lease ends by itself.
        let _ = tokio::time::timeout(AGAIN, leaving).await;
    }
}

/// When the projector goes on.
enum Next {
    /// There is more to do.
    After(Duration),
    /// Something is heard, or so much time has passed.
    WhenHeard(Duration),
}

struct Projector {
    holder: String,
    projections: Arc<dyn Projections>,
    /// Runs that have not ended, folded as far as they are projected.
    folds: HashMap<RunId, RunFold>,
    holds: bool,
    /// The walk over all runs after the lease was taken: after which run it goes on.
    walk: Option<Option<RunId>>,
    looked: Option<Instant>,
}

impl Projector {
    /// Does what there is to do, and says when to go on.
    async fn round(&mut self, engine: &Engine) -> Next {
        let projecting = &engine.shared().projecting;
        let recorded = projecting.recorded.swap(false, Ordering::AcqRel);
        let heard = projecting.heard.swap(false, Ordering::AcqRel);
        let due = self.looked.is_none_or(|at| at.elapsed() >= LOOK);
        if !self.holds && !due {
            if recorded {
                ring(Arc::clone(engine.store()), Bell::Requests);
                tokio::time::sleep(TELL).await;
            }
            let since = self.looked.map(|at| at.elapsed()).unwrap_or_default();
            return Next::WhenHeard(LOOK.saturating_sub(since));
        }
        let began = Instant::now();
        match self.look(engine).await {
            Ok(true) => Next::After(self.pause(projecting, began.elapsed())),
            // What was recorded a moment ago may not be behind the watermark yet.
            Ok(false) if self.holds && (recorded || heard) => Next::WhenHeard(AGAIN),
            Ok(false) => Next::WhenHeard(LOOK),
            Err(_) => {
                // What is in memory may be ahead of what was written.
                self.folds.clear();
                self.holds = false;
                Next::WhenHeard(AGAIN)
            }
        }
    }

    /// How long to wait after work that took so long, with more to do.
    fn pause(&self, projecting: &Projecting, worked: Duration) -> Duration {
        let is_far_behind = projecting.lag_ms.load(Ordering::Relaxed) > FAR_BEHIND_MS;
        match is_far_behind || self.walk.is_some() {
            true => GATHER,
            false => (worked * PAUSE_TIMES).clamp(GATHER, LONGEST_PAUSE),
        }
    }

    /// One look, and what follows from it; whether there may be more to do.
    async fn look(&mut self, engine: &Engine) -> Result<bool, Error> {
        let projections = Arc::clone(&self.projections);
        let look = projections.look(&self.holder, TERM_MS).await?;
        self.looked = Some(Instant::now());
        let lag = &engine.shared().projecting.lag_ms;
        lag.store(look.age_ms, Ordering::Relaxed);
        if look.requests {
            let age = if look.holds { 0 } else { ABANDONED_MS };
            engine.start_requested(&*projections, age).await?;
        }
        match (look.holds, self.holds) {
            (true, false) => self.walk = Some(None),
            (false, _) => self.folds.clear(),
            (true, true) => {}
        }
        self.holds = look.holds;
        if !look.holds {
            return Ok(false);
        }
        if look.definitions {
            self.plan(engine).await?;
        }
        let walked = self.walk(engine).await?;
        let changed = match look.changes {
            true => self.follow(engine).await?,
            false => false,
        };
        Ok(walked || changed)
    }

    /// Projects a page of the runs that are behind; whether there was one.
    async fn walk(&mut self, engine: &Engine) -> Result<bool, Error> {
        let Some(after) = self.walk else {
            return Ok(false);
        };
        let page = self.projections.unprojected(after, PAGE).await?;
        let last = page.last().map(|it| it.run);
        self.project(engine, page).await?;
        self.walk = last.map(Some);
        Ok(last.is_some())
    }

    /// Projects the oldest changes; whether there were any.
    async fn follow(&mut self, engine: &Engine) -> Result<bool, Error> {
        let batch = self.projections.changes().await?;
        if batch.watermark.is_empty() {
            return Ok(false);
        }
        self.project(engine, batch.runs).await?;
        self.projections.projected(&batch.watermark).await?;
        Ok(true)
    }

    /// Projects runs to where their logs ended when they were listed: a run that goes on meanwhile
    /// is not chased, record by record.
    async fn project(&mut self, engine: &Engine, runs: Vec<UnprojectedRun>) -> Result<(), Error> {
        for some in runs.chunks(RUNS) {
            let mut behind = some.to_vec();
            let ends: HashMap<RunId, u64> = some.iter().map(|it| (it.run, it.end)).collect();
            while !behind.is_empty() {
                let rows = self.fold(engine, behind).await?;
                if rows.is_empty() {
                    break;
                }
                let written = self.projections.project(rows.clone()).await?;
                behind = Vec::new();
                for (row, written) in rows.into_iter().zip(written) {
                    let end = ends.get(&row.run).copied().unwrap_or(0);
                    match (written, &row.problem) {
                        (true, None) if row.through >= end => {}
                        (true, None) => behind.push(UnprojectedRun {
                            run: row.run,
                            through: row.through,
                            end,
                        }),
                        // Another process has projected it, or it is gone.
                        _ => drop(self.folds.remove(&row.run)),
                    }
                }
            }
            self.folds.retain(|_, fold| !fold.has_ended());
            if self.folds.len() > FOLDED {
                self.folds.clear();
            }
        }
        Ok(())
    }

    /// The next rows of each run, on a thread that may wait for the store.
    async fn fold(
        &mut self,
        engine: &Engine,
        runs: Vec<UnprojectedRun>,
    ) -> Result<Vec<ProjectedRun>, Error> {
        let mut folds = std::mem::take(&mut self.folds);
        let (store, plans) = (Arc::clone(engine.store()), engine.plans().clone());
        let folding = tokio::task::spawn_blocking(move || {
            let mut rows = Vec::new();
            for run in runs {
                let next = next_rows(&*store, &plans, &mut folds, run)?;
                rows.extend(next);
            }
            Ok((folds, rows))
        });
        let stopped = |_| Error::Unavailable("the engine has stopped".to_owned());
        let (folds, rows) = folding.await.map_err(stopped)??;
        self.folds = folds;
        Ok(rows)
    }

    /// Writes plans of definitions that have none.
    async fn plan(&self, engine: &Engine) -> Result<(), Error> {
        for definition in self.projections.unplanned(PLANS).await? {
            let plan = match engine.plans().plan(definition.digest, &definition.text) {
                Ok(plan) => plan_json::plan_json(&plan),
                Err(problem) => serde_json::json!({ "problem": problem.to_string() }).to_string(),
            };
            self.projections.put_plan(&definition, plan).await?;
        }
        Ok(())
    }
}

/// The rows that follow in one run; none at the end of its log, or if it is gone.
fn next_rows(
    store: &dyn Backend,
    plans: &Plans,
    folds: &mut HashMap<RunId, RunFold>,
    UnprojectedRun { run, through, .. }: UnprojectedRun,
) -> Result<Option<ProjectedRun>, Error> {
    let mut fold = match folds.remove(&run) {
        Some(fold) if fold.through() == through => fold,
        _ => RunFold::new(run),
    };
    match fold.step(store, plans, through) {
        Ok(rows) => {
            folds.insert(run, fold);
            Ok(rows)
        }
        // A newer program knows what it says.
        Err(LoadError::NotFound(_) | LoadError::Store(Error::TooNew(_))) => Ok(None),
        Err(LoadError::Store(error @ (Error::Unavailable(_) | Error::Timeout(_)))) => Err(error),
        Err(problem) => {
            let head = store.head(run).wait()?;
            Ok(Some(ProjectedRun {
                run,
                from: through,
                through: head.sequence,
                position: 0,
                attempts: Vec::new(),
                events: Vec::new(),
                details: None,
                problem: Some(problem.to_string()),
            }))
        }
    }
}
