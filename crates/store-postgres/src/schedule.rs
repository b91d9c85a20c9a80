//! Schedules: rows that say when runs are started.

use tokio_postgres::Row;
use windlass_core::Millis;
use windlass_store::{CatchUp, Error, Fired, Overlap, Pending, Schedule, Schedules, TenantFilter};

use crate::catalogue::only;
use crate::codec::{
    Columns as _, Moment, labels_text, limit, signed, tenant, text, unreadable, uuid,
};
use crate::error::Fault;
use crate::store::{PostgresStore, Work};

const PUT: &str = "insert into schedules (tenant_id, id, workflow, cron, every_ms, timezone, \
     trigger, labels, priority, is_enabled, catch_up, overlap, changed_at, next_at, revision) \
     values ($1, $2, $3, $4, $5, $6, $7, $8::text::jsonb, $9, $10, $11, $12, $13, $14, 1) \
     on conflict (tenant_id, id) do update set workflow = excluded.workflow, \
     cron = excluded.cron, every_ms = excluded.every_ms, timezone = excluded.timezone, \
     trigger = excluded.trigger, labels = excluded.labels, priority = excluded.priority, \
     is_enabled = excluded.is_enabled, catch_up = excluded.catch_up, overlap = excluded.overlap, \
     changed_at = excluded.changed_at, next_at = excluded.next_at, \
     revision = schedules.revision + 1";
const COLUMNS: &str = "select tenant_id, id, workflow, cron, every_ms, timezone, trigger, \
     labels::text, priority, is_enabled, catch_up, overlap, changed_at, next_at, last_at, \
     last_run, last_error, revision from schedules";
const REMOVE: &str = "delete from schedules where tenant_id = $1 and id = $2";
const NEXT: &str = "select min(next_at) from schedules";
const FIRE: &str = "update schedules set last_at = $4, last_run = coalesce($5, last_run), \
     last_error = $6, next_at = $7 where tenant_id = $1 and id = $2 and revision = $3";

/// Whether a tenant has room for one more row, or the row exists. Callers of one tenant take
/// turns until the transaction ends.
pub(crate) async fn has_room(
    work: &Work<'_>,
    table: &str,
    (owner, id): (&str, &str),
    most: usize,
) -> Result<bool, Fault> {
    let lock = format!(
        "select pg_advisory_xact_lock(hashtext('windlass {table} ' || current_schema()), \
         hashtext($1))"
    );
    work.rows(&lock, &[&owner]).await?;
    let count = format!(
        "select count(*), coalesce(bool_or(id = $2), false) from {table} where tenant_id = $1"
    );
    let rows = work.rows(&count, &[&owner, &id]).await?;
    let row = rows.first().ok_or_else(|| unreadable("a count"))?;
    let (count, exists): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
    Ok(exists || count < limit(most))
}

fn schedule(row: &Row) -> Result<Schedule, Fault> {
    let (catch_up, overlap): (&str, &str) = (row.try_get(10)?, row.try_get(11)?);
    let catch_up = CatchUp::ALL.into_iter().find(|it| it.as_str() == catch_up);
    let overlap = Overlap::ALL.into_iter().find(|it| it.as_str() == overlap);
    let every: Option<i64> = row.try_get(4)?;
    Ok(Schedule {
        tenant: row.tenant(0)?,
        id: row.text(1)?,
        workflow: row.text(2)?,
        cron: row.optional_text(3)?,
        every_ms: every.map(crate::codec::unsigned),
        timezone: row.text(5)?,
        trigger: row.text(6)?,
        labels: row.labels(7)?,
        priority: u8::try_from(row.try_get::<_, i16>(8)?).map_err(|_| unreadable("a priority"))?,
        enabled: row.try_get(9)?,
        catch_up: catch_up.ok_or_else(|| unreadable("a rule for missed times"))?,
        overlap: overlap.ok_or_else(|| unreadable("a rule for overlaps"))?,
        changed_at: row.millis(12)?,
        next_at: row.optional_millis(13)?,
        last_at: row.optional_millis(14)?,
        last_run: row.optional_run(15)?,
        last_error: row.optional_text(16)?,
        revision: row.number(17)?,
        damage: None,
    })
}

