//! The audit log: a table that only grows.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use windlass_core::Millis;
use windlass_store::{Audit, AuditEntry, Error, Pending, TenantFilter};

use crate::EmbeddedStore;
use crate::codec::{self, Sum, unsigned};
use crate::damaged;
use crate::error::Fault;
use crate::query::limit_value;

impl Audit for EmbeddedStore {
    fn note(&self, entries: Vec<AuditEntry>) -> Pending<'_, Result<(), Error>> {
        self.task(None, move |session| note(session.connection, &entries))
    }

    fn audit(
        &self,
        tenant: &TenantFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<(u64, AuditEntry)>, Error>> {
        let sql = audit_sql(tenant);
        let before = before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let mut values: Vec<Value> = vec![before.into(), limit_value(limit).into()];
        if let TenantFilter::Only(tenant) = tenant {
            values.push(tenant.as_deref().map(str::to_owned).into());
        }
        self.list(move |connection, _| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(&values), listed)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

/// The columns of an entry but for its number.
const COLUMNS: &str = "at, tenant, actor, origin, what, target, detail, sum";

fn audit_sql(tenant: &TenantFilter) -> String {
    // A tenant sees how many entries it has itself, and nothing of the others.
    let (number, condition) = match tenant {
        TenantFilter::Any => ("number", "WHERE number < ?1"),
        TenantFilter::Only(_) => (
            "ordinal",
            "INDEXED BY audit_by_tenant WHERE tenant IS ?3 AND ordinal < ?1",
        ),
    };
    format!("SELECT {number}, {COLUMNS} FROM audit {condition} ORDER BY {number} DESC LIMIT ?2")
}

fn note(connection: &Connection, entries: &[AuditEntry]) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO audit \
         (at, tenant, actor, origin, what, target, detail, sum, ordinal) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1 + coalesce((SELECT max(ordinal) \
         FROM audit INDEXED BY audit_by_tenant WHERE tenant IS ?2), 0))";
    let mut statement = connection.prepare_cached(SQL)?;
    for entry in entries {
        statement.execute(params![
            entry.at.0,
            entry.tenant,
            entry.by,
            entry.from,
            entry.what,
            entry.target,
            entry.detail,
            sum(entry).value(),
        ])?;
    }
    Ok(())
}

fn entry_row(row: &Row<'_>) -> rusqlite::Result<(u64, AuditEntry)> {
    let entry = AuditEntry {
        at: codec::millis(row, 1)?,
        tenant: row.get(2)?,
        by: row.get(3)?,
        from: row.get(4)?,
        what: row.get(5)?,
        target: row.get(6)?,
        detail: row.get(7)?,
        damage: None,
    };
    sum(&entry).check(row, 8)?;
    Ok((unsigned(row.get(0)?), entry))
}

/// An entry in a list: of a damaged one, only the number is returned.
fn listed(row: &Row<'_>) -> rusqlite::Result<(u64, AuditEntry)> {
    entry_row(row).or_else(|error| {
        let entry = AuditEntry {
            at: Millis(0),
            tenant: None,
            by: "".into(),
            from: "".into(),
            what: "".into(),
            target: "".into(),
            detail: "null".into(),
            damage: Some(damaged::reason(error)?),
        };
        Ok((unsigned(row.get(0)?), entry))
    })
}

fn sum(entry: &AuditEntry) -> Sum {
    Sum::default()
        .number(entry.at.0)
        .optional_text(entry.tenant.as_deref())
        .text(&entry.by)
        .text(&entry.from)
        .text(&entry.what)
        .text(&entry.target)
        .text(&entry.detail)
}

/// Reads every entry, checking it.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare(&format!("SELECT number, {COLUMNS} FROM audit"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        entry_row(row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::assert_searches;

    #[test]
    fn lists_walk_an_index() {
        assert_searches(&audit_sql(&TenantFilter::Any), "INTEGER PRIMARY KEY");
        let only = audit_sql(&TenantFilter::Only(None));
        assert_searches(&only, "audit_by_tenant");
    }
}
