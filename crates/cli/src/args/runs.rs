//! `windlass runs`.

use clap::Args;

/// `windlass runs`
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Option<String>,
    /// Only runs that started on this version of the workflow
    #[arg(long, value_name = "N", requires = "workflow")]
    pub(crate) version: Option<u32>,
    /// Only runs in this status; may be repeated
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Vec<String>,
    /// Only runs created since: 15m, 2h, 7d, or a moment such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only runs with this label; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) label: Vec<String>,
    /// Only children of this run
    #[arg(long, value_name = "RUN")]
    pub(crate) parent: Option<String>,
    /// Only runs that failed with this code, or with a root cause of this code
    #[arg(long, value_name = "CODE")]
    pub(crate) error: Option<String>,
    /// Only runs that wait for a time or a signal
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Only dead letters
    #[arg(long)]
    pub(crate) dead: bool,
    /// Only runs that have begun and that no process executes
    #[arg(long)]
    pub(crate) orphaned: bool,
    /// List child runs too; otherwise they are counted with their parents
    #[arg(long)]
    pub(crate) children: bool,
    /// Leave out runs that were forked
    #[arg(long)]
    pub(crate) unresolved: bool,
    /// At most this many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,
    /// The cursor that the last page ended with
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}
