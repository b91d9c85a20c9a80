//! Lists over the rows of runs, and their resource links.
//!
//! Every list walks an index in the order of run ids and stops when the page is full. With
//! a status or a workflow, each status is walked in its own range of an index and the walks
//! are merged, so that a page costs the same among a million rows as among a hundred.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};
use windlass_core::{Millis, RunId, RunStatus};
use windlass_store::{Head, ResourceRow, RunFilter, RunPage, RunRow, TenantFilter};

use crate::codec::{self, Labels, RUN_COLUMNS, Sum, status_code};
use crate::error::{self, Fault};
use crate::log;
use crate::writer::Session;

/// Up to this many runs are looked at one by one when only those since a moment count.
const FEW: i64 = 5000;

/// See `Queries::runs`.
pub(crate) fn runs(connection: &Connection, filter: &RunFilter) -> Result<RunPage, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let wanted = filter.page().saturating_add(1);
    let mut rows = if let Some((key, value)) = filter.labels.first_key_value() {
        labelled(&transaction, filter, key, value, wanted)?
    } else if let Some(parent) = filter.parent {
        of_parent(&transaction, filter, parent, wanted)?
    } else if let Some(since) = filter.since.filter(|since| is_recent(&transaction, *since)) {
        recent(&transaction, filter, since)?
    } else if index(filter) == Index::Run {
        walk(&transaction, filter, None, wanted)?
    } else {
        let mut rows = Vec::new();
        for status in RunStatus::ALL {
            if filter.statuses.is_empty() || filter.statuses.contains(&status) {
                // The index of statuses alone keeps those that sleep apart.
                let ranges: &[_] = match index(filter) {
                    Index::Status => &[Some(false), Some(true)],
                    _ => &[None],
                };
                for asleep in ranges {
                    let range = Some((status, *asleep));
                    rows.extend(walk(&transaction, filter, range, wanted)?);
                }
            }
        }
        rows
    };
    rows.sort_by_key(|row| std::cmp::Reverse(row.run));
    let more = rows.len() >= wanted;
    rows.truncate(filter.page());
    let next = rows.last().filter(|_| more).map(|row| row.run);
    Ok(RunPage { rows, next })
}

/// The index that a list walks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Run,
    Status,
    Workflow,
    Tenant,
}

fn index(filter: &RunFilter) -> Index {
    match (&filter.workflow, &filter.tenant) {
        (Some(_), _) => Index::Workflow,
        (None, TenantFilter::Only(Some(_))) => Index::Tenant,
        (None, _) if filter.statuses.is_empty() => Index::Run,
        (None, _) => Index::Status,
    }
}

/// The first rows that match, newest first, in one range of one index.
fn walk(
    connection: &Connection,
    filter: &RunFilter,
    range: Option<(RunStatus, Option<bool>)>,
    wanted: usize,
) -> Result<Vec<RunRow>, Fault> {
    let by = match index(filter) {
        Index::Run => "sqlite_autoindex_run_1",
        Index::Status => "run_by_status",
        Index::Workflow => "run_by_workflow",
        Index::Tenant => "run_by_tenant",
    };
    let mut sql = format!("SELECT {RUN_COLUMNS} FROM run INDEXED BY {by} WHERE status IS NOT NULL");
    let mut values: Vec<Value> = Vec::new();
    let mut also = |condition: &str, value: Value| {
        sql.push_str(" AND ");
        sql.push_str(condition);
        values.push(value);
    };
    if let Some((status, asleep)) = range {
        also("status = ?", status_code(status).into());
        if let Some(asleep) = asleep {
            also("asleep = ?", i64::from(asleep).into());
        }
    }
    if let Some(workflow) = &filter.workflow {
        also("workflow = ?", workflow.to_string().into());
    }
    if let TenantFilter::Only(Some(tenant)) = &filter.tenant {
        also("tenant = ?", tenant.to_string().into());
    }
    if let Some(before) = filter.before {
        also("run.run < ?", before.as_bytes().to_vec().into());
    }
    if let Some(since) = filter.since {
        // The plus keeps the index of moments out of it, which would have to sort.
        also("+created_at >= ?", since.0.into());
    }
    sql.push_str(" ORDER BY run.run DESC");
    select(connection, &sql, values, filter, wanted)
}

