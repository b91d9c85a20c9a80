//! The NATS JetStream store: what several processes share where the log of runs is in JetStream
//! and everything relational is in PostgreSQL. It implements every trait of `windlass-store`, and
//! knows nothing of the engine, of HTTP or of the meaning of a record.
//!
//! A published and acknowledged message is the commit point of an append (`append.rs`). A
//! projector (`projector.rs`) applies the same append to PostgreSQL, which holds every record and
//! row; rows may lag, and are repaired from the streams (`catch_up.rs`). Leases, inbox, claims,
//! the index of values and the work queue are small tables (`table.rs`): streams with one message
//! per subject, changed by compare-and-set. Each process has a copy in memory of the inbox and of
//! the work queue, which the server keeps up to date (`mirror.rs`). `docs/nats.md` names all
//! streams and buckets. File names are those of `store-postgres` where both do the same.

mod alone;
mod append;
mod blob;
mod catch_up;
mod claim;
mod codec;
mod connect;
mod error;
mod faults;
mod head;
mod inbox;
mod inbox_state;
mod intact;
mod keeper;
mod lag;
mod layout;
mod lease_state;
mod leases;
mod log;
mod mirror;
mod names;
mod objects;
mod projector;
mod raw;
mod recent;
mod refusal;
mod relational;
mod replicas;
mod restore;
mod retention;
mod settings;
mod store;
mod table;
mod wakes;
mod watermark;
mod work;
mod work_room;
mod work_state;

pub use error::OpenError;
pub use raw::{RawPublishes, Requests};
pub use restore::Restored;
pub use settings::{Login, Settings};
pub use store::NatsStore;
