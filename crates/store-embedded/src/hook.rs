//! Hooks: a table with an index over the digests of their tokens.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use windlass_core::{Digest, Millis};
use windlass_store::{Error, Hook, Hooks, Pending, TenantFilter};

use crate::EmbeddedStore;
use crate::codec::{self, Sum};
use crate::damaged;
use crate::error::Fault;
use crate::query::limit_value;
use crate::store::answer;

impl Hooks for EmbeddedStore {
    fn put_hook(&self, hook: Hook, most: usize) -> Pending<'_, Result<bool, Error>> {
        self.task(None, move |session| put(session.connection, &hook, most))
    }

    fn hook_of(&self, token: &Digest) -> Pending<'_, Result<Option<Hook>, Error>> {
        answer(|| {
            let sql = by_token();
            self.readers().query(|connection| {
                let mut statement = connection.prepare_cached(&sql)?;
                Ok(statement.query_row([token.0], hook_row).optional()?)
            })
        })
    }

    fn hooks(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Hook>, Error>> {
        let sql = list_sql(tenant);
        // Nothing comes before the empty id.
        let (id, owner) = after.unwrap_or_default();
        let mut values: Vec<Value> = vec![id.to_owned().into(), limit_value(limit).into()];
        values.push(match tenant {
            TenantFilter::Any => owner.unwrap_or_default().to_owned().into(),
            TenantFilter::Only(only) => only.as_deref().unwrap_or_default().to_owned().into(),
        });
        self.list(move |connection, _| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(&values), listed)?;
            Ok(damaged::given(rows)?)
        })
    }

    fn remove_hook(&self, tenant: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>> {
        let (tenant, id) = (tenant.unwrap_or_default().to_owned(), id.to_owned());
        self.task(None, move |session| {
            let removed = session
                .connection
                .prepare_cached("DELETE FROM hook WHERE id = ? AND tenant = ?")?
                .execute([&id, &tenant])?;
            Ok(removed == 1)
        })
    }
}

const COLUMNS: &str = "id, tenant, workflow, token, secret, created_at, sum";

fn by_token() -> String {
    format!("SELECT {COLUMNS} FROM hook WHERE token = ?")
}

fn list_sql(tenant: &TenantFilter) -> String {
    let condition = match tenant {
        TenantFilter::Any => "INDEXED BY sqlite_autoindex_hook_2 WHERE (id, tenant) > (?1, ?3)",
        TenantFilter::Only(_) => "INDEXED BY hook_by_tenant WHERE tenant = ?3 AND id > ?1",
    };
    format!("SELECT {COLUMNS} FROM hook {condition} ORDER BY id, tenant LIMIT ?2")
}

fn put(connection: &Connection, hook: &Hook, most: usize) -> Result<bool, Fault> {
    const THERE: &str = "SELECT 1 FROM hook WHERE id = ? AND tenant = ?";
    const COUNT: &str = "SELECT count(*) FROM \
         (SELECT 1 FROM hook INDEXED BY hook_by_tenant WHERE tenant = ?1 LIMIT ?2)";
    let tenant = hook.tenant.as_deref().unwrap_or_default();
    let there = connection
        .prepare_cached(THERE)?
        .exists([&*hook.id, tenant])?;
    if !there {
        let count: i64 = connection
            .prepare_cached(COUNT)?
            .query_row(params![tenant, limit_value(most)], |row| row.get(0))?;
        if count >= limit_value(most) {
            return Ok(false);
        }
    }
    let sql = format!("INSERT OR REPLACE INTO hook ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)");
    connection.prepare_cached(&sql)?.execute(params![
        hook.id,
        tenant,
        hook.workflow,
        hook.token.0,
        hook.secret,
        hook.created_at.0,
        sum(hook).value(),
    ])?;
    Ok(true)
}

fn hook_row(row: &Row<'_>) -> rusqlite::Result<Hook> {
    let tenant: Box<str> = row.get(1)?;
    let hook = Hook {
        id: row.get(0)?,
        tenant: (!tenant.is_empty()).then_some(tenant),
        workflow: row.get(2)?,
        token: codec::digest(row, 3)?,
        secret: row.get(4)?,
        created_at: codec::millis(row, 5)?,
        damage: None,
    };
    sum(&hook).check(row, 6)?;
    Ok(hook)
}

/// A hook in a list: of a damaged one, only the name is returned.
fn listed(row: &Row<'_>) -> rusqlite::Result<Option<Hook>> {
    let error = match hook_row(row) {
        Ok(hook) => return Ok(Some(hook)),
        Err(error) => error,
    };
    let damage = Some(damaged::reason(error)?);
    Ok(damaged::name(row, (0, 1)).map(|(id, tenant)| Hook {
        id,
        tenant,
        workflow: "".into(),
        token: Digest::of(b""),
        secret: "".into(),
        created_at: Millis(0),
        damage,
    }))
}

fn sum(hook: &Hook) -> Sum {
    Sum::default()
        .text(&hook.id)
        .optional_text(hook.tenant.as_deref())
        .text(&hook.workflow)
        .bytes(&hook.token.0)
        .text(&hook.secret)
        .number(hook.created_at.0)
}

/// Reads every hook, checking it.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM hook"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        hook_row(row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::assert_searches;

    #[test]
    fn what_is_asked_walks_an_index() {
        assert_searches(&by_token(), "sqlite_autoindex_hook_1");
        assert_searches(&list_sql(&TenantFilter::Only(None)), "hook_by_tenant");
        assert_searches(&list_sql(&TenantFilter::Any), "sqlite_autoindex_hook_2");
    }
}
