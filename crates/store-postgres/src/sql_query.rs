//! One statement that only reads, for people: in a transaction that may not write, with a limit on
//! time, rows and bytes. It opens no store, so that it works on a schema of another version.

use std::time::Duration;

use futures_util::{StreamExt as _, pin_mut};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::OpenError;
use crate::connect::Access;
use crate::error::told;
use crate::settings::Settings;

/// How much one query may take.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    /// How long the statement may run.
    pub time: Duration,
    /// How many rows are read.
    pub rows: usize,
    /// How many bytes of values are read.
    pub bytes: usize,
}

/// How a column's text is written as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// As JSON that it is already: numbers and JSON values.
    Json,
    /// `t` and `f`.
    Truth,
    /// As a string.
    Text,
}

/// What a query found.
#[derive(Debug)]
pub struct QueryAnswer {
    /// Names of columns, and how their values are written.
    pub columns: Vec<(String, ColumnKind)>,
    /// Values as PostgreSQL writes them; `None` is null.
    pub rows: Vec<Vec<Option<String>>>,
    /// Whether a limit cut the rows.
    pub truncated: bool,
}

/// Why a query has no answer.
#[derive(Debug)]
pub enum QueryError {
    /// The database cannot be used.
    Open(OpenError),
    /// The statement is not one that only reads.
    Refused(String),
    /// The database could not answer it.
    Failed(String),
    /// It took longer than it may.
    Timeout(Duration),
}

/// What a statement that only reads begins with.
const READING: [&str; 6] = ["select", "with", "values", "table", "show", "explain"];

/// Reads one statement's answer.
///
/// # Errors
/// The database cannot be used, or the statement is refused or fails.
pub fn read_query(
    settings: &Settings,
    sql: &str,
    limits: QueryLimits,
) -> Result<QueryAnswer, QueryError> {
    let word = first_word(sql);
    if !READING.contains(&word.as_str()) {
        return Err(QueryError::Refused(format!(
            "only statements that read are allowed ({}), not '{word}'",
            READING.join(", ")
        )));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| QueryError::Failed(error.to_string()))?;
    runtime.block_on(async {
        let access = Access::new(settings).map_err(QueryError::Open)?;
        let opened = access.config.connect(access.tls.clone()).await;
        let (client, connection) =
            opened.map_err(|error| QueryError::Open(access.refusal(&error)))?;
        let serving = tokio::spawn(connection);
        let mut answer = read(&client, &access.schema, sql, limits).await;
        if let Err(QueryError::Failed(text)) = &mut answer
            && let Some(reason) = hidden_schema(&client, settings).await
        {
            *text = format!("{text}: {reason}");
        }
        drop(client);
        // A statement that is under way ends with its connection.
        serving.abort();
        answer
    })
}

async fn read(
    client: &Client,
    schema: &str,
    sql: &str,
    limits: QueryLimits,
) -> Result<QueryAnswer, QueryError> {
    let failed = |error: tokio_postgres::Error| explained(&error, limits.time);
    let millis = limits.time.as_millis();
    let begin = format!(
        "begin read only; set local search_path to {schema}; \
         set local statement_timeout = {millis}; set local lock_timeout = {millis}"
    );
    client.batch_execute(&begin).await.map_err(failed)?;
    // The server refuses to prepare more than one statement, so none can follow the first.
    let prepared = client.prepare(sql).await.map_err(failed)?;
    let columns = prepared.columns().iter();
    let columns = columns.map(|it| (it.name().to_owned(), kind(it.type_())));
    let mut answer = QueryAnswer {
        columns: columns.collect(),
        rows: Vec::new(),
        truncated: false,
    };
    let mut bytes = 0;
    let messages = client.simple_query_raw(sql).await.map_err(failed)?;
    pin_mut!(messages);
    while let Some(message) = messages.next().await {
        if let SimpleQueryMessage::Row(row) = message.map_err(failed)? {
            let values = values(&row);
            bytes += values.iter().flatten().map(String::len).sum::<usize>();
            if answer.rows.len() == limits.rows || bytes > limits.bytes {
                answer.truncated = true;
                break;
            }
            answer.rows.push(values);
        }
    }
    Ok(answer)
}

/// Why no table of the schema is found. PostgreSQL passes over a schema that is missing, or that
/// the user may not use, and says only that there is no such table.
async fn hidden_schema(client: &Client, settings: &Settings) -> Option<String> {
    client.batch_execute("rollback").await.ok()?;
    let sql = "select has_schema_privilege(oid, 'usage') from pg_namespace where nspname = $1";
    let schema = &settings.schema;
    let usable = client.query_opt(sql, &[schema]).await.ok()?;
    match usable.map(|row| row.try_get::<_, bool>(0)) {
        Some(Ok(false)) => Some(format!(
            "the user may not use schema {schema} (GRANT USAGE ON SCHEMA)"
        )),
        Some(_) => None,
        None => Some(format!("the database has no schema {schema}")),
    }
}

fn values(row: &SimpleQueryRow) -> Vec<Option<String>> {
    let values = (0..row.len()).map(|at| row.get(at).map(str::to_owned));
    values.collect()
}

fn kind(type_: &Type) -> ColumnKind {
    match *type_ {
        Type::BOOL => ColumnKind::Truth,
        Type::INT2 | Type::INT4 | Type::INT8 | Type::JSON | Type::JSONB => ColumnKind::Json,
        _ => ColumnKind::Text,
    }
}

fn explained(error: &tokio_postgres::Error, time: Duration) -> QueryError {
    let Some(refusal) = error.as_db_error() else {
        return QueryError::Failed(told(error));
    };
    let text = refusal.message();
    match refusal.code().code() {
        "57014" => QueryError::Timeout(time),
        "25006" => QueryError::Refused(format!("the statement would write: {text}")),
        "42601" if text.contains("multiple commands") => {
            QueryError::Refused("only one statement is allowed".to_owned())
        }
        _ => {
            let hint = refusal.hint().map(|hint| format!(" ({hint})"));
            QueryError::Failed(format!("{text}{}", hint.unwrap_or_default()))
        }
    }
}

/// The first word of a statement in lower case, after comments, spaces and parentheses.
fn first_word(sql: &str) -> String {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|it: char| it.is_whitespace() || it == '(');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |it| it.1);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            // A comment inside a comment leaves a rest that begins with no known word.
            rest = comment.split_once("*/").map_or("", |it| it.1);
        } else {
            break;
        }
    }
    let word = rest.chars().take_while(|it| it.is_ascii_alphabetic());
    word.flat_map(char::to_lowercase).take(32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_by_its_first_word() {
        for (sql, word) in [
            ("select 1", "select"),
            ("  (\n(SELECT 1))", "select"),
            ("-- drop\n/* update */ With x as (select 1) table x", "with"),
            ("delete from runs", "delete"),
            ("/* open", ""),
            ("", ""),
        ] {
            assert_eq!(first_word(sql), word, "{sql}");
        }
    }
}
