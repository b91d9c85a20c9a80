//! Sessions and partitions, by the database's clock alone (`clock_ms`). A session that leaves is
//! removed; one that stays beyond its time has expired, and its partitions can be taken.

use tokio_postgres::Row;
use windlass_store::{
    Error, ExpiredSession, JoinedSession, Leases, LiveSession, Partition, Pending, ProcessInfo,
    SessionId, TakenPartition,
};

use crate::codec::{Columns as _, signed, text, unsigned, version};
use crate::error::Fault;
use crate::store::PostgresStore;

const JOIN: &str = "insert into session (name, process, duration_ms, until_ms) \
     values ($1, $2, $3, clock_ms() + $3) returning id";
const RENEW: &str = "update session set until_ms = clock_ms() + duration_ms \
     where id = $1 and until_ms > clock_ms()";
const LOCK: &str = "select number from partition_lease where number = any($1) \
     order by number for update";
/// Waits for a renewal of a holder that is under way: its commit decides whether the holder has
/// expired.
const LOCK_HOLDERS: &str = "select id from session where id in \
     (select holder from partition_lease where number = any($1)) order by id for update";
const TAKE: &str = "with free as (select number, holder from partition_lease p \
     where number = any($2) and not exists (select from session s \
     where s.id = p.holder and s.until_ms > clock_ms())) \
     update partition_lease p set holder = $1 from free \
     where p.number = free.number \
     and exists (select from session s where s.id = $1 and s.until_ms > clock_ms()) \
     returning p.number, free.holder";
const GIVE: &str =
    "update partition_lease set holder = null where number = any($2) and holder = $1";
const GIVE_ALL: &str = "update partition_lease set holder = null where holder = $1";
const LIVE: &str = "select s.id, s.name, p.number, s.process, \
     greatest(clock_ms() - s.began_ms, 0), greatest(s.until_ms - clock_ms(), 0) from session s \
     left join partition_lease p on p.holder = s.id where s.until_ms > clock_ms() \
     order by s.id, p.number";
const DESCRIBE: &str = "update session set process = $2 where id = $1 and until_ms > clock_ms()";
const NAMED_HOLDER: &str = "select l.holder from named_lease l join session s on s.id = l.holder \
     where l.name = $1 and s.until_ms > clock_ms()";
const ADD_NAMED: &str =
    "insert into named_lease (name, holder) values ($1, null) on conflict do nothing";
const LOCK_NAMED: &str = "select holder from named_lease where name = $1 for update";
const LOCK_HOLDER: &str = "select id from session where id = $1 for update";
const TAKE_NAMED: &str = "update named_lease l set holder = $1 where l.name = $2 \
     and (l.holder is null or not exists (select from session s \
     where s.id = l.holder and s.until_ms > clock_ms())) \
     and exists (select from session s where s.id = $1 and s.until_ms > clock_ms())";
const GIVE_NAMED: &str = "delete from named_lease where name = $2 and holder = $1";
const GIVE_ALL_NAMED: &str = "delete from named_lease where holder = $1";
/// One statement: an idle process makes no other.
const RENEW_AND_LIST: &str = "with r as (update session set until_ms = clock_ms() + duration_ms \
     where id = $1 and until_ms > clock_ms() returning id) \
     select s.id, s.name, p.number, s.process, \
     greatest(clock_ms() - s.began_ms, 0), greatest(s.until_ms - clock_ms(), 0) from session s \
     left join partition_lease p on p.holder = s.id where s.until_ms > clock_ms() \
     and exists (select from r) order by s.id, p.number";
const LEAVE: &str = "delete from session where id = $1 and until_ms > clock_ms()";
const EXPIRED: &str = "select id, name from session where until_ms <= clock_ms() order by id";
const FORGET: &str = "delete from session where id = $1 and until_ms <= clock_ms()";

fn numbers(partitions: &[Partition]) -> Vec<i32> {
    partitions.iter().map(|it| version(it.0)).collect()
}

/// What a process says of itself, as it is stored.
fn told(process: &ProcessInfo) -> String {
    let told = serde_json::to_string(process).expect("texts and numbers always serialise");
    text(&told).into_owned()
}

/// Sessions, each with its partitions, from the rows of [`LIVE`].
fn live(rows: &[Row]) -> Result<Vec<LiveSession>, Fault> {
    let mut live: Vec<LiveSession> = Vec::new();
    for row in rows {
        let session = SessionId(row.number(0)?);
        if live.last().is_none_or(|last| last.session != session) {
            let told: Box<str> = row.text(3)?;
            // What a newer process says and this version cannot read is passed over.
            let process = serde_json::from_str(&told).unwrap_or_default();
            live.push(LiveSession {
                session,
                process: ProcessInfo {
                    name: row.text(1)?,
                    ..process
                },
                partitions: Vec::new(),
                began_ms: row.number(4)?,
                expires_ms: row.number(5)?,
            });
        }
        let number: Option<i32> = row.try_get(2)?;
        let number = number.and_then(|number| u32::try_from(number).ok());
        if let (Some(number), Some(last)) = (number, live.last_mut()) {
            last.partitions.push(Partition(number));
        }
    }
    Ok(live)
}

/// Ids that no session has had are beyond what the database counts to.
fn id(session: SessionId) -> i64 {
    signed(session.0)
}

