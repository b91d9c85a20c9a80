//! What the answers of the backend mean for what a process works on.

use std::collections::BTreeSet;

use windlass_core::event::After;
use windlass_store::{Error, JoinedSession, LiveSession, Partition, TakenPartition};

use super::{Hold, Life, Ownership, OwnershipEffect, OwnershipInput, Session};
use crate::supervisor::partition::spread;

/// A call that failed is repeated after this long.
const AGAIN_MS: u64 = 500;

impl Ownership {
    /// Takes an input.
    pub fn handle(&mut self, input: OwnershipInput, now: u64) {
        match input {
            OwnershipInput::Start if self.life == Life::Idle => {
                self.life = Life::Working;
                self.renew_or_join(now);
            }
            OwnershipInput::Start => {}
            OwnershipInput::HandOver if self.life == Life::Working => {
                self.life = Life::Leaving;
                self.hand_over_all(now);
            }
            OwnershipInput::HandOver => {}
            OwnershipInput::Stop => self.stop(now),
            OwnershipInput::Rung => self.look(),
            OwnershipInput::Joined(result) => self.joined(result, now),
            OwnershipInput::Renewed(result) => self.renewed(result, now),
            OwnershipInput::Listed(session, _)
            | OwnershipInput::Taken(session, _)
            | OwnershipInput::Given(session, _)
                if self.session.is_none_or(|mine| mine.id != session) => {}
            OwnershipInput::Listed(_, result) => self.listed(result, now),
            OwnershipInput::Taken(_, result) => self.taken(result, now),
            OwnershipInput::Given(_, result) => self.given(result, now),
            OwnershipInput::Left(result) => self.left(result),
            OwnershipInput::Released(partition) => {
                if let Some(Hold::Releasing { until }) = self.held.get_mut(&partition) {
                    *until = now;
                    self.give_released(now);
                }
            }
        }
        self.leave_if_empty();
    }

    fn stop(&mut self, now: u64) {
        match self.life {
            Life::Idle => self.end(),
            Life::Working | Life::Leaving => {
                self.life = Life::Stopping;
                self.hand_over_all(now);
            }
            Life::Stopping | Life::Over => {}
        }
    }

    fn hand_over_all(&mut self, now: u64) {
        let working: Vec<Partition> = self.working().collect();
        for partition in working {
            self.hand_over(partition, now);
        }
    }

    fn joined(&mut self, result: Result<JoinedSession, Error>, now: u64) {
        let sent = self.sent.take();
        let (Ok(joined), Some(sent)) = (result, sent) else {
            self.renew_at = Some(now + AGAIN_MS);
            return;
        };
        self.session = Some(Session {
            id: joined.session,
            partitions: joined.partitions,
            stops_at: self.stops_at(sent),
        });
        self.sweep_at = Some(now + self.options.sweep_ms);
        self.effects.push_back(OwnershipEffect::Ring);
        self.look();
    }

    fn stops_at(&self, sent: u64) -> u64 {
        sent + self
            .options
            .duration_ms
            .saturating_sub(self.options.margin_ms)
    }

    fn renewed(&mut self, result: Result<bool, Error>, now: u64) {
        let sent = self.sent.take();
        if self.session.is_none() {
            return self.lose_session(now);
        }
        match (result, sent) {
            (Ok(true), Some(sent)) => {
                let stops_at = self.stops_at(sent);
                if let Some(session) = &mut self.session {
                    session.stops_at = stops_at;
                }
                self.look();
            }
            (Ok(false), _) => self.lose_session(now),
            (Err(_), _) => self.renew_at = Some(now + AGAIN_MS),
            (Ok(true), None) => {}
        }
    }

    fn listed(&mut self, result: Result<Vec<LiveSession>, Error>, now: u64) {
        self.looking = false;
        let Some(session) = self.session else {
            return;
        };
        if std::mem::take(&mut self.is_stale) {
            return self.look_after_calls();
        }
        if let (Ok(live), Life::Working) = (result, self.life) {
            match live.iter().find(|it| it.session == session.id) {
                Some(mine) => {
                    self.reconcile(mine, now);
                    self.even_out(&session, &live, now);
                }
                None => return self.lose_session(now),
            }
        }
        self.look_after_calls();
    }

    /// The backend's list of what is held counts: an answer to taking or giving may have been
    /// lost.
    fn reconcile(&mut self, mine: &LiveSession, now: u64) {
        let listed: BTreeSet<Partition> = mine.partitions.iter().copied().collect();
        let gone = self.held.keys().filter(|it| !listed.contains(it));
        let gone: Vec<Partition> = gone.copied().collect();
        for partition in gone {
            if self.held.remove(&partition) == Some(Hold::Working) {
                self.effects.push_back(OwnershipEffect::Release(partition));
            }
        }
        for partition in listed {
            match self.held.get(&partition) {
                None => self.begin(partition, After::Stop),
                // Giving it failed.
                Some(Hold::Giving) => {
                    self.held.insert(partition, Hold::Releasing { until: now });
                }
                Some(_) => {}
            }
        }
        self.give_released(now);
    }

    fn even_out(&mut self, session: &Session, live: &[LiveSession], now: u64) {
        let spread = spread(session.id, live, session.partitions);
        for partition in spread.give {
            self.hand_over(partition, now);
        }
        if !spread.take.is_empty() {
            self.taking = true;
            let take = OwnershipEffect::Take(session.id, spread.take);
            self.effects.push_back(take);
        }
    }

    fn begin(&mut self, partition: Partition, after: After) {
        self.held.insert(partition, Hold::Working);
        let recover = OwnershipEffect::Recover(partition, after);
        self.effects.push_back(recover);
    }

    fn taken(&mut self, result: Result<Vec<TakenPartition>, Error>, now: u64) {
        self.taking = false;
        for taken in result.unwrap_or_default() {
            let after = match taken.from_expired {
                Some(_) => After::Death,
                None => After::Stop,
            };
            self.begin(taken.partition, after);
            if self.life != Life::Working {
                self.hand_over(taken.partition, now);
            }
        }
        self.look_after_calls();
    }

    fn given(&mut self, result: Result<(), Error>, now: u64) {
        self.giving = false;
        (self.is_stale, self.look_again) = (self.looking, self.look_again || self.looking);
        let giving = self.held.iter().filter(|(_, hold)| **hold == Hold::Giving);
        let giving: Vec<Partition> = giving.map(|(&partition, _)| partition).collect();
        for partition in giving {
            match result {
                Ok(()) => drop(self.held.remove(&partition)),
                Err(_) => {
                    let until = now + AGAIN_MS;
                    self.held.insert(partition, Hold::Releasing { until });
                }
            }
        }
        if result.is_ok() {
            self.effects.push_back(OwnershipEffect::Ring);
        }
        self.give_released(now);
        self.look_after_calls();
    }

    /// A session that could not be ended expires.
    fn left(&mut self, _: Result<bool, Error>) {
        self.leaving = false;
        self.session = None;
        self.effects.push_back(OwnershipEffect::Ring);
        self.end();
    }
}
