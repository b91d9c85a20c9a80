//! The page of error codes has every code that the program can report.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use windlass_core::definition::codes::CODES;
use windlass_service::FailureKind;

/// What a code follows as the first argument.
const ACTIONS: [&str; 3] = [
    "ActionError::failed(",
    "ActionError::retriable(",
    "Failure::permanent(",
];

/// What a code follows as the second argument.
const COMMANDS: &str = "Failure::new(";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Rust files under a folder, at any depth.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code that the text begins with, if it is written out.
fn literal(text: &str) -> Option<&str> {
    let (code, _) = text.trim_start().strip_prefix('"')?.split_once('"')?;
    let is_code = |letter: char| letter.is_ascii_uppercase() || matches!(letter, '_' | '0'..='9');
    (!code.is_empty() && code.chars().all(is_code)).then_some(code)
}

/// The codes that a source passes on.
fn codes(text: &str, found: &mut BTreeSet<String>) {
    for call in ACTIONS {
        let arguments = text.split(call).skip(1);
        found.extend(arguments.filter_map(literal).map(str::to_owned));
    }
    for arguments in text.split(COMMANDS).skip(1) {
        // The exit comes first, and a code passed in a variable stands elsewhere.
        let Some((exit, rest)) = arguments.split_once(',') else {
            continue;
        };
        if exit.trim_start().starts_with("Exit::") {
            found.extend(literal(rest).map(str::to_owned));
        }
    }
}

#[test]
fn every_code_is_documented() {
    let page = fs::read_to_string(root().join("docs/errors.md")).expect("the page");
    let mut known: BTreeSet<String> = CODES.iter().map(|code| code.code.to_owned()).collect();
    known.extend(FailureKind::ALL.iter().map(|kind| kind.code().to_owned()));
    let mut files = Vec::new();
    for folder in fs::read_dir(root().join("crates")).expect("the crates") {
        let folder = folder.expect("a crate").path();
        // The simulation and the library's examples make up failures of their own.
        if folder.ends_with("sim") || folder.ends_with("windlass") {
            continue;
        }
        let folder = folder.join("src");
        if folder.is_dir() {
            sources(&folder, &mut files);
        }
    }
    for file in &files {
        let text = fs::read_to_string(file).expect("a source");
        codes(&text, &mut known);
    }
    for code in ["RUN_NOT_FOUND", "HTTP_CONNECT", "OUTPUT_LIMIT"] {
        assert!(known.contains(code), "the search does not find {code}");
    }
    let missing: Vec<_> = known
        .iter()
        .filter(|code| !page.contains(&format!("| `{code}` |")))
        .collect();
    assert!(missing.is_empty(), "docs/errors.md lacks {missing:?}");
}
