//! Sealed secrets, byte for byte. The database never sees a key.

use windlass_core::Millis;
use windlass_store::{Error, Pending, SecretRow, Secrets, TenantFilter};

use crate::catalogue::only;
use crate::codec::{Columns as _, Moment, limit, tenant, text, unreadable};
use crate::schedule::place;
use crate::store::PostgresStore;

/// `xmax` is 0 in a row that was inserted, not replaced.
const PUT: &str = "insert into secrets (tenant_id, name, sealed, updated_at) \
     values ($1, $2, $3, $4) on conflict (tenant_id, name) do update set \
     sealed = excluded.sealed, updated_at = excluded.updated_at returning xmax = 0";
const GET: &str = "select sealed from secrets where tenant_id = $1 and name = $2";
const LIST: &str = "select tenant_id, name, updated_at from secrets \
     where ($1::text is null or tenant_id = $1) \
     and ($2::text is null or (name, tenant_id) > ($2, $3)) order by name, tenant_id limit $4";
const REMOVE: &str = "delete from secrets where tenant_id = $1 and name = $2";

impl Secrets for PostgresStore {
    fn put_secret(
        &self,
        owner: Option<&str>,
        name: &str,
        sealed: Vec<u8>,
        at: Millis,
    ) -> Pending<'_, Result<bool, Error>> {
        let (owner, name) = (tenant(owner).into_owned(), text(name).into_owned());
        self.call(move |session| async move {
            let row = session
                .first(PUT, &[&owner, &name, &sealed, &Moment(at)])
                .await?;
            let row = row.ok_or_else(|| unreadable("a secret"))?;
            Ok(row.try_get(0)?)
        })
    }

    fn secret(
        &self,
        owner: Option<&str>,
        name: &str,
    ) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        let (owner, name) = (tenant(owner).into_owned(), text(name).into_owned());
        self.call(move |session| async move {
            let row = session.first(GET, &[&owner, &name]).await?;
            Ok(row.map(|row| row.try_get(0)).transpose()?)
        })
    }

    fn secrets(
        &self,
        filter: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        count: usize,
    ) -> Pending<'_, Result<Vec<SecretRow>, Error>> {
        let only = only(filter);
        let (name, owner) = place(after);
        self.call(move |session| async move {
            let rows = session
                .rows(LIST, &[&only, &name, &owner, &limit(count)])
                .await?;
            let secrets = rows.iter().map(|row| {
                Ok(SecretRow {
                    tenant: row.tenant(0)?,
                    name: row.text(1)?,
                    updated_at: row.millis(2)?,
                    damage: None,
                })
            });
            secrets.collect()
        })
    }

    fn remove_secret(&self, owner: Option<&str>, name: &str) -> Pending<'_, Result<bool, Error>> {
        let (owner, name) = (tenant(owner).into_owned(), text(name).into_owned());
        self.call(
            move |session| async move { Ok(session.execute(REMOVE, &[&owner, &name]).await? > 0) },
        )
    }
}
