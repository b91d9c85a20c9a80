//! What actions do where that is told and not drawn.

use windlass_core::run::Dispatch;

use crate::random::Random;
use crate::store::SimStore;
use crate::worker::Execution;

/// How each action behaves.
#[derive(Debug, Default)]
pub struct Script {}

impl Script {
    pub(crate) fn play(&self, _: &mut Random, _: &Dispatch, _: &SimStore) -> Execution {
        Execution {
            takes: 0,
            outcome: windlass_core::run::Outcome::Skipped,
            stops_after: None,
            parameters: None,
        }
    }
}

impl crate::world::World {
    pub(crate) fn help_simulated(&mut self) -> bool {
        false
    }
}
