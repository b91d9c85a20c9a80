//! Puts defects into writes, to show that the oracle detects them.

use windlass_core::event::{AttemptEnded, AttemptResult, Event, Transition};
use windlass_orchestrator::codec;

use crate::faults::Defect;
use crate::world::{World, Write};

impl World {
    /// Puts a defect into a write; true if the store forgets it altogether.
    pub(crate) fn inject_defect(&mut self, write: &mut Write) -> bool {
        self.spoil_release(&mut write.append);
        match self.defect {
            Some(Defect::NoFence) => write.append.head = self.store.head(write.append.run),
            Some(Defect::SkipRow) => write.append.row = None,
            Some(Defect::NoClaims) => write.append.claims.clear(),
            Some(Defect::KeepOffer) => write.append.consumed.clear(),
            Some(Defect::ChildAgain) if !self.request_of.contains_key(&write.append.run) => {
                write.append.head = self.store.head(write.append.run);
            }
            Some(Defect::RepeatOutcome) => rewrite(&mut write.append.record, repeat_outcome),
            Some(Defect::TimerTwice) => rewrite(&mut write.append.record, end_twice),
            Some(Defect::LoseSignal) => rewrite(&mut write.append.record, lose_signal),
            Some(Defect::SwapEnds) => rewrite(&mut write.append.record, swap_ends),
            Some(Defect::LoseAnswered) => return self.random.chance(20),
            _ => {}
        }
        false
    }
}

/// Changes the events of a record.
fn rewrite(record: &mut Vec<u8>, change: impl FnOnce(&mut Transition)) {
    let Ok(mut transition) = codec::decode(record) else {
        return;
    };
    change(&mut transition);
    let mut builder = codec::RecordBuilder::default();
    for event in &transition.events {
        builder.push(event, transition.at);
    }
    if !builder.is_empty() {
        *record = builder.finish();
    }
}

fn ended(event: &Event) -> Option<&AttemptEnded> {
    match event {
        Event::AttemptEnded(ended) => Some(ended),
        _ => None,
    }
}

fn repeat_outcome(transition: &mut Transition) {
    let place = transition
        .events
        .iter()
        .position(|event| ended(event).is_some());
    if let Some(place) = place {
        let again = transition.events[place].clone();
        transition.events.insert(place + 1, again);
    }
}

/// What the engine itself ends are delays and waits.
fn end_twice(transition: &mut Transition) {
    let by_engine = |event: &Event| ended(event).is_some_and(|ended| &*ended.worker == "engine");
    if let Some(place) = transition.events.iter().position(by_engine) {
        let again = transition.events[place].clone();
        transition.events.insert(place + 1, again);
    }
}

fn lose_signal(transition: &mut Transition) {
    let is_signal = |event: &Event| matches!(event, Event::SignalReceived(_));
    if let Some(place) = transition.events.iter().position(is_signal)
        && transition.events.len() > 1
    {
        transition.events.remove(place);
    }
}

fn swap_ends(transition: &mut Transition) {
    let succeeded = |event: &Event| {
        ended(event).is_some_and(|ended| matches!(ended.result, AttemptResult::Succeeded(_)))
    };
    let places = transition.events.iter().enumerate();
    let places = places.filter(|(_, event)| succeeded(event));
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    if let [first, second, ..] = places[..] {
        transition.events.swap(first, second);
    }
}
