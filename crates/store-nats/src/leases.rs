//! Sessions and partitions, in one key of the bucket of leases.
//!
//! A process that takes partitions first brings the database to the ends of all streams as they
//! are then, and only then says that it has them: it trusts rows from there on.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;
use windlass_store::{
    Error, ExpiredSession, JoinedSession, Leases, LiveSession, Partition, Pending, ProcessInfo,
    SessionId, TakenPartition,
};

use crate::error::{PublishFault, unreadable};
use crate::lease_state::{LeaseState, Observations};
use crate::names::bucket_key;
use crate::store::{Clock, Inner, NatsStore};

/// The key of the document.
pub(crate) const KEY: &str = "state";

/// How often a change is tried that others get ahead of.
const MOST_TRIES: u32 = 50;

/// How long what was seen of the leases counts where a lease only says who works.
const MOMENT: Duration = Duration::from_secs(1);

impl Inner {
    /// The clock for people; a test's own where there is one.
    pub(crate) fn wall_ms(&self) -> i64 {
        let millis = match &self.clock {
            Clock::Test(_) => u128::from(self.clock.now_ms()),
            Clock::Real(_) => UNIX_EPOCH.elapsed().map_or(0, |it| it.as_millis()),
        };
        i64::try_from(millis).unwrap_or(i64::MAX)
    }

    fn observe<T>(&self, work: impl FnOnce(&mut Observations) -> T) -> T {
        work(&mut self.observed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the document, or only looks at it; the change is made again if another process
    /// was faster.
    pub(crate) async fn lease_change<T>(
        &self,
        change: impl Fn(&mut LeaseState, &Observations, u64) -> T + Send,
    ) -> Result<T, Error> {
        let subject = bucket_key(&self.names.lease_bucket(), KEY);
        for tries in 0..MOST_TRIES {
            let row = self.leases.row(&subject).await?;
            let (before, after) = match &row {
                None => (LeaseState::default(), 0),
                Some(row) => {
                    let read = serde_json::from_slice(&row.payload);
                    let read = read.map_err(|error| unreadable(&subject, &error))?;
                    (read, row.sequence)
                }
            };
            let now = self.clock.now_ms();
            let mut state = before.clone();
            let answer = self.observe(|observed| {
                observed.look(&state, now);
                state.expire(observed, now);
                change(&mut state, observed, now)
            });
            if state == before {
                self.keep_seen(state);
                return Ok(answer);
            }
            let text = serde_json::to_vec(&state);
            let text = text.map_err(|error| unreadable(&subject, &error))?;
            let put = self
                .leases
                .put(subject.clone(), after, &(), Bytes::from(text));
            match put.await {
                Ok(_) => {
                    self.observe(|observed| observed.look(&state, now));
                    self.keep_seen(state);
                    return Ok(answer);
                }
                Err(PublishFault::Conflict) => {
                    // Others write too; not all at the same moment again.
                    let pause = u64::from(tries.min(8)) * (now % 5 + 1);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                Err(fault) => return Err(fault.into_error()),
            }
        }
        Err(Error::Unavailable(
            "too many processes change leases at once; try again".into(),
        ))
    }

    fn seen_leases(&self) -> MutexGuard<'_, Option<(Instant, LeaseState)>> {
        let seen = self.seen_leases.lock();
        seen.unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_seen(&self, state: LeaseState) {
        *self.seen_leases() = Some((Instant::now(), state));
    }

    /// Whether a session was live a moment ago, and has not expired since. `false` says nothing.
    pub(crate) fn is_surely_live(&self, session: SessionId) -> bool {
        let seen = self.seen_leases();
        let Some((at, state)) = &*seen else {
            return false;
        };
        let now = self.clock.now_ms();
        at.elapsed() < MOMENT && self.observe(|it| state.is_live_by(it, session, now))
    }

    /// The sessions and what they hold, as they are now.
    pub(crate) async fn live_sessions(&self) -> Result<LeaseState, Error> {
        self.lease_change(|state, _, _| state.clone()).await
    }
}

impl NatsStore {
    fn change<T: Send + 'static>(
        &self,
        change: impl Fn(&mut LeaseState, &Observations, u64) -> T + Send + Sync + 'static,
    ) -> Pending<'_, Result<T, Error>> {
        self.task(move |inner| async move { inner.lease_change(change).await })
    }
}

impl Leases for NatsStore {
    fn join(
        &self,
        process: &ProcessInfo,
        duration_ms: u64,
    ) -> Pending<'_, Result<JoinedSession, Error>> {
        let (process, wall) = (process.clone(), self.inner.wall_ms());
        let partitions = self.inner.partitions;
        self.change(move |state, _, _| JoinedSession {
            session: state.join(process.clone(), duration_ms, wall),
            partitions,
        })
    }

