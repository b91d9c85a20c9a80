//! `cargo xtask chaos`: the fault tests at their full figures, and `RELIABILITY.md`, which
//! says what is promised, which test stands behind it, and what was last measured.
//!
//! The tests are those of `cargo xtask test`, with larger figures; each is bounded in count,
//! uses no outside service, and prints what repeats a failure.

mod page;
mod promises;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::test::{cargo_command, timed};
pub(crate) use page::differs;
use promises::{Fault, Figures, Promises};

/// Runs the faults that are named, or all, and writes the page.
///
/// # Errors
/// No fault has that name, or a test failed: the page then says what was measured before.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<()> {
    let promises = Promises::read(root)?;
    if let Some(unknown) = names.iter().find(|name| promises.fault(name).is_none()) {
        let known: Vec<&str> = promises.faults.iter().map(|fault| &*fault.name).collect();
        bail!(
            "there is no fault '{unknown}'; there are: {}",
            known.join(", ")
        );
    }
    let mut figures = Figures::read(root)?;
    let wanted = |fault: &&Fault| names.is_empty() || names.contains(&&*fault.name);
    for fault in promises.faults.iter().filter(wanted) {
        timed(&fault.name, || {
            figures.set(&fault.name, measure(root, fault)?);
            figures.write(root)
        })?;
    }
    write(root)
}

/// Writes the page of what was measured last.
///
/// # Errors
/// A file could not be read or written.
pub(crate) fn write(root: &Path) -> Result<()> {
    let text = page::text(&Promises::read(root)?, &Figures::read(root)?);
    fs::write(root.join(page::FILE), text).context(page::FILE)?;
    eprintln!("\n{} is written", page::FILE);
    Ok(())
}

/// Runs one test and gives the figure that it printed.
fn measure(root: &Path, fault: &Fault) -> Result<u64> {
    let (file, test) = fault
        .test
        .split_once("::")
        .context("a test is FILE::NAME")?;
    let (binary, test) = target(root, Path::new(file), test)?;
    let mut child = cargo_command()
        .args([
            "test",
            "--all-features",
            "--package",
            &fault.package,
            "--test",
        ])
        .arg(binary)
        .args(["--", "--exact", &test, "--nocapture"])
        .envs(&fault.variables)
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo could not be started")?;
    let output = child.stdout.take().context("the output of the test")?;
    let mut figure = None;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        figure = figure.or(printed(&line));
    }
    if !child.wait()?.success() {
        let settings: Vec<String> = fault
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        bail!("{} failed with {}", fault.test, settings.join(" "));
    }
    figure.with_context(|| format!("{} printed no figure", fault.test))
}

/// The binary that a test is built into, and its name there: that of the crate's folder where
/// its integration tests are one binary, else that of the file.
fn target(root: &Path, file: &Path, test: &str) -> Result<(OsString, String)> {
    let stem = file.file_stem().context("a file of tests")?;
    let tests = file.parent().context("the folder of tests")?;
    if !root.join(tests).join("main.rs").is_file() {
        return Ok((stem.to_owned(), test.to_owned()));
    }
    let package = tests.parent().and_then(Path::file_name);
    let binary = package.context("the folder of the crate")?.to_owned();
    Ok((binary, format!("{}::{test}", stem.display())))
}

/// The number in `figure NAME NUMBER`, also behind what the test runner prints.
fn printed(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("figure ")?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_in_what_a_test_prints() {
        assert_eq!(printed("figure kills 10000"), Some(10_000));
        assert_eq!(printed("test it ... figure kills 7"), Some(7));
        assert_eq!(printed("figures are numbers"), None);
        assert_eq!(printed("figure kills"), None);
    }
}
