//! How soon a run with many iterations is recovered: the process that executes it is killed, and
//! another begins.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_core::RunId;
use windlass_store::{Log as _, Queries as _, RunFilter, Wait as _};
use windlass_store_embedded::{EmbeddedStore, Options};

use super::process::{failed, quiet};
use crate::exit::Failure;

/// How often the benchmark reads how far the run is.
const LOOK: Duration = Duration::from_millis(1);

/// Runs a file until its log has so many records, kills the process, and measures the time
/// until the run's next record from the moment a new process is started.
pub(crate) fn measure(
    program: &Path,
    data: &Path,
    file: &Path,
    rounds: usize,
) -> Result<Value, Failure> {
    let begin = |arguments: &[&str], what: &std::ffi::OsStr| {
        let mut command = Command::new(program);
        command.args(arguments).arg("--data-dir").arg(data);
        let child = quiet(command.arg(what)).spawn();
        child.map(Killed).map_err(|error| failed(&error))
    };
    let mut first = begin(&["run", "--json"], file.as_os_str())?;
    let (store, run) = find(data, &mut first)?;
    until(&store, run, rounds as u64, &mut first)?;
    drop(first);
    let before = store.head(run).wait()?.sequence;
    let begun = Instant::now();
    let mut second = begin(&["resume", "--json"], run.to_string().as_ref())?;
    until(&store, run, before + 1, &mut second)?;
    let took = begun.elapsed();
    drop(second);
    Ok(json!({
        "records": before,
        "seconds": took.as_secs_f64(),
        "target": "under a second, however often it went round",
    }))
}

/// The only run of a data directory, as soon as there is one.
fn find(data: &Path, process: &mut Killed) -> Result<(EmbeddedStore, RunId), Failure> {
    let filter = RunFilter {
        limit: 1,
        ..RunFilter::default()
    };
    loop {
        process.queries()?;
        let options = Options {
            create: false,
            exclusive: false,
            ..Options::default()
        };
        // Until the other process has made it, there is nothing to open.
        let Ok(opened) = EmbeddedStore::open(data, options) else {
            continue;
        };
        let found = opened.store.runs(&filter).wait()?.rows.into_iter().next();
        if let Some(row) = found {
            return Ok((opened.store, row.run));
        }
    }
}

/// Waits until a run's log has this many records.
fn until(
    store: &EmbeddedStore,
    run: RunId,
    records: u64,
    process: &mut Killed,
) -> Result<(), Failure> {
    while store.head(run).wait()?.sequence < records {
        process.queries()?;
    }
    Ok(())
}

/// A process that does not outlive its measurement, and is not asked to end.
struct Killed(Child);

impl Killed {
    /// Waits a moment. A process that has ended does nothing more to wait for.
    fn queries(&mut self) -> Result<(), Failure> {
        std::thread::sleep(LOOK);
        match self.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(ended)) => Err(failed(&ended)),
            Err(error) => Err(failed(&error)),
        }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, and need not be.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
