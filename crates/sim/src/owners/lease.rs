//! The leases of a world: calls that `Ownership` decides are made on the real store in memory, and
//! each takes time, fails, or loses its answer. What the backend says is held is compared with what
//! processes do.

use windlass_core::{Millis, RunId};
use windlass_orchestrator::supervisor::{OwnershipEffect, OwnershipInput};
use windlass_store::{Bell, Error, Leases, Partition, ProcessInfo, block_on};

use super::OwnersEvent;
use crate::oracle::ProcessId;
use crate::world::{Event, World};

impl World {
    /// A process's leases take an input.
    pub(super) fn tell_owner(&mut self, id: ProcessId, input: OwnershipInput) {
        let now = self.now;
        let cluster = self.cluster.as_mut();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) else {
            return;
        };
        let clock = owner.clock(now);
        owner.machine.handle(input, clock);
        self.drive(id);
    }

    pub(super) fn lease_tick(&mut self, id: ProcessId) {
        let now = self.now;
        let cluster = self.cluster.as_mut();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) else {
            return;
        };
        if owner.tick_at.is_some_and(|at| at <= now) {
            owner.tick_at = None;
        }
        let clock = owner.clock(now);
        owner.machine.handle_deadline(clock);
        self.drive(id);
    }

    /// Carries out what the leases of a process want done.
    fn drive(&mut self, id: ProcessId) {
        while let Some(effect) = self.next_lease_effect(id) {
            self.trace.say(self.now, || format!("p{id} {effect:?}"));
            match effect {
                OwnershipEffect::Ring => self.ring(Bell::Sessions),
                OwnershipEffect::Recover(partition, after) => {
                    self.looks_from_now(id, partition);
                    self.plan_walk(id, partition, after);
                }
                OwnershipEffect::Sweep(_) if self.rests_on_wake_ups() => {}
                OwnershipEffect::Sweep(partition) => {
                    self.begin_walk(id, partition);
                    self.heal_own(id);
                }
                OwnershipEffect::Release(partition) => self.release(id, partition),
                OwnershipEffect::Forfeit => self.forfeit(id),
                call => {
                    if let OwnershipEffect::Give(_, partitions) = &call {
                        self.drop_rest(id, partitions);
                    }
                    let delay = self.lease_delay();
                    self.after(delay, Event::Owners(OwnersEvent::Call(id, call)));
                }
            }
        }
        self.plan_tick(id);
        let cluster = self.cluster.as_ref();
        let owner = cluster.and_then(|cluster| cluster.owners.get(&id));
        if owner.is_some_and(|owner| owner.machine.is_over()) {
            self.remove_owner(id);
        }
    }

    fn next_lease_effect(&mut self, id: ProcessId) -> Option<OwnershipEffect> {
        let owner = self.cluster.as_mut()?.owners.get_mut(&id)?;
        owner.machine.poll_effect()
    }

    fn plan_tick(&mut self, id: ProcessId) {
        let now = self.now;
        let cluster = self.cluster.as_mut();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) else {
            return;
        };
        let Some(deadline) = owner.machine.next_deadline() else {
            return;
        };
        let at = owner.moment(deadline).max(now);
        if owner.tick_at.is_none_or(|planned| at < planned) {
            owner.tick_at = Some(at);
            let delay = u64::try_from(at.0 - now.0).unwrap_or(0);
            self.after(delay, Event::Owners(OwnersEvent::Tick(id)));
        }
    }

    fn lease_delay(&mut self) -> u64 {
        let slow = self.cluster.as_ref().map_or(0, |it| it.faults.lease_slow);
        let slow = self.random.chance(slow);
        self.moment(if slow { 4_000 } else { 10 })
    }

    /// The backend carries a call out, or not, and its answer is on its way, or lost.
    pub(super) fn lease_call(&mut self, id: ProcessId, call: OwnershipEffect) {
        let fails = self.cluster.as_ref().map_or(0, |it| it.faults.lease_fails);
        let fails = self.random.chance(fails);
        let carried_out = !fails || self.random.chance(50);
        let answer = match carried_out {
            true => self.carry_out_call(id, &call),
            false => None,
        };
        let error = || Error::Unavailable("as drawn".to_owned());
        let answer = match (answer, &call) {
            (Some(answer), _) if !fails => answer,
            (_, OwnershipEffect::Join { .. }) => OwnershipInput::Joined(Err(error())),
            (_, OwnershipEffect::Renew(_)) => OwnershipInput::Renewed(Err(error())),
            (_, OwnershipEffect::ListSessions(session)) => {
                OwnershipInput::Listed(*session, Err(error()))
            }
            (_, OwnershipEffect::Take(session, _)) => OwnershipInput::Taken(*session, Err(error())),
            (_, OwnershipEffect::Give(session, _)) => OwnershipInput::Given(*session, Err(error())),
            (_, OwnershipEffect::Leave(_)) => OwnershipInput::Left(Err(error())),
            _ => return,
        };
        let delay = self.lease_delay();
        self.after(delay, Event::Owners(OwnersEvent::Answer(id, answer)));
    }

    fn carry_out_call(&mut self, id: ProcessId, call: &OwnershipEffect) -> Option<OwnershipInput> {
        let cluster = self.cluster.as_mut()?;
        let leases = &cluster.leases;
        Some(match call {
            OwnershipEffect::Join { duration_ms } => {
                let joined =
                    block_on(leases.join(&ProcessInfo::named(&format!("p{id}")), *duration_ms));
                if let Ok(joined) = &joined {
                    cluster.sessions.insert(joined.session, id);
                }
                OwnershipInput::Joined(joined)
            }
            OwnershipEffect::Renew(session) => {
                OwnershipInput::Renewed(block_on(leases.renew(*session)))
            }
            OwnershipEffect::ListSessions(session) => {
                OwnershipInput::Listed(*session, block_on(leases.sessions()))
            }
            OwnershipEffect::Take(session, partitions) => {
                OwnershipInput::Taken(*session, block_on(leases.take(*session, partitions)))
            }
            OwnershipEffect::Give(session, partitions) => {
                OwnershipInput::Given(*session, block_on(leases.give(*session, partitions)))
            }
            OwnershipEffect::Leave(session) => {
                OwnershipInput::Left(block_on(leases.leave(*session)))
            }
            _ => return None,
        })
    }

    pub(super) fn lease_answer(&mut self, id: ProcessId, answer: OwnershipInput) {
        self.trace.say(self.now, || format!("p{id} {answer:?}"));
        let renewed = matches!(answer, OwnershipInput::Renewed(Ok(true)));
        self.tell_owner(id, answer);
        if renewed {
            self.release_withheld(id);
        }
    }

    /// The process that holds a partition by the backend's word.
    fn holder(&self, partition: Partition) -> Option<ProcessId> {
        let cluster = self.cluster.as_ref()?;
        let live = block_on(cluster.leases.sessions()).ok()?;
        let mut live = live.into_iter();
        let session = live.find(|it| it.partitions.contains(&partition))?.session;
        cluster.sessions.get(&session).copied()
    }

    /// Whatever a process does to a run, it holds the run's partition by the backend's word:
    /// its own clock must have stopped it before its session could expire.
    pub(crate) fn check_lease(&mut self, id: ProcessId, run: RunId, what: &str) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        if id == cluster.front {
            return;
        }
        let partition = cluster.partition(run);
        let holder = self.holder(partition);
        if holder != Some(id) {
            let reason = format!("p{id} {what}, but partition {partition} is held by {holder:?}");
            self.oracle.record_verdict(run, Err(reason));
        }
    }

    /// The next moment at which a process has something to do is none while it is stopped.
    pub(crate) fn is_paused(&self, id: ProcessId) -> bool {
        let cluster = self.cluster.as_ref();
        let owner = cluster.and_then(|cluster| cluster.owners.get(&id));
        owner.is_some_and(|owner| owner.paused)
    }

    /// How long until a moment.
    pub(super) fn until(&self, at: Millis) -> u64 {
        u64::try_from(at.0 - self.now.0).unwrap_or(0)
    }
}
