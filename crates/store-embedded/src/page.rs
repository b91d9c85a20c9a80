//! Pages of runs among very many, newest first.
//!
//! Each condition of a filter is a stream of run ids that an index holds in order: a label, a
//! parent, a workflow, each divided by tenant and status, or a tenant or status alone. Several
//! conditions are walked together, each stream jumping to where the others are, so a page
//! costs about as much as the rarest condition has rows, however many the others have. The
//! slow case is two conditions that are both common, lie mixed, and never hold together; so is
//! a version that few of a workflow's runs have, which no index holds. Only rows that belong on
//! the page are read.

use std::collections::VecDeque;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};
use windlass_core::{RunId, RunStatus};
use windlass_store::{RunFilter, RunPage, RunRow, TenantFilter};

use crate::codec::{self, status_code};
use crate::damaged::{self, DamagedRows};
use crate::error::Fault;
use crate::{clock, log};

/// Ids read at once from a range that was walked so far without jumps.
const CHUNK: usize = 64;

/// See `Queries::runs`.
pub(crate) fn runs(
    connection: &Connection,
    damaged_rows: &DamagedRows,
    filter: &RunFilter,
) -> Result<RunPage, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let wanted = filter.page().saturating_add(1);
    let mut rows = first(&transaction, damaged_rows, filter, wanted)?;
    let more = rows.len() >= wanted;
    rows.truncate(filter.page());
    let next = rows.last().filter(|_| more).map(|row| row.run);
    Ok(RunPage { rows, next })
}

/// The first rows that match, newest first.
fn first(
    connection: &Connection,
    damaged_rows: &DamagedRows,
    filter: &RunFilter,
    wanted: usize,
) -> Result<Vec<RunRow>, Fault> {
    let mut rows = Vec::new();
    // A child of a run is no root, and no stream would end the search before it saw them all.
    let is_contradiction = filter.roots && filter.parent.is_some();
    let last = last_before(filter.before).filter(|_| !is_contradiction);
    let Some(mut most) = last else {
        return Ok(rows);
    };
    let least = match filter.since {
        Some(since) => clock::least(connection, since)?,
        None => 0,
    };
    let mut streams = streams(connection, filter)?;
    while let Some(id) = agreed(connection, &mut streams, least, most)? {
        let run = RunId::from_bytes(id.to_be_bytes());
        match log::row(connection, run) {
            Ok(row) => {
                let row = row.filter(|row| filter.matches(row));
                if !filter.unforked || !is_forked(connection, run)? {
                    rows.extend(row);
                }
            }
            Err(Fault::Sqlite(error)) => {
                const DEAD: &str = "SELECT 1 FROM run WHERE run = ? AND dead <> 0";
                let mut dead = connection.prepare_cached(DEAD)?;
                match dead.exists([run.as_bytes()])? {
                    true => drop(damaged::reason(error)?),
                    false => damaged_rows.note(run, error)?,
                }
            }
            Err(other) => return Err(other),
        }
        if rows.len() >= wanted || id == 0 {
            break;
        }
        most = id - 1;
    }
    Ok(rows)
}

/// Whether another run was forked from this one.
fn is_forked(connection: &Connection, run: RunId) -> Result<bool, Fault> {
    const SQL: &str = "SELECT 1 FROM label WHERE key = ? AND value = ? LIMIT 1";
    let mut statement = connection.prepare_cached(SQL)?;
    Ok(statement.exists([codec::ORIGIN_KEY, &run.to_string()])?)
}

/// The greatest id before a cursor; `None` if there is none.
fn last_before(before: Option<RunId>) -> Option<u128> {
    match before {
        None => Some(u128::MAX),
        Some(run) => u128::from_be_bytes(*run.as_bytes()).checked_sub(1),
    }
}

/// The greatest id up to `most` that is in all streams.
fn agreed(
    connection: &Connection,
    streams: &mut [Stream],
    least: u128,
    most: u128,
) -> Result<Option<u128>, Fault> {
    let mut candidate = most;
    loop {
        let mut all = true;
        for stream in &mut *streams {
            match stream.at_most(connection, least, candidate)? {
                None => return Ok(None),
                Some(id) => {
                    all &= id == candidate;
                    candidate = id;
                }
            }
        }
        if all {
            return Ok(Some(candidate));
        }
    }
}

