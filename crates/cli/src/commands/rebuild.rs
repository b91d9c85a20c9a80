//! `windlass rebuild`: everything that derives from the logs, made anew from them.

use std::time::{Duration, Instant};

use serde_json::json;
use windlass_store::Wait as _;

use crate::access::{self, Access};
use crate::args::database::{Rebuild, RebuildSource};
use crate::catalogue::{self, Rebuilt};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::remote;
use crate::session::Settings;

/// Rebuilds the rows of every run, or streams that were lost.
pub(crate) fn run(
    settings: &Settings,
    config: &Config,
    arguments: &Rebuild,
) -> Result<Exit, Failure> {
    match arguments.from {
        None => rows(settings),
        Some(RebuildSource::Postgres) => streams(settings, config, arguments),
    }
}

/// Restores streams from the records in the database.
fn streams(settings: &Settings, config: &Config, arguments: &Rebuild) -> Result<Exit, Failure> {
    let needs = "NATS and the database themselves";
    let hint = "name them with --nats-url and --postgres-url, without --server";
    settings.refuse_server("rebuild --from postgres", needs, hint)?;
    let named = arguments.nats.nats_url.as_deref();
    let url = arguments.database.postgres_url.as_deref();
    let nats = crate::nats::settings(config, named, url)?.rebuilding(true);
    let store = crate::nats::open(&nats)?;
    let restored = store.restore_streams().wait()?;
    let output = settings.output;
    let told = |runs: &[windlass_core::RunId]| -> Vec<String> {
        runs.iter().map(ToString::to_string).collect()
    };
    let values: Vec<String> = restored.values.iter().map(ToString::to_string).collect();
    if output.json {
        output.json(&json!({
            "restored": restored.restored,
            "beyond": told(&restored.beyond),
            "quarantined": told(&restored.quarantined),
            "values": values,
        }))?;
    } else {
        output.line(&format!("restored the logs of {} runs", restored.restored))?;
        for run in told(&restored.beyond) {
            output.say(&format!(
                "lost: {run} was acknowledged, and no record of it is left"
            ));
        }
        for run in told(&restored.quarantined) {
            output.say(&format!(
                "quarantined: the log of {run} went on differently"
            ));
        }
        for value in &values {
            output.say(&format!("lost: the value {value}, which no object holds"));
        }
    }
    let lost = restored.beyond.len() + restored.quarantined.len() + values.len();
    Ok(match lost {
        0 => Exit::Done,
        _ => Exit::Storage,
    })
}

/// Rebuilds the rows of every run.
fn rows(settings: &Settings) -> Result<Exit, Failure> {
    let done = rebuild(settings)?;
    let (output, rebuilt) = (settings.output, done.rebuilt);
    if output.json {
        let list = done
            .quarantined
            .iter()
            .map(|(run, reason)| json!({ "executionId": run.to_string(), "reason": reason }));
        output.json(&json!({
            "rebuilt": rebuilt,
            "quarantined": list.collect::<Vec<_>>(),
        }))?;
    } else {
        let noun = if rebuilt == 1 { "run" } else { "runs" };
        output.line(&format!("rebuilt {rebuilt} {noun}"))?;
        for (run, reason) in &done.quarantined {
            output.say(&format!("left as it is: {run}: {reason}"));
        }
    }
    let more = done.left - done.quarantined.len();
    if more > 0 {
        output.say(&format!("{more} more runs were left as they are"));
    }
    Ok(if done.left == 0 {
        Exit::Done
    } else {
        Exit::Storage
    })
}

/// Rebuilds where it can be done; doing it twice is harmless.
fn rebuild(settings: &Settings) -> Result<Rebuilt, Failure> {
    access::act(settings, false, |access| {
        let mut progress = Progress::new(settings);
        let report = |rebuilt| progress.report(rebuilt);
        match access {
            Access::Held(session) => {
                Ok(catalogue::rebuild(&*session.store, &session.plans, report)?)
            }
            Access::Server(_, server) => remote::rebuild(server, report),
        }
    })
}

/// Prints how far it is, about once a second, once it takes longer than that.
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
