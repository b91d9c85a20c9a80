//! Sessions and partitions, by the database's clock alone (`clock_ms`). A session that leaves is
//! removed; one that stays beyond its time has expired, and its partitions can be taken.

use windlass_store::{
    Error, ExpiredSession, JoinedSession, Leases, LiveSession, Partition, Pending, SessionId,
    TakenPartition,
};

use crate::codec::{Columns as _, signed, text, unsigned, version};
use crate::store::PostgresStore;

const JOIN: &str = "insert into session (name, duration_ms, until_ms) \
     values ($1, $2, clock_ms() + $2) returning id";
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
const LIVE: &str = "select s.id, s.name, p.number from session s \
     left join partition_lease p on p.holder = s.id where s.until_ms > clock_ms() \
     order by s.id, p.number";
const LEAVE: &str = "delete from session where id = $1 and until_ms > clock_ms()";
const EXPIRED: &str = "select id, name from session where until_ms <= clock_ms() order by id";
const FORGET: &str = "delete from session where id = $1 and until_ms <= clock_ms()";

fn numbers(partitions: &[Partition]) -> Vec<i32> {
    partitions.iter().map(|it| version(it.0)).collect()
}

/// Ids that no session has had are beyond what the database counts to.
fn id(session: SessionId) -> i64 {
    signed(session.0)
}

impl Leases for PostgresStore {
    fn join(&self, name: &str, duration_ms: u64) -> Pending<'_, Result<JoinedSession, Error>> {
        let name = text(name).into_owned();
        // Ten years are as good as more, and leave the clock room.
        let duration = signed(duration_ms.min(315_360_000_000));
        let partitions = self.inner.opened.partitions;
        self.call(move |session| async move {
            let row = session.first(JOIN, &[&name, &duration]).await?;
            let row = row.ok_or_else(|| crate::codec::unreadable("a new session"))?;
            Ok(JoinedSession {
                session: SessionId(row.number(0)?),
                partitions,
            })
        })
    }

    fn renew(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.call(move |pool| async move { Ok(pool.execute(RENEW, &[&id(session)]).await? > 0) })
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
            let mut taken: Vec<TakenPartition> =
                taken.collect::<Result<_, crate::error::Fault>>()?;
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

    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>> {
        self.call(move |pool| async move {
            let mut live: Vec<LiveSession> = Vec::new();
            for row in pool.rows(LIVE, &[]).await? {
                let session = SessionId(row.number(0)?);
                if live.last().is_none_or(|last| last.session != session) {
                    live.push(LiveSession {
                        session,
                        name: row.text(1)?,
                        partitions: Vec::new(),
                    });
                }
                let number: Option<i32> = row.try_get(2)?;
                let number = number.and_then(|number| u32::try_from(number).ok());
                if let (Some(number), Some(last)) = (number, live.last_mut()) {
                    last.partitions.push(Partition(number));
                }
            }
            Ok(live)
        })
    }

    fn leave(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.call(move |mut pool| async move {
            let work = pool.transaction().await?;
            let left = work.execute(LEAVE, &[&id(session)]).await? > 0;
            if left {
                work.execute(GIVE_ALL, &[&id(session)]).await?;
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
