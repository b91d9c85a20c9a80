//! The rules of the repository that neither the compiler nor clippy knows: a rule that no
//! program checks decays.
//!
//! Each check is a function from text to findings, so that it can be tested on
//! strings; this file only reads what git tracks and prints what was found.

mod citations;
mod dependencies;
mod links;
mod manifests;
mod purity;
mod sources;
mod test_files;
mod text;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use citations::Sections;

/// A broken rule, and where.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Relative to the workspace.
    file: String,
    /// Counted from 1; absent where the rule is about the whole file.
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn whole(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            message: message.into(),
        }
    }

    /// `index` is the line's place counted from 0.
    fn at(file: &str, index: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: Some(index + 1),
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// Checks every rule on every tracked file.
///
/// # Errors
/// Some rule is broken (each finding has been printed), or git or a file could not
/// be read.
pub(crate) fn run(root: &Path) -> Result<()> {
    let files = tracked(root)?;
    // Without the page every citation of it leads nowhere, which is what is found then.
    let page = fs::read_to_string(root.join(citations::PAGE)).unwrap_or_default();
    let sections = Sections::of(&page);
    let mut findings = Vec::new();
    for file in &files {
        check_file(root, file, (&files, &sections), &mut findings)?;
    }
    dependencies::check(root, &mut findings)?;
    for message in crate::chaos::differs(root)? {
        findings.push(Finding::whole("RELIABILITY.md", message));
    }
    for file in crate::scaling::differs(root)? {
        let message = "is not what `cargo xtask scaling` makes; it is not typed";
        findings.push(Finding::whole(file, message));
    }
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy has 1 finding"),
        count => bail!("tidy has {count} findings"),
    }
}

fn check_file(
    root: &Path,
    file: &str,
    (files, sections): (&BTreeSet<String>, &Sections),
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let path = root.join(file);
    if !path.is_file() {
        return Ok(());
    }
    let bytes = fs::read(&path).with_context(|| format!("{file} could not be read"))?;
    text::check_size(file, bytes.len(), findings);
    let Ok(content) = std::str::from_utf8(&bytes) else {
        return Ok(());
    };
    text::check(file, content, findings);
    let extension = path.extension().and_then(|extension| extension.to_str());
    if let Some("rs" | "md" | "txt" | "py" | "ts") = extension {
        citations::check(file, content, sections, findings);
    }
    match extension {
        Some("rs") => {
            sources::check(file, content, findings);
            purity::check(file, content, findings);
            words::check(file, content, findings);
            test_files::check(file, content, files, findings);
        }
        Some("py" | "ts" | "mjs") => sources::check_script(file, content, findings),
        Some("md") => {
            links::check(file, content, files, findings);
            words::check(file, content, findings);
        }
        _ if file.ends_with("Cargo.toml") => manifests::check(file, content, findings),
        _ => {}
    }
    Ok(())
}

/// What git tracks or would track, relative to the workspace.
fn tracked(root: &Path) -> Result<BTreeSet<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .context("git could not be started")?;
    if !output.status.success() {
        bail!(
            "git ls-files: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let list = String::from_utf8(output.stdout).context("a file's name is not UTF-8")?;
    Ok(list
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_as_editors_expect() {
        let finding = Finding::at("crates/core/src/id.rs", 6, "why");
        assert_eq!(finding.to_string(), "crates/core/src/id.rs:7: why");
        assert_eq!(Finding::whole("LICENSE", "why").to_string(), "LICENSE: why");
    }
}
