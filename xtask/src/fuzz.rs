//! `cargo xtask fuzz`: every test whose name begins with `fuzz_`, for a given time. They are
//! ordinary tests, which take a short fixed round in `cargo xtask test`; what fails is written
//! beside the sources (`proptest-regressions`) and tried first from then on.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::test::{cargo_command, timed};

/// How long a test goes on at once.
const LONGEST: u64 = 600;

/// How long each test takes where no time is given.
const SECONDS: u64 = 30;

/// Runs the fuzz tests, or those whose names contain a text, each for its share of the time.
///
/// # Errors
/// There is no such test, or one failed.
pub(crate) fn run(root: &Path, seconds: Option<u64>, name: Option<&str>) -> Result<()> {
    let tests = found(root, name)?;
    if tests.is_empty() {
        bail!(
            "no test has a name that begins with fuzz_ and contains '{}'",
            name.unwrap_or("")
        );
    }
    let each = seconds
        .map_or(SECONDS, |seconds| seconds / tests.len() as u64)
        .max(1);
    for (package, test) in &tests {
        timed(&format!("{test} for {each} s"), || {
            // The test runner ends a test that takes a quarter of an hour.
            let mut left = each;
            while left > 0 {
                let part = left.min(LONGEST);
                one(root, package, test, part)?;
                left -= part;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn one(root: &Path, package: &str, test: &str, seconds: u64) -> Result<()> {
    let filter = format!("package({package}) and test(={test})");
    let status = cargo_command()
        .args([
            "nextest",
            "run",
            "--workspace",
            "--all-features",
            "-E",
            &filter,
        ])
        .env("WINDLASS_FUZZ_SECONDS", seconds.to_string())
        .current_dir(root)
        .status()
        .context("cargo could not be started")?;
    if !status.success() {
        bail!(
            "repeat it with: WINDLASS_FUZZ_SECONDS={seconds} cargo nextest run -p {package} {test}"
        );
    }
    Ok(())
}

/// The fuzz tests of the workspace, each with its package.
fn found(root: &Path, name: Option<&str>) -> Result<Vec<(String, String)>> {
    let output = cargo_command()
        .args(["nextest", "list", "--workspace", "--all-features"])
        .args(["-E", "test(/(^|::)fuzz_/)", "--message-format", "json"])
        .current_dir(root)
        .output()
        .context("cargo could not be started")?;
    if !output.status.success() {
        bail!(
            "the tests cannot be listed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let list: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let mut tests = named(&list);
    tests.retain(|(_, test)| name.is_none_or(|name| test.contains(name)));
    Ok(tests)
}

/// What nextest lists: tests that match the filter, by their binaries.
fn named(list: &serde_json::Value) -> Vec<(String, String)> {
    let suites = list["rust-suites"].as_object().into_iter().flatten();
    let mut tests: Vec<(String, String)> = suites
        .flat_map(|(_, suite)| {
            let package = suite["package-name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let cases = suite["testcases"].as_object().into_iter().flatten();
            let matching = cases.filter(|(_, case)| case["filter-match"]["status"] == "matches");
            matching.map(move |(test, _)| (package.clone(), test.clone()))
        })
        .collect();
    tests.sort();
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_match_are_run() {
        let list = serde_json::json!({ "rust-suites": { "a::b": {
            "package-name": "a",
            "testcases": {
                "fuzz_x": { "filter-match": { "status": "matches" } },
                "other": { "filter-match": { "status": "mismatch" } },
            },
        } } });
        assert_eq!(named(&list), [("a".to_owned(), "fuzz_x".to_owned())]);
    }
}
