//! Asking a server: every command acts by its HTTP API. A server at an address has the data
//! itself, and commands look through a store that reads over HTTP; the process that holds a
//! data directory is asked at its socket, and commands look at the directory.

mod acting;
mod catalogue;
mod coordination;
mod failures;
mod following;
mod holder_run;
mod hooks;
mod letters;
mod line;
mod lists;
mod log;
mod pools;
mod probe;
mod question;
mod refusals;
mod schedules;
mod secrets;
mod server;
mod shapes;
mod store;
mod stream;
mod telling;
mod upkeep;

pub(crate) use acting::{
    act, actions, cluster, execute, execution, fork, publish, set_enabled, start,
};
pub(crate) use following::{Followed, follow};
pub(crate) use hooks::{remove_hook, set_hook};
pub(crate) use letters::letters;
pub(crate) use line::{ask_why, node, why};
pub(crate) use lists::list_runs;
pub(crate) use pools::{pools, remove_pool, set_pool};
pub(crate) use probe::{Probed, probe};
pub(crate) use schedules::{enable_schedule, put_schedule, remove_schedule};
pub(crate) use secrets::{remove_secret, rotate_key, set_secret};
pub(crate) use server::{Server, address};
pub(crate) use store::RemoteStore;
pub(crate) use upkeep::{backup, rebuild};
