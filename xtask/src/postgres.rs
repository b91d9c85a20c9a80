//! `cargo xtask postgres`: the PostgreSQL store against a real server. The server is found or
//! installed here; the tests start it in a scratch folder, and it stops when the last of them has
//! ended. Nothing is skipped because it is missing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::api::target;
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
    timed("PostgreSQL: find or install", || install(root)).context(repeat)?;
    timed("PostgreSQL: tests", || cargo(root, TESTS)).context(repeat)
}

pub(crate) fn install(root: &Path) -> Result<()> {
    let script = root.join("crates/test-support/src/postgres/find.sh");
    let found = Command::new("sh")
        .arg(script)
        .arg(target(root)?)
        .stderr(Stdio::inherit())
        .output()
        .context("sh could not be started")?;
    if !found.status.success() {
        bail!(
            "the tests need PostgreSQL 14 or newer; install it (on Debian: apt-get install postgresql)"
        );
    }
    eprint!("{}", String::from_utf8_lossy(&found.stdout));
    Ok(())
}
