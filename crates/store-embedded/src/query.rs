//! Lists over the rows of runs but for the pages of `page.rs`, and their resource links.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windlass_core::{Millis, RunId, RunStatus};
use windlass_store::{Head, Relatives, ResourceRow, RunRow, StatusCounts, TenantFilter};

use crate::codec::{self, Indexed, RUN_COLUMNS, Sum, status_code};
use crate::damaged::{self, DamagedRows};
use crate::error::{self, Fault};
use crate::log;
use crate::writer::Session;

/// Makes a run known by its labels, the codes of its errors and its origin.
pub(crate) fn label(connection: &Connection, run: RunId, row: &Indexed) -> Result<(), Fault> {
    const SQL: &str =
        "INSERT OR IGNORE INTO label (key, value, tenant, status, run) VALUES (?, ?, ?, ?, ?)";
    each_term(connection, SQL, run, row)
}

/// Undoes [`label`].
pub(crate) fn unlabel(connection: &Connection, run: RunId, row: &Indexed) -> Result<(), Fault> {
    const SQL: &str = "DELETE FROM label \
         WHERE key = ? AND value = ? AND tenant = ? AND status = ? AND run = ?";
    each_term(connection, SQL, run, row)
}

fn each_term(connection: &Connection, sql: &str, run: RunId, row: &Indexed) -> Result<(), Fault> {
    let tenant = row.tenant.as_deref().unwrap_or_default();
    for (key, value) in row.terms() {
        let place = params![key, value, tenant, row.status, run.as_bytes()];
        connection.prepare_cached(sql)?.execute(place)?;
    }
    Ok(())
}

/// Checks that a run is found by all that its row says; counts those entries.
pub(crate) fn check_labels(connection: &Connection, row: &RunRow) -> Result<i64, Fault> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM label \
         WHERE key = ? AND value = ? AND tenant = ? AND status = ? AND run = ?)";
    let indexed = codec::indexed(row);
    let terms = indexed.terms();
    let tenant = row.tenant.as_deref().unwrap_or_default();
    for (key, value) in &terms {
        let place = params![key, value, tenant, indexed.status, row.run.as_bytes()];
        let mut statement = connection.prepare_cached(SQL)?;
        let known: bool = statement.query_row(place, |row| row.get(0))?;
        if !known {
            let key = key.trim_start_matches('\u{1}');
            let reason = format!("the run cannot be found by its label {key}");
            return Err(error::damage(reason).into());
        }
    }
    Ok(i64::try_from(terms.len()).unwrap_or(i64::MAX))
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

/// See `Queries::count_runs`: counts entries of an index, whose runs stand in the order of
/// their times.
pub(crate) fn count(
    connection: &Connection,
    tenant: &TenantFilter,
    moments: &[Millis],
) -> Result<Vec<StatusCounts>, Fault> {
    let sql = match tenant {
        TenantFilter::Any => {
            "SELECT count(*) FROM run INDEXED BY run_by_status \
             WHERE status = ?1 AND asleep IN (0, 1) AND run >= ?2 AND run < ?3 AND ?4 IS NULL"
        }
        TenantFilter::Only(_) => {
            "SELECT count(*) FROM run INDEXED BY run_by_tenant \
             WHERE status = ?1 AND run >= ?2 AND run < ?3 AND tenant IS ?4"
        }
    };
    let tenant = match tenant {
        TenantFilter::Any => None,
        TenantFilter::Only(tenant) => tenant.as_deref(),
    };
    let transaction = connection.unchecked_transaction()?;
    let mut statement = transaction.prepare_cached(sql)?;
    let mut counts = Vec::new();
    for span in moments.windows(2) {
        let mut counted = StatusCounts::default();
        let (from, to) = (RunId::first_of(span[0]), RunId::first_of(span[1]));
        for status in RunStatus::ALL {
            let wanted = params![status_code(status), from.as_bytes(), to.as_bytes(), tenant];
            let count: i64 = statement.query_row(wanted, |row| row.get(0))?;
            counted.add(status, u64::try_from(count).unwrap_or(0));
        }
        counts.push(counted);
    }
    Ok(counts)
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
    damaged_rows: &DamagedRows,
    after: Option<RunId>,
    limit: usize,
    sleeping: &[bool],
) -> Result<Vec<RunRow>, Fault> {
    let open = RunStatus::ALL.into_iter().filter(|s| !s.is_final());
    in_statuses(
        connection,
        damaged_rows,
        &open.collect::<Vec<_>>(),
        after,
        limit,
        sleeping,
    )
}

