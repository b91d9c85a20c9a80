//! `cargo xtask page`: the tests of the web page in the system's Chromium, against the real
//! server. Packages come from npm into a folder of the target directory; `web/` stays as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::api::target;
use crate::clients::{Node, run_command};
use crate::test::{self, retried};
use crate::{performance, queue};

/// Tests the page: of a release build, unless a binary is named.
///
/// # Errors
/// What could not be installed, or that a test failed.
pub(crate) fn run(root: &Path, binary: Option<&Path>) -> Result<()> {
    let mut command = script(root, binary, "web/tests/run.mjs")?;
    run_command(&mut command).context("repeat it with: cargo xtask page")
}

/// Makes the pictures of the documentation anew.
///
/// # Errors
/// What could not be installed, or that the page did not open.
pub(crate) fn screenshots(root: &Path) -> Result<()> {
    let mut command = script(root, None, "web/tests/screenshots.mjs")?;
    command.arg("--out").arg(root.join("docs").join("images"));
    run_command(&mut command).context("repeat it with: cargo xtask screenshots")
}

/// Measures the page in Chromium, the list of runs among so many, and writes its section of
/// PERFORMANCE.md.
///
/// # Errors
/// What could not be installed or measured.
pub(crate) fn bench(root: &Path, binary: Option<&Path>, runs: usize) -> Result<()> {
    let mut command = script(root, binary, "web/tests/bench.mjs")?;
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => target(root)?.join("release").join("windlass"),
    };
    let figures = target(root)?.join("page").join("figures.json");
    command.arg("--figures").arg(&figures);
    queue::with_waiting_runs(&binary, runs, |url| {
        run_command(
            command
                .arg("--list")
                .arg(url)
                .arg("--runs")
                .arg(runs.to_string()),
        )
        .context("repeat it with: cargo xtask page-bench")
    })?;
    performance::write_page(root, &figures)
}

/// A script of the page's tests, with the binary and the packages that it needs.
fn script(root: &Path, binary: Option<&Path>, script: &str) -> Result<Command> {
    let target = target(root)?;
    let binary = match binary {
        Some(binary) => binary.canonicalize().context("there is no such binary")?,
        None => {
            test::cargo(root, &["build", "--release", "--package", "windlass-cli"])?;
            target.join("release").join("windlass")
        }
    };
    let node = Node::find(root, &target)?;
    let tests = root.join("web").join("tests");
    let modules = install(&node, &tests, &target.join("page"))?;
    let mut command = node.script(root, script);
    command.arg("--binary").arg(binary);
    command.arg("--modules").arg(modules);
    Ok(command)
}

/// What the lock file names, unless exactly that is there.
fn install(node: &Node, tests: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).context("the folder for packages cannot be made")?;
    let lock = tests.join("package-lock.json");
    let wanted = fs::read_to_string(&lock).context("web/tests/package-lock.json")?;
    let modules = folder.join("node_modules");
    let stamp = modules.join(".installed");
    if fs::read_to_string(&stamp).is_ok_and(|had| had == wanted) {
        return Ok(modules);
    }
    for name in ["package.json", "package-lock.json"] {
        fs::copy(tests.join(name), folder.join(name)).with_context(|| format!("copying {name}"))?;
    }
    let words = ["ci", "--silent", "--ignore-scripts"];
    retried(|| run_command(node.npm(folder).args(words)))
        .context("the packages of web/tests could not be installed from npm")?;
    fs::write(&stamp, &wanted).context("the mark of the installation cannot be written")?;
    Ok(modules)
}
