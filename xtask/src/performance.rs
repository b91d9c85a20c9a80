//! `PERFORMANCE.md`: sections that the benchmarks write, each between its own marks, so that one
//! is measured anew without the other. What stands outside the marks is typed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::api::target;
use crate::test;

const FILE: &str = "PERFORMANCE.md";

/// The page, where there is none yet.
const HEAD: &str = "\
# Performance

Measured, not typed: each table is written by the command above it, between its marks. Figures
depend on the machine, so the tests assert none of them; the target stands beside each.

## The engine

`cargo xtask performance [BINARY]` writes what `windlass bench` measures.

<!-- engine:begin -->
Not measured yet.
<!-- engine:end -->

## The page

`cargo xtask page-bench [BINARY]` measures the page in headless Chromium against a real server.

<!-- page:begin -->
Not measured yet.
<!-- page:end -->
";

/// Writes the section of the page.
///
/// # Errors
/// The figures cannot be read, or the file not written.
pub(crate) fn write_page(root: &Path, figures: &Path) -> Result<()> {
    let text = fs::read_to_string(figures).context("the benchmark left no figures")?;
    let measured: Value = serde_json::from_str(&text).context("the figures are damaged")?;
    write(root, "page", &table(&measured))
}

/// Runs `windlass bench` of a release build, or of the binary that is named, and writes the
/// engine's section.
///
/// # Errors
/// The binary failed, or the file cannot be written.
pub(crate) fn write_engine(root: &Path, binary: Option<&Path>) -> Result<()> {
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => {
            test::cargo(root, &["build", "--release", "--package", "windlass-cli"])?;
            target(root)?.join("release").join("windlass")
        }
    };
    let output = Command::new(binary)
        .arg("bench")
        .output()
        .context("windlass bench could not be started")?;
    if !output.status.success() {
        bail!(
            "windlass bench failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let table = String::from_utf8_lossy(&output.stdout);
    write(
        root,
        "engine",
        &format!("```text\n{}\n```\n", table.trim_end()),
    )
}

fn write(root: &Path, section: &str, content: &str) -> Result<()> {
    let file = root.join(FILE);
    let page = fs::read_to_string(&file).unwrap_or_else(|_| HEAD.to_owned());
    fs::write(&file, replaced(&page, section, content)?).with_context(|| format!("writing {FILE}"))
}

/// The page with another content between the marks of a section.
fn replaced(page: &str, section: &str, content: &str) -> Result<String> {
    let begin = format!("<!-- {section}:begin -->\n");
    let end = format!("<!-- {section}:end -->");
    let parts = page
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let Some((before, after)) = parts else {
        bail!("{FILE} has no marks for the section '{section}'");
    };
    Ok(format!("{before}{begin}{content}{end}{after}"))
}

/// `{machine, figures: [{figure, measured, target, met}]}` as a table; `met` is null where
/// nothing was promised.
fn table(measured: &Value) -> String {
    let mut text = format!("{}\n\n", cell(&measured["machine"]));
    text += "| figure | target | measured | |\n| --- | --- | --- | --- |\n";
    for figure in measured["figures"].as_array().into_iter().flatten() {
        let met = match figure["met"].as_bool() {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "",
        };
        let cells = ["figure", "target", "measured"].map(|key| cell(&figure[key]));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {met} |", cells.join(" | "));
    }
    text
}

/// Text that cannot end its cell.
fn cell(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_section_is_replaced_and_the_other_kept() {
        let first = replaced(HEAD, "page", "one\n").expect("the marks are there");
        let second = replaced(&first, "page", "two\n").expect("the marks are there");
        assert!(second.contains("<!-- page:begin -->\ntwo\n<!-- page:end -->"));
        assert!(!second.contains("one\n<!--"));
        assert!(second.contains("<!-- engine:begin -->\nNot measured yet."));
        assert!(replaced("# Performance\n", "page", "").is_err());
    }

    #[test]
    fn a_missed_target_is_said() {
        let measured = json!({ "machine": "2 cores", "figures": [{
            "figure": "first | paint", "measured": "400 ms", "target": "300 ms", "met": false,
        }] });
        let line = "| first \\| paint | 300 ms | 400 ms | **missed** |\n";
        assert!(table(&measured).ends_with(line), "{}", table(&measured));
    }
}
