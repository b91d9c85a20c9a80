//! Lists of runs, and the rows that derive from the log.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::{Millis, RunId};
use windlass_store::{
    Damage, Error, Health, Partitions, Pending, Queries, Relatives, ResourceRow, RunFilter,
    RunPage, RunRow, TenantFilter,
};

use crate::append::{Parameter, row_arrays, upsert};
use crate::codec::{
    Columns as _, Moment, RUN_COLUMNS, labels_text, limit, numbers, run_row, tenant, text, uuid,
    version,
};
use crate::error::Fault;
use crate::store::{PostgresStore, Session, blockable};

const OPEN: &str = "e.status in ('Pending', 'Running', 'Paused')";

const LOGGED: &str = "select run from head where $1::uuid is null or run > $1 \
     order by run limit $2";
const PREFIXED: &str = "select run from (select run from head where run between $1 and $2 \
     union select id from workflow_executions where id between $1 and $2) r order by run limit $3";
const DUE: &str = "select e.id, e.wake_at from workflow_executions e \
     where e.status in ('Pending', 'Running', 'Paused') and e.asleep and not e.dead \
     and e.wake_at is not null and e.wake_at <= $1 \
     and ($2::int8 is null or (e.wake_at, e.id) > ($2, $3)) \
     and ($4::int4[] is null or e.partition = any($4)) order by e.wake_at, e.id limit $5";
const RELATIVES: &str = "select \
     (select count(*) from (select from workflow_executions c where c.parent = r.run limit $2) c), \
     array(select f.id from workflow_executions f where f.origin = r.run \
     order by f.id desc limit $3) \
     from unnest($1::uuid[]) with ordinality as r(run, n) order by r.n";
const LINK_COLUMNS: &str = "select tenant_id, system_name, resource_type, resource_id, \
     external_url, execution, action from workflow_resource_links";
/// Those that SQL has linked are in no log.
const REMOVE_LINKS: &str = "delete from workflow_resource_links where execution = $1 and seq >= 0";
const ADD_LINK: &str = "insert into workflow_resource_links (tenant_id, execution, action, \
     system_name, resource_type, resource_id, external_url, seq, ordinal) \
     values ($1, $2, $3, $4, $5, $6, $7, 0, $8) on conflict do nothing";
/// The age of the oldest transaction that is open, in seconds.
const OLDEST: &str = "coalesce((select extract(epoch from max(now() - xact_start))::int8 \
     from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()), 0)";
const HEALTH: &str = "select current_setting('server_version'), \
     pg_size_pretty(pg_database_size(current_database())), \
     (select count(*) from pg_stat_activity where datname = current_database()), \
     OLDEST, current_setting('synchronous_commit'), \
     (select count(*) from (select from projection_queue limit 100000) q), \
     coalesce((select (extract(epoch from clock_timestamp() - at) * 1000)::int8 \
     from projection_queue order by xid limit 1), 0), \
     coalesce((select holder from projector where until_ms > clock_ms()), 'none')";

impl PostgresStore {
    /// The age of the oldest transaction that any program has open on the database: rows that
    /// were removed since then cannot be cleaned.
    pub fn oldest_transaction(&self) -> Pending<'_, Result<Duration, Error>> {
        self.call(move |session| async move {
            let row = session.first(&format!("select {OLDEST}"), &[]).await?;
            let seconds = row.map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
            Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
        })
    }
}

fn link(row: &tokio_postgres::Row) -> Result<ResourceRow, Fault> {
    Ok(ResourceRow {
        tenant: row.tenant(0)?,
        system: row.text(1)?,
        kind: row.text(2)?,
        id: row.text(3)?,
        url: row.optional_text(4)?,
        run: row.run(5)?,
        node: row.text(6)?,
    })
}

impl PostgresStore {
    /// Rows of runs by a condition with these parameters.
    pub(crate) fn runs_where(
        &self,
        rest: &str,
        parameters: Vec<Parameter<'static>>,
    ) -> Pending<'static, Result<Vec<RunRow>, Error>> {
        let sql = format!("select {RUN_COLUMNS} from workflow_executions e where {rest}");
        let inner = Arc::clone(&self.inner);
        self.run_rows(async move {
            let session = inner.session().await?;
            let parameters: Vec<&(dyn ToSql + Sync)> = parameters
                .iter()
                .map(|it| &**it as &(dyn ToSql + Sync))
                .collect();
            session.rows(&sql, &parameters).await
        })
    }
}

