//! Commands between processes: a user asks any process, and one that does not own the run offers
//! the command to the owner. Both sides do what the supervisor's machines say; each step takes
//! time, and either process may die, or be stopped, between any two of them.

use std::collections::BTreeMap;

use windlass_core::command::Command;
use windlass_core::event::RequestKey;
use windlass_core::run::Refusal;
use windlass_core::{Digest, RunId};
use windlass_orchestrator::supervisor::{
    CommandItem, CommandOffer, ItemAnswer, ItemStep, KeyInLog, LeaseOptions, OfferEnd, OfferStep,
    command_item_key,
};
use windlass_orchestrator::{AcquireMode, CommandId, ShardInput};
use windlass_store::{Bell, Offer, Partitions};

use super::OwnersEvent;
use crate::faults::Defect;
use crate::oracle::ProcessId;
use crate::world::{Event, World};

/// The process that the oracle keeps callers under: what becomes of a run in a process says
/// nothing about those who wait for another.
const CALLERS: ProcessId = 0;

/// What is under way between processes.
#[derive(Debug, Default)]
pub(super) struct Commands {
    callers: BTreeMap<CommandId, Caller>,
    /// What the bytes of an item stand for, by its key.
    offered: BTreeMap<Box<str>, (CommandId, Command)>,
    /// Items that owners decide on.
    deciding: BTreeMap<(ProcessId, Box<str>), Deciding>,
}

/// A user that waits for the owner of a run.
#[derive(Debug)]
struct Caller {
    /// The process that it asks.
    door: ProcessId,
    run: RunId,
    key: RequestKey,
    command: (CommandId, Command),
    machine: CommandOffer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deciding {
    /// The run has the command of this number.
    Executing(CommandId),
    /// The run refused it, and the item is about to be refused.
    Settling,
}

impl World {
    /// Offers a command to the owner of its run, if it comes to a process that is not; else
    /// gives it back, with the process that it goes to. `numbers` are its own and that of the
    /// command that it repeats.
    pub(crate) fn offers_to_owner(
        &mut self,
        run: RunId,
        numbers: (CommandId, CommandId),
        command: Command,
    ) -> Option<(ProcessId, Command)> {
        let now = self.now;
        let Some(cluster) = &self.cluster else {
            return Some((self.current, command));
        };
        let running = cluster.owners.iter().filter(|(_, owner)| !owner.paused);
        let running: Vec<ProcessId> = running.map(|(&id, _)| id).collect();
        let front = cluster.front;
        let pick = self.random.below(running.len() as u64 + 1) as usize;
        let door = running.get(pick).copied().unwrap_or(front);
        let owns = door != front
            && self
                .cluster
                .as_ref()
                .is_some_and(|it| it.may_work(door, run, now));
        if owns {
            return Some((door, command));
        }
        self.begin_offer(door, run, numbers, command);
        None
    }

    fn begin_offer(
        &mut self,
        door: ProcessId,
        run: RunId,
        (number, first): (CommandId, CommandId),
        mut command: Command,
    ) {
        let key = command.actor.request.as_deref().cloned();
        let key = key.unwrap_or_else(|| RequestKey {
            key: format!("g{first}").into(),
            command: Digest::of(format!("{:?}", command.command).as_bytes()),
        });
        command.actor.request = Some(Box::new(key.clone()));
        if self.defect == Some(Defect::KeepOffer) {
            command.actor.request = None;
        }
        let now = u64::try_from(self.now.0).unwrap_or(0);
        let machine = CommandOffer::new(now, LeaseOptions::default().command_ms);
        let step = machine.begin();
        let caller = Caller {
            door,
            run,
            key,
            command: (first, command),
            machine,
        };
        self.oracle
            .commanded(CALLERS, run, number, format!("c{first}"));
        if let Some(cluster) = &mut self.cluster {
            cluster.commands.callers.insert(number, caller);
        }
        self.plan_caller(door, number, step);
    }

    fn plan_caller(&mut self, door: ProcessId, number: CommandId, step: OfferStep) {
        let delay = match step {
            OfferStep::Wait(until) => {
                let now = u64::try_from(self.now.0).unwrap_or(0);
                until.saturating_sub(now)
            }
            _ => self.moment(10),
        };
        let event = OwnersEvent::Caller(door, number, step);
        self.after(delay, Event::Owners(event));
    }

