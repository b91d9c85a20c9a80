//! Failures that a test puts at a node and an attempt.

use std::collections::BTreeMap;

use windlass_engine::{ActionError, Context};

use crate::work::{Fault, Intercept};

/// What is to go wrong, by node and attempt.
#[derive(Default)]
pub(super) struct Faults {
    planned: BTreeMap<(Box<str>, u32), Planned>,
}

/// What is to go wrong with an attempt.
pub(super) enum Planned {
    /// It fails.
    Fail(ActionError),
    /// It ends only when it is asked to stop, or its time is over.
    Hang,
}

impl Faults {
    pub(super) fn add(&mut self, node: Box<str>, attempt: u32, planned: Planned) {
        self.planned.insert((node, attempt), planned);
    }
}

impl Intercept for Faults {
    fn fault(&self, context: &Context) -> Option<Fault> {
        let key = (context.node.clone(), context.attempt);
        Some(match self.planned.get(&key)? {
            Planned::Fail(error) => Box::pin(std::future::ready(error.clone())),
            Planned::Hang => {
                let context = context.clone();
                Box::pin(async move {
                    context.stop_asked().await;
                    ActionError::stopped()
                })
            }
        })
    }
}
