//! Which partitions a process works on: its session, what it takes and hands over, and when it
//! must stop. Without I/O: the runtime carries out the effects and answers each of them once,
//! within a time of its own choosing, and nothing is asked twice before it is answered.
//!
//! Leases decide which process works, never which records count. Times are milliseconds of a
//! monotonic clock that also runs while the machine is suspended; they order nothing between
//! processes.
//!
//! | the session | appends and effects | what follows |
//! | --- | --- | --- |
//! | renewed in time | allowed in the partitions that are worked on | |
//! | not renewed, `duration - margin` after the last renewal was sent | none | asked for again |
//! | renewed after all | allowed again: no other process can have taken anything | |
//! | over, as the backend says | none | every run is dropped at once, and a new session begins |
//!
//! | a partition | appends and effects | what follows |
//! | --- | --- | --- |
//! | taken | allowed | its runs are recovered |
//! | handed over | none, from the moment that decides it | its runs are released, or the time for that is over; then it is given |

mod input;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use windlass_core::event::After;
use windlass_store::{Error, JoinedSession, LiveSession, Partition, SessionId, TakenPartition};

/// How long things take, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOptions {
    /// How long the backend keeps a session that is not renewed.
    pub duration_ms: u64,
    /// How often it is renewed, and the list of sessions read.
    pub renew_ms: u64,
    /// How much earlier than the backend the holder stops by its own clock.
    pub margin_ms: u64,
    /// How long a partition that is handed over waits for its runs to be released.
    pub hand_over_ms: u64,
    /// How often the partitions are searched for work that no wake-up announced.
    pub sweep_ms: u64,
    /// How long a caller waits for the owner of a run to take its command or refuse it.
    pub command_ms: u64,
    /// Whether the process takes partitions; one that does not holds a session alone.
    pub owns: bool,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            duration_ms: 10_000,
            renew_ms: 3_000,
            margin_ms: 2_000,
            hand_over_ms: 1_000,
            sweep_ms: 10_000,
            command_ms: 20_000,
            owns: true,
        }
    }
}

/// What reaches the machine.
#[derive(Debug)]
pub enum OwnershipInput {
    /// The process begins to work.
    Start,
    /// The process is to stop soon: everything is handed over and nothing more taken. The
    /// session stays, because attempts that the process finishes are leased to it.
    HandOver,
    /// The process is to stop: everything is handed over, and the session ends.
    Stop,
    /// Sessions, or what they hold, may have changed.
    Rung,
    /// The answer to [`OwnershipEffect::Join`].
    Joined(Result<JoinedSession, Error>),
    /// The answer to [`OwnershipEffect::Renew`].
    Renewed(Result<bool, Error>),
    /// The answer to [`OwnershipEffect::ListSessions`], with the session that it was asked for. An
    /// answer may come when that session is over and the next has begun.
    Listed(SessionId, Result<Vec<LiveSession>, Error>),
    /// The answer to [`OwnershipEffect::Take`], likewise.
    Taken(SessionId, Result<Vec<TakenPartition>, Error>),
    /// The answer to [`OwnershipEffect::Give`], likewise.
    Given(SessionId, Result<(), Error>),
    /// The answer to [`OwnershipEffect::Leave`].
    Left(Result<bool, Error>),
    /// Nothing of this partition is in memory, and no append of it is in flight.
    Released(Partition),
}

