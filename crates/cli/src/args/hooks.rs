//! What `windlass hooks` takes.

use clap::{Args, Subcommand};

/// `windlass hooks`
#[derive(Debug, Args)]
pub(crate) struct Hooks {
    #[command(subcommand)]
    pub(crate) command: Option<HooksCommand>,
}

/// What to do with hooks.
#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// List hooks (the default)
    List,
    /// Make a hook, or replace the one of that id; its signing secret is printed only now
    Set(HookSet),
    /// Remove a hook; the runs that it started stay
    Remove {
        /// The hook
        id: String,
    },
}

/// `windlass hooks set`
#[derive(Debug, Args)]
pub(crate) struct HookSet {
    /// The hook
    pub(crate) id: String,
    /// The workflow whose newest version is run
    #[arg(long, value_name = "WORKFLOW")]
    pub(crate) workflow: String,
}
