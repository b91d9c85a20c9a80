//! Processes that die, stop in good order, or are stopped for a while and go on: what reaches
//! one meanwhile waits, and so do writes that it had not sent.

use crate::oracle::ProcessId;
use crate::world::{Event, World};
use windlass_orchestrator::supervisor::OwnershipInput;

use super::OwnersEvent;

impl World {
    fn pick_owner(&self, pick: u64, paused: bool) -> Option<ProcessId> {
        let owners = self.cluster.as_ref()?.owners.iter();
        let owners = owners.filter(|(_, owner)| paused || !owner.paused);
        let ids: Vec<ProcessId> = owners.map(|(&id, _)| id).collect();
        let place = usize::try_from(pick).unwrap_or(0) % ids.len().max(1);
        ids.get(place).copied()
    }

    /// One dies, now and then the one that takes requests; another comes after a while.
    pub(super) fn kill(&mut self, pick: u64) {
        if self.calm {
            return;
        }
        if pick.is_multiple_of(8) {
            return self.replace_front();
        }
        if let Some(id) = self.pick_owner(pick, true) {
            self.kill_process(id);
        }
    }

    fn replace_front(&mut self) {
        let front = self.cluster.as_ref().map_or(0, |cluster| cluster.front);
        self.new_process();
        if let Some(cluster) = &mut self.cluster {
            cluster.front = self.current;
        }
        self.die(front);
    }

    /// A process dies in the middle of whatever it does.
    pub(crate) fn kill_process(&mut self, id: ProcessId) {
        if self.cluster.as_ref().is_some_and(|it| it.front == id) {
            return self.replace_front();
        }
        self.remove_owner(id);
        let delay = self.moment(8_000);
        self.after(delay, Event::Owners(OwnersEvent::Join));
    }

    pub(super) fn remove_owner(&mut self, id: ProcessId) {
        if let Some(cluster) = &mut self.cluster {
            cluster.owners.remove(&id);
        }
        self.die(id);
    }

    pub(super) fn stop_cleanly(&mut self, pick: u64) {
        if self.calm {
            return;
        }
        if let Some(id) = self.pick_owner(pick, false) {
            self.trace.say(self.now, || format!("p{id} stops"));
            self.tell_owner(id, OwnershipInput::Stop);
            let delay = self.moment(8_000);
            self.after(delay, Event::Owners(OwnersEvent::Join));
        }
    }

    pub(super) fn pause(&mut self, pick: u64, millis: u64) {
        let Some(id) = self.pick_owner(pick, false).filter(|_| !self.calm) else {
            return;
        };
        self.trace.say(self.now, || format!("p{id} is stopped"));
        self.counts.pauses += 1;
        let unsent = self.take_unsent(id);
        let cluster = self.cluster.as_mut();
        if let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) {
            owner.paused = true;
            owner.deferred.extend(unsent);
        }
        self.after(millis, Event::Owners(OwnersEvent::Resume(id)));
    }

    pub(super) fn resume(&mut self, id: ProcessId) {
        let cluster = self.cluster.as_mut();
        let Some(owner) = cluster.and_then(|cluster| cluster.owners.get_mut(&id)) else {
            return;
        };
        if !std::mem::take(&mut owner.paused) {
            return;
        }
        let deferred = std::mem::take(&mut owner.deferred);
        self.trace.say(self.now, || format!("p{id} goes on"));
        self.looks_again(id);
        for event in deferred {
            let delay = match event {
                Event::Slots(..) => self.answer_after(id),
                _ => 0,
            };
            self.after(delay, event);
        }
        self.pump(id);
    }

    /// The event, unless it is for a process that is stopped: then it waits there.
    pub(crate) fn unless_paused(&mut self, event: Event) -> Option<Event> {
        let Some(id) = self.target(&event).filter(|id| self.is_paused(*id)) else {
            return Some(event);
        };
        let cluster = self.cluster.as_mut();
        let owner = cluster.and_then(|cluster| cluster.owners.get_mut(&id))?;
        owner.deferred.push(event);
        None
    }

    /// The process that an event happens in.
    fn target(&self, event: &Event) -> Option<ProcessId> {
        self.cluster.as_ref()?;
        match event {
            Event::Answer { process, .. }
            | Event::Reported { process, .. }
            | Event::Loaded { process, .. }
            | Event::Evaluate(process, ..)
            | Event::HeadRead(process, ..)
            | Event::Reload(process, _)
            | Event::Job(process, _)
            | Event::ChildEnd(process, ..)
            | Event::ChildFailed(process, ..)
            | Event::WakeParent(process, _)
            | Event::Poll(process)
            | Event::Owners(
                OwnersEvent::Tick(process)
                | OwnersEvent::Answer(process, _)
                | OwnersEvent::Rung(process, _)
                | OwnersEvent::Walk(process, _)
                | OwnersEvent::Due(process)
                | OwnersEvent::Caller(process, ..)
                | OwnersEvent::Settle(process, ..),
            ) => Some(*process),
            Event::Slots(process, _) if self.has_limits() => Some(*process),
            Event::Owners(OwnersEvent::Limits(process, event)) => {
                event.is_in_process().then_some(*process)
            }
            Event::Ends { execution, .. } => {
                let executing = self.executing.get(execution);
                executing.map(|executing| executing.process)
            }
            _ => None,
        }
    }
}

impl Event {
    /// Whether it is more than leases and looks, which never end.
    pub(crate) fn is_foreground(&self) -> bool {
        !matches!(
            self,
            Event::Scan
                | Event::Poll(_)
                | Event::Slots(..)
                | Event::LookAtPools
                | Event::Owners(
                    OwnersEvent::Tick(_)
                        | OwnersEvent::Call(..)
                        | OwnersEvent::Answer(..)
                        | OwnersEvent::Rung(..)
                        | OwnersEvent::Walk(..)
                        | OwnersEvent::Limits(..)
                )
        )
    }
}
