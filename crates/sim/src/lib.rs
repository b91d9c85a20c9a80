//! Drives the real, synchronous shard with a seeded loop: virtual time, a store whose
//! writes become durable at one moment and are answered at another, crashes between any
//! two of them, processes that live on after they lost their runs, and an oracle.
//!
//! A seed is a whole history: the same seed gives the same logs, byte for byte. It must
//! not know a clock, a thread or any real backend.

pub mod account;
pub mod catalogue;
mod child_coordinator;
pub mod compare;
mod effects;
mod families;
pub mod faults;
mod forks;
pub mod harness;
pub mod history;
mod inject_defect;
mod ledger;
mod limits;
pub mod oracle;
mod owners;
mod process;
pub mod random;
pub mod recorded;
pub mod rules;
pub mod script;
pub mod simulate;
pub mod store;
mod structured;
mod trace;
mod unblock;
mod user_actions;
mod users;
pub mod worker;
pub mod workload;
pub mod world;
mod world_counts;

pub use faults::Defect;
pub use workload::WorkloadKind;
pub use world::{Options, WorldOutcome, run_seed};
