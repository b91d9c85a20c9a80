//! `cargo xtask postgres`: the PostgreSQL store against a real server. The server is found or
//! installed first; the tests start it in a scratch folder, and it stops when the last of them has
//! ended. Nothing is skipped because it is missing.

use std::path::Path;

use anyhow::{Context, Result};

use crate::servers;
use crate::test::{cargo, timed};

/// The tests that need the server. `cargo xtask test` runs them here, and not among the others.
/// Both build the whole workspace: with one package the features of what it depends on would
/// differ, and all of that would be built a second time.
const TESTS: &[&str] = &[
    "nextest",
    "run",
    "--workspace",
    "--all-features",
    "--no-fail-fast",
    "-E",
    "package(windlass-store-postgres)",
];

/// Finds or installs PostgreSQL, and runs the tests.
///
/// # Errors
/// There is no PostgreSQL and none could be installed, or a test failed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let repeat = "repeat it with: cargo xtask postgres";
    servers::program(root, "postgres").context(repeat)?;
    timed("PostgreSQL: tests", || cargo(root, TESTS)).context(repeat)
}
