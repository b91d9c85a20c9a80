//! Two processes on one data directory: the one that holds it listens on a socket, and
//! others act through it.
//!
//! A small protocol of JSON lines, versioned, one request a connection. Nothing is
//! polled and nothing runs while nobody asks.

mod audit;
mod client;
mod gate;
mod place;
mod protocol;
mod server;

pub(crate) use client::{Client, Heard};
pub(crate) use protocol::{Answer, Request, StartAsked, Update};
pub(crate) use server::Server;

/// Updates that wait for a watcher who is slow; past it, it is told to look again.
pub(crate) const WATCH_QUEUE: usize = 1024;