/// What the runtime has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipEffect {
    /// Begin a session of this duration.
    Join {
        /// See [`LeaseOptions::duration_ms`].
        duration_ms: u64,
    },
    /// Renew the session.
    Renew(SessionId),
    /// List the live sessions, on behalf of this one.
    ListSessions(SessionId),
    /// Take these partitions.
    Take(SessionId, Vec<Partition>),
    /// Give these partitions.
    Give(SessionId, Vec<Partition>),
    /// End the session cleanly.
    Leave(SessionId),
    /// Tell the other processes that sessions have changed.
    Ring,
    /// Acquire the runs of a partition; see [`super::PartitionRecovery`].
    Recover(Partition, After),
    /// Search a partition for work that no wake-up announced, as if it had been taken from a
    /// process that stopped.
    Sweep(Partition),
    /// Append nothing more for the runs of this partition, drop them, and say
    /// [`OwnershipInput::Released`] once nothing of them is in flight.
    Release(Partition),
    /// The lease is gone: drop every run at once, whatever is in flight.
    Forfeit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Working,
    /// Handed over: given once its runs are released, at this moment at the latest.
    Releasing {
        until: u64,
    },
    /// The backend is asked to free it.
    Giving,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    id: SessionId,
    partitions: u32,
    /// From this moment on nothing is appended, unless it was renewed.
    stops_at: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Idle,
    Working,
    /// Everything is handed over, and the session stays.
    Leaving,
    /// Everything is handed over, then the session ends.
    Stopping,
    Over,
}

/// The state machine of one process.
#[derive(Debug)]
pub struct Ownership {
    options: LeaseOptions,
    life: Life,
    session: Option<Session>,
    held: BTreeMap<Partition, Hold>,
    /// When the call about the session that is under way was sent.
    sent: Option<u64>,
    /// The next renewal, or the next attempt to join.
    renew_at: Option<u64>,
    sweep_at: Option<u64>,
    /// Calls that are under way.
    looking: bool,
    taking: bool,
    giving: bool,
    leaving: bool,
    /// Something changed while a list was read.
    look_again: bool,
    /// The list that is being read may be from before a partition was given.
    is_stale: bool,
    effects: VecDeque<OwnershipEffect>,
}

impl Ownership {
    /// A process that has not begun.
    pub fn new(options: LeaseOptions) -> Self {
        Self {
            options,
            life: Life::default(),
            session: None,
            held: BTreeMap::new(),
            sent: None,
            renew_at: None,
            sweep_at: None,
            looking: false,
            taking: false,
            giving: false,
            leaving: false,
            look_again: false,
            is_stale: false,
            effects: VecDeque::new(),
        }
    }

    /// Whether records of runs in this partition may be appended now, and effects of durable
    /// records carried out. Ask before each of the two, because time passes between them.
    pub fn may_work(&self, partition: Partition, now: u64) -> bool {
        let in_time = self.session.is_some_and(|it| now < it.stops_at);
        in_time && self.held.get(&partition) == Some(&Hold::Working)
    }

    /// Whether the backend has given this partition to the process, as far as the process
    /// knows; if so, runs that were fenced in it are read again.
    pub fn holds(&self, partition: Partition) -> bool {
        self.held.get(&partition) == Some(&Hold::Working)
    }