    fn renew(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.change(move |state, _, _| state.renew(session))
    }

    fn renew_and_list(
        &self,
        session: SessionId,
    ) -> Pending<'_, Result<Option<Vec<LiveSession>>, Error>> {
        self.task(move |inner| async move {
            let wall = inner.wall_ms();
            let answer = inner.lease_change(|state, observed, now| {
                let listed = state.live(observed, now, wall);
                state.renew(session).then_some(listed)
            });
            let answer = answer.await?;
            let owns = |it: &LiveSession| it.session == session && !it.partitions.is_empty();
            if answer.iter().flatten().any(owns) {
                // A process that appended and died left rows behind, in partitions that stay
                // with their owner.
                let inner = Arc::clone(&inner);
                tokio::spawn(async move { inner.catch_up_now_and_then().await });
            }
            Ok(answer)
        })
    }

    fn take(
        &self,
        session: SessionId,
        partitions: &[Partition],
    ) -> Pending<'_, Result<Vec<TakenPartition>, Error>> {
        let partitions = partitions.to_vec();
        let inner = Arc::clone(&self.inner);
        // Without a bound on its time: what is given up in the middle would leave partitions with
        // the session whose rows were not repaired.
        self.answer(async move {
            let count = inner.partitions;
            let taken = inner.lease_change(|state, _, _| state.take(session, &partitions, count));
            let taken = taken.await?;
            if taken.is_empty() {
                return Ok(taken);
            }
            // What the last owner consumed may not have been told to others.
            let caught_up = match inner.catch_up().await {
                Ok(()) => inner.offers.verify().await,
                failed => failed,
            };
            if let Err(error) = caught_up {
                let back: Vec<Partition> = taken.iter().map(|it| it.partition).collect();
                let give = inner.lease_change(|state, _, _| state.give(session, &back));
                give.await?;
                return Err(error);
            }
            Ok(taken)
        })
    }

    fn give(&self, session: SessionId, partitions: &[Partition]) -> Pending<'_, Result<(), Error>> {
        let partitions = partitions.to_vec();
        self.change(move |state, _, _| state.give(session, &partitions))
    }

    fn describe(
        &self,
        session: SessionId,
        process: &ProcessInfo,
    ) -> Pending<'_, Result<bool, Error>> {
        let process = process.clone();
        self.change(move |state, _, _| state.describe(session, &process))
    }

    fn take_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<bool, Error>> {
        let name = name.to_owned();
        self.change(move |state, _, _| state.take_named(session, &name))
    }

    fn give_named(&self, session: SessionId, name: &str) -> Pending<'_, Result<(), Error>> {
        let name = name.to_owned();
        self.change(move |state, _, _| state.give_named(session, &name))
    }

    fn sessions(&self) -> Pending<'_, Result<Vec<LiveSession>, Error>> {
        let wall = self.inner.wall_ms();
        self.change(move |state, observed, now| state.live(observed, now, wall))
    }

    fn leave(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.change(move |state, _, _| state.leave(session))
    }

    fn expired(&self) -> Pending<'_, Result<Vec<ExpiredSession>, Error>> {
        self.change(move |state, _, _| state.expired())
    }

    fn forget_session(&self, session: SessionId) -> Pending<'_, Result<bool, Error>> {
        self.change(move |state, _, _| state.forget(session))
    }
}
