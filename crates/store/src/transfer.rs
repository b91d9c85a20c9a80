//! What moving everything from one store to another needs beside the other traits: what cannot be
//! listed through them, and the mark of a store that is not complete yet.

use crate::{Error, Pending};

/// A claim as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredClaim {
    /// What kind of key.
    pub namespace: Box<str>,
    /// The key.
    pub key: Box<str>,
    /// What its holder left.
    pub value: Vec<u8>,
}

/// Moving stores.
pub trait Transfer: Send + Sync + 'static {
    /// How many partitions the store has: what another store divides by more or less of them
    /// gets its places anew.
    fn partitions(&self) -> u32;

    /// Claims by namespace and key, after the given one.
    fn claims(
        &self,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<StoredClaim>, Error>>;

    /// Keeps claims; one whose key is taken is left as it is. Durable on return.
    fn put_claims(&self, claims: Vec<StoredClaim>) -> Pending<'_, Result<(), Error>>;

    /// The kinds of notes that there are.
    fn note_kinds(&self) -> Pending<'_, Result<Vec<Box<str>>, Error>>;

    /// What the mark of an unfinished migration into this store says; `None` if there is none.
    fn migration(&self) -> Pending<'_, Result<Option<String>, Error>>;

    /// Marks the store as not complete: a program opens it only to go on with the migration.
    /// Durable on return.
    fn begin_migration(&self, text: &str) -> Pending<'_, Result<(), Error>>;

    /// Removes the mark. Durable on return.
    fn end_migration(&self) -> Pending<'_, Result<(), Error>>;
}
