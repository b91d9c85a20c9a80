//! Text fixtures: a graph, commands, and what each command leads to. A fixture is a
//! statement of the contract (semantics §2–§6, §10), to be read like prose.
//!
//! A file holds cases, each headed by `=== title`. Lines before the first command are
//! the graph (see `harness/notation.rs`); a line that begins with `>` is a command,
//! and the indented lines under it are what it must lead to. `UPDATE_FIXTURES=1`
//! rewrites them; review every line that it changes.

use std::path::PathBuf;

use windlass_test_support::fixture::script::Script;

fn check(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
        .with_extension("txt");
    let expected = std::fs::read_to_string(&path).expect("a fixture");
    let actual = play(&expected);
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&path, actual).expect("a writable fixture");
        return;
    }
    let difference = expected
        .lines()
        .zip(actual.lines())
        .enumerate()
        .find(|(_, (expected, actual))| expected != actual);
    if let Some((number, (expected, actual))) = difference {
        let line = number + 1;
        panic!("{name}.txt, line {line}:\n  expected: {expected}\n  actual:   {actual}");
    }
    assert_eq!(expected, actual, "{name}.txt ends differently");
}

/// The same text with what really happens under each command.
fn play(text: &str) -> String {
    let mut actual = String::new();
    let mut graph: Vec<&str> = Vec::new();
    let mut script: Option<Script> = None;
    for line in text.lines() {
        if line.starts_with("  ") {
            continue;
        }
        if line.starts_with("===") {
            graph.clear();
            script = None;
        } else if let Some(command) = line.strip_prefix("> ") {
            let script = script.get_or_insert_with(|| Script::new(&graph));
            actual.push_str(line);
            actual.push('\n');
            for line in script.command(command) {
                actual.push_str(&format!("  {line}\n"));
            }
            continue;
        } else if !line.is_empty() && !line.starts_with('#') {
            assert!(script.is_none(), "a graph line after a command: {line}");
            graph.push(line);
        }
        actual.push_str(line);
        actual.push('\n');
    }
    actual
}

macro_rules! fixtures {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn every_file_is_run() {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
            for file in std::fs::read_dir(folder).expect("a folder") {
                let path = file.expect("a file").path();
                let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
                assert!([$(stringify!($name)),*].contains(&name), "{name} is not run");
            }
        }
    };
}

fixtures!(
    edges,
    joins,
    endings,
    causes,
    stopping,
    fail_fast,
    levels,
    attempts,
    reattempt,
    expressions,
    ancestry,
    loops,
    partial_joins,
    waits,
    children,
    sagas,
    by_hand,
    reattempt_bodies,
    reuse,
    healing,
    rules,
    stored,
    requests
);
