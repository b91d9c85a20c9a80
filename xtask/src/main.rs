//! Development tasks of the workspace: `cargo xtask test` is what CI runs, and
//! `cargo xtask tidy` checks the rules that neither the compiler nor clippy knows.
//!
//! Nothing here is part of the product.

mod api;
mod chaos;
mod clients;
mod fuzz;
mod nats;
mod page;
mod performance;
mod postgres;
mod queue;
mod recording;
mod scaling;
mod servers;
mod test;
mod tidy;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

const USAGE: &str = "\
usage: cargo xtask <task>

  test [--quick]   everything CI checks; --quick leaves out the documentation and its
                   tests, the release build, the check of the API, the clients and the page
  api [BINARY]     schemathesis against the real server alone: a release build,
                   or the binary that is named
  clients [BINARY] the checks and tests of the Python and TypeScript clients against the
                   real server: a release build, or the binary that is named
  page [BINARY]    the tests of the web page in Chromium, against the real server: a release
                   build, or the binary that is named
  page-bench [BINARY]
                   the figures of the page in Chromium, with their targets, among a million
                   runs; writes its section of PERFORMANCE.md
  performance [BINARY [SECTION]]
                   the figures of the engine on every backend, by `windlass bench`, on
                   servers of its own; writes their sections of PERFORMANCE.md, or one:
                   engine, postgres, nats-always, nats-default, nats-three
  nats             the tests of the NATS store alone, on servers of their own
  postgres         the tests of the PostgreSQL store alone, on a server of their own
  recording [BINARY]
                   the recording in the README: a run that is killed and resumed
  screenshots      the pictures of the page in docs/images, of `windlass dev --demo`
  chaos [FAULT...] the fault tests at their full figures, all or those named, for
                   an hour or so; writes RELIABILITY.md
  fuzz [SECONDS] [NAME]
                   the fuzz tests, all or those whose names contain NAME, for so
                   long together; without a time 30 seconds each
  reliability      writes RELIABILITY.md of what was measured last
  queue BINARY [N] a million runs, or N, that wait: how fast they are taken in, and
                   what they cost
  scaling          the tables and the plot of docs/scaling.md, of xtask/scaling.toml
  tidy             the rules of the repository alone
";

/// Among how many runs the list of the page is measured.
const PAGE_RUNS: usize = 1_000_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["test"] => root().and_then(|root| test::run(&root, false)),
        ["test", "--quick"] => root().and_then(|root| test::run(&root, true)),
        ["api"] => root().and_then(|root| api::run(&root, None)),
        ["api", binary] => root().and_then(|root| api::run(&root, Some(binary.as_ref()))),
        ["clients"] => root().and_then(|root| clients::run(&root, None)),
        ["clients", binary] => root().and_then(|root| clients::run(&root, Some(binary.as_ref()))),
        ["page"] => root().and_then(|root| page::run(&root, None)),
        ["page", binary] => root().and_then(|root| page::run(&root, Some(binary.as_ref()))),
        ["page-bench"] => root().and_then(|root| page::bench(&root, None, PAGE_RUNS)),
        ["page-bench", binary] => {
            root().and_then(|root| page::bench(&root, Some(binary.as_ref()), PAGE_RUNS))
        }
        ["performance"] => root().and_then(|root| performance::write_backends(&root, None, None)),
        ["performance", binary, ref section @ ..] if section.len() <= 1 => {
            let only = section.first().copied();
            root().and_then(|root| performance::write_backends(&root, Some(binary.as_ref()), only))
        }
        ["nats"] => root().and_then(|root| nats::run(&root)),
        ["postgres"] => root().and_then(|root| postgres::run(&root)),
        ["recording"] => root().and_then(|root| recording::run(&root, None)),
        ["recording", binary] => {
            root().and_then(|root| recording::run(&root, Some(binary.as_ref())))
        }
        ["screenshots"] => root().and_then(|root| page::screenshots(&root)),
        ["chaos", ref faults @ ..] => root().and_then(|root| chaos::run(&root, faults)),
        ["fuzz", ref rest @ ..] if rest.len() <= 2 => root().and_then(|root| fuzz_for(&root, rest)),
        ["reliability"] => root().and_then(|root| chaos::write(&root)),
        ["scaling"] => root().and_then(|root| scaling::write(&root)),
        ["queue", binary] => queue::run(binary.as_ref(), 1_000_000),
        ["queue", binary, runs] => match runs.parse() {
            Ok(runs) => queue::run(binary.as_ref(), runs),
            Err(_) => Err(anyhow::anyhow!("{runs} is no number of runs")),
        },
        ["tidy"] => root().and_then(|root| tidy::run(&root)),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `[SECONDS] [NAME]`: a time, a part of a name, or both.
fn fuzz_for(root: &std::path::Path, arguments: &[&str]) -> Result<()> {
    match *arguments {
        [] => fuzz::run(root, None, None),
        [one] => match one.parse() {
            Ok(seconds) => fuzz::run(root, Some(seconds), None),
            Err(_) => fuzz::run(root, None, Some(one)),
        },
        [seconds, name, ..] => {
            let seconds = seconds.parse();
            let seconds = seconds.with_context(|| "the first argument is a number of seconds")?;
            fuzz::run(root, Some(seconds), Some(name))
        }
    }
}

/// The workspace's folder. Cargo names this package's own one when it runs it.
fn root() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .context("run this as `cargo xtask`, which says where the workspace is")?;
    let package = PathBuf::from(package);
    let root = package
        .parent()
        .context("this package has no parent folder")?;
    Ok(root.to_owned())
}