/// The first rows that have a label and match, newest first.
fn labelled(
    connection: &Connection,
    filter: &RunFilter,
    key: &str,
    value: &str,
    wanted: usize,
) -> Result<Vec<RunRow>, Fault> {
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM label CROSS JOIN run ON run.run = label.run \
         WHERE label.key = ? AND label.value = ? AND label.run < ? \
         AND status IS NOT NULL ORDER BY label.run DESC"
    );
    let values = vec![
        key.to_owned().into(),
        value.to_owned().into(),
        end(filter).into(),
    ];
    select(connection, &sql, values, filter, wanted)
}

/// The first rows that have a parent and match, newest first.
fn of_parent(
    connection: &Connection,
    filter: &RunFilter,
    parent: RunId,
    wanted: usize,
) -> Result<Vec<RunRow>, Fault> {
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_by_parent \
         WHERE parent = ? AND run.run < ? AND status IS NOT NULL ORDER BY run.run DESC"
    );
    let values = vec![parent.as_bytes().to_vec().into(), end(filter).into()];
    select(connection, &sql, values, filter, wanted)
}

/// The cursor, or what is longer than any id, and greater.
fn end(filter: &RunFilter) -> Vec<u8> {
    filter
        .before
        .map_or_else(|| vec![0xff; 17], |run| run.as_bytes().to_vec())
}

/// Whether few runs were created since then. Run ids are in the order of creation only
/// roughly, so a walk in their order cannot tell when it has seen the last of them.
fn is_recent(connection: &Connection, since: Millis) -> bool {
    const SQL: &str = "SELECT count(*) FROM (SELECT 1 FROM run INDEXED BY run_by_created \
         WHERE status IS NOT NULL AND created_at >= ? LIMIT ?)";
    let count = connection
        .prepare_cached(SQL)
        .and_then(|mut statement| statement.query_row([since.0, FEW], |row| row.get::<_, i64>(0)));
    count.is_ok_and(|count| count < FEW)
}

fn recent(
    connection: &Connection,
    filter: &RunFilter,
    since: Millis,
) -> Result<Vec<RunRow>, Fault> {
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_by_created \
         WHERE status IS NOT NULL AND created_at >= ?"
    );
    select(connection, &sql, vec![since.0.into()], filter, usize::MAX)
}

/// The first rows of a statement that match.
fn select(
    connection: &Connection,
    sql: &str,
    values: Vec<Value>,
    filter: &RunFilter,
    wanted: usize,
) -> Result<Vec<RunRow>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while found.len() < wanted
        && let Some(row) = rows.next()?
    {
        let row = codec::run_row(row)?;
        if filter.matches(&row) {
            found.push(row);
        }
    }
    Ok(found)
}

/// Makes a run known by its labels.
pub(crate) fn label(connection: &Connection, run: RunId, labels: &Labels) -> Result<(), Fault> {
    for (key, value) in labels {
        connection
            .prepare_cached("INSERT OR IGNORE INTO label (key, value, run) VALUES (?, ?, ?)")?
            .execute((key, value, run.as_bytes()))?;
    }
    Ok(())
}

/// Undoes [`label`].
pub(crate) fn unlabel(connection: &Connection, run: RunId, labels: &Labels) -> Result<(), Fault> {
    for (key, value) in labels {
        connection
            .prepare_cached("DELETE FROM label WHERE key = ? AND value = ? AND run = ?")?
            .execute((key, value, run.as_bytes()))?;
    }
    Ok(())
}

