//! `cargo xtask nats`: the NATS store against real servers. nats-server and PostgreSQL are found or
//! installed here; the tests start them in scratch folders, and they stop when the last test has
//! ended. Nothing is skipped because they are missing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::api::target;
use crate::postgres;
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
    timed("PostgreSQL: find or install", || postgres::install(root)).context(repeat)?;
    timed("NATS: find or install", || install(root)).context(repeat)?;
    timed("NATS: tests", || cargo(root, TESTS)).context(repeat)
}

fn install(root: &Path) -> Result<()> {
    let script = root.join("crates/test-support/src/nats/find.sh");
    let found = Command::new("sh")
        .arg(script)
        .arg(target(root)?)
        .stderr(Stdio::inherit())
        .output()
        .context("sh could not be started")?;
    if !found.status.success() {
        bail!("the tests need nats-server 2.14 or newer; install it and set WINDLASS_NATS_SERVER");
    }
    eprint!("{}", String::from_utf8_lossy(&found.stdout));
    Ok(())
}
