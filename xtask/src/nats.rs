//! `cargo xtask nats`: the NATS store against real servers. nats-server and PostgreSQL are found or
//! installed first; the tests start them in scratch folders, and they stop when the last test has
//! ended. Nothing is skipped because they are missing.

use std::path::Path;

use anyhow::{Context, Result};

use crate::servers;
use crate::test::{cargo, timed};

/// The tests that need the servers. `cargo xtask test` runs them here, and not among the others.
/// Both build the whole workspace: with one package the features of what it depends on would
/// differ, and all of that would be built a second time.
const TESTS: &[&str] = &[
    "nextest",
    "run",
    "--workspace",
    "--all-features",
    "--no-fail-fast",
    "-E",
    "package(windlass-store-nats)",
];

/// Finds or installs the servers, and runs the tests.
///
/// # Errors
/// A server is missing and could not be installed, or a test failed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let repeat = "repeat it with: cargo xtask nats";
    for server in ["postgres", "nats"] {
        servers::program(root, server).context(repeat)?;
    }
    timed("NATS: tests", || cargo(root, TESTS)).context(repeat)
}
