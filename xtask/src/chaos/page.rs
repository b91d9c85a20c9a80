//! `RELIABILITY.md`, made of the promises and the figures.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::promises::{Figures, Promises};
use crate::scaling::grouped;

pub(super) const FILE: &str = "RELIABILITY.md";

const HEAD: &str = "\
# What we promise, and what stands behind it

Made by `cargo xtask chaos` of `xtask/promises.toml` and what it measured last; not typed. The
tests run in `cargo xtask test`, the faults there in a smaller number.

| | promise | tests |
| --- | --- | --- |
";

const FAULTS: &str = "
## Faults

Every one of them ended with no acknowledged event lost and no outcome recorded twice, or
the test would have failed and the figure not be here. `cargo xtask chaos NAME` repeats one.

| name | fault | promised | last measured |
| --- | --- | --- | --- |
";

pub(super) fn text(promises: &Promises, figures: &Figures) -> String {
    let mut page = HEAD.to_owned();
    for promise in &promises.promises {
        let tests: Vec<String> = promise.tests.iter().map(|test| link(test)).collect();
        line(
            &mut page,
            &[&promise.id, &promise.text, &tests.join("<br>")],
        );
    }
    page += FAULTS;
    for fault in &promises.faults {
        let measured = match figures.get(&fault.name) {
            Some(figure) => grouped(figure),
            None => "not measured".to_owned(),
        };
        let cells = [
            &fault.name,
            &fault.text,
            &grouped(fault.promised),
            &measured,
        ];
        line(&mut page, &cells.map(String::as_str));
    }
    page
}

fn line(page: &mut String, cells: &[&str]) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

/// `FILE::NAME` as a link to the file.
fn link(test: &str) -> String {
    match test.split_once("::") {
        Some((file, name)) => format!("[{name}]({file})"),
        None => test.to_owned(),
    }
}

/// What is wrong with the page: it is not what the task would write, or names a test that
/// is not there.
///
/// # Errors
/// A file could not be read.
pub(crate) fn differs(root: &Path) -> Result<Vec<String>> {
    let promises = Promises::read(root)?;
    let mut wrong = Vec::new();
    for test in promises.tests().collect::<BTreeSet<_>>() {
        let (file, name) = test.split_once("::").unwrap_or((test, ""));
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        if !source.contains(&format!("fn {name}()")) {
            wrong.push(format!("names the test {test}, which is not there"));
        }
    }
    let should = text(&promises, &Figures::read(root)?);
    if fs::read_to_string(root.join(FILE)).unwrap_or_default() != should {
        wrong.push("is not what `cargo xtask chaos` makes; it is not typed".to_owned());
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_was_not_measured() {
        let promises = Promises::parse(
            "[[promise]]\nid = 'P1'\ntext = 'It holds.'\ntests = ['a/b.rs::it_holds']\n\
             [[fault]]\nname = 'kills'\ntext = 'killed'\npromised = 1000\npackage = 'a'\n\
             test = 'a/b.rs::it_holds'\n",
        )
        .expect("promises");
        let root = std::env::temp_dir().join("nothing-is-here");
        let page = text(&promises, &Figures::read(&root).expect("no figures"));
        assert!(
            page.contains("| P1 | It holds. | [it_holds](a/b.rs) |"),
            "{page}"
        );
        assert!(
            page.contains("| kills | killed | 1,000 | not measured |"),
            "{page}"
        );
    }
}
