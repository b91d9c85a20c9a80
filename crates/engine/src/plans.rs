//! Plans by the digest of their definition, kept up to a number of bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use windlass_core::Digest;
use windlass_core::definition::Definition;
use windlass_core::plan::{Plan, PlanError};

/// Plans in memory cost about this many times their definition's text.
const BYTES_PER_TEXT_BYTE: usize = 4;

/// A cache of plans.
#[derive(Clone)]
pub struct Plans {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    /// Least recently used first; there are few, so a list will do.
    plans: VecDeque<(Digest, Arc<Plan>, usize)>,
    bytes: usize,
    limit: usize,
}

impl Plans {
    /// A cache of at most about this many bytes, and at least one plan.
    pub fn new(limit: usize) -> Self {
        let inner = Inner {
            plans: VecDeque::new(),
            bytes: 0,
            limit,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// The plan of a definition's text, which was validated when it was published.
    ///
    /// # Errors
    /// The definition uses what this version does not run.
    pub fn plan(&self, digest: Digest, text: &[u8]) -> Result<Arc<Plan>, PlanError> {
        if let Some(plan) = self.get(&digest) {
            return Ok(plan);
        }
        let definition: Definition =
            serde_json::from_slice(text).map_err(|error| PlanError(error.to_string()))?;
        let plan = Arc::new(Plan::build(definition)?);
        self.insert(digest, &plan, text.len());
        Ok(plan)
    }

    /// The plan, if it is in memory.
    pub fn get(&self, digest: &Digest) -> Option<Arc<Plan>> {
        let mut inner = self
            .inner
            .lock()
            .expect("nothing panics while it holds the plans");
        let place = inner.plans.iter().position(|(known, ..)| known == digest)?;
        let entry = inner.plans.remove(place)?;
        let plan = Arc::clone(&entry.1);
        inner.plans.push_back(entry);
        Some(plan)
    }

    /// Keeps a plan that was built from a definition of this many bytes.
    pub fn insert(&self, digest: Digest, plan: &Arc<Plan>, text_bytes: usize) {
        let mut inner = self
            .inner
            .lock()
            .expect("nothing panics while it holds the plans");
        let bytes = text_bytes * BYTES_PER_TEXT_BYTE;
        inner.bytes += bytes;
        inner.plans.push_back((digest, Arc::clone(plan), bytes));
        while inner.bytes > inner.limit && inner.plans.len() > 1 {
            if let Some((_, _, bytes)) = inner.plans.pop_front() {
                inner.bytes -= bytes;
            }
        }
    }
}