impl Schedules for PostgresStore {
    fn put_schedule(&self, schedule: Schedule, most: usize) -> Pending<'_, Result<bool, Error>> {
        self.call(move |mut session| async move {
            let owner = tenant(schedule.tenant.as_deref()).into_owned();
            let id = text(&schedule.id).into_owned();
            let work = session.transaction().await?;
            if !has_room(&work, "schedules", (&owner, &id), most).await? {
                return Ok(false);
            }
            let cron = schedule.cron.as_deref().map(text);
            let every = schedule.every_ms.map(signed);
            let labels = labels_text(&schedule.labels);
            work.execute(
                PUT,
                &[
                    &owner,
                    &id,
                    &text(&schedule.workflow),
                    &cron,
                    &every,
                    &text(&schedule.timezone),
                    &text(&schedule.trigger),
                    &labels,
                    &i16::from(schedule.priority),
                    &schedule.enabled,
                    &schedule.catch_up.as_str(),
                    &schedule.overlap.as_str(),
                    &Moment(schedule.changed_at),
                    &schedule.next_at.map(Moment),
                ],
            )
            .await?;
            work.commit().await?;
            Ok(true)
        })
    }

    fn schedule(
        &self,
        owner: Option<&str>,
        id: &str,
    ) -> Pending<'_, Result<Option<Schedule>, Error>> {
        let (owner, id) = (tenant(owner).into_owned(), text(id).into_owned());
        self.call(move |session| async move {
            let sql = format!("{COLUMNS} where tenant_id = $1 and id = $2");
            let row = session.first(&sql, &[&owner, &id]).await?;
            row.as_ref().map(schedule).transpose()
        })
    }

    fn schedules(
        &self,
        filter: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        count: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
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
            rows.iter().map(schedule).collect()
        })
    }

    fn remove_schedule(&self, owner: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>> {
        let (owner, id) = (tenant(owner).into_owned(), text(id).into_owned());
        self.call(
            move |session| async move { Ok(session.execute(REMOVE, &[&owner, &id]).await? > 0) },
        )
    }

    fn due_schedules(
        &self,
        until: Millis,
        count: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
        self.call(move |session| async move {
            let sql =
                format!("{COLUMNS} where next_at <= $1 order by next_at, id, tenant_id limit $2");
            let rows = session.rows(&sql, &[&Moment(until), &limit(count)]).await?;
            // Damaged ones are left out; lists name them.
            Ok(rows.iter().filter_map(|row| schedule(row).ok()).collect())
        })
    }

    fn next_schedule(&self) -> Pending<'_, Result<Option<Millis>, Error>> {
        self.call(move |session| async move {
            let row = session.first(NEXT, &[]).await?;
            row.map_or(Ok(None), |row| row.optional_millis(0))
        })
    }

    fn mark_fired(&self, fired: Fired) -> Pending<'_, Result<bool, Error>> {
        self.call(move |session| async move {
            let (owner, id) = (tenant(fired.tenant.as_deref()), text(&fired.id));
            let error = fired.error.as_deref().map(text);
            let changed = session
                .execute(
                    FIRE,
                    &[
                        &owner,
                        &id,
                        &signed(fired.revision),
                        &Moment(fired.at),
                        &fired.run.map(uuid),
                        &error,
                        &fired.next_at.map(Moment),
                    ],
                )
                .await?;
            Ok(changed > 0)
        })
    }
}

/// The place in a list by id, then tenant, as parameters.
pub(crate) fn place(after: Option<(&str, Option<&str>)>) -> (Option<String>, Option<String>) {
    match after {
        None => (None, None),
        Some((id, owner)) => (
            Some(text(id).into_owned()),
            Some(tenant(owner).into_owned()),
        ),
    }
}
