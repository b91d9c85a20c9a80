//! Forgetting runs: all of a run in one transaction, its head first, so that an append that
//! comes at the same time finds no log to go on with.

use std::sync::Arc;

use uuid::Uuid;
use windlass_core::{Digest, Millis, RunId};
use windlass_store::{Error, Pending, REQUEST_CLAIM, Retention, RunRow, request_key};

use crate::blob::expire;
use crate::codec::{Columns as _, Moment, RUN_COLUMNS, limit, run_row, text, uuid};
use crate::error::Fault;
use crate::store::{Inner, PostgresStore, Session};

/// How many runs one transaction forgets.
const AT_ONCE: usize = 100;

const FINAL: &str = "e.status in ('Succeeded', 'Failed', 'Cancelled')";

/// No other run needs the result of `e`.
const UNNEEDED: &str = "not exists (select from workflow_executions p where p.id = e.parent \
     and p.status not in ('Succeeded', 'Failed', 'Cancelled') and not p.dead)";

/// The run may be forgotten.
pub(crate) const FORGETTABLE: &str = "(e.status in ('Succeeded', 'Failed', 'Cancelled') or e.dead) \
     and not exists (select from workflow_executions p where p.id = e.parent \
     and p.status not in ('Succeeded', 'Failed', 'Cancelled') and not p.dead)";

const ENDED_COUNT: &str = "select count(*) from workflow_executions e \
     where e.status in ('Succeeded', 'Failed', 'Cancelled')";
const REMOVE: [&str; 9] = [
    "delete from record where run = any($1)",
    "delete from segment where run = any($1)",
    "delete from checkpoint where run = any($1)",
    "delete from inbox where run = any($1)",
    "delete from gate_place where run = any($1)",
    "delete from dead_letters where id = any($1)",
    "delete from start_request where id = any($1)",
    "delete from workflow_resource_links where execution = any($1)",
    "delete from workflow_executions where id = any($1)",
];
const REMOVE_PROJECTED: [&str; 2] = [
    "delete from action_executions where execution = any($1)",
    "delete from execution_events where execution = any($1)",
];
const REMOVE_HEADS: &str = "with h as (select run from head where run = any($1) \
     order by run for update) delete from head using h where head.run = h.run";
const REMOVE_USES: &str = "delete from blob_use where run = any($1) returning digest";
const REMOVE_BLOBS: &str = "delete from blob where digest = any($1) \
     and not exists (select from blob_use u where u.digest = blob.digest)";
const REMOVE_CLAIMS: &str = "delete from claim using \
     unnest($2::text[], $3::bytea[]) as c(key, own) where claim.namespace = $1 \
     and claim.key = c.key and substring(claim.value from 1 for 36) = c.own";
/// Values that no log refers to a day after they were stored: an append that was to refer to
/// them never came.
pub(crate) const ORPHANS: &str = "delete from blob where digest in (select b.digest from blob b \
     where b.created_at < now() - interval '24 hours' \
     and not exists (select from blob_use u where u.digest = b.digest) limit 1000)";
/// Without values that nothing but a hold keeps: forgetting runs does not free them.
const BYTES: &str = "select greatest(0, coalesce(sum(pg_total_relation_size(c.oid)), 0) \
     - (select coalesce(sum(pg_column_size(b.bytes)), 0) from blob_use h \
     join blob b on b.digest = h.digest where h.run = $1 and not exists \
     (select from blob_use u where u.digest = h.digest and u.run <> $1)))::int8 \
     from pg_class c where c.relnamespace = current_schema()::regnamespace \
     and c.relkind in ('r', 'm')";
const USES: &str = "select exists (select from blob_use where run = $1 and digest = $2)";