impl Leases for PostgresStore {
    fn join(
        &self,
        process: &ProcessInfo,
        duration_ms: u64,
    ) -> Pending<'_, Result<JoinedSession, Error>> {
        let name = text(&process.name).into_owned();
        let process = told(process);
        // Ten years are as good as more, and leave the clock room.
        let duration = signed(duration_ms.min(315_360_000_000));
        let partitions = self.inner.opened.partitions;
        self.call(move |session| async move {
            let row = session.first(JOIN, &[&name, &process, &duration]).await?;
            let row = row.ok_or_else(|| crate::codec::unreadable("a new session"))?;
            Ok(JoinedSession {
                session: SessionId(row.number(0)?),
                partitions,
            })
        })
    }

    fn renew(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.call_lease(
            move |lease| async move { Ok(lease.execute(RENEW, &[&id(session)]).await? > 0) },
        )
    }

    fn renew_and_list(
        &self,
        session: SessionId,
    ) -> Pending<'_, Result<Option<Vec<LiveSession>>, Error>> {
        self.call_lease(move |lease| async move {
            let live = live(&lease.rows(RENEW_AND_LIST, &[&id(session)]).await?)?;
            Ok(Some(live).filter(|live| !live.is_empty()))
        })
    }

    fn take(
        &self,
        session: SessionId,
        partitions: &[Partition],
    ) -> Pending<'_, Result<Vec<TakenPartition>, Error>> {
        let wanted = numbers(partitions);
        self.call(move |mut pool| async move {
            let work = pool.transaction().await?;
            // The last statement sees what the process before this one took, and which holders
            // have renewed.
            work.rows(LOCK, &[&wanted]).await?;
            work.rows(LOCK_HOLDERS, &[&wanted]).await?;
            let rows = work.rows(TAKE, &[&id(session), &wanted]).await?;
            work.commit().await?;
            let taken = rows.iter().map(|row| {
                let number: i32 = row.try_get(0)?;
                let holder: Option<i64> = row.try_get(1)?;
                Ok(TakenPartition {
                    partition: Partition(u32::try_from(number).unwrap_or_default()),
                    from_expired: holder.map(|holder| SessionId(unsigned(holder))),
                })
            });
            let mut taken: Vec<TakenPartition> = taken.collect::<Result<_, Fault>>()?;
            taken.sort_by_key(|it| it.partition);
            Ok(taken)
        })
    }

    fn give(&self, session: SessionId, partitions: &[Partition]) -> Pending<'_, Result<(), Error>> {
        let given = numbers(partitions);
        self.call(move |pool| async move {
            pool.execute(GIVE, &[&id(session), &given]).await?;
            Ok(())
        })
    }

    fn describe(
        &self,
        session: SessionId,
        process: &ProcessInfo,
    ) -> Pending<'_, Result<bool, Error>> {
        let process = told(process);
        self.call(move |pool| async move {
            Ok(pool.execute(DESCRIBE, &[&id(session), &process]).await? > 0)
        })
    }

    fn take_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<bool, Error>> {
        let name = text(name).into_owned();
        self.call(move |mut pool| async move {
            let mine = id(session);
            if let Some(row) = pool.first(NAMED_HOLDER, &[&name]).await? {
                return Ok(row.try_get::<_, i64>(0)? == mine);
            }
            pool.execute(ADD_NAMED, &[&name]).await?;
            let work = pool.transaction().await?;
            // As with partitions: the last statement sees whether the holder has renewed.
            let held = work.rows(LOCK_NAMED, &[&name]).await?;
            let holder = held.first().map(|row| row.try_get::<_, Option<i64>>(0));
            let holder = holder.transpose()?.flatten();
            if let Some(holder) = holder {
                work.rows(LOCK_HOLDER, &[&holder]).await?;
            }
            let taken = work.execute(TAKE_NAMED, &[&mine, &name]).await? > 0;
            work.commit().await?;
            Ok(taken)
        })
    }

    fn give_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<(), Error>> {
        let name = text(name).into_owned();
        self.call(move |pool| async move {
            pool.execute(GIVE_NAMED, &[&id(session), &name]).await?;
            Ok(())
        })
    }

    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>> {
        self.call(move |pool| async move { live(&pool.rows(LIVE, &[]).await?) })
    }

    fn leave(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.call(move |mut pool| async move {
            let work = pool.transaction().await?;
            let left = work.execute(LEAVE, &[&id(session)]).await? > 0;
            if left {
                work.execute(GIVE_ALL, &[&id(session)]).await?;
                work.execute(GIVE_ALL_NAMED, &[&id(session)]).await?;
            }
            work.commit().await?;
            Ok(left)
        })
    }

    fn expired(&self) -> Pending<'_, Result<Vec<ExpiredSession>, Error>> {
        self.call(move |pool| async move {
            let rows = pool.rows(EXPIRED, &[]).await?;
            let expired = rows.iter().map(|row| {
                Ok(ExpiredSession {
                    session: SessionId(row.number(0)?),
                    name: row.text(1)?,
                })
            });
            expired.collect()
        })
    }

    fn forget_session(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.call(move |pool| async move { Ok(pool.execute(FORGET, &[&id(session)]).await? > 0) })
    }
}
