//! The work queue: an unlogged table, so a crash of the server empties it, which the contract
//! allows. Workers skip what other workers are taking. An item is leased while it has a lease
//! that has not run out, by the database's clock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_postgres::types::ToSql;
use windlass_store::{
    BegunItem, Bell, Error, ItemOutcome, ItemRun, ItemState, LeaseAnswer, LeaseTerm, LeasedItem,
    Partition, Pending, Pull, QueueDepth, SessionId, SettleAnswer, TenantFilter, WorkItem, WorkKey,
    WorkLease, WorkQueue,
};

use crate::codec::{Columns as _, limit, signed, tenant, text, uuid};
use crate::error::Fault;
use crate::store::{PostgresStore, Session, blockable};

/// Whether the lease of `w` runs.
const HELD: &str = "(w.lease is not null and case when w.session is null \
     then w.until_ms > clock_ms() \
     else exists (select from session s where s.id = w.session and s.until_ms > clock_ms()) end)";

const KEY: &str = "w.run = $1 and w.instance = $2 and w.attempt = $3 and w.tenant_id = $4";

/// Whether a worker can do `w`, of one tenant's runs or of all.
fn fits(any_tenant: bool) -> &'static str {
    match any_tenant {
        true => "$1::text is null and w.action = any($2) and w.requires <@ $3 and not w.stop",
        false => "w.tenant_id = $1 and w.action = any($2) and w.requires <@ $3 and not w.stop",
    }
}

fn push() -> String {
    let over = HELD.replace("w.", "work.");
    format!(
        "insert into work (run, instance, attempt, tenant_id, action, requires, priority, age, \
         payload) select i.run, i.instance, i.attempt, i.tenant_id, i.action, \
         array(select jsonb_array_elements_text(i.requires::jsonb)), i.priority, \
         nextval('work_age'), i.payload \
         from (select * from unnest($1::uuid[], $2::int8[], $3::int8[], $4::text[], $5::text[], \
         $6::text[], $7::int2[], $8::bytea[]) with ordinality \
         as t(run, instance, attempt, tenant_id, action, requires, priority, payload, n) \
         order by n) i \
         on conflict (run, instance, attempt) do update set tenant_id = excluded.tenant_id, \
         action = excluded.action, requires = excluded.requires, priority = excluded.priority, \
         age = excluded.age, payload = excluded.payload, deliveries = 0, stop = false, \
         lease = null, worker = null, session = null, term_ms = null, until_ms = null, \
         begun_ms = null, last_lease = null, last_worker = null \
         where work.stop and not {over}"
    )
}

const RING: &str = "select pg_notify('windlass_' || current_schema(), 'w')";

/// Items that a worker has begun; `$1` to `$8` are those of [`push`].
const PUSH_BEGUN: &str = "insert into work (run, instance, attempt, tenant_id, action, requires, \
     priority, age, payload, deliveries, lease, worker, session, begun_ms) \
     select i.run, i.instance, i.attempt, i.tenant_id, i.action, \
     array(select jsonb_array_elements_text(i.requires::jsonb)), i.priority, \
     nextval('work_age'), i.payload, 1, nextval('work_lease'), $9, $10, clock_ms() - i.begun \
     from (select * from unnest($1::uuid[], $2::int8[], $3::int8[], $4::text[], $5::text[], \
     $6::text[], $7::int2[], $8::bytea[], $11::int8[]) with ordinality \
     as t(run, instance, attempt, tenant_id, action, requires, priority, payload, begun, n) \
     order by n) i \
     where exists (select from session s where s.id = $10 and s.until_ms > clock_ms()) \
     on conflict (run, instance, attempt) do nothing returning run, instance, attempt, lease";

