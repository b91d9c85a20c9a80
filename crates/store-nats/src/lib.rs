//! The NATS JetStream store: what several processes share where the log of runs is in JetStream
//! and everything relational is in PostgreSQL. It implements every trait of `windlass-store`, and
//! knows nothing of the engine, of HTTP or of the meaning of a record.
//!
//! A published and acknowledged message is the commit point of an append (`append.rs`). A
//! projector (`projector.rs`) applies the same append to PostgreSQL, which holds every record and
//! row; rows may lag, and are repaired from the streams (`catch_up.rs`). Leases, inbox, claims,
//! the index of values and the work queue are small tables (`table.rs`): streams with one message
//! per subject, changed by compare-and-set. `docs/nats.md` names all streams and buckets. File
//! names are those of `store-postgres` where both do the same.

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
mod layout;
mod lease_state;
mod leases;
mod log;
mod names;
mod projector;
mod raw;
mod refusal;
mod relational;
mod restore;
mod retention;
mod settings;
mod store;
mod table;
mod wakes;
mod work;
mod work_state;

pub use error::OpenError;
pub use raw::RawPublishes;
pub use restore::Restored;
pub use settings::{Login, Settings};
pub use store::NatsStore;
