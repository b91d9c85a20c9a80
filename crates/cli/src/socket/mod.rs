//! The socket of a data directory. The process that holds the directory serves the HTTP API on
//! it, to its own user alone; other processes find it there and ask as they ask any server.
//!
//! Besides the API the socket has two routes of its own, under `/holder`: which protocol the
//! holder speaks, and what becomes of a run that it executes.

mod find;
mod host;
mod place;
mod routes;

pub(crate) use find::find;
pub(crate) use host::{SocketHost, app_options};

/// The version of what is asked and answered here; another one is refused by name. Whatever the
/// API gains is no new version, and what a command needs and an older holder lacks is one.
const PROTOCOL: u32 = 2;
