//! Sealed secrets: opaque bytes here.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};
use windlass_core::Millis;
use windlass_store::{Error, Pending, SecretRow, Secrets, TenantFilter};

use crate::EmbeddedStore;
use crate::codec::{self, Sum};
use crate::damaged;
use crate::error::Fault;
use crate::query::limit_value;
use crate::store::answer;

impl Secrets for EmbeddedStore {
    fn put_secret(
        &self,
        tenant: Option<&str>,
        name: &str,
        sealed: Vec<u8>,
        at: Millis,
    ) -> Pending<'_, Result<bool, Error>> {
        let row = SecretRow {
            tenant: tenant.map(Into::into),
            name: name.into(),
            updated_at: at,
            damage: None,
        };
        self.task(None, move |session| put(session.connection, &row, &sealed))
    }

    fn secret(
        &self,
        tenant: Option<&str>,
        name: &str,
    ) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        answer(|| {
            self.readers().query(|connection| {
                let mut statement = connection.prepare_cached(&one_sql())?;
                let found = statement
                    .query_row(params![stored(tenant), name], secret_row)
                    .optional()?;
                Ok(found.map(|(_, sealed)| sealed))
            })
        })
    }

    fn secrets(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SecretRow>, Error>> {
        let sql = list_sql(tenant);
        // Nothing comes before the empty name.
        let (name, owner) = after.unwrap_or_default();
        let mut values: Vec<Value> = vec![name.to_owned().into(), limit_value(limit).into()];
        values.push(match tenant {
            TenantFilter::Any => stored(owner).to_owned().into(),
            TenantFilter::Only(tenant) => stored(tenant.as_deref()).to_owned().into(),
        });
        self.list(move |connection, _| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(&values), listed)?;
            Ok(damaged::given(rows)?)
        })
    }

    fn remove_secret(&self, tenant: Option<&str>, name: &str) -> Pending<'_, Result<bool, Error>> {
        let tenant = stored(tenant).to_owned();
        let name = name.to_owned();
        self.task(None, move |session| {
            let sql = "DELETE FROM secret WHERE tenant = ? AND name = ?";
            let mut statement = session.connection.prepare_cached(sql)?;
            Ok(statement.execute(params![tenant, name])? > 0)
        })
    }
}

const COLUMNS: &str = "name, tenant, updated_at, sealed, sum";

fn one_sql() -> String {
    format!("SELECT {COLUMNS} FROM secret WHERE tenant = ? AND name = ?")
}

fn list_sql(tenant: &TenantFilter) -> String {
    let condition = match tenant {
        TenantFilter::Any => "WHERE (name, tenant) > (?1, ?3)",
        TenantFilter::Only(_) => "WHERE tenant = ?3 AND name > ?1",
    };
    format!("SELECT {COLUMNS} FROM secret {condition} ORDER BY name, tenant LIMIT ?2")
}

/// A tenant as it is stored: '' means none.
fn stored(tenant: Option<&str>) -> &str {
    tenant.unwrap_or_default()
}

fn put(connection: &Connection, row: &SecretRow, sealed: &[u8]) -> Result<bool, Fault> {
    let tenant = stored(row.tenant.as_deref());
    let known = connection
        .prepare_cached("SELECT 1 FROM secret WHERE tenant = ? AND name = ?")?
        .exists(params![tenant, row.name])?;
    const SQL: &str = "INSERT INTO secret (name, tenant, updated_at, sealed, sum) \
         VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, name) DO UPDATE SET \
         updated_at = excluded.updated_at, sealed = excluded.sealed, sum = excluded.sum";
    connection.prepare_cached(SQL)?.execute(params![
        row.name,
        tenant,
        row.updated_at.0,
        sealed,
        sum(row, sealed).value(),
    ])?;
    Ok(!known)
}

fn secret_row(row: &Row<'_>) -> rusqlite::Result<(SecretRow, Vec<u8>)> {
    let tenant: Box<str> = row.get(1)?;
    let secret = SecretRow {
        name: row.get(0)?,
        tenant: (!tenant.is_empty()).then_some(tenant),
        updated_at: codec::millis(row, 2)?,
        damage: None,
    };
    let sealed: Vec<u8> = row.get(3)?;
    sum(&secret, &sealed).check(row, 4)?;
    Ok((secret, sealed))
}

/// A secret in a list: of a damaged one, only the name is returned.
fn listed(row: &Row<'_>) -> rusqlite::Result<Option<SecretRow>> {
    let error = match secret_row(row) {
        Ok((secret, _)) => return Ok(Some(secret)),
        Err(error) => error,
    };
    let damage = Some(damaged::reason(error)?);
    Ok(damaged::name(row, (0, 1)).map(|(name, tenant)| SecretRow {
        tenant,
        name,
        updated_at: Millis(0),
        damage,
    }))
}

fn sum(row: &SecretRow, sealed: &[u8]) -> Sum {
    Sum::default()
        .text(&row.name)
        .optional_text(row.tenant.as_deref())
        .number(row.updated_at.0)
        .bytes(sealed)
}

/// Reads every secret, checking it.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM secret"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        secret_row(row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::assert_searches;

    #[test]
    fn secrets_are_found_by_their_key() {
        assert_searches(&one_sql(), "sqlite_autoindex_secret_1");
        let only = list_sql(&TenantFilter::Only(None));
        assert_searches(&only, "sqlite_autoindex_secret_1");
    }
}