/// The condition of a filter, without its cursor's page size.
fn condition(filter: &RunFilter) -> (String, Vec<Parameter<'static>>) {
    let mut conditions = vec!["true".to_owned()];
    let mut parameters: Vec<Parameter<'static>> = Vec::new();
    let mut add = |text: &str, value: Parameter<'static>| {
        parameters.push(value);
        conditions.push(text.replace('?', &format!("${}", parameters.len())));
    };
    if let TenantFilter::Only(one) = &filter.tenant {
        add(
            "e.tenant_id = ?",
            Box::new(tenant(one.as_deref()).into_owned()),
        );
    }
    if let Some(workflow) = &filter.workflow {
        add("e.workflow = ?", Box::new(text(workflow).into_owned()));
    }
    if let Some(number) = filter.version {
        add("e.version = ?", Box::new(version(number)));
    }
    if !filter.statuses.is_empty() {
        let statuses = filter.statuses.iter().map(|status| status.as_str());
        add(
            "e.status = any(?)",
            Box::new(statuses.collect::<Vec<&str>>()),
        );
    }
    if let Some(labels) = labels_text(&filter.labels) {
        let condition = "e.labels is not null and e.labels @> ?::text::jsonb";
        add(condition, Box::new(labels));
    }
    if let Some(parent) = filter.parent {
        add("e.parent = ?", Box::new(uuid(parent)));
    }
    if let Some(origin) = filter.origin {
        add("e.origin = ?", Box::new(uuid(origin)));
    }
    if let Some(error) = &filter.error {
        let condition = "(e.error_code = ?::text or e.cause_codes @> jsonb_build_array(?::text))";
        add(condition, Box::new(text(error).into_owned()));
    }
    if let Some(since) = filter.since {
        add("e.created_at >= ?", Box::new(Moment(since)));
    }
    if let Some(before) = filter.before {
        add("e.id < ?", Box::new(uuid(before)));
    }
    let open = "e.status in ('Pending', 'Running', 'Paused')";
    let further = [
        (
            filter.waiting,
            "e.asleep and e.status = 'Running' and not e.dead".to_owned(),
        ),
        (filter.dead == Some(true), format!("e.dead and {open}")),
        (
            filter.dead == Some(false),
            format!("not (e.dead and {open})"),
        ),
        (filter.roots, "e.parent is null".to_owned()),
        (
            filter.unforked,
            "not exists (select from workflow_executions f where f.origin = e.id)".to_owned(),
        ),
    ];
    let further = further.into_iter().filter(|(wanted, _)| *wanted);
    conditions.extend(further.map(|(_, condition)| condition));
    (conditions.join(" and "), parameters)
}

/// The first and the last id that begin with these digits; `None` if no id does.
fn bounds(prefix: &str) -> Option<(Uuid, Uuid)> {
    let digits = prefix.replace('-', "");
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits.len() > 32 || !hexadecimal {
        return None;
    }
    let low = Uuid::parse_str(&format!("{digits:0<32}")).ok()?;
    let high = Uuid::parse_str(&format!("{digits:f<32}")).ok()?;
    Some((low, high))
}

/// The row of a run, if there is one.
pub(crate) type ReadRow = Result<Option<RunRow>, Error>;

/// Reads the rows of runs. One that cannot be read fails for its own callers alone.
pub(crate) fn send_rows(
    session: Session,
    runs: Arc<Vec<RunId>>,
) -> Pending<'static, Result<Vec<ReadRow>, Fault>> {
    Box::pin(async move {
        let ids: BTreeSet<Uuid> = runs.iter().map(|run| uuid(*run)).collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        // Each is looked up by its key: a plan that was made for an empty table would scan all.
        let sql = format!(
            "select {RUN_COLUMNS} from unnest($1::uuid[]) i(id) cross join lateral \
             (select * from workflow_executions w where w.id = i.id offset 0) e"
        );
        let mut found = HashMap::with_capacity(ids.len());
        for row in session.rows(&sql, &[&ids]).await? {
            found.insert(row.run(0)?, run_row(&row).map_err(Fault::into_error));
        }
        let rows = runs.iter().map(|run| found.get(run).cloned().transpose());
        Ok(rows.collect())
    })
}

impl Queries for PostgresStore {
    fn damaged_rows(&self) -> Vec<Damage> {
        self.damaged()
    }

