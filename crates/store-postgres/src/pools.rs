//! Pools, and the attempts that hold or want their slots, over all processes. The append that ends an attempt
//! frees its slots (`append.rs`). Taking holds the pool's row, so that no other process counts
//! meanwhile; who gets slots is decided by [`grant`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_postgres::Row;
use windlass_core::Millis;
use windlass_store::{
    Error, GivenSlots, Partition, Partitions, Pending, PoolKey, PoolRemoval, PoolRow, PoolUse,
    Pools, SlotRequest, SlotsTaken, TenantFilter, WorkKey, grant,
};

use crate::catalogue::only;
use crate::codec::{Columns as _, Moment, limit, numbers, tenant, text, unreadable, uuid, version};
use crate::error::Fault;
use crate::schedule::place;
use crate::store::{PostgresStore, Work};

/// The old row is read by the statement's snapshot, before it is replaced.
const PUT: &str = "insert into pools (tenant_id, name, slots, updated_at) values ($1, $2, $3, $4) \
     on conflict (tenant_id, name) do update set slots = excluded.slots, \
     updated_at = excluded.updated_at \
     returning (select o.slots from pools o where o.tenant_id = $1 and o.name = $2)";
const GET: &str = "select tenant_id, name, slots, updated_at from pools \
     where tenant_id = $1 and name = $2";
const LIST: &str = "select tenant_id, name, slots, updated_at from pools \
     where ($1::text is null or tenant_id = $1) \
     and ($2::text is null or (name, tenant_id) > ($2 collate \"C\", $3 collate \"C\")) \
     order by name, tenant_id limit $4";
const LOCK: &str = "select slots from pools where tenant_id = $1 and name = $2 for update";
const REMOVE: &str = "delete from pools where tenant_id = $1 and name = $2";
const IN_USE: &str = "select 1 from pool_slots where tenant_id = $1 and pool = $2 limit 1";

const LINE_UP: &str = "insert into pool_slots (tenant_id, pool, run, instance, attempt, node, \
     slots, rank, priority, since, partition, fence) \
     select $1, $2, t.* from unnest($3::uuid[], $4::int8[], $5::int8[], $6::text[], $7::int4[], \
     $8::int2[], $9::int2[], $10::int8[], $11::int4[], $12::int8[]) as t \
     order by 3, 4, 5 on conflict (run, instance, attempt) do update \
     set partition = excluded.partition, fence = greatest(pool_slots.fence, excluded.fence) \
     where pool_slots.partition <> excluded.partition or pool_slots.fence < excluded.fence";
const USED: &str = "select coalesce(sum(slots), 0)::int8 from pool_slots \
     where tenant_id = $1 and pool = $2 and held";
const HOLD: &str = "update pool_slots p set held = true \
     from unnest($1::uuid[], $2::int8[], $3::int8[]) as t(run, instance, attempt) \
     where p.run = t.run and p.instance = t.instance and p.attempt = t.attempt";
const HELD: &str = "select p.run, p.instance, p.attempt from pool_slots p \
     join unnest($1::uuid[], $2::int8[], $3::int8[]) as t(run, instance, attempt) \
     on p.run = t.run and p.instance = t.instance and p.attempt = t.attempt where p.held";
const GIVE: &str = "with gone as (delete from pool_slots p \
     using unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[]) as t(run, instance, attempt, fence) \
     where p.run = t.run and p.instance = t.instance and p.attempt = t.attempt \
     and p.fence <= t.fence returning p.tenant_id, p.pool) select distinct tenant_id, pool from gone order by 1, 2";
const COUNTS: &str = "select coalesce(sum(slots) filter (where held), 0)::int8, \
     count(*) filter (where not held) from pool_slots where tenant_id = $1 and pool = $2";

/// The columns of a request.
const REQUEST: &str = "select run, instance, attempt, tenant_id, pool, node, slots, rank, \
     priority, since, partition, fence from pool_slots";

/// Those of a pool, in line, that want no more than so many slots.
fn line() -> String {
    format!(
        "{REQUEST} where tenant_id = $1 and pool = $2 and held = $3 and slots <= $4 \
         order by rank, priority desc, since, run, instance, attempt limit $5"
    )
}

fn of_partitions() -> String {
    format!(
        "{REQUEST} where ($1::int4[] is null or partition = any($1)) \
         and ($2::uuid is null or (run, instance, attempt) > ($2, $3::int8, $4::int8)) \
         order by run, instance, attempt limit $5"
    )
}

