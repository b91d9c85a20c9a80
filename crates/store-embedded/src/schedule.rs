//! Schedules: a table with an index over the times to come.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, Rows, params, params_from_iter};
use windlass_core::Millis;
use windlass_store::{CatchUp, Error, Fired, Overlap, Pending, Schedule, Schedules, TenantFilter};

use crate::EmbeddedStore;
use crate::codec::{self, Sum, signed, unsigned};
use crate::damaged;
use crate::error::Fault;
use crate::query::limit_value;
use crate::store::answer;

impl Schedules for EmbeddedStore {
    fn put_schedule(&self, schedule: Schedule, most: usize) -> Pending<'_, Result<bool, Error>> {
        self.task(None, move |session| {
            put(session.connection, schedule.clone(), most)
        })
    }

    fn schedule(
        &self,
        tenant: Option<&str>,
        id: &str,
    ) -> Pending<'_, Result<Option<Schedule>, Error>> {
        answer(|| {
            self.readers()
                .query(|connection| find(connection, tenant, id))
        })
    }

    fn schedules(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
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

    fn remove_schedule(&self, tenant: Option<&str>, id: &str) -> Pending<'_, Result<bool, Error>> {
        let (tenant, id) = (tenant.unwrap_or_default().to_owned(), id.to_owned());
        self.task(None, move |session| {
            let removed = session
                .connection
                .prepare_cached("DELETE FROM schedule WHERE id = ? AND tenant = ?")?
                .execute([&id, &tenant])?;
            Ok(removed == 1)
        })
    }

    fn due_schedules(
        &self,
        until: Millis,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Schedule>, Error>> {
        let sql = due_sql();
        self.list(move |connection, _| {
            let mut statement = connection.prepare_cached(&sql)?;
            sound(statement.query([until.0])?, limit)
        })
    }

    fn next_schedule(&self) -> Pending<'_, Result<Option<Millis>, Error>> {
        answer(|| {
            let sql = due_sql();
            self.readers().query(|connection| {
                let mut statement = connection.prepare_cached(&sql)?;
                let first = sound(statement.query([i64::MAX])?, 1)?;
                Ok(first.first().and_then(|schedule| schedule.next_at))
            })
        })
    }

    fn mark_fired(&self, fired: Fired) -> Pending<'_, Result<bool, Error>> {
        self.task(None, move |session| mark(session.connection, &fired))
    }
}

const COLUMNS: &str = "id, tenant, workflow, cron, every_ms, timezone, payload, labels, priority, \
     enabled, catch_up, overlap, changed_at, next_at, last_at, last_run, last_error, revision, sum";

fn list_sql(tenant: &TenantFilter) -> String {
    let condition = match tenant {
        TenantFilter::Any => "INDEXED BY sqlite_autoindex_schedule_1 WHERE (id, tenant) > (?1, ?3)",
        TenantFilter::Only(_) => "INDEXED BY schedule_by_tenant WHERE tenant = ?3 AND id > ?1",
    };
    format!("SELECT {COLUMNS} FROM schedule {condition} ORDER BY id, tenant LIMIT ?2")
}

fn due_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM schedule INDEXED BY schedule_by_time \
         WHERE next_at <= ?1 ORDER BY next_at, id, tenant"
    )
}

/// The first that are not damaged.
fn sound(mut rows: Rows<'_>, limit: usize) -> Result<Vec<Schedule>, Fault> {
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let schedule = listed(row)?;
        found.extend(schedule.filter(|schedule| schedule.damage.is_none()));
    }
    Ok(found)
}

/// A schedule in a list: of a damaged one, only the name is returned.
fn listed(row: &Row<'_>) -> rusqlite::Result<Option<Schedule>> {
    let error = match schedule_row(row) {
        Ok(schedule) => return Ok(Some(schedule)),
        Err(error) => error,
    };
    let damage = Some(damaged::reason(error)?);
    Ok(damaged::name(row, (0, 1)).map(|(id, tenant)| Schedule {
        id,
        tenant,
        workflow: "".into(),
        cron: None,
        every_ms: None,
        timezone: "".into(),
        trigger: "null".into(),
        labels: Default::default(),
        priority: 0,
        enabled: false,
        catch_up: CatchUp::None,
        overlap: Overlap::Allow,
        changed_at: Millis(0),
        next_at: None,
        last_at: None,
        last_run: None,
        last_error: None,
        revision: 0,
        damage,
    }))
}

fn find(
    connection: &Connection,
    tenant: Option<&str>,
    id: &str,
) -> Result<Option<Schedule>, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM schedule WHERE id = ? AND tenant = ?");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row([id, tenant.unwrap_or_default()], schedule_row);
    Ok(found.optional()?)
}

