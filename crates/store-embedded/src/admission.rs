//! Which pending run begins next: walks over indexes that hold only runs that wait, in the
//! order in which they begin, and only runs that are parked.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _};
use windlass_core::RunId;
use windlass_store::{
    Admission, Error, GateCount, Partitions, Pending, Places as _, RunRow, TenantGate,
};

use crate::EmbeddedStore;
use crate::codec::RUN_COLUMNS;
use crate::damaged;
use crate::error::Fault;
use crate::query;
use crate::store::{PARTITION, nothing};

/// The condition of the index `run_waiting`, which a statement must repeat to use it.
const WAITS: &str = "status = 0 AND aside = 0 AND dead = 0";

impl EmbeddedStore {
    /// Executes a statement for each run.
    fn mark_each(
        &self,
        statement: &'static str,
        runs: Vec<RunId>,
    ) -> Pending<'_, Result<(), Error>> {
        self.task(None, move |session| {
            let mut statement = session.connection.prepare_cached(statement)?;
            for run in &runs {
                statement.execute([run.as_bytes()])?;
            }
            Ok(())
        })
    }
}

impl Admission for EmbeddedStore {
    fn waiting_tenants(
        &self,
        partitions: &Partitions,
    ) -> Pending<'_, Result<Vec<Option<Box<str>>>, Error>> {
        if !partitions.contains(PARTITION) {
            return nothing();
        }
        self.list(|connection, _| waiting_tenants(connection))
    }

    fn waiting(
        &self,
        partitions: &Partitions,
        tenant: Option<&str>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        if !partitions.contains(PARTITION) {
            return nothing();
        }
        let tenant = tenant.map(str::to_owned);
        self.list(move |connection, damaged_rows| {
            let mut statement = connection.prepare_cached(&waiting_sql())?;
            damaged_rows.sound(statement.query([&tenant])?, limit)
        })
    }

    fn park(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        self.mark_each(PARK, runs)
    }

    fn unpark(&self, runs: Vec<RunId>) -> Pending<'_, Result<(), Error>> {
        self.mark_each(UNPARK, runs)
    }

    fn parked(
        &self,
        partitions: &Partitions,
        gate: &str,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        if !partitions.contains(PARTITION) {
            return nothing();
        }
        let gate = gate.to_owned();
        self.list(move |connection, damaged_rows| {
            let mut statement = connection.prepare_cached(&parked_sql())?;
            damaged_rows.sound(statement.query([&gate])?, limit)
        })
    }

    fn parked_gates(&self, partitions: &Partitions) -> Pending<'_, Result<Vec<TenantGate>, Error>> {
        if !partitions.contains(PARTITION) {
            return nothing();
        }
        self.list(|connection, _| parked_gates(connection))
    }

    fn begun(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        if !partitions.contains(PARTITION) {
            return nothing();
        }
        self.list(move |connection, damaged_rows| {
            query::begun(connection, damaged_rows, after, limit)
        })
    }

    fn without_place(
        &self,
        partitions: &Partitions,
        after: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        if !partitions.contains(PARTITION) {
            return nothing();
        }
        let partitions = partitions.clone();
        Box::pin(async move {
            let places = self.places(&partitions, None, usize::MAX).await?;
            let held: BTreeSet<(Box<str>, RunId)> = places
                .into_iter()
                .map(|it| (it.place.gate, it.place.run))
                .collect();
            let rows = self.list(move |connection, damaged_rows| {
                query::active(connection, damaged_rows, after, usize::MAX)
            });
            let mut rows = rows.await?;
            rows.retain(|row| {
                let place = row.gate.clone().map(|gate| (gate, row.run));
                !row.dead && place.is_some_and(|place| !held.contains(&place))
            });
            rows.truncate(limit);
            Ok(rows)
        })
    }

    fn gates(&self) -> Pending<'_, Result<Vec<GateCount>, Error>> {
        self.list(move |connection, _| {
            let mut statement = connection.prepare_cached(GATES)?;
            let mut rows = statement.query([])?;
            let mut gates = Vec::new();
            while let Some(row) = rows.next()? {
                // No caller can ask for a gate whose name is damaged: the full check finds it.
                if let Ok(gate) = row.get(0) {
                    gates.push((gate, row.get(1)?));
                }
            }
            Ok(gates)
        })
    }

    fn at_gate(&self, gate: &str, limit: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let gate = gate.to_owned();
        self.list(move |connection, damaged_rows| {
            let mut statement = connection.prepare_cached(&at_gate_sql())?;
            damaged_rows.sound(statement.query([&gate])?, limit)
        })
    }

    fn depth(&self, most: u64) -> Pending<'_, Result<u64, Error>> {
        self.list(move |connection, _| {
            let transaction = connection.unchecked_transaction()?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let count = |sql: &str, most: i64| {
                let mut statement = transaction.prepare_cached(sql)?;
                statement.query_row([most], |row| row.get::<_, i64>(0))
            };
            let waiting = count(&count_waiting_sql(), most)?;
            let parked = count(COUNT_PARKED, most - waiting)?;
            Ok(u64::try_from(waiting + parked).unwrap_or_default())
        })
    }
}

