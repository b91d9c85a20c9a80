//! `windlass rebuild`: everything that derives from the logs, made anew from them.

use std::time::{Duration, Instant};

use serde_json::json;
use windlass_core::RunId;
use windlass_core::event::Event;
use windlass_engine::load_run;
use windlass_orchestrator::{resource_rows, row};
use windlass_store::{Queries as _, ResourceRow, RunRow, block_on};

use crate::exit::{Exit, Failure};
use crate::session::{Session, Settings};

/// Runs whose rows are replaced in one commit.
const BATCH: usize = 256;

/// Rebuilds the rows of every run.
pub(crate) fn run(settings: &Settings) -> Result<Exit, Failure> {
    let session = Session::write(settings.clone(), false)?;
    let mut progress = Progress::new(settings);
    let mut quarantined: Vec<(RunId, String)> = Vec::new();
    let (mut rebuilt, mut after) = (0usize, None);
    loop {
        let page = session.store.logged_runs(after, BATCH)?;
        let Some(&last) = page.last() else { break };
        after = Some(last);
        let mut rows = Vec::with_capacity(page.len());
        for run in page {
            match derive(&session, run) {
                Ok(derived) => rows.push(derived),
                Err(failure) => quarantined.push((run, failure.message)),
            }
        }
        rebuilt += rows.len();
        block_on(session.store.replace_rows(rows))?;
        progress.report(rebuilt);
    }
    if settings.output.json {
        let list = quarantined
            .iter()
            .map(|(run, reason)| json!({ "executionId": run.to_string(), "reason": reason }));
        settings.output.json(&json!({
            "rebuilt": rebuilt,
            "quarantined": list.collect::<Vec<_>>(),
        }))?;
    } else {
        let noun = if rebuilt == 1 { "run" } else { "runs" };
        settings.output.data(&format!("rebuilt {rebuilt} {noun}"))?;
        for (run, reason) in &quarantined {
            settings
                .output
                .say(&format!("left as it is: {run}: {reason}"));
        }
    }
    Ok(if quarantined.is_empty() {
        Exit::Done
    } else {
        Exit::Storage
    })
}

/// The row of a run and those of its links, from its log alone.
fn derive(session: &Session, run: RunId) -> Result<(RunRow, Vec<ResourceRow>), Failure> {
    let mut resources = Vec::new();
    let loaded = load_run(&session.store, &session.plans, run, |state, transition| {
        let Some(state) = state else { return };
        for event in &transition.events {
            if let Event::AttemptEnded(ended) = event {
                resources.extend(resource_rows(state, ended));
            }
        }
    })?;
    Ok((row(&loaded.run), resources))
}

/// Says how far it is, about once a second, to whoever waits longer than that.
struct Progress<'a> {
    settings: &'a Settings,
    next: Instant,
}

impl<'a> Progress<'a> {
    fn new(settings: &'a Settings) -> Self {
        let next = Instant::now() + Duration::from_secs(1);
        Self { settings, next }
    }

    fn report(&mut self, rebuilt: usize) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + Duration::from_secs(1);
            self.settings.output.say(&format!("{rebuilt} runs so far"));
        }
    }
}