fn put(connection: &Connection, schedule: Schedule, most: usize) -> Result<bool, Fault> {
    let tenant = schedule.tenant.as_deref();
    let there = connection
        .prepare_cached("SELECT 1 FROM schedule WHERE id = ? AND tenant = ?")?
        .exists([&*schedule.id, tenant.unwrap_or_default()])?;
    // The new schedule replaces a damaged one.
    let old = match find(connection, tenant, &schedule.id) {
        Ok(old) => old,
        Err(Fault::Sqlite(error)) => damaged::reason(error).map(|_| None)?,
        Err(other) => return Err(other),
    };
    if !there {
        const COUNT: &str = "SELECT count(*) FROM \
             (SELECT 1 FROM schedule INDEXED BY schedule_by_tenant WHERE tenant = ?1 LIMIT ?2)";
        let owner = tenant.unwrap_or_default();
        let count: i64 = connection
            .prepare_cached(COUNT)?
            .query_row(params![owner, limit_value(most)], |row| row.get(0))?;
        if count >= limit_value(most) {
            return Ok(false);
        }
    }
    let last = old.as_ref();
    let kept = Schedule {
        last_at: last.and_then(|old| old.last_at),
        last_run: last.and_then(|old| old.last_run),
        last_error: last.and_then(|old| old.last_error.clone()),
        revision: last.map_or(0, |old| old.revision) + 1,
        damage: None,
        ..schedule
    };
    write(connection, &kept)?;
    Ok(true)
}

fn mark(connection: &Connection, fired: &Fired) -> Result<bool, Fault> {
    let found = find(connection, fired.tenant.as_deref(), &fired.id)?;
    let Some(schedule) = found.filter(|it| it.revision == fired.revision) else {
        return Ok(false);
    };
    let moved = Schedule {
        last_at: Some(fired.at),
        last_run: fired.run.or(schedule.last_run),
        last_error: fired.error.clone(),
        next_at: fired.next_at,
        ..schedule
    };
    write(connection, &moved)?;
    Ok(true)
}

fn write(connection: &Connection, schedule: &Schedule) -> Result<(), Fault> {
    let sql = format!(
        "INSERT OR REPLACE INTO schedule ({COLUMNS}) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    );
    connection.prepare_cached(&sql)?.execute(params![
        schedule.id,
        schedule.tenant.as_deref().unwrap_or_default(),
        schedule.workflow,
        schedule.cron,
        schedule.every_ms.map(signed),
        schedule.timezone,
        schedule.trigger,
        codec::labels_text(&schedule.labels),
        schedule.priority,
        schedule.enabled,
        schedule.catch_up.as_str(),
        schedule.overlap.as_str(),
        schedule.changed_at.0,
        schedule.next_at.map(|at| at.0),
        schedule.last_at.map(|at| at.0),
        schedule.last_run.map(|run| *run.as_bytes()),
        schedule.last_error,
        signed(schedule.revision),
        sum(schedule).value(),
    ])?;
    Ok(())
}

fn schedule_row(row: &Row<'_>) -> rusqlite::Result<Schedule> {
    let tenant: Box<str> = row.get(1)?;
    let catch_up: String = row.get(10)?;
    let overlap: String = row.get(11)?;
    let named = |name: &str| CatchUp::ALL.into_iter().find(|it| it.as_str() == name);
    let schedule = Schedule {
        id: row.get(0)?,
        tenant: (!tenant.is_empty()).then_some(tenant),
        workflow: row.get(2)?,
        cron: row.get(3)?,
        every_ms: row.get::<_, Option<i64>>(4)?.map(unsigned),
        timezone: row.get(5)?,
        trigger: row.get(6)?,
        labels: codec::labels(row, 7)?,
        priority: row.get(8)?,
        enabled: row.get(9)?,
        catch_up: named(&catch_up).ok_or_else(|| unknown(10, &catch_up))?,
        overlap: Overlap::ALL
            .into_iter()
            .find(|it| it.as_str() == overlap)
            .ok_or_else(|| unknown(11, &overlap))?,
        changed_at: codec::millis(row, 12)?,
        next_at: codec::optional_millis(row, 13)?,
        last_at: codec::optional_millis(row, 14)?,
        last_run: codec::optional_run(row, 15)?,
        last_error: row.get(16)?,
        revision: unsigned(row.get(17)?),
        damage: None,
    };
    sum(&schedule).check(row, 18)?;
    Ok(schedule)
}

fn unknown(at: usize, what: &str) -> rusqlite::Error {
    let reason = format!("'{what}' is not known here").into();
    rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, reason)
}

fn sum(schedule: &Schedule) -> Sum {
    let millis = |at: Option<Millis>| at.map(|at| at.0);
    let last_run = schedule.last_run.as_ref();
    let mut sum = Sum::default()
        .text(&schedule.id)
        .optional_text(schedule.tenant.as_deref())
        .text(&schedule.workflow)
        .optional_text(schedule.cron.as_deref())
        .optional_number(schedule.every_ms.map(signed))
        .text(&schedule.timezone)
        .text(&schedule.trigger)
        .number(schedule.priority.into())
        .number(schedule.enabled.into())
        .text(schedule.catch_up.as_str())
        .text(schedule.overlap.as_str())
        .number(schedule.changed_at.0)
        .optional_number(millis(schedule.next_at))
        .optional_number(millis(schedule.last_at))
        .bytes(last_run.map_or(&[][..], |run| run.as_bytes()))
        .optional_text(schedule.last_error.as_deref())
        .number(signed(schedule.revision));
    for (key, value) in &schedule.labels {
        sum = sum.text(key).text(value);
    }
    sum
}

/// Reads every schedule, checking it.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM schedule"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        schedule_row(row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::assert_searches;

    #[test]
    fn what_is_asked_often_walks_an_index() {
        assert_searches(&due_sql(), "schedule_by_time");
        let only = list_sql(&TenantFilter::Only(None));
        assert_searches(&only, "schedule_by_tenant");
        let any = list_sql(&TenantFilter::Any);
        assert_searches(&any, "sqlite_autoindex_schedule_1");
    }
}