    /// The next step of a caller, unless its process is gone.
    pub(super) fn caller_step(&mut self, door: ProcessId, number: CommandId, step: OfferStep) {
        let cluster = self.cluster.as_mut();
        let Some(mut caller) = cluster.and_then(|it| it.commands.callers.remove(&number)) else {
            return;
        };
        let mut next = self.execute_offer_step(&mut caller, number, step);
        // What is read last decides: no time passes between it and the answer.
        if let OfferStep::End(end) = next {
            return self.answer_caller(number, &end);
        }
        if self.defect == Some(Defect::AnswerOnOffer) && next == OfferStep::Ring {
            next = OfferStep::End(OfferEnd::Taken { repeated: false });
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.commands.callers.insert(number, caller);
        }
        self.plan_caller(door, number, next);
    }

    /// The callers of a process that is gone are not answered; what they offered stands.
    pub(crate) fn hang_up(&mut self, door: ProcessId) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let callers = &mut cluster.commands.callers;
        for (number, _) in callers.extract_if(.., |_, caller| caller.door == door) {
            self.oracle.gave_up(number);
        }
    }

    fn execute_offer_step(
        &mut self,
        caller: &mut Caller,
        number: CommandId,
        step: OfferStep,
    ) -> OfferStep {
        let now = u64::try_from(self.now.0).unwrap_or(0);
        let run = caller.run;
        let item = command_item_key(&caller.key.key);
        match step {
            OfferStep::ReadLog => {
                let state = self.load_run(run);
                let found = state.map(|state| KeyInLog::of(&state, &caller.key));
                let found = found.and_then(Result::ok).unwrap_or(KeyInLog::Unknown);
                caller.machine.log_read(found)
            }
            OfferStep::Offer => {
                let first = self.offer_item(caller, item);
                self.trace
                    .say(self.now, || format!("command {number} is offered: {first}"));
                caller.machine.offered(first)
            }
            OfferStep::Ring => {
                if let Some(cluster) = &self.cluster {
                    let partition = cluster.partition(run);
                    self.ring(Bell::Offered(partition, run));
                }
                caller.machine.rung()
            }
            OfferStep::ReadAnswer => {
                let answer = self.store.offer_answer(run, &item);
                caller.machine.answer_read(answer, now)
            }
            OfferStep::Wait(_) => caller.machine.waited(),
            OfferStep::Discard => {
                self.store.discard_offer(run, &item);
                caller.machine.discarded()
            }
            OfferStep::End(_) => step,
        }
    }

    fn offer_item(&mut self, caller: &Caller, item: Box<str>) -> bool {
        self.counts.offers += 1;
        let Some(cluster) = &mut self.cluster else {
            return false;
        };
        let offer = Offer {
            run: caller.run,
            partition: cluster.partition(caller.run),
            key: item.clone(),
            bytes: Vec::new(),
        };
        let first = self.store.offer(offer);
        let offered = &mut cluster.commands.offered;
        offered
            .entry(item)
            .or_insert_with(|| caller.command.clone());
        first
    }

    fn answer_caller(&mut self, number: CommandId, end: &OfferEnd) {
        self.trace.say(self.now, || {
            format!("command {number} is answered: {end:?}")
        });
        match end {
            OfferEnd::Taken { .. } => {
                self.counts.offers_taken += 1;
                self.oracle.command_answered(number, &Ok(()));
            }
            OfferEnd::Refused(_) => {
                self.counts.offers_refused += 1;
                let refusal = Err(Refusal::NotNow("as its owner says".into()));
                self.oracle.command_answered(number, &refusal);
            }
            OfferEnd::Unavailable => {
                self.counts.offers_unanswered += 1;
                self.oracle.gave_up(number);
            }
        }
    }

    /// An owner decides on what was offered to a run.
    pub(super) fn consume_items(&mut self, id: ProcessId, run: RunId) {
        for item in self.store.inbox(run) {
            let Some(cluster) = &self.cluster else {
                return;
            };
            let commands = &cluster.commands;
            let deciding = commands.deciding.get(&(id, item.key.clone()));
            let is_decided_on = match deciding {
                Some(Deciding::Executing(number)) => self.oracle.awaits(*number),
                Some(Deciding::Settling) => true,
                None => false,
            };
            let command = commands.offered.get(&item.key).cloned();
            if !is_decided_on {
                self.consume_item(id, run, item.key, command);
            }
        }
    }

