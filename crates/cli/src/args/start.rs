//! `windlass start`.

use clap::Args;

use super::request_id;

/// `windlass start`
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// A workflow of the catalogue
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: String,
    /// Which version; the newest by default
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// The run's trigger: JSON, or @file
    #[arg(long, allow_negative_numbers = true, value_name = "JSON|@FILE")]
    pub(crate) trigger: Option<String>,
    /// A request id: starting twice with the same id starts one run
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(crate) request_id: Option<String>,
    /// Add a label to the run
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// The run's priority, from 0 to 9; higher begins first
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=9))]
    pub(crate) priority: u8,
    /// Wait for the end of the run, as `run` does; at most so many seconds, if they are given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    pub(crate) wait: Option<Option<f64>>,
    /// No live progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