/// Leases what fits: what waits, what a lapsed lease set free, and what the worker lost. The
/// worker did not get what it lost: that counts as no delivery, and its lease as none.
fn pull(any_tenant: bool) -> String {
    let fits = fits(any_tenant);
    let columns = "w.run, w.instance, w.attempt, w.priority, w.age, octet_length(w.payload) size";
    let order = "order by w.priority desc, w.age limit $4 for update skip locked";
    format!(
        "with c as materialized (\
         select * from (select {columns}, false as lost from work w where {fits} \
         and w.lease is null {order}) a \
         union all \
         select * from (select {columns}, {HELD} as lost from work w where {fits} \
         and w.lease is not null \
         and (not {HELD} or ($9 and w.worker = $6 and not (w.run, w.instance, w.attempt) in \
         (select * from unnest($10::uuid[], $11::int8[], $12::int8[])))) {order}) b), \
         s as (select *, sum(size) over o as total, row_number() over o as n from c \
         window o as (order by priority desc, age)), \
         t as (select * from s where n <= $4 and (n = 1 or total <= $5)) \
         update work w set lease = nextval('work_lease'), worker = $6, session = $7, \
         term_ms = $8, until_ms = clock_ms() + $8, \
         deliveries = w.deliveries + case when t.lost then 0 else 1 end, \
         begun_ms = case when t.lost and w.deliveries <= 1 then clock_ms() \
         else coalesce(w.begun_ms, clock_ms()) end, \
         last_lease = {LAST_LEASE}, last_worker = {LAST_WORKER} \
         from t left join workflow_executions e on e.id = t.run \
         where w.run = t.run and w.instance = t.instance and w.attempt = t.attempt \
         and ($7::int8 is null or exists (select from session s \
         where s.id = $7 and s.until_ms > clock_ms())) \
         returning w.run, w.instance, w.attempt, w.tenant_id, w.action, w.requires, w.priority, \
         w.payload, w.lease, w.deliveries, w.age, greatest(clock_ms() - w.begun_ms, 0), \
         e.partition, e.status = 'Running' and not e.dead",
        LAST_LEASE = "case when t.lost then w.last_lease else coalesce(w.lease, w.last_lease) end",
        LAST_WORKER =
            "case when t.lost then w.last_worker else coalesce(w.worker, w.last_worker) end",
    )
}

fn known() -> String {
    format!(
        "select i.n, case when {HELD} then w.lease end, w.worker, w.stop, \
         greatest(clock_ms() - coalesce(w.begun_ms, clock_ms()), 0), \
         coalesce(w.lease, w.last_lease), coalesce(w.worker, w.last_worker) \
         from unnest($1::uuid[], $2::int8[], $3::int8[]) with ordinality \
         as i(run, instance, attempt, n) \
         join work w on w.run = i.run and w.instance = i.instance and w.attempt = i.attempt \
         where not w.stop or {HELD} order by i.n"
    )
}

/// What the queue has, by tenant, action and labels.
fn depth() -> String {
    format!(
        "select w.tenant_id, w.action, w.requires, count(*) filter (where not {HELD}), \
         count(*) filter (where {HELD}) from work w where not w.stop \
         group by w.tenant_id, w.action, w.requires order by 1, 2, 3 limit $1"
    )
}

/// What became of an item whose lease did not hold.
fn remains() -> String {
    format!("select 1 from work w where {KEY} and (not w.stop or {HELD})")
}

fn on_lease(change: &str) -> String {
    format!("{change} where {KEY} and w.lease = $5 and {HELD} returning w.stop")
}

/// Items are locked in the order of their keys: batches that meet do not deadlock. What is there
/// and was not to stop, or is held under another lease, is answered too.
fn complete() -> String {
    format!(
        "with l as materialized (\
         select i.n, w.run, w.instance, w.attempt, w.stop, {HELD} as held, w.lease = i.lease as own \
         from unnest($1::uuid[], $2::int8[], $3::int8[], $4::text[], $5::int8[]) with ordinality \
         as i(run, instance, attempt, tenant_id, lease, n) \
         join work w on w.run = i.run and w.instance = i.instance and w.attempt = i.attempt \
         and w.tenant_id = i.tenant_id order by w.run, w.instance, w.attempt for update of w), \
         d as (delete from work w using l where w.run = l.run and w.instance = l.instance \
         and w.attempt = l.attempt and l.held and l.own) \
         select l.n, l.held and l.own, l.stop from l where not l.stop or l.held"
    )
}

