//! What `windlass pools` takes.

use clap::{Args, Subcommand};

/// `windlass pools`
#[derive(Debug, Args)]
pub(crate) struct Pools {
    #[command(subcommand)]
    pub(crate) command: Option<PoolsCommand>,
}

/// What to do with pools.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolsCommand {
    /// List pools, with the attempts that hold their slots and that wait (the default)
    List,
    /// Make a pool, or change its size; those that hold slots keep them
    Set {
        /// The pool: nodes name it in `pool`
        name: String,
        /// How many slots it has
        slots: u32,
    },
    /// Remove a pool that no attempt uses and no newest version of a workflow names
    Remove {
        /// The pool
        name: String,
    },
}
