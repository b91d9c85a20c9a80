//! The audit log. Entries are numbered twice, among all and among their tenant's, without gaps;
//! so writers take turns. Within a process the entries of all callers that wait are one turn, and
//! share its commit.

use std::sync::Arc;

use tokio_postgres::Row;
use windlass_store::{Audit, AuditEntry, Error, Pending, TenantFilter};

use crate::catalogue::only;
use crate::codec::{Columns as _, Moment, limit, tenant, text};
use crate::error::Fault;
use crate::store::{PostgresStore, Session, blockable};

const LOCK: &str = "select pg_advisory_xact_lock(hashtext('windlass audit'), \
     hashtext(current_schema()))";
const ADD: &str = "insert into audit (number, tenant_id, tenant_number, at, actor, origin, \
     action, target, detail) \
     select b.number + i.n, i.tenant_id, \
     coalesce((select max(a.tenant_number) from audit a where a.tenant_id = i.tenant_id), 0) \
     + row_number() over (partition by i.tenant_id order by i.n), \
     i.at, i.actor, i.origin, i.action, i.target, i.detail \
     from unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], \
     $7::text[]) with ordinality as i(tenant_id, at, actor, origin, action, target, detail, n), \
     (select coalesce(max(number), 0) as number from audit) b";
const ALL: &str = "select number, at, tenant_id, actor, origin, action, target, detail \
     from audit where $1::int8 is null or number < $1 order by number desc limit $2";
const TENANTS: &str = "select tenant_number, at, tenant_id, actor, origin, action, target, detail \
     from audit where tenant_id = $3 and ($1::int8 is null or tenant_number < $1) \
     order by tenant_number desc limit $2";

fn entry(row: &Row) -> Result<(u64, AuditEntry), Fault> {
    let entry = AuditEntry {
        at: row.millis(1)?,
        tenant: row.tenant(2)?,
        by: row.text(3)?,
        from: row.text(4)?,
        what: row.text(5)?,
        target: row.text(6)?,
        detail: row.text(7)?,
        damage: None,
    };
    Ok((row.number(0)?, entry))
}

/// Writes entries in one turn.
pub(crate) fn send(
    mut session: Session,
    entries: Arc<Vec<AuditEntry>>,
) -> Pending<'static, Result<Vec<()>, Fault>> {
    Box::pin(async move {
        let words = |of: fn(&AuditEntry) -> &str| -> Vec<String> {
            entries.iter().map(|it| text(of(it)).into_owned()).collect()
        };
        let owners = entries
            .iter()
            .map(|it| tenant(it.tenant.as_deref()).into_owned());
        let owners: Vec<String> = owners.collect();
        let times: Vec<Moment> = entries.iter().map(|it| Moment(it.at)).collect();
        let (actors, origins) = (words(|it| &it.by), words(|it| &it.from));
        let (actions, targets) = (words(|it| &it.what), words(|it| &it.target));
        let details = words(|it| &it.detail);
        let work = session.transaction().await?;
        work.rows(LOCK, &[]).await?;
        work.execute(
            ADD,
            &[
                &owners, &times, &actors, &origins, &actions, &targets, &details,
            ],
        )
        .await?;
        work.commit().await?;
        Ok(vec![(); entries.len()])
    })
}

impl Audit for PostgresStore {
    fn note(&self, entries: Vec<AuditEntry>) -> Pending<'_, Result<(), Error>> {
        let written = self.together(|lines| &lines.audit, entries);
        blockable(async move { written.await.map(drop) })
    }

    fn audit(
        &self,
        filter: &TenantFilter,
        before: Option<u64>,
        count: usize,
    ) -> Pending<'_, Result<Vec<(u64, AuditEntry)>, Error>> {
        let only = only(filter);
        self.call(move |session| async move {
            let before = before.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
            let count = limit(count);
            let rows = match &only {
                None => session.rows(ALL, &[&before, &count]).await?,
                Some(owner) => session.rows(TENANTS, &[&before, &count, owner]).await?,
            };
            rows.iter().map(entry).collect()
        })
    }
}