fn resume() -> String {
    format!(
        "update work w set lease = nextval('work_lease'), worker = $5, session = $6, \
         term_ms = $7, until_ms = clock_ms() + $7, deliveries = w.deliveries + 1, \
         begun_ms = coalesce(w.begun_ms, clock_ms()), \
         last_lease = coalesce(w.lease, w.last_lease), \
         last_worker = coalesce(w.worker, w.last_worker) \
         where {KEY} and not {HELD} and not w.stop returning w.lease"
    )
}

const STOP_REST: &str = "update work w set stop = true from \
     unnest($1::uuid[], $2::int8[], $3::int8[]) as i(run, instance, attempt) \
     where w.run = i.run and w.instance = i.instance and w.attempt = i.attempt";
const STOP_WAITING: &str = "delete from work w using \
     unnest($1::uuid[], $2::int8[], $3::int8[]) as i(run, instance, attempt) \
     where w.run = i.run and w.instance = i.instance and w.attempt = i.attempt \
     and w.lease is null";
/// In the order of the keys, as [`complete`] locks them.
const WITHDRAW: &str = "with l as materialized (select w.run, w.instance, w.attempt from \
     unnest($1::uuid[], $2::int8[], $3::int8[]) as i(run, instance, attempt) join work w \
     on w.run = i.run and w.instance = i.instance and w.attempt = i.attempt \
     order by w.run, w.instance, w.attempt for update of w) \
     delete from work w using l \
     where w.run = l.run and w.instance = l.instance and w.attempt = l.attempt";

/// Items that were to stop and whose lease ran out: no worker gets them again.
fn sweep() -> String {
    format!("delete from work w where w.stop and not {HELD}")
}

/// A term as columns: session, milliseconds.
fn term(term: LeaseTerm) -> (Option<i64>, Option<i64>) {
    match term {
        LeaseTerm::Millis(millis) => (None, Some(signed(millis.min(315_360_000_000)))),
        LeaseTerm::Session(session) => (Some(signed(session.0)), None),
    }
}

/// Keys as three arrays.
struct Keys {
    runs: Vec<uuid::Uuid>,
    instances: Vec<i64>,
    attempts: Vec<i64>,
}

impl Keys {
    fn of(keys: &[WorkKey]) -> Self {
        Self {
            runs: keys.iter().map(|key| uuid(key.run)).collect(),
            instances: keys.iter().map(|key| key.instance.into()).collect(),
            attempts: keys.iter().map(|key| key.attempt.into()).collect(),
        }
    }
}

/// Items as arrays, one for each column.
struct ItemColumns {
    keys: Keys,
    owners: Vec<String>,
    actions: Vec<String>,
    labels: Vec<String>,
    priorities: Vec<i16>,
    payloads: Vec<Vec<u8>>,
}

impl ItemColumns {
    fn of<'a>(items: impl IntoIterator<Item = &'a WorkItem>) -> Self {
        let items: Vec<&WorkItem> = items.into_iter().collect();
        let keys: Vec<WorkKey> = items.iter().map(|item| item.key).collect();
        let owner = |item: &WorkItem| tenant(item.tenant.as_deref()).into_owned();
        let labels = |item: &WorkItem| {
            let labels = item.requires.iter().map(|label| text(label).into_owned());
            serde_json::Value::from(labels.collect::<Vec<String>>()).to_string()
        };
        let action = |item: &WorkItem| text(&item.action).into_owned();
        Self {
            keys: Keys::of(&keys),
            owners: items.iter().copied().map(owner).collect(),
            actions: items.iter().copied().map(action).collect(),
            labels: items.iter().copied().map(labels).collect(),
            priorities: items.iter().map(|it| it.priority.into()).collect(),
            payloads: items.iter().map(|it| it.payload.clone()).collect(),
        }
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.keys.runs,
            &self.keys.instances,
            &self.keys.attempts,
            &self.owners,
            &self.actions,
            &self.labels,
            &self.priorities,
            &self.payloads,
        ]
    }
}

/// An item of a tenant.
#[derive(Clone)]
struct Item {
    run: uuid::Uuid,
    instance: i64,
    attempt: i64,
    tenant: String,
}