    fn run(&self, run: RunId) -> Pending<'_, Result<Option<RunRow>, Error>> {
        let row = self.one_together(|lines| &lines.rows, run);
        blockable(async move { row.await? })
    }

    fn runs(&self, filter: &RunFilter) -> Pending<'_, Result<RunPage, Error>> {
        let page = filter.page();
        let (condition, parameters) = condition(filter);
        let sql = format!(
            "select {RUN_COLUMNS} from workflow_executions e where {condition} \
             order by e.id desc limit {}",
            limit(page.saturating_add(1))
        );
        let inner = Arc::clone(&self.inner);
        self.task(Box::pin(async move {
            let session = inner.session().await?;
            let parameters: Vec<&(dyn ToSql + Sync)> = parameters
                .iter()
                .map(|it| &**it as &(dyn ToSql + Sync))
                .collect();
            let rows = session.rows(&sql, &parameters).await;
            let mut rows = rows.map_err(Fault::into_error)?;
            let more = rows.len() > page;
            rows.truncate(page);
            let last = rows.last().and_then(|row| row.run(0).ok());
            Ok(RunPage {
                rows: inner.readable(&rows),
                next: last.filter(|_| more),
            })
        }))
    }

    fn runs_with_prefix(
        &self,
        prefix: &str,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        let Some((low, high)) = bounds(prefix) else {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        };
        self.call(move |session| async move {
            let rows = session
                .rows(PREFIXED, &[&low, &high, &limit(count)])
                .await?;
            rows.iter().map(|row| row.run(0)).collect()
        })
    }

    fn unfinished(
        &self,
        after: Option<RunId>,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let rest = format!("{OPEN} and ($1::uuid is null or e.id > $1) order by e.id limit $2");
        self.runs_where(
            &rest,
            vec![Box::new(after.map(uuid)), Box::new(limit(count))],
        )
    }

    fn awake(&self, after: Option<RunId>, count: usize) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        let rest = format!(
            "{OPEN} and not e.asleep and ($1::uuid is null or e.id > $1) order by e.id limit $2"
        );
        self.runs_where(
            &rest,
            vec![Box::new(after.map(uuid)), Box::new(limit(count))],
        )
    }

    fn due(
        &self,
        partitions: &Partitions,
        after: Option<(Millis, RunId)>,
        until: Millis,
        count: usize,
    ) -> Pending<'_, Result<Vec<(RunId, Millis)>, Error>> {
        let partitions = numbers(partitions);
        self.call(move |session| async move {
            let at = after.map(|(at, _)| at.0);
            let run = after.map(|(_, run)| uuid(run));
            let rows = session
                .rows(DUE, &[&until.0, &at, &run, &partitions, &limit(count)])
                .await?;
            let due = rows
                .iter()
                .map(|row| Ok((row.run(0)?, Millis(row.try_get(1)?))));
            due.collect()
        })
    }

    fn children(&self, parent: RunId) -> Pending<'_, Result<Vec<RunRow>, Error>> {
        self.runs_where("e.parent = $1 order by e.id", vec![Box::new(uuid(parent))])
    }

    fn relatives(&self, runs: &[RunId]) -> Pending<'_, Result<Vec<Relatives>, Error>> {
        let runs: Vec<Uuid> = runs.iter().copied().map(uuid).collect();
        self.call(move |session| async move {
            let most = (
                i64::from(Relatives::MOST_CHILDREN),
                limit(Relatives::MOST_FORKS),
            );
            let rows = session.rows(RELATIVES, &[&runs, &most.0, &most.1]).await?;
            let each = rows.iter().map(|row| {
                let forks: Vec<Uuid> = row.try_get(1)?;
                Ok(Relatives {
                    children: u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u32::MAX),
                    forks: forks
                        .iter()
                        .map(|fork| RunId::from_bytes(*fork.as_bytes()))
                        .collect(),
                })
            });
            each.collect()
        })
    }

    fn resources(&self, run: RunId) -> Pending<'_, Result<Vec<ResourceRow>, Error>> {
        self.call(move |session| async move {
            let sql = format!("{LINK_COLUMNS} where execution = $1 order by seq, ordinal");
            let rows = session.rows(&sql, &[&uuid(run)]).await?;
            rows.iter().map(link).collect()
        })
    }

    fn resource(
        &self,
        owner: Option<&str>,
        system: &str,
        kind: &str,
        id: &str,
    ) -> Pending<'_, Result<Option<ResourceRow>, Error>> {
        let owner = tenant(owner).into_owned();
        let [system, kind, id] = [system, kind, id].map(|it| text(it).into_owned());
        self.call(move |session| async move {
            let sql = format!(
                "{LINK_COLUMNS} where tenant_id = $1 and system_name = $2 and resource_type = $3 \
                 and resource_id = $4"
            );
            let row = session.first(&sql, &[&owner, &system, &kind, &id]).await?;
            row.as_ref().map(link).transpose()
        })
    }

    fn replace_rows(
        &self,
        mut rows: Vec<(RunRow, Vec<ResourceRow>)>,
    ) -> Pending<'_, Result<(), Error>> {
        for (row, _) in &mut rows {
            row.partition = row.partition.within(self.inner.opened.partitions);
        }
        self.call(move |mut session| async move {
            let work = session.transaction().await?;
            for (row, links) in &rows {
                work.execute(REMOVE_LINKS, &[&uuid(row.run)]).await?;
                for (ordinal, link) in (0i32..).zip(links) {
                    let owner = tenant(link.tenant.as_deref());
                    let url = link.url.as_deref().map(text);
                    let [node, system, kind, id] =
                        [&link.node, &link.system, &link.kind, &link.id].map(|it| text(it));
                    let run = uuid(link.run);
                    work.execute(
                        ADD_LINK,
                        &[&owner, &run, &node, &system, &kind, &id, &url, &ordinal],
                    )
                    .await?;
                }
                let mut parameters = row_arrays(std::iter::once((0, row, false)));
                parameters.push(Box::new(uuid(row.run)));
                let parameters: Vec<&(dyn ToSql + Sync)> = parameters
                    .iter()
                    .map(|it| &**it as &(dyn ToSql + Sync))
                    .collect();
                work.execute(&replace(), &parameters).await?;
            }
            work.commit().await
        })
    }

    fn logged_runs(
        &self,
        after: Option<RunId>,
        count: usize,
    ) -> Pending<'_, Result<Vec<RunId>, Error>> {
        self.call(move |session| async move {
            let after = after.map(uuid);
            let rows = session.rows(LOGGED, &[&after, &limit(count)]).await?;
            rows.iter().map(|row| row.run(0)).collect()
        })
    }

    fn health(&self) -> Pending<'_, Result<Health, Error>> {
        let (address, schema) = (self.inner.access.address.clone(), self.inner.opened.version);
        self.call(move |session| async move {
            let row = session
                .first(&HEALTH.replace("OLDEST", OLDEST), &[])
                .await?;
            let row = row.ok_or_else(|| crate::codec::unreadable("the state of the server"))?;
            let fact = |name: &str, value: String| (name.to_owned(), value);
            Ok(Health {
                facts: vec![
                    fact("store", "postgres".into()),
                    fact("address", address),
                    fact("server", row.try_get(0)?),
                    fact("size", row.try_get(1)?),
                    fact("connections", row.try_get::<_, i64>(2)?.to_string()),
                    fact(
                        "oldest transaction (s)",
                        row.try_get::<_, i64>(3)?.to_string(),
                    ),
                    fact("synchronous_commit", row.try_get(4)?),
                    fact("schema version", schema.to_string()),
                    fact("projector", row.try_get(7)?),
                    fact("projection lag (ms)", row.try_get::<_, i64>(6)?.to_string()),
                    fact("changes to project", row.try_get::<_, i64>(5)?.to_string()),
                ],
            })
        })
    }
}

/// Writes one row from arrays of length one; the mark of the dead comes from the head.
fn replace() -> String {
    let (arrays, names) = crate::append::row_table();
    let columns = names.iter().skip(1).map(|name| match *name {
        "labels" | "cause_codes" => format!("r.{name}::jsonb"),
        "owns_request" => "exists (select from claim k where k.namespace = 'request' \
             and k.key = r.tenant_id || chr(10) || r.workflow || chr(10) || r.workflow_request_id \
             and substring(k.value from 1 for 36) = convert_to($23::uuid::text, 'UTF8'))"
            .to_owned(),
        name => format!("r.{name}"),
    });
    let columns: Vec<String> = columns.collect();
    let names = names.join(", ");
    upsert(&format!(
        "select $23::uuid, coalesce((select dead from head where run = $23::uuid), false), {} \
         from unnest({arrays}) as r({names})",
        columns.join(", ")
    ))
}