/// See `Admission::begun`.
pub(crate) fn begun(
    connection: &Connection,
    damaged_rows: &DamagedRows,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunRow>, Fault> {
    let statuses = [RunStatus::Running, RunStatus::Paused];
    in_statuses(connection, damaged_rows, &statuses, after, limit, &[false])
}

/// Runs that have begun and have not ended.
pub(crate) fn active(
    connection: &Connection,
    damaged_rows: &DamagedRows,
    after: Option<RunId>,
    limit: usize,
) -> Result<Vec<RunRow>, Fault> {
    let statuses = [RunStatus::Running, RunStatus::Paused];
    let sleeping = [false, true];
    in_statuses(connection, damaged_rows, &statuses, after, limit, &sleeping)
}

fn in_statuses(
    connection: &Connection,
    damaged_rows: &DamagedRows,
    statuses: &[RunStatus],
    after: Option<RunId>,
    limit: usize,
    sleeping: &[bool],
) -> Result<Vec<RunRow>, Fault> {
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_by_status \
         WHERE status = ? AND asleep = ? AND run.run > ? ORDER BY run.run"
    );
    let after = after.map_or_else(Vec::new, |run| run.as_bytes().to_vec());
    let transaction = connection.unchecked_transaction()?;
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for status in statuses {
        for asleep in sleeping {
            let range = params![status_code(*status), asleep, after];
            found.extend(damaged_rows.sound(statement.query(range)?, limit)?);
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
    let mut rows = statement.query(limits)?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        match codec::run_id(row, 0) {
            Ok(run) => due.push((run, codec::millis(row, 1)?)),
            // A run without an id cannot be woken.
            Err(error) => drop(damaged::reason(error)?),
        }
    }
    Ok(due)
}

/// See `Queries::children`.
pub(crate) fn children(
    connection: &Connection,
    damaged_rows: &DamagedRows,
    parent: RunId,
) -> Result<Vec<RunRow>, Fault> {
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_by_parent \
         WHERE parent = ? AND status IS NOT NULL ORDER BY run.run"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    damaged_rows.sound(statement.query([parent.as_bytes()])?, usize::MAX)
}

/// See `Queries::relatives`.
pub(crate) fn relatives(connection: &Connection, runs: &[RunId]) -> Result<Vec<Relatives>, Fault> {
    const CHILDREN: &str = "SELECT count(*) FROM (SELECT 1 FROM run INDEXED BY run_by_parent \
         WHERE parent = ? AND status IS NOT NULL LIMIT ?)";
    const FORKS: &str =
        "SELECT run FROM label WHERE key = ? AND value = ? ORDER BY run DESC LIMIT ?";
    let transaction = connection.unchecked_transaction()?;
    let mut children = transaction.prepare_cached(CHILDREN)?;
    let mut forks = transaction.prepare_cached(FORKS)?;
    let each = runs.iter().map(|run| {
        let most = (run.as_bytes(), Relatives::MOST_CHILDREN);
        let origin = run.to_string();
        let named = params![
            codec::ORIGIN_KEY,
            origin,
            limit_value(Relatives::MOST_FORKS)
        ];
        let forks = forks.query_map(named, |row| codec::run_id(row, 0))?;
        Ok(Relatives {
            forks: forks.collect::<Result<_, _>>()?,
            children: children.query_row(most, |row| row.get(0))?,
        })
    });
    each.collect()
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
        if log::row(connection, row.run).is_err() {
            // It is not known which labels the damaged row had.
            connection
                .prepare_cached("DELETE FROM label WHERE run = ?")?
                .execute([row.run.as_bytes()])?;
        }
        match log::find(connection, row.run)? {
            Some(entry) => {
                log::update_row(connection, &entry, entry.head, row)?;
            }
            None => {
                log::insert_row(connection, row.run, Head::NONE, row)?;
            }
        }
        session.heads.forget(row.run);
        session.heads.lag.note(connection, row)?;
        connection
            .prepare_cached("DELETE FROM resource WHERE run = ?")?
            .execute([row.run.as_bytes()])?;
        link(connection, resources)?;
    }
    Ok(())
}
