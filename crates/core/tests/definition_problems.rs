//! Definitions and what is said about them: text fixtures, one file a topic.
//!
//! A case is a title after `====`, a document, a line `----`, and the expected
//! output. A title that ends in `.yaml` makes the document YAML. Running with
//! `UPDATE_FIXTURES=1` writes what is said now; read the difference.

use std::collections::BTreeSet;
use std::path::Path;

use windlass_core::definition::codes::CODES;
use windlass_core::definition::{DefinitionSource, Options, parse};

fn check(title: &str, document: &str) -> String {
    let known: BTreeSet<String> = ["core.echo", "core.fail", "core.script", "http.request"]
        .map(String::from)
        .into();
    let options = Options {
        known_actions: Some(&known),
        ..Options::default()
    };
    let name = if title.ends_with(".yaml") {
        "flow.yaml"
    } else {
        "flow.json"
    };
    let problems = match parse(&DefinitionSource::new(name, document.as_bytes()), &options) {
        Ok(parsed) => parsed.warnings,
        Err(problems) => problems,
    };
    if problems.is_empty() {
        return "ok\n".to_owned();
    }
    let rendered: Vec<_> = problems
        .iter()
        .map(|problem| problem.render(document.as_bytes()))
        .collect();
    for line in rendered.iter().flat_map(|text| text.lines()) {
        let plain =
            line.starts_with("error[") || line.starts_with("warning[") || line.contains(" = ");
        assert!(
            plain || line.chars().count() <= 80,
            "{title}: too wide: {line}"
        );
    }
    rendered.join("\n")
}

#[test]
fn every_fixture_says_what_is_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions");
    let update = std::env::var_os("UPDATE_FIXTURES").is_some();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of fixtures")
        .map(|entry| entry.expect("a fixture").path())
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a fixture is text");
        let mut written = String::new();
        for case in text.split("==== ").skip(1) {
            let (title, rest) = case.split_once('\n').expect("a title");
            let (document, expected) = rest.split_once("\n----\n").expect("a line ----");
            let said = check(title, document);
            for line in said.lines().filter(|line| line.contains("]: ")) {
                let code = line.split(['[', ']']).nth(1).unwrap_or_default();
                seen.insert(code.to_owned());
            }
            if said.trim_end() != expected.trim_end() {
                wrong.push(format!("{}: {title}\n{said}", file.display()));
            }
            written += &format!("==== {title}\n{document}\n----\n{said}\n");
        }
        if update {
            std::fs::write(&file, written).expect("the fixture can be written");
        }
    }
    assert!(update || wrong.is_empty(), "{}", wrong.join("\n"));
    let missing: Vec<_> = CODES
        .iter()
        .map(|code| code.code)
        .filter(|code| !seen.contains(*code) && !ELSEWHERE.contains(code))
        .collect();
    assert!(missing.is_empty(), "no fixture shows {missing:?}");
}

/// Codes whose documents are too large or not text; `definition_hostile.rs` shows them. The
/// first four are shown by `learning.rs` and `on_call.rs` of `crates/cli/tests`.
const ELSEWHERE: &[&str] = &[
    "ITEMS_NOT_A_LIST",
    "UNKNOWN_VARIABLE",
    "UNKNOWN_WORKFLOW",
    "PARAMETERS_INVALID",
    "DEFINITION_TOO_LARGE",
    "INVALID_UTF8",
    "NODE_LIMIT",
    "TOO_MANY_PROBLEMS",
    "EXPRESSION_INVALID",
    "EXPRESSION_LIMIT",
    "VARS_LIMIT",
    "SCHEMA_LIMIT",
];
