//! The pure crates read no clock, draw no random number, start no thread and await
//! nothing. Clippy's `disallowed-methods` (their own `clippy.toml`) refuses the calls;
//! this check refuses the names, so that a type in a signature is found too.

use super::Finding;
use super::sources::{without_comment, words};

/// Where the rule holds.
const PURE: [&str; 3] = [
    "crates/expr/src/",
    "crates/core/src/",
    "crates/orchestrator/src/",
];

/// What is refused, and what takes its place.
const REFUSED: [(&str, &str); 14] = [
    ("SystemTime", "time is an argument"),
    ("Instant", "time is an argument"),
    ("thread", "the caller decides where it runs"),
    ("env", "settings are arguments"),
    ("fs", "files belong to the stores and the command line"),
    ("net", "connections belong to the actions and the API"),
    ("process", "processes belong to the actions"),
    ("rand", "randomness is an argument"),
    ("getrandom", "randomness is an argument"),
    ("now_v7", "identifiers are arguments"),
    ("new_v4", "identifiers are arguments"),
    ("tokio", "the runtime belongs to the engine"),
    ("async", "nothing is asynchronous while state changes"),
    ("RandomState", "collections iterate in a fixed order"),
];

pub(super) fn check(file: &str, content: &str, findings: &mut Vec<Finding>) {
    let pure = PURE.iter().any(|folder| file.starts_with(folder));
    if !pure || file.ends_with("/tests.rs") || file.contains("/tests/") {
        return;
    }
    for (index, line) in content.lines().enumerate() {
        // Tests stand at the end of a file and may use the clock to bound their time.
        if line.trim_start().starts_with("#[cfg(test)]") {
            break;
        }
        for (name, instead) in REFUSED {
            if names(without_comment(line), name) {
                findings.push(Finding::at(
                    file,
                    index,
                    format!("`{name}` in a pure crate: {instead}"),
                ));
            }
        }
    }
}

/// Whether the code names it: as a whole word, and for words that are also plain
/// English only where it is a path or a keyword.
fn names(code: &str, name: &str) -> bool {
    words(code, name).any(|end| {
        let rest = &code[end..];
        match name {
            "rand" | "thread" | "env" | "fs" | "net" | "process" | "getrandom" | "tokio" => {
                rest.starts_with("::") || rest.starts_with(';') && code.contains("use ")
            }
            "async" => {
                rest.starts_with(" fn") || rest.starts_with(" move") || rest.starts_with(" {")
            }
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(file: &str, line: &str) -> usize {
        let mut findings = Vec::new();
        check(file, line, &mut findings);
        findings.len()
    }

    #[test]
    fn a_pure_crate_that_names_the_world_is_refused() {
        let refused = [
            "let at = SystemTime::now();",
            "fn take(at: std::time::Instant) {}",
            "std::thread::spawn(go);",
            "use std::thread;",
            "use std::fs;",
            "let region = std::env::var(name);",
            "let n = rand::random();",
            "pub async fn run() {}",
            "tokio::spawn(go);",
            "let id = Uuid::now_v7();",
        ];
        for line in refused {
            assert_eq!(findings("crates/core/src/run/mod.rs", line), 1, "{line}");
            assert_eq!(findings("crates/engine/src/driver.rs", line), 0, "{line}");
        }
    }

    #[test]
    fn comments_tests_and_plain_words_pass() {
        let passed = [
            "// SystemTime is an argument",
            "let thread = 1;",
            "#[cfg(test)]\nmod tests { use std::time::Instant; }",
            "fn operand() {}",
            "let instant = now;",
        ];
        for line in passed {
            assert_eq!(findings("crates/expr/src/eval.rs", line), 0, "{line}");
        }
    }
}
