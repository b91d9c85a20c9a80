//! What `windlass doctor` finds of NATS and the database beside it, without changing more than a
//! server that starts would.

use windlass_store::{Queries as _, Wait as _};

use super::{Findings, Grade};
use crate::config::Config;
use crate::nats;

/// Clocks that are further apart than this are worth a word: people notice it.
const FAR_APART_MS: u64 = 2_000;

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
                // Opening the store has applied what was missing.
                let value = match &*name {
                    "projection_lag" => store.found_behind().to_string(),
                    _ => value,
                };
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
    if let Ok(ahead) = store.clock_ahead_ms().wait() {
        let (grade, what) = graded_clock(ahead);
        let value = format!("{ahead} ms ahead of this machine's");
        findings.add("nats_clock", grade, value, what);
    }
    findings.add(
        "sync_interval",
        Grade::Warn,
        "nats-server does not tell clients how often it syncs".to_owned(),
        "set `sync_interval: always` in its jetstream block, or use three replicas",
    );
}

/// No clock orders anything, but people compare times, and the age of a value without a log is by
/// the server's clock.
fn graded_clock(ahead_ms: i64) -> (Grade, &'static str) {
    match ahead_ms.unsigned_abs() > FAR_APART_MS {
        true => (
            Grade::Warn,
            "the clocks of this machine and the NATS server are apart: synchronize both (NTP)",
        ),
        false => (Grade::Ok, ""),
    }
}

fn graded(name: &str, value: &str) -> (Grade, &'static str) {
    let number = value.parse::<u64>().unwrap_or(0);
    match name {
        "nats_replicas" if number < 3 => (
            Grade::Warn,
            "with one replica a lost disk loses runs beyond the database's watermark; start servers \
             with nats_replicas = 3",
        ),
        "nats_replicas_missing" => (
            Grade::Warn,
            "start `windlass serve` with nats_replicas set; the cluster needs as many servers",
        ),
        "nats_stream_away" => (
            Grade::Error,
            "start the nats-servers that keep it; see `nats stream report`",
        ),
        "nats_offline" => (
            Grade::Warn,
            "start that nats-server again, or remove it with `nats server cluster peer-remove`",
        ),
        "nats_behind" => (
            Grade::Warn,
            "it catches up by itself; if it does not, look at its log",
        ),
        "projection_lag" if number > LONG_LAG => (
            Grade::Warn,
            "records were not in the database when this command began, and are now; see that a \
             process with the role orchestrator runs, and that the database keeps up",
        ),
        _ => (Grade::Ok, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_lag_is_told() {
        let grade = |lag: u64| graded("projection_lag", &lag.to_string()).0;
        assert_eq!(grade(LONG_LAG), Grade::Ok);
        assert_eq!(grade(LONG_LAG + 1), Grade::Warn);
    }

    #[test]
    fn clocks_that_are_apart_in_either_direction_are_told() {
        for (ahead, expected) in [
            (0, Grade::Ok),
            (2_000, Grade::Ok),
            (2_001, Grade::Warn),
            (-60_000, Grade::Warn),
            (i64::MIN, Grade::Warn),
        ] {
            assert_eq!(graded_clock(ahead).0, expected, "{ahead}");
        }
    }
}
