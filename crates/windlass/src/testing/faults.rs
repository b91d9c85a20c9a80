//! Failures that a test puts at a node and an attempt.

use std::collections::BTreeMap;

use windlass_engine::Context;

use crate::work::{Fault, Intercept};

type Make = Box<dyn Fn() -> Fault + Send + Sync>;

/// What is to go wrong, by node and attempt.
#[derive(Default)]
pub(super) struct Faults {
    planned: BTreeMap<(Box<str>, u32), Make>,
}

impl Faults {
    pub(super) fn add(
        &mut self,
        node: Box<str>,
        attempt: u32,
        fault: impl Fn() -> Fault + Send + Sync + 'static,
    ) {
        self.planned.insert((node, attempt), Box::new(fault));
    }
}

impl Intercept for Faults {
    fn fault(&self, context: &Context) -> Option<Fault> {
        let key = (context.node.clone(), context.attempt);
        self.planned.get(&key).map(|fault| fault())
    }
}