/// Checks that the labels of a row are among those it can be found by; counts them.
pub(crate) fn check_labels(connection: &Connection, row: &RunRow) -> Result<i64, Fault> {
    for (key, value) in &row.labels {
        let known: bool = connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM label WHERE key = ? AND value = ? AND run = ?)",
            )?
            .query_row((key, value, row.run.as_bytes()), |row| row.get(0))?;
        if !known {
            let reason = format!("the run cannot be found by its label {key}");
            return Err(error::damage(reason).into());
        }
    }
    Ok(i64::try_from(row.labels.len()).unwrap_or(i64::MAX))
}

/// See `Queries::runs_with_prefix`.
pub(crate) fn with_prefix(
    connection: &Connection,
    prefix: &str,
    limit: usize,
) -> Result<Vec<RunId>, Fault> {
    let Some((low, high)) = range(prefix) else {
        return Ok(Vec::new());
    };
    let mut statement = connection
        .prepare_cached("SELECT run FROM run WHERE run BETWEEN ? AND ? ORDER BY run LIMIT ?")?;
    let runs = statement.query_map(params![low, high, limit_value(limit)], |row| {
        codec::run_id(row, 0)
    })?;
    Ok(runs.collect::<Result<_, _>>()?)
}

/// The least and the greatest id whose text begins so; `None` if none can.
fn range(prefix: &str) -> Option<([u8; 16], [u8; 16])> {
    let mut low = [0u8; 16];
    let mut high = [0xffu8; 16];
    for (at, digit) in prefix.chars().filter(|c| *c != '-').enumerate() {
        let digit = u8::try_from(digit.to_digit(16)?).ok()?;
        let (byte, shift) = (at / 2, if at % 2 == 0 { 4 } else { 0 });
        *low.get_mut(byte)? |= digit << shift;
        *high.get_mut(byte)? &= (digit << shift) | !(0xf << shift);
    }
    Some((low, high))
}

/// See `Queries::unfinished` and `Queries::awake`: those that do not sleep, and perhaps
/// those that do.
pub(crate) fn unfinished(
    connection: &Connection,
    after: Option<RunId>,
    limit: usize,
    sleeping: &[bool],
) -> Result<Vec<RunRow>, Fault> {
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_by_status \
         WHERE status = ? AND asleep = ? AND run.run > ? ORDER BY run.run LIMIT ?"
    );
    let after = after.map_or_else(Vec::new, |run| run.as_bytes().to_vec());
    let transaction = connection.unchecked_transaction()?;
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for status in RunStatus::ALL.into_iter().filter(|s| !s.is_final()) {
        for asleep in sleeping {
            let range = params![status_code(status), asleep, after, limit_value(limit)];
            for row in statement.query_map(range, codec::run_row)? {
                found.push(row?);
            }
        }
    }
    found.sort_by_key(|row| row.run);
    found.truncate(limit);
    Ok(found)
}

/// See `Queries::due`.
pub(crate) fn due(
    connection: &Connection,
    after: Option<(Millis, RunId)>,
    until: Millis,
    limit: usize,
) -> Result<Vec<(RunId, Millis)>, Fault> {
    let (from, last) = match &after {
        Some((at, run)) => (at.0, run.as_bytes().as_slice()),
        None => (i64::MIN, [].as_slice()),
    };
    let mut statement = connection.prepare_cached(
        "SELECT run, wake_at FROM run INDEXED BY run_by_wake \
         WHERE asleep = 1 AND status < 3 AND dead = 0 AND wake_at <= ? AND (wake_at, run) > (?, ?) \
         ORDER BY wake_at, run LIMIT ?",
    )?;
    let limits = (until.0, from, last, limit_value(limit));
    let due = statement.query_map(limits, |row| {
        Ok((codec::run_id(row, 0)?, codec::millis(row, 1)?))
    })?;
    Ok(due.collect::<Result<_, _>>()?)
}

/// See `Queries::next_wake`.
pub(crate) fn next_wake(connection: &Connection) -> Result<Option<Millis>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT wake_at FROM run INDEXED BY run_by_wake \
         WHERE asleep = 1 AND status < 3 AND dead = 0 AND wake_at IS NOT NULL ORDER BY wake_at LIMIT 1",
    )?;
    let first = statement.query_row([], |row| codec::millis(row, 0));
    Ok(first.optional()?)
}

