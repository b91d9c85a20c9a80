//! Values that attempts under way hold until their records refer to them.
//!
//! A held value has a use by a number that no run has, so neither forgetting a run nor giving
//! space back removes it. Since when is known in memory alone: the attempts of a process end
//! with it, so the next process that opens the store ends all holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rusqlite::Connection;
use windlass_core::Digest;
use windlass_store::{Blob, Error, HOLD, block_on};

use crate::error::Fault;
use crate::store::write_large;
use crate::writer::Session;
use crate::{EmbeddedStore, blob, codec, forget};

/// What is held, since when.
#[derive(Clone, Default)]
pub(crate) struct Holds(Arc<Mutex<HashMap<Digest, Instant>>>);

impl Holds {
    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, digest: Digest) {
        self.lock().insert(digest, Instant::now());
    }

    fn is_held(&self, digest: &Digest) -> bool {
        let since = self.lock().get(digest).copied();
        since.is_some_and(|since| since.elapsed() <= HOLD)
    }

    /// Drops what is held no longer.
    fn drop_expired(&self) -> bool {
        let mut holds = self.lock();
        let before = holds.len();
        holds.retain(|_, since| since.elapsed() <= HOLD);
        holds.len() < before
    }
}

impl EmbeddedStore {
    /// See `Blobs::hold_blob`.
    pub(crate) async fn hold(&self, blob: Blob) -> Result<(), Error> {
        if self.holds().drop_expired() {
            self.release_held().await?;
        }
        let large = Some(blob.clone()).filter(blob::is_large);
        let holds = self.holds().clone();
        let hold = move |session: &mut Session<'_>| {
            blob::insert(session, std::slice::from_ref(&blob))?;
            blob::note_uses(
                session.connection,
                blob::HELD,
                std::iter::once(&blob.digest),
            )?;
            holds.note(blob.digest);
            Ok(())
        };
        self.task(write_large(Vec::from_iter(large)), hold).await
    }

    /// Ends the holds that have lasted long enough, and those of processes that have died.
    pub(crate) async fn release_held(&self) -> Result<(), Error> {
        let held = self.readers().read(all_held);
        if held.map_err(Fault::into_error)?.is_empty() {
            return Ok(());
        }
        let holds = self.holds().clone();
        let release = move |session: &mut Session<'_>| release(session.connection, &holds);
        let files = self.task(None, release).await?;
        self.clear_files(files).await
    }

    /// Ends all holds: the process that had them is gone.
    pub(crate) fn release_all(&self) {
        // What could not be ended now is ended before the next value is held.
        let _ = block_on(self.release_held());
    }
}

fn all_held(connection: &Connection) -> Result<Vec<Digest>, Fault> {
    let mut statement = connection.prepare_cached("SELECT digest FROM blob_use WHERE run = ?")?;
    let found = statement.query_map([blob::HELD], |row| codec::digest(row, 0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The bytes of values that nothing but a hold keeps: forgetting runs does not free them.
pub(crate) fn held_bytes(connection: &Connection) -> Result<u64, Fault> {
    const SQL: &str = "SELECT coalesce(sum(blob.length), 0) FROM blob_use JOIN blob USING (digest) \
         WHERE blob_use.run = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use AS other \
         WHERE other.digest = blob.digest AND other.run <> ?1)";
    let mut statement = connection.prepare_cached(SQL)?;
    Ok(codec::unsigned(
        statement.query_row([blob::HELD], |row| row.get(0))?,
    ))
}

/// Ends holds; returns the removed values that were files.
fn release(connection: &Connection, holds: &Holds) -> Result<Vec<Digest>, Fault> {
    let oldest = forget::first_known_value(connection)?;
    let mut files = Vec::new();
    for digest in all_held(connection)? {
        if holds.is_held(&digest) {
            continue;
        }
        connection
            .prepare_cached("DELETE FROM blob_use WHERE run = ? AND digest = ?")?
            .execute((blob::HELD, &digest.0))?;
        if forget::remove_unused(connection, &digest, oldest)? == Some(true) {
            files.push(digest);
        }
    }
    Ok(files)
}