/// The streams of a filter, as few as cover it.
fn streams(connection: &Connection, filter: &RunFilter) -> Result<Vec<Stream>, Fault> {
    let mut statuses = filter.statuses.clone();
    if statuses.is_empty() {
        statuses.extend(RunStatus::ALL);
    }
    statuses.sort_unstable_by_key(|status| status_code(*status));
    statuses.dedup();
    let mut streams = Vec::new();
    let labels = filter.labels.iter();
    let labels = labels.map(|(key, value)| (&**key, value.to_string()));
    let error = filter.error.iter();
    let error = error.map(|code| (codec::ERROR_KEY, code.to_string()));
    let origin = filter.origin.iter();
    let origin = origin.map(|run| (codec::ORIGIN_KEY, run.to_string()));
    for (key, value) in labels.chain(error).chain(origin) {
        let names: [Value; 2] = [key.to_owned().into(), value.into()];
        let tenants = tenants(connection, &LABEL, &names, &filter.tenant)?;
        streams.push(LABEL.stream(&names, &tenants, &statuses));
    }
    if let Some(parent) = filter.parent {
        let names = [Value::from(parent.as_bytes().to_vec())];
        let tenants = tenants(connection, &PARENT, &names, &filter.tenant)?;
        streams.push(PARENT.stream(&names, &tenants, &statuses));
    }
    if let Some(workflow) = &filter.workflow {
        let names = [Value::from(workflow.to_string())];
        let tenants = tenants(connection, &WORKFLOW, &names, &filter.tenant)?;
        streams.push(match filter.version {
            None => WORKFLOW.stream(&names, &tenants, &statuses),
            Some(version) => {
                let [workflow] = names;
                let names = [version.into(), workflow];
                VERSION.stream(&names, &tenants, &statuses)
            }
        });
    }
    if filter.dead == Some(true) {
        streams.push(DEAD.stream(&[], &[], &[]));
    }
    if filter.waiting {
        streams.push(ASLEEP.stream(&[], &[], &[RunStatus::Running]));
    }
    // The indexes of tenants and statuses are needed where nothing rarer was asked for.
    let is_wide = streams.is_empty();
    if filter.roots {
        streams.push(ROOTS.stream(&[], &[], &[]));
    }
    let is_narrowed = filter.tenant != TenantFilter::Any || !filter.statuses.is_empty();
    if is_wide && (is_narrowed || !filter.roots) {
        streams.push(match &filter.tenant {
            TenantFilter::Only(tenant) => {
                let tenant = TENANT.tenant(tenant.as_deref());
                TENANT.stream(&[], &[tenant], &statuses)
            }
            TenantFilter::Any if filter.statuses.is_empty() => EVERYTHING.stream(&[], &[], &[]),
            TenantFilter::Any => STATUS.stream(&[], &[], &statuses),
        });
    }
    Ok(streams)
}

/// An index of run ids: how a range of it is read, and which tenants are in it.
struct Index {
    /// Takes the names, the tenant, the status, then the least and the greatest id and how many.
    ids: &'static str,
    /// Takes the names and a tenant, and gives the next; none if it is not divided so.
    next_tenant: Option<&'static str>,
    /// How the index writes that there is no tenant.
    no_tenant: Value,
    /// Further parts of each status.
    parts: &'static [i64],
}

const LABEL: Index = Index {
    ids: "SELECT run FROM label WHERE key = ? AND value = ? AND tenant = ? AND status = ? \
          AND run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    next_tenant: Some(
        "SELECT tenant FROM label WHERE key = ? AND value = ? AND tenant > ? \
         ORDER BY tenant LIMIT 1",
    ),
    no_tenant: Value::Text(String::new()),
    parts: &[],
};

