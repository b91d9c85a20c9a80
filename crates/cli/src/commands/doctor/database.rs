//! What `windlass doctor` finds of a database, without changing anything in it.

use windlass_store::{Projections as _, Queries as _, Wait as _};
use windlass_store_postgres::SchemaChange;

use super::{Findings, Grade};
use crate::config::Config;
use crate::database;

/// A transaction that is open for longer than this holds back cleaning.
const LONG_TRANSACTION_S: u64 = 300;

/// Tables that are further behind the log than this are worth a word.
const LONG_LAG_MS: u64 = 60_000;

/// Opens the database, and looks at what it says of itself.
pub(super) fn check(config: &Config, url: Option<&str>, findings: &mut Findings) {
    let opened = database::settings(config, url)
        .and_then(|settings| database::open(&settings.schema_change(SchemaChange::Nothing)));
    let store = match opened {
        Ok(store) => store,
        Err(failure) => {
            let text = format!("{}: {}", failure.code, failure.message);
            let hint = failure.hint.unwrap_or_default();
            findings.add("database", Grade::Error, text, hint);
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
            "database",
            Grade::Error,
            error.to_string(),
            "check the server's own log",
        ),
    }
    match store.projection_lag().wait() {
        Ok(lag) if lag.problems > 0 => findings.add(
            "projection",
            Grade::Warn,
            format!("{} runs cannot be projected", lag.problems),
            "select run, problem from projection where problem is not null",
        ),
        Ok(_) => {}
        Err(error) => findings.add("projection", Grade::Error, error.to_string(), ""),
    }
}

fn graded(name: &str, value: &str) -> (Grade, &'static str) {
    let number = value.parse::<u64>().unwrap_or(0);
    match name {
        "oldest transaction (s)" if number > LONG_TRANSACTION_S => (
            Grade::Warn,
            "it holds back cleaning; see pg_stat_activity for the program that has it open",
        ),
        "projection lag (ms)" if number > LONG_LAG_MS => (
            Grade::Warn,
            "start a server: tables such as action_executions are written by one of them",
        ),
        _ => (Grade::Ok, ""),
    }
}
