//! Which attempt made which link: the store keeps a link once, by what it leads to, and the log
//! says which attempt reported it first.

use std::collections::BTreeMap;

use windlass_core::event::Event;
use windlass_store::ResourceRow;

use super::json::{Error, View};
use crate::replay::scan_through;

/// What a link leads to, and the node that reported it.
type Key = (Box<str>, Box<str>, Box<str>, Box<str>);

/// The attempts that reported links.
#[derive(Default)]
pub(super) struct Links(BTreeMap<Key, u32>);

impl Links {
    pub(super) fn attempt(&self, row: &ResourceRow) -> Option<u32> {
        let key = (
            row.system.clone(),
            row.kind.clone(),
            row.id.clone(),
            row.node.clone(),
        );
        self.0.get(&key).copied()
    }
}

/// Reads the links of a run from its log.
pub(super) fn links(view: &View<'_>) -> Result<Links, Error> {
    let mut links = Links::default();
    let (run, until) = (view.overview.run.id(), view.overview.until);
    scan_through(view.store, run, until, |event| {
        let ended = match event {
            Event::AttemptEnded(ended) | Event::CompensationEnded(ended) => ended,
            _ => return Ok::<(), Error>(()),
        };
        for link in &ended.resources {
            let key = (
                link.system.clone(),
                link.kind.clone(),
                link.id.clone(),
                ended.node.clone(),
            );
            links.0.entry(key).or_insert(ended.attempt);
        }
        Ok(())
    })?;
    Ok(links)
}