impl Item {
    fn of(owner: Option<&str>, key: WorkKey) -> Self {
        Self {
            run: uuid(key.run),
            instance: key.instance.into(),
            attempt: key.attempt.into(),
            tenant: tenant(owner).into_owned(),
        }
    }

    /// Does something to the item if the lease is the current one.
    async fn under(
        &self,
        session: &Session,
        lease: WorkLease,
        sql: &str,
    ) -> Result<LeaseAnswer, Fault> {
        let number = signed(lease.0);
        let key = (&self.run, &self.instance, &self.attempt, &self.tenant);
        let done = session
            .first(sql, &[key.0, key.1, key.2, key.3, &number])
            .await?;
        if let Some(row) = done {
            let stop = row.try_get(0)?;
            return Ok(LeaseAnswer::Held { stop });
        }
        let remains = session
            .first(&remains(), &[key.0, key.1, key.2, key.3])
            .await?;
        Ok(match remains {
            Some(_) => LeaseAnswer::Lost,
            None => LeaseAnswer::Unknown,
        })
    }
}

/// The worker that had an item last, and its lease, of a row of [`known`].
fn last_lease(row: &tokio_postgres::Row) -> Result<Option<(Box<str>, WorkLease)>, Fault> {
    let lease: Option<i64> = row.try_get(5)?;
    let lease = lease.map(|lease| WorkLease(crate::codec::unsigned(lease)));
    Ok(row.optional_text(6)?.zip(lease))
}

fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The run of an item; none if it has no row.
fn item_run(row: &tokio_postgres::Row) -> Result<Option<ItemRun>, Fault> {
    let partition: Option<i32> = row.try_get(12)?;
    let is_running: Option<bool> = row.try_get(13)?;
    let partition = partition.and_then(|it| u32::try_from(it).ok().map(Partition));
    let known = partition.zip(is_running);
    Ok(known.map(|(partition, is_running)| ItemRun {
        partition,
        is_running,
    }))
}

fn leased(row: &tokio_postgres::Row) -> Result<LeasedItem, Fault> {
    let requires: Vec<&str> = row.try_get(5)?;
    Ok(LeasedItem {
        item: WorkItem {
            key: WorkKey {
                run: row.run(0)?,
                instance: small(row.try_get(1)?),
                attempt: small(row.try_get(2)?),
            },
            tenant: row.tenant(3)?,
            action: row.text(4)?,
            requires: requires.into_iter().map(crate::codec::plain).collect(),
            priority: u8::try_from(row.try_get::<_, i16>(6)?).unwrap_or_default(),
            payload: row.try_get(7)?,
        },
        lease: WorkLease(row.number(8)?),
        deliveries: small(row.try_get(9)?),
        begun_ms: row.number(11)?,
        run: item_run(row)?,
    })
}

/// Puts items into the queue. One that comes alone brings its bell.
pub(crate) fn send_pushes(
    session: Session,
    items: Arc<Vec<WorkItem>>,
) -> Pending<'static, Result<Vec<bool>, Fault>> {
    Box::pin(async move {
        let mut seen = HashSet::new();
        // A statement has an item once.
        let first = items.iter().filter(|item| seen.insert(item.key));
        let columns = ItemColumns::of(first);
        let is_alone = items.len() == 1;
        let sql = match is_alone {
            true => format!("with p as ({}) {RING}", push()),
            false => push(),
        };
        session.execute(&sql, &columns.parameters()).await?;
        Ok(vec![is_alone; items.len()])
    })
}

/// An item that its worker has completed.
#[derive(Clone)]
pub(crate) struct Completion {
    item: Item,
    lease: WorkLease,
}

