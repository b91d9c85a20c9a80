//! Every command in the README and in `docs` is run against the files that it names, or stands
//! in a list with the reason why it is not run here.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use windlass_test_support::process::{Ended, World};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A directory with the examples in it.
fn world() -> World {
    let world = World::new();
    let folder = world.path().join("examples");
    fs::create_dir(&folder).expect("a folder");
    for entry in fs::read_dir(root().join("examples")).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::copy(&path, folder.join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
    // What a reader has beside the examples.
    let checkout = fs::read_to_string(folder.join("checkout.json")).expect("an example");
    world.definition("changed.json", &checkout.replace("* 40", "* 50"));
    world.definition(
        "report.json",
        r#"{"id":"report","nodes":[{"id":"a","actionType":"core.echo"}]}"#,
    );
    world
}

/// A command as a page has it, with the definition that stands before it.
struct Documented {
    line: String,
    definition: Option<String>,
}

/// The commands in the code blocks and in the first columns of the tables of a page.
fn commands(page: &str) -> Vec<Documented> {
    let text = fs::read_to_string(root().join(page)).expect("a page");
    let text = text.replace("\\\n", " ");
    let mut found = Vec::new();
    let (mut language, mut definition) = (None, None::<String>);
    let mut block = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("```") {
            if matches!(language, Some("yaml" | "json")) {
                definition = Some(std::mem::take(&mut block));
            }
            language = language.is_none().then_some(name);
            block.clear();
        } else if language.is_some() {
            block.push_str(line);
            block.push('\n');
            let line = line.trim_start_matches("$ ");
            if language == Some("console") && line.contains("windlass ") {
                let line = line.split("  #").next().unwrap_or(line);
                let line = line.split(" # ").next().unwrap_or(line).trim();
                if line.starts_with("windlass ") || line.contains("| windlass ") {
                    found.push(Documented {
                        line: line.to_owned(),
                        definition: definition.clone(),
                    });
                }
            }
        } else if let Some(cell) = line.strip_prefix("| `windlass ") {
            let (cell, _) = cell.split_once('`').expect("the end of a cell");
            found.push(Documented {
                line: format!("windlass {}", cell.replace("\\|", "|")),
                definition: None,
            });
        }
    }
    found
}