    /// The partitions that are worked on.
    pub fn working(&self) -> impl Iterator<Item = Partition> + '_ {
        let held = self.held.iter().filter(|(_, hold)| **hold == Hold::Working);
        held.map(|(&partition, _)| partition)
    }

    /// The session, while it is live by the process's own clock.
    pub fn session(&self, now: u64) -> Option<SessionId> {
        let live = self.session.filter(|it| now < it.stops_at);
        live.map(|session| session.id)
    }

    /// The session that the backend gave last, unless it has said that it is over. In doubt by the
    /// process's own clock it may still be renewed.
    pub fn last_session(&self) -> Option<SessionId> {
        self.session.map(|session| session.id)
    }

    /// How many partitions there are, once a session has begun.
    pub fn partitions(&self) -> Option<u32> {
        self.session.map(|session| session.partitions)
    }

    /// Whether the process holds no partition, and takes none.
    pub fn has_handed_over(&self) -> bool {
        let is_settled = self.held.is_empty() && !self.taking && !self.giving;
        match self.life {
            Life::Idle | Life::Working => false,
            Life::Leaving | Life::Stopping => is_settled,
            Life::Over => true,
        }
    }

    /// Whether the process has stopped, and everything is handed over.
    pub fn is_over(&self) -> bool {
        self.life == Life::Over
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<OwnershipEffect> {
        self.effects.pop_front()
    }

    /// When to call `handle_deadline` next.
    pub fn next_deadline(&self) -> Option<u64> {
        let releasing = self.held.values().filter_map(|hold| match hold {
            Hold::Releasing { until } => Some(*until),
            _ => None,
        });
        let renew = self.renew_at.filter(|_| self.sent.is_none());
        let times = [renew, self.sweep_at].into_iter().flatten();
        times.chain(releasing.filter(|_| !self.giving)).min()
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now: u64) {
        if self.sent.is_none() && self.renew_at.is_some_and(|at| at <= now) {
            self.renew_or_join(now);
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep_at = Some(now + self.options.sweep_ms);
            let working: Vec<Partition> = self.working().collect();
            let sweeps = working.into_iter().map(OwnershipEffect::Sweep);
            self.effects.extend(sweeps);
        }
        self.give_released(now);
    }

    fn renew_or_join(&mut self, now: u64) {
        self.sent = Some(now);
        self.renew_at = Some(now + self.options.renew_ms);
        let duration_ms = self.options.duration_ms;
        self.effects.push_back(match self.session {
            Some(session) => OwnershipEffect::Renew(session.id),
            None => OwnershipEffect::Join { duration_ms },
        });
    }

    /// Gives the partitions that are released, or whose time for that is over.
    fn give_released(&mut self, now: u64) {
        let Some(session) = self.session.filter(|_| !self.giving) else {
            return;
        };
        let over = |hold: &Hold| matches!(hold, Hold::Releasing { until } if *until <= now);
        let ready = self.held.iter().filter(|(_, hold)| over(hold));
        let ready: Vec<Partition> = ready.map(|(&partition, _)| partition).collect();
        if ready.is_empty() {
            return;
        }
        for partition in &ready {
            self.held.insert(*partition, Hold::Giving);
        }
        self.giving = true;
        let give = OwnershipEffect::Give(session.id, ready);
        self.effects.push_back(give);
    }

    /// Stops work on a partition and begins to hand it over.
    fn hand_over(&mut self, partition: Partition, now: u64) {
        if self.held.get(&partition) == Some(&Hold::Working) {
            let until = now + self.options.hand_over_ms;
            self.held.insert(partition, Hold::Releasing { until });
            self.effects.push_back(OwnershipEffect::Release(partition));
        }
    }

    fn look(&mut self) {
        let works = self.life == Life::Working && self.options.owns;
        let Some(session) = self.session.filter(|_| works) else {
            return;
        };
        if self.looking || self.taking || self.giving {
            self.look_again = true;
            return;
        }
        self.looking = true;
        self.effects
            .push_back(OwnershipEffect::ListSessions(session.id));
    }

    /// Lists again if something changed during the calls that have ended.
    fn look_after_calls(&mut self) {
        if std::mem::take(&mut self.look_again) {
            self.look();
        }
    }

    /// The session is over: nothing that was held is this process's any more.
    fn lose_session(&mut self, now: u64) {
        self.session = None;
        self.sweep_at = None;
        // Answers to its calls concern no other session.
        (self.looking, self.taking, self.giving) = (false, false, false);
        (self.look_again, self.is_stale) = (false, false);
        if !self.held.is_empty() {
            self.held.clear();
            self.effects.push_back(OwnershipEffect::Forfeit);
        }
        match self.life {
            Life::Working if self.sent.is_none() => self.renew_or_join(now),
            // The answer to the call under way begins the next session.
            Life::Working => {}
            _ => self.end(),
        }
    }

    fn end(&mut self) {
        self.life = Life::Over;
        self.renew_at = None;
        self.sweep_at = None;
    }

    /// Ends the session once everything is handed over.
    fn leave_if_empty(&mut self) {
        let calls = self.giving || self.taking || self.leaving;
        if self.life != Life::Stopping || !self.held.is_empty() || calls {
            return;
        }
        match self.session {
            Some(session) => {
                self.leaving = true;
                self.effects.push_back(OwnershipEffect::Leave(session.id));
            }
            None if self.sent.is_none() => self.end(),
            None => {}
        }
    }
}
