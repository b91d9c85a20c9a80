//! Hooks: rows that say which signed requests start runs.

use tokio_postgres::Row;
use windlass_core::Digest;
use windlass_store::{Error, Hook, Hooks, Pending, TenantFilter};

use crate::catalogue::only;
use crate::codec::{Columns as _, Moment, limit, tenant, text};
use crate::error::Fault;
use crate::schedule::{has_room, place};
use crate::store::PostgresStore;

const PUT: &str = "insert into hooks (tenant_id, id, workflow, token, secret, created_at) \
     values ($1, $2, $3, $4, $5, $6) on conflict (tenant_id, id) do update set \
     workflow = excluded.workflow, token = excluded.token, secret = excluded.secret, \
     created_at = excluded.created_at";
const COLUMNS: &str = "select tenant_id, id, workflow, token, secret, created_at from hooks";
const REMOVE: &str = "delete from hooks where tenant_id = $1 and id = $2";

fn hook(row: &Row) -> Result<Hook, Fault> {
    Ok(Hook {
        tenant: row.tenant(0)?,
        id: row.text(1)?,
        workflow: row.text(2)?,
        token: row.digest(3)?,
        secret: row.text(4)?,
        created_at: row.millis(5)?,
        damage: None,
    })
}

impl Hooks for PostgresStore {
    fn put_hook(&self, hook: Hook, most: usize) -> Pending<'_, Result<bool, Error>> {
        self.call(move |mut session| async move {
            let owner = tenant(hook.tenant.as_deref()).into_owned();
            let id = text(&hook.id).into_owned();
            let work = session.transaction().await?;
            if !has_room(&work, "hooks", (&owner, &id), most).await? {
                return Ok(false);
            }
            let token = &hook.token.0[..];
            let (workflow, secret) = (text(&hook.workflow), text(&hook.secret));
            let at = Moment(hook.created_at);
            work.execute(PUT, &[&owner, &id, &workflow, &token, &secret, &at])
                .await?;
            work.commit().await?;
            Ok(true)
        })
    }

    fn hook_of(&self, token: &Digest) -> Pending<'_, Result<Option<Hook>, Error>> {
        let token = *token;
        self.call(move |session| async move {
            let sql = format!("{COLUMNS} where token = $1");
            let row = session.first(&sql, &[&&token.0[..]]).await?;
            row.as_ref().map(hook).transpose()
        })
    }

    fn hooks(
        &self,
        filter: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        count: usize,
    ) -> Pending<'_, Result<Vec<Hook>, Error>> {
        let only = only(filter);
        let (id, owner) = place(after);
        self.call(move |session| async move {
            let sql = format!(
                "{COLUMNS} where ($1::text is null or tenant_id = $1) \
                 and ($2::text is null or (id, tenant_id) > ($2, $3)) \
                 order by id, tenant_id limit $4"
            );
            let rows = session
                .rows(&sql, &[&only, &id, &owner, &limit(count)])
                .await?;
            rows.iter().map(hook).collect()
        })
    }

    fn remove_hook(&self, owner: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>> {
        let (owner, id) = (tenant(owner).into_owned(), text(id).into_owned());
        self.call(
            move |session| async move { Ok(session.execute(REMOVE, &[&owner, &id]).await? > 0) },
        )
    }
}
