//! What `windlass doctor` finds of NATS and the database beside it, without changing more than a
//! server that starts would.

use windlass_store::{Queries as _, Wait as _};

use super::{Findings, Grade};
use crate::config::Config;
use crate::nats;

/// More records than this behind the log are worth a word.
const LONG_LAG: u64 = 10_000;

/// Opens the store as a server would, and looks at what it says of itself.
pub(super) fn check(
    config: &Config,
    (nats_url, postgres_url): (Option<&str>, Option<&str>),
    findings: &mut Findings,
) {
    let opened = nats::settings(config, nats_url, postgres_url);
    let store = match opened.and_then(|settings| nats::open(&settings)) {
        Ok(store) => store,
        Err(failure) => {
            let text = format!("{}: {}", failure.code, failure.message);
            let hint = failure.hint.unwrap_or_default();
            findings.add("nats", Grade::Error, text, hint);
            return;
        }
    };
    match store.health().wait() {
        Ok(health) => {
            for (name, value) in health.facts {
                let (grade, what) = graded(&name, &value);
                findings.add(name, grade, value, what);
            }
        }
        Err(error) => findings.add(
            "nats",
            Grade::Error,
            error.to_string(),
            "check the logs of nats-server and of the database",
        ),
    }
    findings.add(
        "sync_interval",
        Grade::Warn,
        "nats-server does not tell clients how often it syncs".to_owned(),
        "set `sync_interval: always` in its jetstream block, or use three replicas",
    );
}

fn graded(name: &str, value: &str) -> (Grade, &'static str) {
    let number = value.parse::<u64>().unwrap_or(0);
    match name {
        "nats_replicas" if number < 3 => (
            Grade::Warn,
            "with one replica a lost disk loses runs beyond the database's watermark",
        ),
        "projection_lag" if number > LONG_LAG => {
            (Grade::Warn, "the database does not follow the log")
        }
        _ => (Grade::Ok, ""),
    }
}