/// The words of a line, without what stands in brackets for what may follow.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let plain = match line.ends_with(']') {
        true => line.split(" [").next().unwrap_or_default(),
        false => line,
    };
    for letter in plain.chars() {
        match (letter, quote) {
            ('\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (' ', None) => words.push(std::mem::take(&mut word)),
            (letter, _) => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words.split_off(1)
}

/// Runs a command to its end; one that asks for a secret gets it on stdin.
fn ended(world: &World, words: &[&str]) -> Ended {
    if !words.starts_with(&["secrets", "set"]) {
        return world.run(words);
    }
    let mut command = world.command(words);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"a value\n").expect("written");
    drop(input);
    Ended::new(child.wait_with_output().expect("its end"))
}

/// Runs the commands of a page in order. `prepared` are commands that come before one of them,
/// `exits` those that do not end with 0, and `elsewhere` those that are not run, with why.
fn check(
    page: &str,
    prepared: &[(&str, &[&str])],
    exits: &[(&str, i32)],
    elsewhere: &[(&str, &str)],
) {
    let run = run_all(page, prepared, exits, elsewhere);
    assert!(run > 0, "{page} has no command that is run");
}

/// The same; gives how many commands were run.
fn run_all(
    page: &str,
    prepared: &[(&str, &[&str])],
    exits: &[(&str, i32)],
    elsewhere: &[(&str, &str)],
) -> usize {
    assert!(PAGES.contains(&page), "{page} is not among the pages");
    let world = world();
    let mut used = BTreeSet::new();
    let mut run = 0;
    for Documented { line, definition } in commands(page) {
        if let Some((prefix, _)) = elsewhere
            .iter()
            .find(|(prefix, _)| line.starts_with(prefix))
        {
            used.insert(*prefix);
            continue;
        }
        for (before, setup) in prepared {
            if *before == line {
                used.insert(before);
                for command in *setup {
                    let (command, file) = match command.split_once(" > ") {
                        Some((command, file)) => (command, Some(file)),
                        None => (*command, None),
                    };
                    let words = words(command);
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    let ended = world.run(&words);
                    if let Some(file) = file {
                        fs::write(world.path().join(file), ended.stdout).expect("a file");
                    }
                }
            }
        }
        let words = words(&line);
        for file in words
            .iter()
            .filter(|word| word.ends_with(".yaml") || word.ends_with(".json"))
        {
            let path = world.path().join(file);
            if let Some(definition) = definition.as_ref().filter(|_| !path.exists()) {
                fs::write(path, definition).expect("a file");
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = ended(&world, &words);
        let exit = exits.iter().find(|(of, _)| *of == line);
        used.extend(exit.map(|(of, _)| *of));
        let expected = exit.map_or(0, |(_, exit)| *exit);
        let (stdout, stderr) = (&ended.stdout, &ended.stderr);
        assert_eq!(ended.code, expected, "{page}: {line}\n{stdout}\n{stderr}");
        run += 1;
    }
    let listed = prepared.iter().map(|it| it.0);
    let listed = listed.chain(exits.iter().map(|it| it.0));
    for entry in listed.chain(elsewhere.iter().map(|it| it.0)) {
        assert!(
            used.contains(entry),
            "{page} has no command '{entry}' any more"
        );
    }
    run
}

/// The pages with commands, each of which has a test.
const PAGES: [&str; 9] = [
    "README.md",
    "docs/cli.md",
    "docs/cluster.md",
    "docs/connectors.md",
    "docs/definitions.md",
    "docs/expressions.md",
    "docs/nats.md",
    "docs/postgres.md",
    "docs/server.md",
];

#[test]
fn every_page_with_commands_is_checked() {
    let pages = fs::read_dir(root().join("docs")).expect("the documentation");
    let pages = pages.map(|page| page.expect("a page").file_name());
    let pages = pages.map(|name| format!("docs/{}", name.to_string_lossy()));
    for page in pages.filter(|page| page.ends_with(".md")) {
        if !commands(&page).is_empty() {
            assert!(
                PAGES.contains(&&*page),
                "no test runs the commands of {page}"
            );
        }
        // A block without a language would hide its commands from these tests.
        let text = fs::read_to_string(root().join(&page)).expect("a page");
        assert!(
            !text.contains("```\nwindlass "),
            "{page}: a block of commands is not marked as console"
        );
    }
}

const SERVES: &str = "it serves until it is told to stop; server.rs runs it";
const ASKS_SERVER: &str = "it needs a server; remote.rs and server.rs run it";

#[test]
fn readme() {
    check(
        "README.md",
        &[
            (
                "windlass show @last",
                &["windlass run examples/branching.json"],
            ),
            (
                "windlass resume @last",
                &["windlass run examples/patient.json --detach"],
            ),
        ],
        &[
            ("windlass signal @last approved '{\"by\": \"sales\"}'", 1),
            ("windlass fork @last --from charge", 1),
        ],
        &[
            ("windlass serve", SERVES),
            ("windlass runs --server", ASKS_SERVER),
            (
                "windlass run examples/patient.json",
                "killed and resumed in crash.rs",
            ),
        ],
    );
}

#[test]
fn command_line() {
    let charged: &[&str] = &[
        "windlass run examples/checkout.json --detach",
        "windlass signal @last approved '{\"by\": \"kim\"}'",
    ];
    let queued: &[&str] = &["windlass run examples/checkout.json --detach"];
    check(
        "docs/cli.md",
        &[
            (
                "windlass run graph.json",
                &["windlass export @last > graph.json"],
            ),
            (
                "windlass diff checkout 1 2",
                &["windlass publish changed.json"],
            ),
            (
                "windlass result @last",
                &["windlass run examples/linear.json"],
            ),
            ("windlass cancel @last --reason 'wrong file'", queued),
            ("windlass resume @last", queued),
            ("windlass signal @last approved '{\"by\": \"kim\"}'", queued),
            ("windlass set-result @last charge '{\"id\": 7}'", charged),
            ("windlass skip @last charge", charged),
        ],
        &[
            (
                "windlass run examples/checkout.json --trigger '{\"n\": 1}'",
                1,
            ),
            ("windlass run examples/checkout.json --request-id r1", 1),
            (
                "windlass run examples/checkout.json --set trigger.n=2 --set vars.region=us",
                1,
            ),
            ("windlass run graph.json", 1),
            ("windlass run examples/checkout.json --wait 30", 1),
            ("windlass watch @last", 1),
            ("windlass resume @last", 1),
            ("windlass reattempt @last [NODE…]", 1),
            ("windlass signal @last approved '{\"by\": \"kim\"}'", 1),
            ("windlass fork @last --from charge --set trigger.n=2", 1),
        ],
        &[
            ("windlass serve", SERVES),
            (
                "windlass pause",
                "it needs a run under way; act.rs pauses one",
            ),
            (
                "windlass import",
                "it needs a paused run; act_graphs.rs has one",
            ),
            ("windlass run examples/checkout.json --server", ASKS_SERVER),
            ("windlass runs --server", ASKS_SERVER),
            (
                "windlass schedules [",
                "docs/server.md has the commands one by one",
            ),
            (
                "windlass hooks [",
                "docs/server.md has the commands one by one",
            ),
            ("windlass bench", "it measures the machine for a minute"),
            (
                "windlass rebuild --from postgres",
                "it needs NATS that lost a stream; nats.rs has one",
            ),
            ("windlass blob", "it needs a blob; blobs.rs stores one"),
            ("windlass pools [", "docs/server.md has them one by one"),
            ("windlass cluster", ASKS_SERVER),
            (
                "windlass query",
                "it needs a database; postgres_tables.rs has one",
            ),
            (
                "windlass migrate",
                "it needs a database; postgres_migrate.rs has one",
            ),
            (
                "windlass secrets",
                "they ask at a terminal; secrets.rs runs them",
            ),
            ("windlass token", "it needs a key; tokens.rs makes one"),
            ("pass show", "it needs a password store"),
        ],
    );
}

#[test]
fn definitions_and_expressions() {
    check(
        "docs/definitions.md",
        &[],
        &[],
        &[(
            "windlass validate bad.yaml",
            "its file is shown in its own output; look_upkeep.rs",
        )],
    );
    check("docs/expressions.md", &[], &[], &[]);
}

#[test]
fn connectors() {
    check("docs/connectors.md", &[], &[], &[]);
}

#[test]
fn several_processes() {
    let database = "it needs a database; roles.rs, postgres.rs have one";
    run_all("docs/cluster.md", &[], &[], &[("windlass serve", database)]);
    let servers = "it needs NATS and a database; nats.rs has both";
    run_all("docs/nats.md", &[], &[], &[("windlass serve", servers)]);
    run_all(
        "docs/postgres.md",
        &[],
        &[],
        &[
            ("windlass serve", database),
            (
                "windlass query",
                "it needs a database; postgres_tables.rs has one",
            ),
            (
                "windlass migrate",
                "it needs a database; postgres_migrate.rs has one",
            ),
        ],
    );
}

#[test]
fn server() {
    check(
        "docs/server.md",
        &[
            ("windlass schedules", &["windlass publish report.json"]),
            (
                "windlass hooks set orders --workflow order",
                &["windlass publish examples/order.yaml"],
            ),
        ],
        &[],
        &[
            ("windlass serve", SERVES),
            (
                "windlass dead-letters requeue RUN",
                "it needs a dead letter; damaged.rs has one",
            ),
            (
                "windlass dead-letters purge RUN",
                "it needs a dead letter; damaged.rs has one",
            ),
            ("windlass secrets", ASKS_SERVER),
            (
                "windlass pools",
                "they need a server; pool_commands.rs runs them",
            ),
        ],
    );
}
