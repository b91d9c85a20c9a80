//! The policy around a shard: which partitions a process works on, which runs it acquires and
//! when it wakes them, what runs do to each other, how a command reaches the process that owns
//! its run, and what follows when the store does not answer plainly. Without I/O: the engine and the simulator carry out what is decided here, and
//! decide none of it again.

mod acquire;
mod admission;
mod children;
mod crash_policy;
mod gates;
mod inbox;
mod ownership;
mod partition;
mod pools;
mod recovery;
mod resolution;
mod waker;

pub use acquire::{Acquisition, LoadedRunFacts, acquire};
pub use admission::{AdmissionFacts, AdmissionQueue, AdmissionStep};
pub use children::{
    ChildAnswer, ChildJob, ChildPlace, ChildStep, ChildValues, ChildWork, ParentCommand, child_end,
};
pub use crash_policy::{CrashPolicy, CrashVerdict, SessionEnd, cause_of_crash};
pub use gates::{
    AcquireResult, GateTable, PlaceAudit, RoomHint, audit_place, in_any_case, place_of,
    within_limit,
};
pub use inbox::{
    CommandItem, CommandOffer, ItemAnswer, ItemStep, KeyInLog, OfferEnd, OfferStep,
    command_item_key,
};
pub use ownership::{LeaseOptions, Ownership, OwnershipEffect, OwnershipInput};
pub use partition::{Spread, partition_of, spread};
pub use pools::{PoolCalls, frees_slots};
pub use recovery::{PartitionRecovery, RECOVERY_PAGE, RecoveryStep};
pub use resolution::{AfterFence, Resolution, resolve};
pub use waker::{DuePlace, WAKE_PAGE, WakeStep, Waker};