fn pool_row(row: &Row) -> Result<PoolRow, Fault> {
    Ok(PoolRow {
        pool: PoolKey {
            tenant: row.tenant(0)?,
            name: row.text(1)?,
        },
        slots: count(row.try_get(2)?)?,
        updated_at: row.millis(3)?,
    })
}

fn request(row: &Row) -> Result<SlotRequest, Fault> {
    Ok(SlotRequest {
        attempt: key(row)?,
        pool: PoolKey {
            tenant: row.tenant(3)?,
            name: row.text(4)?,
        },
        node: row.text(5)?,
        slots: count(row.try_get(6)?)?,
        rank: small(row.try_get(7)?)?,
        priority: small(row.try_get(8)?)?,
        since: Millis(row.try_get(9)?),
        partition: Partition(count(row.try_get(10)?)?),
        fence: u64::try_from(row.try_get::<_, i64>(11)?).unwrap_or(0),
    })
}

fn key(row: &Row) -> Result<WorkKey, Fault> {
    let number = |at: usize| -> Result<u32, Fault> {
        let number: i64 = row.try_get(at)?;
        u32::try_from(number).map_err(|_| unreadable("a slot of a pool"))
    };
    Ok(WorkKey {
        run: row.run(0)?,
        instance: number(1)?,
        attempt: number(2)?,
    })
}

fn count(number: i32) -> Result<u32, Fault> {
    u32::try_from(number).map_err(|_| unreadable("a pool"))
}

fn small(number: i16) -> Result<u8, Fault> {
    u8::try_from(number).map_err(|_| unreadable("a slot of a pool"))
}

/// A number of records; one that is larger than any frees whatever there is.
fn fence(records: u64) -> i64 {
    i64::try_from(records).unwrap_or(i64::MAX)
}

/// Attempts as three arrays.
struct Keys(Vec<uuid::Uuid>, Vec<i64>, Vec<i64>);

impl Keys {
    fn of<'a>(keys: impl Iterator<Item = &'a WorkKey>) -> Self {
        let mut all = Self(Vec::new(), Vec::new(), Vec::new());
        let sorted: BTreeSet<&WorkKey> = keys.collect();
        for key in sorted {
            all.0.push(uuid(key.run));
            all.1.push(i64::from(key.instance));
            all.2.push(i64::from(key.attempt));
        }
        all
    }
}

/// Puts attempts into the line of a pool; those that are there keep their places.
async fn line_up(work: &Work<'_>, pool: &PoolKey, asked: &[&SlotRequest]) -> Result<(), Fault> {
    let (owner, name) = (tenant(pool.tenant.as_deref()), text(&pool.name));
    let runs: Vec<_> = asked.iter().map(|it| uuid(it.attempt.run)).collect();
    let each = |number: fn(&SlotRequest) -> u32| -> Vec<i64> {
        asked.iter().map(|it| i64::from(number(it))).collect()
    };
    let instances = each(|it| it.attempt.instance);
    let attempts = each(|it| it.attempt.attempt);
    let nodes: Vec<_> = asked.iter().map(|it| text(&it.node)).collect();
    let slots: Vec<i32> = asked.iter().map(|it| version(it.slots)).collect();
    let ranks: Vec<i16> = asked.iter().map(|it| i16::from(it.rank)).collect();
    let priorities: Vec<i16> = asked.iter().map(|it| i16::from(it.priority)).collect();
    let since: Vec<i64> = asked.iter().map(|it| it.since.0).collect();
    let partitions: Vec<i32> = asked.iter().map(|it| version(it.partition.0)).collect();
    let fences: Vec<i64> = asked.iter().map(|it| fence(it.fence)).collect();
    work.execute(
        LINE_UP,
        &[
            &owner,
            &name,
            &runs,
            &instances,
            &attempts,
            &nodes,
            &slots,
            &ranks,
            &priorities,
            &since,
            &partitions,
            &fences,
        ],
    )
    .await?;
    Ok(())
}

