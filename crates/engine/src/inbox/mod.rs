//! Commands between processes that share a store: a process that does not own a run offers the
//! command to the one that does, and answers its caller with what became of it (`offer.rs`); the
//! owner decides on what was offered (`consume.rs`). Dead letters of its runs are requeued and
//! purged in the same way (`letters.rs`). What is done when is decided in the
//! supervisor; how commands and refusals are written is in `wire.rs`.

mod consume;
mod letters;
mod offer;
mod wire;

pub(crate) use consume::Walks;
pub(crate) use letters::LetterCommand;
