//! `cargo xtask test`: every check of CI in order, cheapest first, stopping at the
//! first that fails with the command that repeats it.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{api, clients, nats, page, postgres, servers, tidy};

/// One check: a heading and the arguments of cargo.
struct Step {
    heading: &'static str,
    arguments: &'static [&'static str],
    /// Whether `--quick` leaves it out.
    slow: bool,
}

const STEPS: &[Step] = &[
    Step {
        heading: "format",
        arguments: &["fmt", "--all", "--check"],
        slow: false,
    },
    Step {
        heading: "clippy",
        arguments: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
        slow: false,
    },
    // After clippy, whose results of the dependencies it uses.
    Step {
        heading: "documentation",
        arguments: &[
            "--config",
            "build.rustdocflags=['-D', 'warnings']",
            "doc",
            "--workspace",
            "--no-deps",
            "--all-features",
        ],
        slow: true,
    },
    // Tests that run the real binary expect it built, so it precedes them.
    Step {
        heading: "release build",
        arguments: &["build", "--release", "--package", "windlass-cli"],
        slow: true,
    },
    Step {
        heading: "tests",
        // The stores on servers have parts of their own. All failures are told, not only the first:
        // a run takes minutes.
        arguments: &[
            "nextest",
            "run",
            "--workspace",
            "--all-features",
            "--no-fail-fast",
            "-E",
            "not package(windlass-store-postgres) and not package(windlass-store-nats)",
        ],
        slow: false,
    },
    // With the features of the tests before: otherwise most crates are built a second time.
    Step {
        heading: "documentation tests",
        arguments: &["test", "--doc", "--workspace", "--all-features"],
        slow: true,
    },
];

/// Runs every step, then tidy.
///
/// # Errors
/// The first step that failed, and how to repeat it.
pub(crate) fn run(root: &Path, quick: bool) -> Result<()> {
    let begun = Instant::now();
    ensure_nextest(root)?;
    for (command, package) in PROGRAMS {
        ensure_program(command, package)?;
    }
    // One after the other, before the tests: two that install something would be in each other's way.
    for kind in ["postgres", "nats", "promtool"] {
        let program = timed(&format!("find or install {kind}"), || {
            servers::program(root, kind)
        })?;
        eprintln!("{program}");
    }
    for step in STEPS.iter().filter(|step| !(quick && step.slow)) {
        timed(step.heading, || cargo(root, step.arguments))?;
    }
    timed("postgres", || postgres::run(root))?;
    timed("nats", || nats::run(root))?;
    if !quick {
        timed("api", || api::run(root, None))?;
        timed("clients", || clients::run(root, None))?;
        timed("page", || page::run(root, None))?;
    }
    timed("tidy", || tidy::run(root)).context("repeat it with: cargo xtask tidy")?;
    eprintln!(
        "\nall checks passed in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

pub(crate) fn timed<T>(heading: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("\n== {heading}");
    let begun = Instant::now();
    let outcome = step();
    let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
    eprintln!(
        "-- {heading}: {verdict} in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    outcome
}

/// Does what needs a network up to three times.
pub(crate) fn retried<T>(mut step: impl FnMut() -> Result<T>) -> Result<T> {
    let mut pauses = [2, 10].map(Duration::from_secs).into_iter();
    loop {
        match (step(), pauses.next()) {
            (Err(error), Some(pause)) => {
                eprintln!("{error:#}; trying again");
                thread::sleep(pause);
            }
            (outcome, _) => return outcome,
        }
    }
}

pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    let status = cargo_command()
        .args(arguments)
        .current_dir(root)
        .status()
        .context("cargo could not be started")?;
    if !status.success() {
        bail!("repeat it with: {}", command_line(arguments));
    }
    Ok(())
}

/// The command as one would type it.
fn command_line(arguments: &[&str]) -> String {
    format!("cargo {}", arguments.join(" "))
}

/// Installs the test runner once, on machines that lack it.
fn ensure_nextest(root: &Path) -> Result<()> {
    let present = cargo_command()
        .args(["nextest", "--version"])
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if present {
        return Ok(());
    }
    timed("install cargo-nextest", || {
        retried(|| cargo(root, &["install", "cargo-nextest", "--locked"]))
    })
}

/// Commands that succeed where what the tests start is there, with the Debian packages that bring
/// it. Debian has Python's environments in a package apart from Python.
const PROGRAMS: [(&[&str], &str); 5] = [
    (&["chromium", "--version"], "chromium"),
    (&["node", "--version"], "nodejs"),
    (&["strace", "--version"], "strace"),
    (&["valgrind", "--version"], "valgrind"),
    (&["python3", "-c", "import ensurepip, venv"], "python3-venv"),
];

/// Installs a program that tests need, on machines that lack it.
fn ensure_program(check: &[&str], package: &str) -> Result<()> {
    let (program, arguments) = check.split_first().context("a check names its program")?;
    let succeeds = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let mut check = Command::new(program);
    if succeeds(check.args(arguments).stderr(Stdio::null())) {
        return Ok(());
    }
    let install = || {
        let waiting = ["-o", "DPkg::Lock::Timeout=300"];
        let installed = succeeds(Command::new("apt-get").args(["update", "-qq"]))
            && succeeds(
                Command::new("apt-get")
                    .args(waiting)
                    .args(["install", "-y", "-qq", package]),
            );
        if !installed {
            bail!("the tests need '{program}'; install it (on Debian: apt-get install {package})");
        }
        Ok(())
    };
    timed(&format!("install {package}"), || retried(install))
}

/// The cargo that runs this task, so that a chosen toolchain is kept, without what it says of this
/// package. Build scripts that look at that would run again when cargo is called by hand, and much
/// would be built again.
pub(crate) fn cargo_command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let is_ours = |prefix| name.to_str().is_some_and(|name| name.starts_with(prefix));
        if is_ours("CARGO_PKG_") || is_ours("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_that_repeats_it() {
        assert_eq!(
            command_line(STEPS[1].arguments),
            "cargo clippy --workspace --all-targets --all-features -- -D warnings"
        );
    }

    #[test]
    fn the_release_binary_is_built_before_the_tests_that_run_it() {
        let place = |heading| STEPS.iter().position(|step| step.heading == heading);
        assert!(place("release build") < place("tests"));
    }
}