/// Removes the items whose lease is the current one.
pub(crate) fn send_completions(
    session: Session,
    done: Arc<Vec<Completion>>,
) -> Pending<'static, Result<Vec<LeaseAnswer>, Fault>> {
    Box::pin(async move {
        let runs: Vec<uuid::Uuid> = done.iter().map(|it| it.item.run).collect();
        let instances: Vec<i64> = done.iter().map(|it| it.item.instance).collect();
        let attempts: Vec<i64> = done.iter().map(|it| it.item.attempt).collect();
        let tenants: Vec<&str> = done.iter().map(|it| &*it.item.tenant).collect();
        let leases: Vec<i64> = done.iter().map(|it| signed(it.lease.0)).collect();
        let rows = session
            .rows(
                &complete(),
                &[&runs, &instances, &attempts, &tenants, &leases],
            )
            .await?;
        let mut answers = vec![LeaseAnswer::Unknown; done.len()];
        for row in rows {
            let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).ok();
            let (is_current, stop): (bool, bool) = (row.try_get(1)?, row.try_get(2)?);
            if let Some(answer) = place.and_then(|place| answers.get_mut(place)) {
                *answer = match is_current {
                    true => LeaseAnswer::Held { stop },
                    false => LeaseAnswer::Lost,
                };
            }
        }
        Ok(answers)
    })
}