/// A parked run is pending and not dead; the statements that change its status or `dead` reset
/// `aside` too.
const PARK: &str = "UPDATE run SET aside = 1 \
     WHERE run = ? AND status = 0 AND dead = 0 AND gate IS NOT NULL";

const UNPARK: &str = "UPDATE run SET aside = 0 WHERE run = ? AND aside = 1";

/// The first run that is parked at a gate after a given one.
const PARKED_GATE: &str = "SELECT tenant, gate FROM run INDEXED BY run_aside \
     WHERE aside = 1 AND gate > ? ORDER BY gate LIMIT 1";

const GATES: &str = "SELECT gate, count(*) FROM run INDEXED BY run_at_gate \
     WHERE gate IS NOT NULL AND status > 0 AND status < 3 AND dead = 0 GROUP BY gate";

fn at_gate_sql() -> String {
    format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_at_gate \
         WHERE gate = ? AND status > 0 AND status < 3 AND dead = 0"
    )
}

const COUNT_PARKED: &str = "SELECT count(*) FROM \
     (SELECT 1 FROM run INDEXED BY run_aside WHERE aside = 1 LIMIT ?)";

fn count_waiting_sql() -> String {
    format!(
        "SELECT count(*) FROM \
         (SELECT 1 FROM run INDEXED BY run_waiting WHERE {WAITS} LIMIT ?)"
    )
}

fn waiting_sql() -> String {
    format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_waiting \
         WHERE {WAITS} AND tenant IS ? ORDER BY priority DESC, run.run"
    )
}

fn parked_sql() -> String {
    format!(
        "SELECT {RUN_COLUMNS} FROM run INDEXED BY run_aside \
         WHERE aside = 1 AND gate = ? ORDER BY priority DESC, run.run"
    )
}

/// The first tenant in the index that fulfils a condition.
fn tenant_sql(condition: &str) -> String {
    format!(
        "SELECT tenant FROM run INDEXED BY run_waiting \
         WHERE {WAITS} AND tenant {condition} ORDER BY tenant LIMIT 1"
    )
}

/// See `Admission::waiting_tenants`: goes from tenant to tenant through the index, however
/// many runs each has.
fn waiting_tenants(connection: &Connection) -> Result<Vec<Option<Box<str>>>, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let mut tenants: Vec<Option<Box<str>>> = Vec::new();
    for first in ["IS NULL", ">= ''"] {
        let mut statement = transaction.prepare_cached(&tenant_sql(first))?;
        tenants.extend(readable(statement.query_row([], |row| row.get(0)))?);
    }
    let mut statement = transaction.prepare_cached(&tenant_sql("> ?"))?;
    while let Some(Some(last)) = tenants.last() {
        let Some(next) = readable(statement.query_row([last], |row| row.get(0)))? else {
            break;
        };
        tenants.push(next);
    }
    Ok(tenants)
}