/// Gives slots of one pool to those of its line that may have them; gives the next one that
/// could have some and was not asked for.
async fn take(
    work: &Work<'_>,
    pool: &PoolKey,
    asked: &[&SlotRequest],
) -> Result<Option<SlotRequest>, Fault> {
    let (owner, name) = (tenant(pool.tenant.as_deref()), text(&pool.name));
    let locked = work.rows(LOCK, &[&owner, &name]).await?;
    line_up(work, pool, asked).await?;
    let Some(size) = locked.first() else {
        return Ok(None);
    };
    let size: i32 = size.try_get(0)?;
    let used = work.rows(USED, &[&owner, &name]).await?;
    let used: i64 = used
        .first()
        .ok_or_else(|| unreadable("a pool"))?
        .try_get(0)?;
    // One more than those that are asked for shows who is next.
    let most = limit(asked.len() + 1);
    let waiting = work
        .rows(&line(), &[&owner, &name, &false, &size, &most])
        .await?;
    let waiting: Vec<SlotRequest> = waiting.iter().map(request).collect::<Result<_, _>>()?;
    let keys: BTreeSet<WorkKey> = asked.iter().map(|it| it.attempt).collect();
    let counts = (count(size)?, u64::try_from(used).unwrap_or(0));
    let (granted, next) = grant(counts, &waiting, |it| keys.contains(&it.attempt));
    if !granted.is_empty() {
        let Keys(runs, instances, attempts) = Keys::of(granted.iter().map(|it| &it.attempt));
        work.execute(HOLD, &[&runs, &instances, &attempts]).await?;
    }
    Ok(next.cloned())
}

