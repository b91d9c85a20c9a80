//! The embedded store: SQLite in WAL mode, one writer thread, group commit.
//!
//! A data directory holds `windlass.db` with its write-ahead log, `blobs/` with the values
//! and `checkpoints/` with the checkpoints too large for it, `lock`, and `windlass.tail`, which
//! says how much of the log was acknowledged. One process holds the lock and writes; others read.
//!
//! ```no_run
//! use windlass_store_embedded::{EmbeddedStore, Options};
//!
//! # fn main() -> Result<(), windlass_store::Error> {
//! let opened = EmbeddedStore::open("data".as_ref(), Options::default())?;
//! assert!(opened.store.is_holder());
//! # Ok(())
//! # }
//! ```
//!
//! Everything is durable when its future is ready, and not before. It does not know what
//! records mean, nor any engine.

mod accept;
mod acknowledged;
mod admission;
mod audit;
mod backup;
mod blob;
mod catalogue;
mod check;
mod checkpoint;
mod claim;
mod clock;
mod codec;
mod connect;
mod coordination;
mod damaged;
mod dead;
mod error;
#[cfg(test)]
mod explain;
mod files;
mod forget;
#[cfg(test)]
mod fuzz;
mod held;
mod hook;
mod inbox;
mod journal;
mod key_value;
mod lock;
mod log;
mod mark;
mod migrate;
mod pack;
mod page;
mod pools;
mod private;
mod query;
mod queue;
mod read;
mod reader;
mod reader_gate;
mod retention;
mod schedule;
mod secrets;
mod segment;
mod space;
mod store;
mod sweep;
mod transfer;
mod wal;
mod writer;

pub use accept::{AcceptedLoss, accept_loss};
pub use backup::{Progress, restore};
pub use lock::Holder;
pub use store::{EmbeddedStore, Opened, Options};
pub use wal::TornTail;
pub use windlass_store::Error as OpenError;
