//! What SQLite would do for a statement: tests use it to see that a question costs the
//! same among many rows as among few.

use rusqlite::{Connection, StatementStatus, ToSql, params_from_iter};

/// An empty database with the present schema.
pub(crate) fn empty() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(include_str!("schema.sql"))
        .unwrap();
    connection
}

/// The steps of a statement's plan.
pub(crate) fn plan(sql: &str) -> Vec<String> {
    let connection = empty();
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let parameters = statement.parameter_count();
    let values = (0..parameters).map(|_| rusqlite::types::Null);
    let steps = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
    steps.unwrap().map(Result::unwrap).collect()
}

/// The statement searches this index, and does nothing else: no scan, no sorting.
pub(crate) fn assert_searches(sql: &str, index: &str) {
    let plan = plan(sql);
    let [only] = &*plan else {
        panic!("{sql}: {plan:?}");
    };
    let (how, terms) = only.split_once(" (").unwrap_or((only, ""));
    assert!(how.starts_with("SEARCH"), "{sql}: {only}");
    assert!(how.ends_with(&format!(" {index}")), "{sql}: {only}");
    assert!(!terms.is_empty(), "{sql}: {only}");
}

/// Steps of SQLite's machine that a statement takes to its end.
pub(crate) fn cost(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> i32 {
    cost_of(connection, sql, values, usize::MAX)
}

/// Steps of SQLite's machine that the first rows of a statement take.
pub(crate) fn cost_of(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    count: usize,
) -> i32 {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query(values).unwrap();
    let mut read = 0;
    while read < count && rows.next().unwrap().is_some() {
        read += 1;
    }
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}
