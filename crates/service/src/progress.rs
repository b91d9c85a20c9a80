//! Runs that were looked at a moment ago, kept as far as they were read, so that a program that
//! asks again has only the new records folded.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use windlass_core::RunId;
use windlass_engine::history::PublicEvent;
use windlass_engine::view::{self, Options, Progress};

use crate::failure::Failure;
use crate::run_queries::{RunQueries, no_such_run};

/// How many runs are kept.
const RUNS: usize = 32;

/// How many node instances the kept runs may have together; each is about a kibibyte.
const INSTANCES: usize = 150_000;

/// For how long a run is kept after it was last asked for.
const KEPT: Duration = Duration::from_secs(60);

/// How large the answer about a run without its nodes may be to be written from what is kept: a
/// reader that takes its answer slowly must not keep others from the run.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// The kept runs.
#[derive(Default)]
pub struct ProgressCache {
    /// The one that was asked for last is the last.
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    run: RunId,
    /// Readers of the same run wait for the one that folds its log, and fold it no second time.
    progress: Arc<Mutex<Progress>>,
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
        answer: impl FnOnce(&mut Progress) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let shared = self.shared(run);
        let mut progress = lock(&shared, run);
        if let Err(error) = progress.read(&*queries.store, &queries.plans, None) {
            // Part of a page may be folded.
            *progress = Progress::new(run);
            return Err(error.into());
        }
        let state = progress.run().ok_or_else(|| no_such_run(run))?;
        let instances = state.instances().count();
        let answer = answer(&mut progress);
        drop(progress);
        self.weigh(&shared, instances);
        answer
    }

    /// Writes a run without its nodes. The caller has checked that the run may be seen.
    ///
    /// # Errors
    /// There is no such run, it cannot be read, or the output does not take it.
    pub fn write(
        &self,
        queries: &RunQueries,
        run: RunId,
        options: &Options,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let (store, plans) = (&*queries.store, &queries.plans);
        let mut text = Bounded::default();
        let written = self.read(queries, run, |progress| {
            Ok(progress.write(store, plans, options, &mut text))
        })?;
        match written {
            Ok(()) => out.write_all(&text.bytes).map_err(view::Error::Write)?,
            Err(_) if text.is_full => view::write(store, plans, run, options, out)?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
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

    /// What is kept of a run, or a beginning.
    fn shared(&self, run: RunId) -> Arc<Mutex<Progress>> {
        let mut kept = self.kept();
        kept.retain(|kept| kept.since.elapsed() < KEPT);
        let place = kept.iter().position(|kept| kept.run == run);
        let mut found = place
            .and_then(|place| kept.remove(place))
            .unwrap_or_else(|| Kept {
                run,
                progress: Arc::new(Mutex::new(Progress::new(run))),
                instances: 0,
                since: Instant::now(),
            });
        found.since = Instant::now();
        let progress = Arc::clone(&found.progress);
        kept.push_back(found);
        progress
    }

    /// Notes how large a run is; drops it if it is too large, or older ones that take its room.
    fn weigh(&self, progress: &Arc<Mutex<Progress>>, instances: usize) {
        let mut kept = self.kept();
        if let Some(place) = kept
            .iter()
            .position(|kept| Arc::ptr_eq(&kept.progress, progress))
        {
            kept[place].instances = instances;
            if instances > INSTANCES {
                kept.remove(place);
            }
        }
        let mut sum: usize = kept.iter().map(|kept| kept.instances).sum();
        while kept.len() > RUNS || sum > INSTANCES {
            match kept.pop_front() {
                Some(first) => sum -= first.instances,
                None => break,
            }
        }
    }
}

/// A reader that panicked may have left half of an event; the log is read from its beginning then.
fn lock(progress: &Mutex<Progress>, run: RunId) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(|poisoned| {
        let mut guard = poisoned.into_inner();
        *guard = Progress::new(run);
        progress.clear_poison();
        guard
    })
}

/// Bytes up to [`ANSWER_BYTES`].
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > ANSWER_BYTES {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