/// See `Queries::children`.
pub(crate) fn children(connection: &Connection, parent: RunId) -> Result<Vec<RunRow>, Fault> {
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_by_parent \
         WHERE parent = ? AND status IS NOT NULL ORDER BY run.run"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([parent.as_bytes()], codec::run_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// See `Queries::logged_runs`.
pub(crate) fn logged(
    connection: &Connection,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunId>, Fault> {
    let after = after.map_or_else(Vec::new, |run| run.as_bytes().to_vec());
    let mut statement = connection.prepare_cached(
        "SELECT run FROM run WHERE run > ? AND sequence > 0 ORDER BY run LIMIT ?",
    )?;
    let runs = statement.query_map(params![after, limit_value(limit)], |row| {
        codec::run_id(row, 0)
    })?;
    Ok(runs.collect::<Result<_, _>>()?)
}

pub(crate) fn limit_value(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// See `Queries::resources`.
pub(crate) fn resources(connection: &Connection, run: RunId) -> Result<Vec<ResourceRow>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, system, kind, id, url, run, node, sum FROM resource \
         WHERE run = ? ORDER BY number",
    )?;
    let rows = statement.query_map([run.as_bytes()], resource_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// See `Queries::resource`.
pub(crate) fn resource(
    connection: &Connection,
    tenant: Option<&str>,
    system: &str,
    kind: &str,
    id: &str,
) -> Result<Option<ResourceRow>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, system, kind, id, url, run, node, sum FROM resource \
         WHERE tenant = ? AND system = ? AND kind = ? AND id = ?",
    )?;
    let key = params![tenant.unwrap_or_default(), system, kind, id];
    Ok(statement.query_row(key, resource_row).optional()?)
}

fn resource_row(row: &Row<'_>) -> rusqlite::Result<ResourceRow> {
    let tenant: Box<str> = row.get(0)?;
    let decoded = ResourceRow {
        tenant: (!tenant.is_empty()).then_some(tenant),
        system: row.get(1)?,
        kind: row.get(2)?,
        id: row.get(3)?,
        url: row.get(4)?,
        run: codec::run_id(row, 5)?,
        node: row.get(6)?,
    };
    resource_sum(&decoded).check(row, 7)?;
    Ok(decoded)
}

fn resource_sum(row: &ResourceRow) -> Sum {
    Sum::default()
        .bytes(row.run.as_bytes())
        .text(row.tenant.as_deref().unwrap_or_default())
        .text(&row.system)
        .text(&row.kind)
        .text(&row.id)
        .optional_text(row.url.as_deref())
        .text(&row.node)
}

/// Keeps resource links; a duplicate is left out.
pub(crate) fn link(connection: &Connection, resources: &[ResourceRow]) -> Result<(), Fault> {
    for row in resources {
        connection
            .prepare_cached(
                "INSERT OR IGNORE INTO resource (run, tenant, system, kind, id, url, node, sum) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                row.run.as_bytes(),
                row.tenant.as_deref().unwrap_or_default(),
                row.system,
                row.kind,
                row.id,
                row.url,
                row.node,
                resource_sum(row).value(),
            ])?;
    }
    Ok(())
}

/// See `Queries::replace_rows`.
pub(crate) fn replace(
    session: &mut Session<'_>,
    rows: &[(RunRow, Vec<ResourceRow>)],
) -> Result<(), Fault> {
    let connection = session.connection;
    for (row, resources) in rows {
        match log::find(connection, row.run)? {
            Some(entry) => {
                log::update_row(connection, &entry, entry.head, row)?;
            }
            None => {
                log::insert_row(connection, row.run, Head::NONE, row)?;
            }
        }
        session.heads.forget(row.run);
        connection
            .prepare_cached("DELETE FROM resource WHERE run = ?")?
            .execute([row.run.as_bytes()])?;
        link(connection, resources)?;
    }
    Ok(())
}