/// The next name in an index, if there is one. A name that is not text is damaged and sorts
/// after all texts, so nothing follows it.
fn readable<T>(name: rusqlite::Result<T>) -> Result<Option<T>, Fault> {
    match name.optional() {
        Ok(name) => Ok(name),
        Err(error) => damaged::reason(error).map(|_| None).map_err(Fault::from),
    }
}

/// See `Admission::parked_gates`: goes from gate to gate through the index. A gate's name is
/// never empty.
fn parked_gates(connection: &Connection) -> Result<Vec<TenantGate>, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let mut statement = transaction.prepare_cached(PARKED_GATE)?;
    let mut gates: Vec<TenantGate> = Vec::new();
    loop {
        let last = gates.last().map_or("", |(_, gate)| gate);
        let next = statement.query_row([last], |row| Ok((row.get(0)?, row.get(1)?)));
        match readable(next)? {
            Some(gate) => gates.push(gate),
            None => return Ok(gates),
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::params;
    use rusqlite::types::Null;

    use super::*;
    use crate::explain::{assert_searches, cost, cost_of, empty, plan};

    #[test]
    fn every_question_walks_an_index() {
        assert_searches(&waiting_sql(), "run_waiting");
        assert_searches(&parked_sql(), "run_aside");
        assert_searches(&at_gate_sql(), "run_at_gate");
        assert_searches(PARKED_GATE, "run_aside");
        for condition in ["IS NULL", ">= ''", "> ?"] {
            assert_searches(&tenant_sql(condition), "INDEX run_waiting");
        }
        assert_searches(PARK, "sqlite_autoindex_run_1");
    }

    #[test]
    fn counting_reads_nothing_but_what_is_counted() {
        // These indexes hold no other rows, and the rows themselves are not looked at.
        let gates = "SEARCH run USING INDEX run_at_gate (gate>?)";
        assert_eq!(plan(GATES), [gates]);
        for (sql, index) in [
            (&*count_waiting_sql(), "run_waiting"),
            (COUNT_PARKED, "run_aside"),
        ] {
            let plan = plan(sql);
            let ends = |step: &String| step.ends_with(&format!("INDEX {index}"));
            assert!(plan.iter().any(ends), "{plan:?}");
            assert!(!plan.iter().any(|step| step.contains("B-TREE")), "{plan:?}");
        }
    }

    /// Makes pending runs of a tenant, numbered from `first`.
    fn make(connection: &Connection, tenant: &str, first: i64, count: i64) {
        const SQL: &str = "INSERT INTO run (run, sequence, append_id, chain, status, priority, \
             tenant, gate) VALUES (?, 1, 1, x'00', 0, ? % 10, ?, 'g')";
        for n in first..first + count {
            let id = n.to_be_bytes();
            connection.execute(SQL, params![id, n, tenant]).unwrap();
        }
    }

    #[test]
    fn a_tenant_with_many_runs_costs_what_one_with_few_does() {
        let costs = |count: i64| {
            let connection = empty();
            for (at, tenant) in (0..).zip(["a", "b", "c"]) {
                make(&connection, tenant, at * count, count);
            }
            assert_eq!(waiting_tenants(&connection).unwrap().len(), 3);
            let next = cost(&connection, &tenant_sql("> ?"), &[&"a"]);
            let none = cost(&connection, &tenant_sql("IS NULL"), &[]);
            let first = cost_of(&connection, &waiting_sql(), &[&"b"], 5);
            let no_tenant = cost_of(&connection, &waiting_sql(), &[&Null], 5);
            connection.execute("UPDATE run SET aside = 1", []).unwrap();
            let parked = cost_of(&connection, &parked_sql(), &[&"g"], 5);
            let back = cost(&connection, PARKED_GATE, &[&"a"]);
            [next, none, first, no_tenant, parked, back]
        };
        assert_eq!(costs(10), costs(2000));
    }
}
