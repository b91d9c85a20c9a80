//! `windlass query`: the tables of a database, by one statement that only reads.

use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use windlass_store_postgres::{ColumnKind, QueryAnswer, QueryError, QueryLimits, read_query};

use crate::args::database::Query;
use crate::config::Config;
use crate::database;
use crate::exit::{Exit, Failure};
use crate::session::Settings;
use crate::table::Table;

/// The most bytes of values that are read.
const MOST_BYTES: usize = 64 << 20;

/// Reads and prints.
pub(crate) fn run(
    settings: &Settings,
    config: &Config,
    arguments: &Query,
) -> Result<Exit, Failure> {
    settings.refuse_server(
        "query",
        "a database",
        "name it with --postgres-url, without --server",
    )?;
    let database = database::settings(config, arguments.database.postgres_url.as_deref())?;
    let limits = QueryLimits {
        time: Duration::from_secs(arguments.timeout.into()),
        rows: arguments.limit as usize,
        bytes: MOST_BYTES,
    };
    let answer = read_query(&database, &arguments.sql, limits).map_err(failure)?;
    let output = settings.output;
    if output.json {
        output.data(&json(&answer)?)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::named(answer.columns.iter().map(|it| it.0.clone()));
    for row in &answer.rows {
        let cells = row
            .iter()
            .map(|value| value.as_deref().unwrap_or("").into());
        table.row(cells);
    }
    output.data(&table.render(&output))?;
    if answer.truncated {
        let count = answer.rows.len();
        output.say(&format!(
            "only the first {count} rows; --limit takes more, or narrow the statement"
        ));
    }
    Ok(Exit::Done)
}

/// The answer for programs. Numbers that JSON may not hold exactly stay as they are written.
fn json(answer: &QueryAnswer) -> Result<String, Failure> {
    let unwritable = |error| Failure::new(Exit::Storage, "OUTPUT_FAILED", error);
    let mut rows = Vec::new();
    for row in &answer.rows {
        let mut members = Vec::new();
        for ((name, kind), value) in answer.columns.iter().zip(row) {
            let value = value.as_deref();
            members.push((name.as_str(), written(*kind, value).map_err(unwritable)?));
        }
        let members = members.iter().map(|(name, value)| (*name, value.get()));
        rows.push(windlass_core::value::object_text(members));
    }
    let columns = answer.columns.iter().map(|it| Value::from(&*it.0));
    let columns = Value::Array(columns.collect()).to_string();
    let rows = format!("[{}]", rows.join(","));
    let truncated = answer.truncated.to_string();
    Ok(windlass_core::value::object_text([
        ("columns", &*columns),
        ("rows", &*rows),
        ("truncated", &*truncated),
    ]))
}

fn written(kind: ColumnKind, value: Option<&str>) -> Result<Box<RawValue>, serde_json::Error> {
    let text = match (kind, value) {
        (_, None) => "null".to_owned(),
        (ColumnKind::Json, Some(text)) => text.to_owned(),
        (ColumnKind::Truth, Some(text)) => (text == "t").to_string(),
        (ColumnKind::Text, Some(text)) => Value::from(text).to_string(),
    };
    RawValue::from_string(text)
}

fn failure(error: QueryError) -> Failure {
    match error {
        QueryError::Open(error) => database::failure(error),
        QueryError::Refused(message) => Failure::new(Exit::Usage, "QUERY_REFUSED", message),
        QueryError::Failed(message) => Failure::new(Exit::Invalid, "QUERY_FAILED", message)
            .hint("docs/postgres.md lists the tables and their columns"),
        QueryError::Timeout(time) => {
            let message = format!("the statement took longer than {} s", time.as_secs());
            Failure::new(Exit::TimedOut, "QUERY_TIMEOUT", message)
                .hint("narrow the statement, or give it more time with --timeout")
        }
    }
}
