//! The PostgreSQL store: what several processes share. It implements every trait of
//! `windlass-store`, and knows nothing of the engine, of HTTP or of the meaning of a record.
//!
//! One statement appends to many runs at once (`append.rs`), sent by a few writer connections
//! that take whatever waits (`writer.rs`). Everything else goes through a pool of connections;
//! wake-ups have two of their own. The tables are those of `migrations/`, readable with psql;
//! `docs/postgres.md` describes them. File names are those of `store-embedded` where both do the
//! same.

mod admission;
mod append;
mod audit;
mod blob;
mod catalogue;
mod checkpoint;
mod codec;
mod connect;
mod dead;
mod entry;
mod error;
mod follow;
mod hook;
mod inbox;
mod json;
mod key_value;
mod leases;
mod line;
mod log;
mod migrate;
mod notify;
mod places;
mod pools;
mod projections;
mod query;
mod read;
mod requests;
mod retention;
mod schedule;
mod secrets;
mod segment;
mod settings;
mod settle;
mod sql_query;
mod store;
mod tls;
mod transfer;
mod wakes;
mod work;
mod writer;

pub use error::OpenError;
pub use follow::ItemRuns;
pub use settings::{Password, SchemaChange, Settings, SslMode};
pub use sql_query::{ColumnKind, QueryAnswer, QueryError, QueryLimits, read_query};
pub use store::{PoolState, PostgresStore};
