//! Runs that were looked at a moment ago, kept as far as they were read, so that a program that
//! asks again has only the new records folded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use windlass_core::RunId;
use windlass_engine::history::PublicEvent;
use windlass_engine::view::Progress;

use crate::failure::Failure;
use crate::run_queries::{RunQueries, no_such_run};

/// How many runs are kept.
const RUNS: usize = 32;

/// How many node instances the kept runs may have together; each is about a kibibyte.
const INSTANCES: usize = 150_000;

/// For how long a run is kept after it was last asked for.
const KEPT: Duration = Duration::from_secs(60);

/// The kept runs.
#[derive(Default)]
pub struct ProgressCache {
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    run: RunId,
    progress: Progress,
    instances: usize,
    since: Instant,
}

impl ProgressCache {
    /// Reads a run to the end of its log and answers from it. The caller has checked that the run
    /// may be seen.
    ///
    /// # Errors
    /// There is no such run, it cannot be read, or what `answer` says.
    pub fn read<T>(
        &self,
        queries: &RunQueries,
        run: RunId,
        answer: impl FnOnce(&Progress) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut progress = self.take(run).unwrap_or_else(|| Progress::new(run));
        progress.read(&*queries.store, &queries.plans, None)?;
        let state = progress.run().ok_or_else(|| no_such_run(run))?;
        let instances = state.instances().count();
        let answer = answer(&progress);
        self.keep(run, progress, instances);
        answer
    }

    /// The events of a run after a position, if it was looked at a moment ago and they are among
    /// its last. The caller has checked that the run may be seen.
    ///
    /// # Errors
    /// The run cannot be read.
    pub fn events_after(
        &self,
        queries: &RunQueries,
        run: RunId,
        position: u64,
    ) -> Result<Option<Vec<Arc<PublicEvent>>>, Failure> {
        if !self.kept().iter().any(|kept| kept.run == run) {
            return Ok(None);
        }
        self.read(queries, run, |progress| {
            Ok(progress
                .events_after(position)
                .map(|events| events.cloned().collect()))
        })
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept
            .lock()
            .expect("nothing panics while it holds the kept runs")
    }

    /// Takes a run out: another reader meanwhile begins anew instead of waiting.
    fn take(&self, run: RunId) -> Option<Progress> {
        let mut kept = self.kept();
        kept.retain(|kept| kept.since.elapsed() < KEPT);
        let place = kept.iter().position(|kept| kept.run == run)?;
        kept.remove(place).map(|kept| kept.progress)
    }

    fn keep(&self, run: RunId, progress: Progress, instances: usize) {
        if instances > INSTANCES {
            return;
        }
        let mut kept = self.kept();
        kept.retain(|kept| kept.run != run);
        kept.push_back(Kept {
            run,
            progress,
            instances,
            since: Instant::now(),
        });
        let mut sum: usize = kept.iter().map(|kept| kept.instances).sum();
        while kept.len() > RUNS || sum > INSTANCES {
            match kept.pop_front() {
                Some(first) => sum -= first.instances,
                None => break,
            }
        }
    }
}
