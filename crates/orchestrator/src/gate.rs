//! The consequences of a record wait for the proof that it is durable. The proof is a
//! type: only the store's answer makes one, and only it opens the gate. A refusal waits for
//! the record that the state it rests on came with. Effects that follow from no new record
//! (loads, losses, a wake) do not pass here.

use windlass_store::{Appended, Head};

/// The record was appended: durable, at this head.
#[derive(Debug)]
pub(crate) struct Proof {
    head: Head,
}

impl Proof {
    /// Only the store makes a proof: by its answer to the append, or by a head that is the one
    /// which the record makes.
    pub(crate) fn new(appended: Appended) -> Self {
        Self {
            head: appended.head,
        }
    }

    pub(crate) fn head(&self) -> Head {
        self.head
    }
}

/// Things that may happen only once their record is durable.
#[derive(Debug)]
pub(crate) struct Gated<T> {
    waiting: Vec<T>,
}

impl<T> Default for Gated<T> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
        }
    }
}

impl<T> Gated<T> {
    /// Makes room for so many more: one record may make 100,000 nodes ready.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.waiting.reserve(count);
    }

    pub(crate) fn push(&mut self, item: T) {
        self.waiting.push(item);
    }

    /// Opens the gate.
    pub(crate) fn release(self, _proof: &Proof) -> Vec<T> {
        self.waiting
    }
}