const WORKFLOW: Index = Index {
    ids: "SELECT run FROM run INDEXED BY run_by_workflow WHERE workflow = ? AND tenant IS ? \
          AND status = ? AND run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    next_tenant: Some(
        "SELECT tenant FROM run INDEXED BY run_by_workflow WHERE status IS NOT NULL \
         AND workflow = ? AND tenant > ? ORDER BY tenant LIMIT 1",
    ),
    no_tenant: Value::Null,
    parts: &[],
};

/// Those of a workflow's index whose rows have a version: each row up to the page is looked at,
/// but not read. Takes the version before the workflow.
const VERSION: Index = Index {
    ids: "SELECT run FROM run INDEXED BY run_by_workflow WHERE version = ? AND workflow = ? \
          AND tenant IS ? AND status = ? AND run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    ..WORKFLOW
};

const TENANT: Index = Index {
    ids: "SELECT run FROM run INDEXED BY run_by_tenant WHERE tenant IS ? AND status = ? \
          AND run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    next_tenant: None,
    no_tenant: Value::Null,
    parts: &[],
};

const PARENT: Index = Index {
    ids: "SELECT run FROM run INDEXED BY run_by_parent WHERE parent = ? AND tenant IS ? \
          AND status = ? AND run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    next_tenant: Some(
        "SELECT tenant FROM run INDEXED BY run_by_parent WHERE parent = ? AND tenant > ? \
         ORDER BY tenant LIMIT 1",
    ),
    no_tenant: Value::Null,
    parts: &[],
};

/// The index of statuses keeps those that sleep apart.
const STATUS: Index = Index {
    ids: "SELECT run FROM run INDEXED BY run_by_status WHERE status = ? AND asleep = ? \
          AND run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    next_tenant: None,
    no_tenant: Value::Null,
    parts: &[0, 1],
};

/// Those of the index of statuses that sleep.
const ASLEEP: Index = Index {
    parts: &[1],
    ..STATUS
};

const ROOTS: Index = Index {
    ids: "SELECT run FROM run INDEXED BY run_roots WHERE parent IS NULL AND status IS NOT NULL \
          AND run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    ..EVERYTHING
};

const DEAD: Index = Index {
    ids: "SELECT run FROM dead_letter WHERE run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    ..EVERYTHING
};

const EVERYTHING: Index = Index {
    ids: "SELECT run FROM run WHERE run >= ? AND run <= ? ORDER BY run DESC LIMIT ?",
    next_tenant: None,
    no_tenant: Value::Null,
    parts: &[],
};

impl Index {
    fn tenant(&self, tenant: Option<&str>) -> Value {
        tenant.map_or_else(|| self.no_tenant.clone(), |tenant| tenant.to_owned().into())
    }

    /// The ids under these names, of these tenants, in these statuses.
    fn stream(&self, names: &[Value], tenants: &[Value], statuses: &[RunStatus]) -> Stream {
        let mut ranges = vec![names.to_vec()];
        if !tenants.is_empty() || self.next_tenant.is_some() {
            ranges = extended(&ranges, tenants);
        }
        if !statuses.is_empty() {
            let codes: Vec<Value> = statuses.iter().map(|s| status_code(*s).into()).collect();
            ranges = extended(&ranges, &codes);
        }
        if !self.parts.is_empty() {
            let parts: Vec<Value> = self.parts.iter().map(|part| (*part).into()).collect();
            ranges = extended(&ranges, &parts);
        }
        Stream(
            ranges
                .into_iter()
                .map(|prefix| Range::new(self.ids, prefix))
                .collect(),
        )
    }
}

/// Each of these followed by each of those.
fn extended(prefixes: &[Vec<Value>], with: &[Value]) -> Vec<Vec<Value>> {
    let each = prefixes.iter().flat_map(|prefix| {
        with.iter().map(|value| {
            let mut prefix = prefix.clone();
            prefix.push(value.clone());
            prefix
        })
    });
    each.collect()
}