async fn forget(
    mut session: Session,
    runs: &[Uuid],
    (keep, condition): (bool, &str),
) -> Result<u64, Fault> {
    let work = session.transaction().await?;
    let sql = format!(
        "select {RUN_COLUMNS} from workflow_executions e where e.id = any($1) \
         and {condition} order by e.id for update of e"
    );
    let rows = work.rows(&sql, &[&runs]).await?;
    let rows: Vec<RunRow> = rows.iter().map(run_row).collect::<Result<_, _>>()?;
    if rows.is_empty() {
        return Ok(0);
    }
    let runs: Vec<Uuid> = rows.iter().map(|row| uuid(row.run)).collect();
    work.execute(REMOVE_HEADS, &[&runs]).await?;
    for sql in REMOVE.iter().chain(&REMOVE_PROJECTED) {
        work.execute(sql, &[&runs]).await?;
    }
    let digests = work.rows(REMOVE_USES, &[&runs]).await?;
    let digests: Vec<Vec<u8>> = digests
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    work.execute(REMOVE_BLOBS, &[&digests]).await?;
    if !keep {
        let keys = rows.iter().map(|row| {
            let key = request_key(row.tenant.as_deref(), &row.workflow, &row.request_id);
            text(&key).into_owned()
        });
        let keys: Vec<String> = keys.collect();
        let own = rows.iter().map(|row| row.run.to_string().into_bytes());
        let own: Vec<Vec<u8>> = own.collect();
        work.execute(REMOVE_CLAIMS, &[&REQUEST_CLAIM, &keys, &own])
            .await?;
    }
    work.commit().await?;
    Ok(rows.len() as u64)
}

/// Forgets runs that may be forgotten.
async fn forget_some(inner: &Inner, runs: &[Uuid], keep: bool) -> Result<u64, Error> {
    forget_where(inner, runs, (keep, FORGETTABLE)).await
}

/// Forgets runs, whether or not another needs them.
pub(crate) async fn remove(inner: &Inner, runs: &[Uuid], keep: bool) -> Result<u64, Error> {
    forget_where(inner, runs, (keep, "true")).await
}

/// The same, again if a value was referred to meanwhile.
async fn forget_where(inner: &Inner, runs: &[Uuid], how: (bool, &str)) -> Result<u64, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match forget(inner.session().await?, runs, how).await {
            Err(fault) if fault.is_race() && tries < 8 => {}
            answer => return answer.map_err(Fault::into_error),
        }
    }
}

impl Retention for PostgresStore {
    fn ended(&self, before: Millis, count: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let rest = format!(
            "{FINAL} and e.end_time < $1 and {UNNEEDED} order by e.end_time, e.id limit $2"
        );
        self.runs_where(
            &rest,
            vec![Box::new(Moment(before)), Box::new(limit(count))],
        )
    }

    fn ended_count(&self) -> Pending<'_, Result<u64, Error>> {
        self.call_long(move |session| async move {
            let row = session.first(ENDED_COUNT, &[]).await?;
            row.map_or(Ok(0), |row| row.number(0))
        })
    }

    fn forget(&self, runs: Vec<RunId>, keep_request_ids: bool) -> Pending<'_, Result<u64, Error>> {
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let runs: Vec<Uuid> = runs.into_iter().map(uuid).collect();
            let mut forgotten = 0;
            for some in runs.chunks(AT_ONCE) {
                forgotten += forget_some(&inner, some, keep_request_ids).await?;
            }
            Ok(forgotten)
        }))
    }

    fn bytes(&self) -> Pending<'_, Result<u64, Error>> {
        self.call_long(move |session| async move {
            let row = session.first(BYTES, &[&Uuid::nil()]).await?;
            row.map_or(Ok(0), |row| row.number(0))
        })
    }

    fn vacuum(&self) -> Pending<'_, Result<(), Error>> {
        self.call_again(move |session| async move {
            expire(&session).await?;
            // The space itself is given back by the database's autovacuum.
            while session.execute(ORPHANS, &[]).await? > 0 {}
            Ok(())
        })
    }

    fn uses(&self, run: RunId, digest: &Digest) -> Pending<'_, Result<bool, Error>> {
        let digest = *digest;
        self.call_long(move |session| async move {
            let row = session.first(USES, &[&uuid(run), &&digest.0[..]]).await?;
            row.map_or(Ok(false), |row| Ok(row.try_get(0)?))
        })
    }
}
