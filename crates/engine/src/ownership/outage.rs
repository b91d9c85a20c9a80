//! Whether the store of this process answers, as the calls of the leases tell: one is made every
//! few seconds, whatever the process does. The observer hears of each change once.

use std::time::{Duration, Instant};

use windlass_orchestrator::supervisor::OwnershipInput;
use windlass_store::Error;

use crate::engine_event::EngineEvent;

/// Since when the store has not answered, if it does not.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Takes in what a call of the leases answered; tells the observer what that changes.
    pub(super) fn note(&mut self, input: &OwnershipInput, observe: impl FnOnce(&EngineEvent<'_>)) {
        match (failure_of(input), self.since) {
            (Some(Some(error)), None) => {
                self.since = Some(Instant::now());
                let reason = error.to_string();
                observe(&EngineEvent::StoreAway { reason: &reason });
            }
            (Some(None), Some(since)) => {
                self.since = None;
                let after: Duration = since.elapsed();
                observe(&EngineEvent::StoreBack { after });
            }
            _ => {}
        }
    }
}

/// Whether a call of the leases failed, if the input is an answer to one.
fn failure_of(input: &OwnershipInput) -> Option<Option<&Error>> {
    match input {
        OwnershipInput::Joined(answer) => Some(answer.as_ref().err()),
        OwnershipInput::Renewed(answer) => Some(answer.as_ref().err()),
        OwnershipInput::Listed(_, answer) => Some(answer.as_ref().err()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the observer hears of these inputs, in order.
    fn heard(inputs: Vec<OwnershipInput>) -> Vec<String> {
        let (mut outage, mut heard) = (Outage::default(), Vec::new());
        for input in inputs {
            outage.note(&input, |event| {
                heard.push(match event {
                    EngineEvent::StoreAway { reason } => format!("away: {reason}"),
                    EngineEvent::StoreBack { .. } => "back".to_owned(),
                    other => format!("{other:?}"),
                });
            });
        }
        heard
    }

    #[test]
    fn an_outage_is_told_once_when_it_begins_and_once_when_it_ends() {
        let away = || OwnershipInput::Renewed(Err(Error::Unavailable("refused".into())));
        let there = || OwnershipInput::Renewed(Ok(true));
        let told = heard(vec![
            there(),
            away(),
            OwnershipInput::Rung,
            away(),
            there(),
            there(),
        ]);
        let reason = Error::Unavailable("refused".into()).to_string();
        assert_eq!(told, [format!("away: {reason}"), "back".to_owned()]);
        // A session that is over is an answer: the store is there.
        assert!(heard(vec![OwnershipInput::Renewed(Ok(false))]).is_empty());
    }
}
