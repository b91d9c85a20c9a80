//! Dead letters. The head carries the mark of a dead run, and its row repeats it for lists.

use tokio_postgres::Row;
use windlass_core::{Digest, RunId};
use windlass_store::{Bell, DeadLetter, DeadLetters, Error, Pending, TenantFilter, Wakes as _};

use crate::catalogue::only;
use crate::codec::{Columns as _, Moment, limit, tenant, text, unreadable, uuid};
use crate::error::Fault;
use crate::json;
use crate::store::{PostgresStore, Work};

const PUT: &str = "insert into dead_letters (id, tenant_id, workflow, enqueued_at, reason, \
     payload_json, attempts, last_error, payload) \
     values ($1, $2, $3, $4, $5, $6::text::jsonb, $7, $5, $8) \
     on conflict (id) do update set tenant_id = excluded.tenant_id, workflow = excluded.workflow, \
     enqueued_at = excluded.enqueued_at, reason = excluded.reason, \
     payload_json = excluded.payload_json, attempts = excluded.attempts, \
     last_error = excluded.last_error, payload = excluded.payload";
const MARK_HEAD: &str = "update head set dead = $2 where run = $1 and dead <> $2";
const MARK_ROW: &str = "update workflow_executions set dead = $2, parked = parked and not $2 \
     where id = $1 and dead <> $2";
const REMOVE: &str = "delete from dead_letters where id = $1";
const COLUMNS: &str = "select id, tenant_id, workflow, reason, payload, attempts, enqueued_at \
     from dead_letters";

async fn mark(work: &Work<'_>, run: RunId, dead: bool) -> Result<(), Fault> {
    // The head first, as appends do.
    work.execute(MARK_HEAD, &[&uuid(run), &dead]).await?;
    work.execute(MARK_ROW, &[&uuid(run), &dead]).await?;
    Ok(())
}

fn letter(row: &Row) -> Result<DeadLetter, Fault> {
    let deliveries = u32::try_from(row.try_get::<_, i64>(5)?);
    Ok(DeadLetter {
        run: row.run(0)?,
        tenant: row.tenant(1)?,
        workflow: row.text(2)?,
        reason: row.text(3)?,
        payload: row.try_get(4)?,
        deliveries: deliveries.map_err(|_| unreadable("a number of attempts"))?,
        at: row.millis(6)?,
        damage: None,
    })
}

impl DeadLetters for PostgresStore {
    fn add_dead_letter(&self, letter: DeadLetter) -> Pending<'_, Result<(), Error>> {
        self.call(move |mut session| async move {
            let owner = tenant(letter.tenant.as_deref());
            let (workflow, reason) = (text(&letter.workflow), text(&letter.reason));
            let digest = Digest::of(&letter.payload).to_string();
            let shown = json::shown(&letter.payload, &digest);
            let (at, attempts) = (Moment(letter.at), i64::from(letter.deliveries));
            let work = session.transaction().await?;
            mark(&work, letter.run, true).await?;
            let run = uuid(letter.run);
            work.execute(
                PUT,
                &[
                    &run,
                    &owner,
                    &workflow,
                    &at,
                    &reason,
                    &shown,
                    &attempts,
                    &letter.payload,
                ],
            )
            .await?;
            work.commit().await
        })
    }

    fn dead_letters(
        &self,
        filter: &TenantFilter,
        before: Option<RunId>,
        count: usize,
    ) -> Pending<'_, Result<Vec<DeadLetter>, Error>> {
        let only = only(filter);
        self.call(move |session| async move {
            let sql = format!(
                "{COLUMNS} where ($1::text is null or tenant_id = $1) \
                 and ($2::uuid is null or id < $2) order by id desc limit $3"
            );
            let before = before.map(uuid);
            let rows = session.rows(&sql, &[&only, &before, &limit(count)]).await?;
            rows.iter().map(letter).collect()
        })
    }

    fn dead_letter(&self, run: RunId) -> Pending<'_, Result<Option<DeadLetter>, Error>> {
        self.call(move |session| async move {
            let sql = format!("{COLUMNS} where id = $1");
            let row = session.first(&sql, &[&uuid(run)]).await?;
            row.as_ref().map(letter).transpose()
        })
    }

    fn requeue(&self, run: RunId) -> Pending<'_, Result<bool, Error>> {
        let requeued = self.call(move |mut session| async move {
            let work = session.transaction().await?;
            let found = work.execute(REMOVE, &[&uuid(run)]).await? > 0;
            let mut asked = false;
            if found {
                mark(&work, run, false).await?;
                asked = crate::requests::again(&work, run).await?;
            }
            work.commit().await?;
            Ok((found, asked))
        });
        Box::pin(async move {
            let (found, asked) = requeued.await?;
            if asked {
                // A hint: a process that does not hear it looks.
                let _ = self.ring(&[Bell::Requests]).await;
            }
            Ok(found)
        })
    }

    fn purge(&self, run: RunId) -> Pending<'_, Result<bool, Error>> {
        self.call(move |mut session| async move {
            let work = session.transaction().await?;
            let found = work.execute(REMOVE, &[&uuid(run)]).await? > 0;
            if found {
                crate::requests::purge(&work, run).await?;
            }
            work.commit().await?;
            Ok(found)
        })
    }
}
