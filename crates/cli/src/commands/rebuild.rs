//! `windlass rebuild`: everything that derives from the logs, made anew from them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::access::{self, Access};
use crate::catalogue::{self, Rebuilt};
use crate::exit::{Exit, Failure};
use crate::remote;
use crate::session::Settings;

/// Rebuilds the rows of every run.
pub(crate) fn run(settings: &Settings) -> Result<Exit, Failure> {
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
