//! Prometheus' own check of a metrics page.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What `promtool check metrics` finds wrong with a page: nothing, or lines that name metrics.
///
/// # Panics
/// If `promtool` is missing and cannot be downloaded.
pub fn findings(page: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = Command::new("sh")
        .arg(folder.join("src/promtool/find.sh"))
        .arg(folder.join("../../target"))
        .stderr(Stdio::inherit())
        .output()
        .expect("sh runs");
    assert!(found.status.success(), "there is no promtool");
    let program = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let mut check = Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    let mut input = check.stdin.take().expect("its input");
    let page = page.to_owned();
    let writer = std::thread::spawn(move || input.write_all(page.as_bytes()));
    let answer = check.wait_with_output().expect("promtool ends");
    // It stops to read at the first line that it cannot parse, and says so below.
    let _ = writer.join().expect("the writer ends");
    let text = [answer.stdout, answer.stderr].concat();
    let lines = String::from_utf8_lossy(&text).into_owned();
    let mut findings: Vec<String> = lines.lines().map(str::to_owned).collect();
    if !answer.status.success() && findings.is_empty() {
        findings.push(format!("promtool ended with {}", answer.status));
    }
    findings
}