/// The tenants that a filter covers, as an index writes them; for all tenants, the index is
/// walked from one to the next.
fn tenants(
    connection: &Connection,
    index: &Index,
    names: &[Value],
    filter: &TenantFilter,
) -> Result<Vec<Value>, Fault> {
    let (Some(sql), TenantFilter::Any) = (index.next_tenant, filter) else {
        return Ok(match filter {
            TenantFilter::Any => Vec::new(),
            TenantFilter::Only(tenant) => vec![index.tenant(tenant.as_deref())],
        });
    };
    let mut found = vec![index.no_tenant.clone()];
    let mut statement = connection.prepare_cached(sql)?;
    let mut after = String::new();
    loop {
        let mut values = names.to_vec();
        values.push(after.into());
        let next = statement.query_row(params_from_iter(values), |row| row.get(0));
        let Some(tenant) = next.optional()? else {
            return Ok(found);
        };
        after = tenant;
        found.push(after.clone().into());
    }
}

/// Ids in some ranges of an index, greatest first.
struct Stream(Vec<Range>);

impl Stream {
    /// The greatest id up to `most`, not less than `least`. Later calls ask for less.
    fn at_most(
        &mut self,
        connection: &Connection,
        least: u128,
        most: u128,
    ) -> Result<Option<u128>, Fault> {
        let mut greatest = None;
        for range in &mut self.0 {
            greatest = greatest.max(range.at_most(connection, least, most)?);
        }
        Ok(greatest)
    }
}

/// One range of an index, read piece by piece.
struct Range {
    sql: &'static str,
    prefix: Vec<Value>,
    ids: VecDeque<u128>,
    chunk: usize,
    /// Nothing is left behind `ids`.
    ended: bool,
}

impl Range {
    fn new(sql: &'static str, prefix: Vec<Value>) -> Self {
        Self {
            sql,
            prefix,
            ids: VecDeque::new(),
            chunk: 1,
            ended: false,
        }
    }

    fn at_most(
        &mut self,
        connection: &Connection,
        least: u128,
        most: u128,
    ) -> Result<Option<u128>, Fault> {
        let mut passed = 0;
        while self.ids.front().is_some_and(|id| *id > most) {
            self.ids.pop_front();
            passed += 1;
        }
        if self.ids.is_empty() && !self.ended {
            // A stream that jumped will jump again, and would not use the ids it read ahead.
            self.chunk = if passed > 1 {
                1
            } else {
                (self.chunk * 2).min(CHUNK)
            };
            self.fill(connection, least, most)?;
        }
        Ok(self.ids.front().copied())
    }

