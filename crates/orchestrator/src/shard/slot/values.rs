//! Values that the run may need and that the store does not have yet, and small ones that
//! later decisions will ask for.

use std::sync::Arc;

use windlass_core::Digest;
use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::id::DigestSet;
use windlass_core::run::{Instance, Loaded};
use windlass_core::value::{Payload, Stored, ValueRef};
use windlass_store::Blob;

use super::{Consequence, KEPT_ENTRY_BYTES, KEPT_VALUE_BYTES, Slot};

impl Slot {
    /// Holds a value: until its record is durable, it can be found nowhere else.
    pub(super) fn hold(&mut self, digest: Digest, text: Arc<str>, wanted: bool) {
        self.values
            .entry(digest)
            .or_insert_with(|| Loaded::new(text));
        *self.undurable.entry(digest).or_default() += 1;
        self.consequences.push(Consequence::Stored(digest, wanted));
    }

    pub(super) fn hold_blob(&mut self, payload: &Payload) {
        let bytes = Arc::from(payload.text().as_bytes());
        self.blobs.push(Blob {
            digest: payload.digest(),
            bytes,
        });
        self.hold(payload.digest(), Arc::clone(payload.text()), false);
    }

    /// Holds the values that stand in the record; larger ones are held as blobs.
    pub(super) fn hold_values(&mut self, event: &Event, node: Option<Instance>) {
        if let Event::AttemptEnded(ended) = event {
            let node = node.or_else(|| self.run.resolve(&ended.node));
            self.hold_result(ended, node);
            for part in ended.files.iter().flat_map(|file| &file.parts) {
                self.refer(part.digest());
            }
            return;
        }
        for value in event.values() {
            match value {
                Stored::Inline(raw) => self.hold(value.digest(), Arc::from(raw.get()), true),
                Stored::Blob { digest, .. } => self.refer(*digest),
            }
        }
    }

    /// Notes that this run refers to a value, so that the store keeps it for as long. A value
    /// that comes with the record needs no such note.
    fn refer(&mut self, digest: Digest) {
        if self.blobs.iter().all(|blob| blob.digest != digest) {
            self.uses.push(digest);
        }
    }

    fn hold_result(&mut self, ended: &AttemptEnded, node: Option<Instance>) {
        if let AttemptResult::Succeeded(Stored::Inline(raw))
        | AttemptResult::Failed(Stored::Inline(raw)) = &ended.result
        {
            let wanted = node.is_some_and(|node| self.run.is_decided_on(node));
            self.hold(ended.digest, Arc::from(raw.get()), wanted);
        }
        // A compensation may name the node's parameters.
        if let Some(Stored::Inline(raw)) = &ended.parameters
            && node.is_some_and(|node| self.run.is_compensated(node))
        {
            let digest = Digest::of(raw.get().as_bytes());
            self.hold(digest, Arc::from(raw.get()), false);
        }
    }

    /// Keeps a small value that later decisions need, and drops any other.
    pub(super) fn stored(&mut self, digest: Digest, wanted: bool) {
        let Some(count) = self.undurable.get_mut(&digest) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.undurable.remove(&digest);
        self.keep_or_drop(digest, wanted);
    }

    /// Keeps values that were loaded for a decision if the decisions that follow at once want
    /// them too. The rest is kept as far as there is room; more than that would only drive out
    /// other values.
    pub(super) fn drop_loaded(&mut self, required: &[ValueRef]) {
        if self.loaded.is_empty() {
            return;
        }
        // A loop's end wants the result of every item: searching for each would be quadratic.
        let required: DigestSet = required.iter().map(|want| want.digest).collect();
        let loaded = std::mem::take(&mut self.loaded).into_iter();
        let (stays, goes): (Vec<_>, Vec<_>) = loaded.partition(|digest| required.contains(digest));
        self.loaded = stays;
        let wanted = goes.len() <= KEPT_VALUE_BYTES / KEPT_ENTRY_BYTES;
        for digest in goes {
            self.keep_or_drop(digest, wanted);
        }
    }

    pub(super) fn keep_or_drop(&mut self, digest: Digest, wanted: bool) {
        if self.kept.contains(&digest) || self.undurable.contains_key(&digest) {
            return;
        }
        let size = self.size_of(&digest);
        let pinned = self.run.is_pinned(&digest);
        if !pinned && (!wanted || size > KEPT_VALUE_BYTES) {
            self.values.remove(&digest);
            return;
        }
        self.kept.insert(digest);
        self.kept_order.push_back(digest);
        self.kept_bytes += size;
        // The oldest make room, except lists that an open loop still goes over.
        let mut rounds = self.kept_order.len();
        while self.kept_bytes > KEPT_VALUE_BYTES && rounds > 1 {
            rounds -= 1;
            let Some(oldest) = self.kept_order.pop_front() else {
                break;
            };
            if self.run.is_pinned(&oldest) {
                self.kept_order.push_back(oldest);
                continue;
            }
            self.kept.remove(&oldest);
            self.kept_bytes -= self.size_of(&oldest);
            if !self.undurable.contains_key(&oldest) {
                self.values.remove(&oldest);
            }
        }
    }

    /// What a held value costs. A loop's values are small, and there are many of them: what
    /// an entry costs besides its text is most of it.
    pub(super) fn size_of(&self, digest: &Digest) -> usize {
        self.values
            .get(digest)
            .map_or(0, |value| value.text().len() + KEPT_ENTRY_BYTES)
    }
}