impl WorkQueue for PostgresStore {
    fn push(&self, items: Vec<WorkItem>) -> Pending<'_, Result<(), Error>> {
        let pushed = self.together(|lines| &lines.pushes, items);
        let inner = Arc::clone(&self.inner);
        blockable(async move {
            if pushed.await?.contains(&false) {
                inner.bells.ring_beside(vec![Bell::Work]);
            }
            Ok(())
        })
    }

    fn push_begun(
        &self,
        items: Vec<BegunItem>,
        worker: &str,
        session: SessionId,
    ) -> Pending<'_, Result<Vec<Option<WorkLease>>, Error>> {
        let worker = text(worker).into_owned();
        self.call(move |pool| async move {
            let (lease_session, _) = term(LeaseTerm::Session(session));
            let begun = items.iter().map(|it| signed(it.begun_ms));
            let begun: Vec<i64> = begun.collect();
            let keys: Vec<WorkKey> = items.iter().map(|it| it.item.key).collect();
            let columns = ItemColumns::of(items.iter().map(|it| &it.item));
            let mut parameters = columns.parameters();
            parameters.extend([&worker as &(dyn ToSql + Sync), &lease_session, &begun]);
            let mut leases = HashMap::new();
            for row in pool.rows(PUSH_BEGUN, &parameters).await? {
                let key = WorkKey {
                    run: row.run(0)?,
                    instance: small(row.try_get(1)?),
                    attempt: small(row.try_get(2)?),
                };
                leases.insert(key, WorkLease(row.number(3)?));
            }
            Ok(keys.iter().map(|key| leases.remove(key)).collect())
        })
    }

    fn pull(&self, pull: Pull) -> Pending<'_, Result<Vec<LeasedItem>, Error>> {
        let inner = Arc::clone(&self.inner);
        self.call_queue(move |session| async move {
            let owner = match &pull.tenant {
                TenantFilter::Any => None,
                TenantFilter::Only(only) => Some(tenant(only.as_deref()).into_owned()),
            };
            let stored = |words: &[Box<str>]| -> Vec<String> {
                words.iter().map(|word| text(word).into_owned()).collect()
            };
            let (actions, labels) = (stored(&pull.actions), stored(&pull.labels));
            let (lease_session, millis) = term(pull.term);
            let worker = text(&pull.worker).into_owned();
            let named = pull.holding.is_some();
            let holding = Keys::of(pull.holding.as_deref().unwrap_or_default());
            let rows = session
                .rows(
                    &self::pull(owner.is_none()),
                    &[
                        &owner,
                        &actions,
                        &labels,
                        &limit(pull.slots),
                        &limit(pull.max_bytes),
                        &worker,
                        &lease_session,
                        &millis,
                        &named,
                        &holding.runs,
                        &holding.instances,
                        &holding.attempts,
                    ],
                )
                .await?;
            if rows.is_empty() && inner.sweeps_now() {
                session.execute(&sweep(), &[]).await?;
            }
            let mut items = Vec::with_capacity(rows.len());
            for row in &rows {
                items.push((row.try_get::<_, i64>(10)?, leased(row)?));
            }
            items.sort_by_key(|(age, it)| (std::cmp::Reverse(it.item.priority), *age));
            Ok(items.into_iter().map(|(_, item)| item).collect())
        })
    }

    fn known(&self, keys: &[WorkKey]) -> Pending<'_, Result<Vec<(WorkKey, ItemState)>, Error>> {
        let asked = keys.to_vec();
        self.call_queue(move |session| async move {
            let keys = Keys::of(&asked);
            let rows = session
                .rows(&known(), &[&keys.runs, &keys.instances, &keys.attempts])
                .await?;
            let mut found = Vec::with_capacity(rows.len());
            for row in rows {
                let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).ok();
                let Some(&key) = place.and_then(|place| asked.get(place)) else {
                    continue;
                };
                let lease: Option<i64> = row.try_get(1)?;
                let state = match lease {
                    None => ItemState::Waiting {
                        last: last_lease(&row)?,
                    },
                    Some(lease) => ItemState::Leased {
                        worker: row.optional_text(2)?.unwrap_or_default(),
                        lease: WorkLease(crate::codec::unsigned(lease)),
                        stop: row.try_get(3)?,
                        begun_ms: row.number(4)?,
                    },
                };
                found.push((key, state));
            }
            Ok(found)
        })
    }

    fn queue_depth(&self, most: usize) -> Pending<'_, Result<Vec<QueueDepth>, Error>> {
        self.call(move |session| async move {
            let rows = session.rows(&depth(), &[&limit(most)]).await?;
            let kind = |row: &tokio_postgres::Row| -> Result<QueueDepth, Fault> {
                let requires: Vec<&str> = row.try_get(2)?;
                Ok(QueueDepth {
                    tenant: row.tenant(0)?,
                    action: row.text(1)?,
                    requires: requires.into_iter().map(crate::codec::plain).collect(),
                    waiting: row.number(3)?,
                    leased: row.number(4)?,
                })
            };
            rows.iter().map(kind).collect()
        })
    }

    fn renew_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let item = Item::of(tenant, key);
        let sql = on_lease("update work w set until_ms = clock_ms() + w.term_ms");
        self.call_queue(move |session| async move { item.under(&session, lease, &sql).await })
    }

    fn complete(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let item = Item::of(tenant, key);
        self.one_together(|lines| &lines.completions, Completion { item, lease })
    }

    fn settle(&self, outcome: ItemOutcome) -> Pending<'_, Result<SettleAnswer, Error>> {
        self.settle_outcome(outcome)
    }

    fn return_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        lease: WorkLease,
    ) -> Pending<'_, Result<LeaseAnswer, Error>> {
        let item = Item::of(tenant, key);
        let sql = on_lease(
            "update work w set lease = null, worker = null, session = null, term_ms = null, \
             until_ms = null, deliveries = greatest(w.deliveries - 1, 0), \
             begun_ms = case when w.deliveries > 1 then w.begun_ms end",
        );
        self.call(move |session| async move { item.under(&session, lease, &sql).await })
    }

    fn resume_item(
        &self,
        tenant: Option<&str>,
        key: WorkKey,
        worker: &str,
        lease_term: LeaseTerm,
    ) -> Pending<'_, Result<Option<WorkLease>, Error>> {
        let item = Item::of(tenant, key);
        let worker = text(worker).into_owned();
        let (lease_session, millis) = term(lease_term);
        self.call(move |session| async move {
            let row = session
                .first(
                    &resume(),
                    &[
                        &item.run,
                        &item.instance,
                        &item.attempt,
                        &item.tenant,
                        &worker,
                        &lease_session,
                        &millis,
                    ],
                )
                .await?;
            row.map(|row| Ok(WorkLease(row.number(0)?))).transpose()
        })
    }

    fn stop(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        let keys = Keys::of(keys);
        self.call(move |session| async move {
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&keys.runs, &keys.instances, &keys.attempts];
            // What a worker takes or returns meanwhile is marked too.
            session.execute(STOP_WAITING, &parameters).await?;
            session.execute(STOP_REST, &parameters).await?;
            Ok(())
        })
    }

    fn withdraw(&self, keys: &[WorkKey]) -> Pending<'_, Result<(), Error>> {
        let keys = Keys::of(keys);
        self.call(move |session| async move {
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                [&keys.runs, &keys.instances, &keys.attempts];
            session.execute(WITHDRAW, &parameters).await?;
            Ok(())
        })
    }
}