impl Pools for PostgresStore {
    fn put_pool(&self, pool: PoolRow) -> Pending<'_, Result<Option<u32>, Error>> {
        self.call(move |session| async move {
            let (owner, name) = (tenant(pool.pool.tenant.as_deref()), text(&pool.pool.name));
            let (slots, at) = (version(pool.slots), Moment(pool.updated_at));
            let row = session.first(PUT, &[&owner, &name, &slots, &at]).await?;
            let before: Option<i32> = row.ok_or_else(|| unreadable("a pool"))?.try_get(0)?;
            before.map(count).transpose()
        })
    }

    fn pool(&self, pool: &PoolKey) -> Pending<'_, Result<Option<PoolRow>, Error>> {
        let pool = pool.clone();
        self.call(move |session| async move {
            let (owner, name) = (tenant(pool.tenant.as_deref()), text(&pool.name));
            let row = session.first(GET, &[&owner, &name]).await?;
            row.as_ref().map(pool_row).transpose()
        })
    }

    fn pools(
        &self,
        filter: &TenantFilter,
        after: Option<&PoolKey>,
        most: usize,
    ) -> Pending<'_, Result<Vec<PoolRow>, Error>> {
        let only = only(filter);
        let (name, owner) = place(after.map(|it| (&*it.name, it.tenant.as_deref())));
        self.call(move |session| async move {
            let rows = session
                .rows(LIST, &[&only, &name, &owner, &limit(most)])
                .await?;
            rows.iter().map(pool_row).collect()
        })
    }

    fn remove_pool(&self, pool: &PoolKey) -> Pending<'_, Result<PoolRemoval, Error>> {
        let pool = Arc::new(pool.clone());
        self.call_again(move |mut session| {
            let pool = Arc::clone(&pool);
            async move {
                let (owner, name) = (tenant(pool.tenant.as_deref()), text(&pool.name));
                let work = session.transaction().await?;
                if work.rows(LOCK, &[&owner, &name]).await?.is_empty() {
                    return Ok(PoolRemoval::Unknown);
                }
                if !work.rows(IN_USE, &[&owner, &name]).await?.is_empty() {
                    return Ok(PoolRemoval::InUse);
                }
                work.execute(REMOVE, &[&owner, &name]).await?;
                work.commit().await?;
                Ok(PoolRemoval::Removed)
            }
        })
    }

    fn take_slots(&self, requests: Vec<SlotRequest>) -> Pending<'_, Result<SlotsTaken, Error>> {
        let requests = Arc::new(requests);
        self.call_again(move |mut session| {
            let requests = Arc::clone(&requests);
            async move {
                // In the order of the pools, so that processes do not deadlock.
                let mut pools: BTreeMap<&PoolKey, Vec<&SlotRequest>> = BTreeMap::new();
                for request in requests.iter() {
                    pools.entry(&request.pool).or_default().push(request);
                }
                let work = session.transaction().await?;
                let mut next = Vec::new();
                for (pool, mut asked) in pools {
                    // A statement changes each row once.
                    asked.sort_by_key(|it| it.attempt);
                    asked.dedup_by_key(|it| it.attempt);
                    next.extend(take(&work, pool, &asked).await?);
                }
                let keys = Keys::of(requests.iter().map(|it| &it.attempt));
                let held = work.rows(HELD, &[&keys.0, &keys.1, &keys.2]).await?;
                let held: BTreeSet<WorkKey> = held.iter().map(key).collect::<Result<_, _>>()?;
                work.commit().await?;
                let granted = requests.iter().map(|it| held.contains(&it.attempt));
                Ok(SlotsTaken {
                    granted: granted.collect(),
                    next,
                })
            }
        })
    }

    fn give_slots(&self, given: &[GivenSlots]) -> Pending<'_, Result<Vec<PoolKey>, Error>> {
        let mut given = given.to_vec();
        given.sort_by_key(|it| it.attempt);
        self.call(move |session| async move {
            let runs: Vec<_> = given.iter().map(|it| uuid(it.attempt.run)).collect();
            let each = |number: fn(&GivenSlots) -> i64| given.iter().map(number).collect();
            let instances: Vec<i64> = each(|it| i64::from(it.attempt.instance));
            let attempts: Vec<i64> = each(|it| i64::from(it.attempt.attempt));
            let fences: Vec<i64> = each(|it| fence(it.fence));
            let rows = session
                .rows(GIVE, &[&runs, &instances, &attempts, &fences])
                .await?;
            let pools = rows.iter().map(|row| {
                Ok(PoolKey {
                    tenant: row.tenant(0)?,
                    name: row.text(1)?,
                })
            });
            pools.collect()
        })
    }

    fn next_in_line(&self, pool: &PoolKey) -> Pending<'_, Result<Option<SlotRequest>, Error>> {
        let pool = pool.clone();
        self.call(move |session| async move {
            let (owner, name) = (tenant(pool.tenant.as_deref()), text(&pool.name));
            let Some(row) = session.first(GET, &[&owner, &name]).await? else {
                return Ok(None);
            };
            let size: i32 = row.try_get(2)?;
            let used = session.first(USED, &[&owner, &name]).await?;
            let used: i64 = used.ok_or_else(|| unreadable("a pool"))?.try_get(0)?;
            let one = limit(1);
            let waiting = session
                .rows(&line(), &[&owner, &name, &false, &size, &one])
                .await?;
            let waiting: Vec<SlotRequest> =
                waiting.iter().map(request).collect::<Result<_, Fault>>()?;
            let counts = (count(size)?, u64::try_from(used).unwrap_or(0));
            Ok(grant(counts, &waiting, |_| false).1.cloned())
        })
    }

    fn pool_use(&self, pool: &PoolKey, most: usize) -> Pending<'_, Result<PoolUse, Error>> {
        let pool = pool.clone();
        self.call(move |session| async move {
            let (owner, name) = (tenant(pool.tenant.as_deref()), text(&pool.name));
            let counts = session.first(COUNTS, &[&owner, &name]).await?;
            let counts = counts.ok_or_else(|| unreadable("a pool"))?;
            let (used, waiting): (i64, i64) = (counts.try_get(0)?, counts.try_get(1)?);
            let mut lists = Vec::new();
            for held in [true, false] {
                let rows = session
                    .rows(&line(), &[&owner, &name, &held, &i32::MAX, &limit(most)])
                    .await?;
                let rows: Result<Vec<_>, Fault> = rows.iter().map(request).collect();
                lists.push(rows?);
            }
            let waiters = lists.pop().unwrap_or_default();
            Ok(PoolUse {
                used: u64::try_from(used).unwrap_or(0),
                waiting: u64::try_from(waiting).unwrap_or(0),
                holders: lists.pop().unwrap_or_default(),
                waiters,
            })
        })
    }

    fn slots(
        &self,
        partitions: &Partitions,
        after: Option<WorkKey>,
        most: usize,
    ) -> Pending<'_, Result<Vec<SlotRequest>, Error>> {
        let partitions = numbers(partitions);
        self.call(move |session| async move {
            let run = after.map(|it| uuid(it.run));
            let instance = after.map(|it| i64::from(it.instance));
            let attempt = after.map(|it| i64::from(it.attempt));
            let rows = session
                .rows(
                    &of_partitions(),
                    &[&partitions, &run, &instance, &attempt, &limit(most)],
                )
                .await?;
            rows.iter().map(request).collect()
        })
    }
}
