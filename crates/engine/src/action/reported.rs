//! What an action reports through its context, beside what it returns.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use windlass_core::event::ResourceLink;

use super::{ActionError, Called};

/// Links and metadata, shared between an action and its worker.
#[derive(Clone, Default)]
pub(crate) struct Reported(Arc<Mutex<ReportedParts>>);

#[derive(Default)]
struct ReportedParts {
    links: Vec<ResourceLink>,
    meta: Option<Box<RawValue>>,
}

impl Reported {
    pub(super) fn link(&self, link: ResourceLink) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.links.contains(&link) {
            told.links.push(link);
        }
    }

    pub(super) fn meta(&self, meta: &impl Serialize) {
        let meta = to_raw_value(meta).ok();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.meta = meta;
    }

    /// What a call gave, with what the action reported meanwhile. An attempt that failed made
    /// nothing that the run refers to.
    pub(crate) fn added_to(
        &self,
        called: Result<Called, ActionError>,
    ) -> Result<Called, ActionError> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let called = match called {
            Err(error) if error.skipped => Ok(Called {
                output: None,
                meta: None,
                resources: Vec::new(),
                files: Vec::new(),
            }),
            called => called,
        };
        called.map(|mut called| {
            for link in told.links.drain(..) {
                if !called.resources.contains(&link) {
                    called.resources.push(link);
                }
            }
            called.meta = called.meta.or(told.meta.take());
            called
        })
    }
}