    fn fill(&mut self, connection: &Connection, least: u128, most: u128) -> Result<(), Fault> {
        let mut values = self.prefix.clone();
        values.push(least.to_be_bytes().to_vec().into());
        values.push(most.to_be_bytes().to_vec().into());
        values.push(i64::try_from(self.chunk).unwrap_or(i64::MAX).into());
        let mut statement = connection.prepare_cached(self.sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            self.ids.push_back(u128::from_be_bytes(row.get(0)?));
        }
        self.ended = self.ids.len() < self.chunk;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use windlass_core::Millis;
    use windlass_store::conformance::{record, row, run_id};
    use windlass_store::{Append, Head, Log as _, block_on};

    use super::*;
    use crate::{EmbeddedStore, Options};

    const ROWS: u64 = 20_000;

    /// What three conditions cost that hold for every second, third and fifth row.
    const STEPS: u64 = 25_000;
    const TIME: i64 = 1_700_000_000_000;

    /// Each condition holds for many rows, or for very few.
    fn sample(n: u64) -> RunRow {
        let rare = n % 1000 == 7;
        let mut row = RunRow {
            tenant: (n % 2 == 1).then(|| "acme".into()),
            workflow: format!("w{}", n % 3).into(),
            // Versions follow each other.
            version: if n < ROWS / 4 { 1 } else { 2 },
            status: if rare {
                RunStatus::Failed
            } else {
                RunStatus::Succeeded
            },
            parent: n.is_multiple_of(5).then(|| run_id(1 << 40)),
            error_code: rare.then(|| "NODE_FAILED".into()),
            cause_codes: match rare {
                true => vec!["TIMEOUT".into()],
                false => Vec::new(),
            },
            created_at: Millis(TIME + n as i64),
            ..row(run_id(n))
        };
        if n % 2 == 1 {
            row.labels.insert("env".into(), "prod".into());
        }
        if rare {
            row.labels.insert("rare".into(), "yes".into());
        }
        row
    }

    fn filters() -> Vec<RunFilter> {
        let mut filters = vec![RunFilter::default()];
        let mut each = |changes: &[&dyn Fn(&mut RunFilter)]| {
            let more = filters.iter().flat_map(|filter| {
                changes.iter().map(|change| {
                    let mut filter = filter.clone();
                    change(&mut filter);
                    filter
                })
            });
            filters = more.collect();
        };
        let only = |tenant: Option<&str>| TenantFilter::Only(tenant.map(Into::into));
        each(&[
            &|_| {},
            &|f| f.tenant = only(None),
            &|f| f.tenant = only(Some("acme")),
            &|f| f.tenant = only(Some("nobody")),
        ]);
        each(&[&|_| {}, &|f| f.workflow = Some("w1".into()), &|f| {
            f.workflow = Some("w1".into());
            f.version = Some(2);
        }]);
        each(&[
            &|_| {},
            &|f| f.statuses = vec![RunStatus::Failed],
            &|f| f.statuses = vec![RunStatus::Cancelled, RunStatus::Failed],
            &|f| f.statuses = vec![RunStatus::Succeeded],
        ]);
        let label = |f: &mut RunFilter, key: &str, value: &str| {
            f.labels.insert(key.into(), value.into());
        };
        each(&[
            &|_| {},
            &|f| label(f, "env", "prod"),
            &|f| label(f, "rare", "yes"),
            &|f| label(f, "rare", "no"),
        ]);
        each(&[&|_| {}, &|f| label(f, "env", "prod")]);
        each(&[&|_| {}, &|f| f.parent = Some(run_id(1 << 40))]);
        each(&[&|_| {}, &|f| f.roots = true]);
        each(&[
            &|_| {},
            &|f| f.error = Some("TIMEOUT".into()),
            &|f| f.waiting = true,
            &|f| f.dead = Some(true),
            &|f| f.origin = Some(run_id(1)),
        ]);
        each(&[&|_| {}, &|f| f.since = Some(Millis(TIME + 12_000))]);
        each(&[&|_| {}, &|f| f.before = Some(run_id(16_000))]);
        filters
    }

    #[test]
    fn every_page_is_right_and_costs_little_among_many_rows() {
        let root = tempfile::tempdir().unwrap();
        let options = Options {
            durable: false,
            ..Options::default()
        };
        let store = EmbeddedStore::open(root.path(), options).unwrap().store;
        let rows: Vec<RunRow> = (0..ROWS).map(sample).collect();
        for part in rows.chunks(1000) {
            let batch = part.iter().map(|row| Append {
                row: Some(row.clone()),
                ..record(row.run, Head::NONE, 1, b"started")
            });
            for answer in block_on(store.append(batch.collect())) {
                answer.unwrap();
            }
        }
        let steps = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&steps);
        let mut connection = crate::connect::open_reader(&root.path().join("windlass.db")).unwrap();
        let counting = move || {
            count.fetch_add(1, Ordering::Relaxed);
            false
        };
        connection.progress_handler(10, Some(counting)).unwrap();
        for filter in filters() {
            let before = steps.load(Ordering::Relaxed);
            let page = runs(&connection, &DamagedRows::default(), &filter).unwrap();
            let cost = 10 * (steps.load(Ordering::Relaxed) - before);
            let matching = rows.iter().rev().filter(|row| filter.matches(row));
            let expected: Vec<RunId> = matching.map(|row| row.run).take(51).collect();
            let found: Vec<RunId> = page.rows.iter().map(|row| row.run).collect();
            assert!(found == expected[..expected.len().min(50)], "{filter:?}");
            assert_eq!(page.next.is_some(), expected.len() > 50, "{filter:?}");
            // Looking at every row would take more than ten steps each.
            assert!(cost < STEPS, "{cost} steps for {filter:?}");
        }
    }
}