    fn consume_item(
        &mut self,
        id: ProcessId,
        run: RunId,
        item: Box<str>,
        command: Option<(CommandId, Command)>,
    ) {
        let mut step = CommandItem.begin(command.is_some());
        if step == ItemStep::ReadRun {
            let key = command.as_ref();
            let key = key.and_then(|(_, command)| command.actor.request.as_deref());
            let state = self.load_run(run);
            step = CommandItem.run_read(state.map(|state| match key {
                Some(key) => KeyInLog::of(&state, key),
                None => Ok(KeyInLog::Unknown),
            }));
        }
        match (step, command) {
            (ItemStep::Execute, Some((first, command))) => {
                self.execute_item(id, run, item, (first, command));
            }
            (ItemStep::Discard, _) => self.store.discard_offer(run, &item),
            (ItemStep::Refuse, _) => self.plan_settle(id, run, item),
            _ => {}
        }
    }

    fn execute_item(
        &mut self,
        id: ProcessId,
        run: RunId,
        item: Box<str>,
        (first, command): (CommandId, Command),
    ) {
        let goes_on = command.command.continues_run() && !self.waits_to_begin(run);
        let mode = match goes_on {
            true => AcquireMode::RECOVER,
            false => AcquireMode::ForCommand,
        };
        self.acquire(id, run, mode);
        let process = self.processes.get(&id);
        if !process.is_some_and(|process| process.shard.holds(run)) {
            return;
        }
        let number = self.next_command();
        self.trace
            .say(self.now, || format!("p{id} takes {item} as {number}"));
        self.oracle.commanded(id, run, number, format!("c{first}"));
        if let Some(cluster) = &mut self.cluster {
            let deciding = &mut cluster.commands.deciding;
            let mut begun = deciding.keys();
            let is_begun = begun.any(|(by, key)| *by != id && *key == item);
            self.counts.offers_passed_on += u64::from(is_begun);
            deciding.insert((id, item.clone()), Deciding::Executing(number));
        }
        let input = ShardInput::Command {
            run,
            id: number,
            input: command.into(),
            item: Some(item),
        };
        self.handle(id, input);
    }

    /// A run has answered a command, maybe one that was offered.
    pub(crate) fn item_answered(
        &mut self,
        id: ProcessId,
        number: CommandId,
        result: &Result<(), Refusal>,
    ) {
        let Some(cluster) = &mut self.cluster else {
            return;
        };
        let mut deciding = cluster.commands.deciding.iter();
        let is_this = |(_, it): &(_, &Deciding)| **it == Deciding::Executing(number);
        let Some(key) = deciding.find(is_this).map(|(key, _)| key.clone()) else {
            return;
        };
        cluster.commands.deciding.remove(&key);
        let answer = match result {
            Ok(()) => ItemAnswer::Taken,
            Err(_) => ItemAnswer::Refused,
        };
        if CommandItem.executed(answer) == ItemStep::Refuse
            && let Some(run) = self.oracle.run_of_command(number)
        {
            self.plan_settle(id, run, key.1);
        }
    }

    fn plan_settle(&mut self, id: ProcessId, run: RunId, item: Box<str>) {
        if let Some(cluster) = &mut self.cluster {
            let key = (id, item.clone());
            cluster.commands.deciding.insert(key, Deciding::Settling);
        }
        let delay = self.moment(10);
        let settle = OwnersEvent::Settle(id, run, item);
        self.after(delay, Event::Owners(settle));
    }

    /// An owner refuses an item; one that died before did not.
    pub(super) fn settle_item(&mut self, id: ProcessId, run: RunId, item: Box<str>) {
        if !self.processes.contains_key(&id) {
            return;
        }
        self.store.refuse_offer(run, &item);
        if let Some(cluster) = &mut self.cluster {
            cluster.commands.deciding.remove(&(id, item));
        }
    }

    /// Owners look by themselves, so that nothing waits in an inbox for ever.
    pub(crate) fn every_offer_is_decided(&mut self) {
        if self.cluster.is_none() {
            return;
        }
        let waiting = self.store.offered(&Partitions::All, None);
        if let Some(&run) = waiting.first() {
            let items = self.store.inbox(run);
            let keys: Vec<&str> = items.iter().map(|item| &*item.key).collect();
            let reason = format!("no owner has decided on {}", keys.join(", "));
            self.oracle.record_verdict(run, Err(reason));
        }
    }
}
