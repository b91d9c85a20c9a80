//! `PERFORMANCE.md`: sections that the benchmarks write, each between its own marks, so that one
//! is measured anew without the other. What stands outside the marks is typed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::api::target;
use crate::servers::{Cluster, Server};
use crate::test;

const FILE: &str = "PERFORMANCE.md";

/// The sections of the backends.
const SECTIONS: [&str; 5] = ["engine", "postgres", "nats-always", "nats-default", THREE];

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

## PostgreSQL

The same command, on a server of its own that syncs its commits, with `--backend postgres`.

<!-- postgres:begin -->
Not measured yet.
<!-- postgres:end -->

## NATS

The same command, on servers of its own, with `--backend nats`: first with `sync_interval: always`,
then with the server's default of two minutes.

<!-- nats-always:begin -->
Not measured yet.
<!-- nats-always:end -->

<!-- nats-default:begin -->
Not measured yet.
<!-- nats-default:end -->

## The page

`cargo xtask page-bench [BINARY]` measures the page in headless Chromium against a real server.

<!-- page:begin -->
Not measured yet.
<!-- page:end -->
";

/// The section of a cluster, which stands behind the other two of NATS once it is measured.
const THREE: &str = "nats-three";

const THREE_HEAD: &str = "
A loopback cluster of three servers, three replicas and the server's default of two minutes: a
message is acknowledged when two of them have it. All three share the cores and the disk of this
machine, so the times are longer than those of three machines, and there is no network between them.

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

/// Runs `windlass bench` of a release build, or of the binary that is named, on every backend, and
/// writes their sections, or the one that is named.
///
/// # Errors
/// The binary failed, a server cannot be started, or the file cannot be written.
pub(crate) fn write_backends(root: &Path, binary: Option<&Path>, only: Option<&str>) -> Result<()> {
    if let Some(only) = only.filter(|only| !SECTIONS.contains(only)) {
        bail!(
            "there is no section '{only}': name one of {}",
            SECTIONS.join(", ")
        );
    }
    let wanted = |section: &str| only.is_none_or(|only| only == section);
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => {
            test::cargo(root, &["build", "--release", "--package", "windlass-cli"])?;
            target(root)?.join("release").join("windlass")
        }
    };
    let measure = |section: &str, arguments: &[String], replicas: &str| {
        let figures = bench(&binary, arguments, replicas)?;
        write(root, section, &format!("```text\n{figures}\n```\n"))
    };
    if wanted("engine") {
        measure("engine", &[], "")?;
    }
    let database = Server::postgres(root)?;
    let database_url = format!("postgres://windlass@{}/postgres", database.address);
    let on_database = |backend: &[&str]| -> Vec<String> {
        let arguments = [backend, &["--postgres-url", &*database_url]].concat();
        arguments.into_iter().map(str::to_owned).collect()
    };
    if wanted("postgres") {
        measure("postgres", &on_database(&["--backend", "postgres"]), "")?;
    }
    let on = |urls: &str| on_database(&["--backend", "nats", "--nats-url", urls]);
    let singles = [("nats-always", "always"), ("nats-default", "2m")];
    for (section, sync_interval) in singles.into_iter().filter(|it| wanted(it.0)) {
        let server = Server::nats(root, sync_interval)?;
        measure(section, &on(&format!("nats://{}", server.address)), "")?;
    }
    if wanted(THREE) {
        let cluster = Cluster::start(root)?;
        measure(THREE, &on(&cluster.urls()), "3")?;
    }
    Ok(())
}

/// What `windlass bench` prints, with `nats_replicas` set to this.
fn bench(binary: &Path, arguments: &[String], replicas: &str) -> Result<String> {
    let output = Command::new(binary)
        // Empty counts as unset.
        .env("WINDLASS_NATS_REPLICAS", replicas)
        .arg("bench")
        .args(arguments)
        .output()
        .context("windlass bench could not be started")?;
    if !output.status.success() {
        bail!(
            "windlass bench failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

fn write(root: &Path, section: &str, content: &str) -> Result<()> {
    let file = root.join(FILE);
    let page = fs::read_to_string(&file).unwrap_or_else(|_| HEAD.to_owned());
    let page = match section {
        THREE => with_three(page)?,
        _ => page,
    };
    let page = replaced(&page, section, content).context(FILE)?;
    fs::write(&file, page).with_context(|| format!("writing {FILE}"))
}

/// The page with a place for the section of a cluster.
fn with_three(page: String) -> Result<String> {
    if page.contains(&format!("<!-- {THREE}:begin -->")) {
        return Ok(page);
    }
    let before = "<!-- nats-default:end -->\n";
    let Some((first, rest)) = page.split_once(before) else {
        bail!("{FILE} has no marks for the section 'nats-default'");
    };
    Ok(format!(
        "{first}{before}{THREE_HEAD}<!-- {THREE}:begin -->\n<!-- {THREE}:end -->\n{rest}"
    ))
}

/// The page with another content between the marks of a section.
pub(crate) fn replaced(page: &str, section: &str, content: &str) -> Result<String> {
    let begin = format!("<!-- {section}:begin -->\n");
    let end = format!("<!-- {section}:end -->");
    let parts = page
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let Some((before, after)) = parts else {
        bail!("the page has no marks for the section '{section}'");
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
    fn the_section_of_a_cluster_is_added_once_behind_the_other_servers() {
        let page = with_three(HEAD.to_owned()).expect("a place for it");
        let place = page.find("<!-- nats-three:begin -->").expect("marks");
        assert!(page.find("<!-- nats-default:end -->").expect("marks") < place);
        assert!(place < page.find("## The page").expect("a heading"));
        let measured = replaced(&page, THREE, "one\n").expect("the marks are there");
        assert_eq!(with_three(measured.clone()).expect("it is there"), measured);
        assert!(with_three("# Performance\n".to_owned()).is_err());
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
