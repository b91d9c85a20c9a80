//! Text from outside reaches the terminal of no command as anything but text: no control
//! characters, no forged lines, nothing that turns the direction of writing.

use crate::stored_runs::World;
use windlass_test_support::process::Ended;

/// Clears the screen, begins a line of its own, hides text, turns it around.
const HOSTILE: &str =
    "x\u{1b}[2J\u{9b}31m\r\nFORGED: all is well\n\u{202e}live\u{2066}\u{7}y\u{7f}";

fn hostile() -> String {
    serde_json::Value::from(HOSTILE).to_string()
}

/// A definition that says it wherever a text is allowed.
fn definition() -> String {
    definition_with_names("\"a name\"")
}

/// The same, with these names for people.
fn definition_with_names(name: &str) -> String {
    let text = hostile();
    format!(
        r#"{{ "id": "hostile", "displayName": {name}, "description": {text},
        "labels": {{ "team": {name} }}, "vars": {{ "v": {text} }},
        "nodes": [
          {{ "id": "echo", "name": {name}, "actionType": "core.echo",
             "parameters": {{ "said": "{{{{ trigger.said }}}}" }},
             "edges": [ {{ "targetNode": "fail" }}, {{ "targetNode": "caught" }} ] }},
          {{ "id": "fail", "name": {name}, "actionType": "core.fail",
             "parameters": {{ "message": {text} }}, "edges": [ {{ "targetNode": "never" }} ] }},
          {{ "id": "caught", "actionType": "core.fail", "onFailure": "repair",
             "parameters": {{ "message": {text} }} }},
          {{ "id": "repair", "actionType": "core.echo", "parameters": {{ "a": {text} }} }},
          {{ "id": "never", "name": {name}, "actionType": "core.echo" }}
        ] }}"#
    )
}

/// The first character that a terminal would obey, or the line that was forged.
fn offence(text: &str) -> Option<String> {
    let is_bad = |letter: char| {
        (letter.is_control() && letter != '\n')
            || ('\u{202a}'..='\u{202e}').contains(&letter)
            || ('\u{2066}'..='\u{2069}').contains(&letter)
    };
    let bad = text.chars().find(|letter| is_bad(*letter));
    let forged = text
        .lines()
        .find(|line| line.trim_start().starts_with("FORGED"));
    bad.map(|letter| format!("U+{:04X}", u32::from(letter)))
        .or(forged.map(str::to_owned))
}

fn check(arguments: &[&str], answer: &Ended) {
    for (name, text) in [("stdout", &answer.stdout), ("stderr", &answer.stderr)] {
        if let Some(offence) = offence(text) {
            panic!("{arguments:?} writes {offence} to {name}:\n{text:?}");
        }
    }
}

#[test]
fn no_command_lets_a_hostile_text_reach_the_terminal() {
    let world = World::new();
    let file = world.file("hostile.json", &definition());
    let said = format!(r#"{{"said": {}}}"#, hostile());
    let trigger = world.file("trigger.json", &said);
    let trigger = format!("@{trigger}");
    let label = format!("team={HOSTILE}");
    let run = |arguments: &[&str]| {
        let answer = world.windlass(arguments);
        check(arguments, &answer);
        answer
    };
    run(&["validate", &file]).expect(0);
    run(&["publish", &file]).expect(0);
    let refused = run(&["run", &file, "--trigger", &trigger, "--request-id", HOSTILE]);
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    let ran = run(&["run", &file, "--trigger", &trigger]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("x\\u001b[2J\\u009b31m\\r\\nFORGED"),
        "{}",
        ran.stderr
    );
    let start = ["start", "hostile", "--trigger", &trigger, "--wait"];
    run(&start);
    let refused = run(&[&start[..], &["--label", &label]].concat());
    assert_eq!(refused.code, 2, "{}{}", refused.stdout, refused.stderr);
    let all: &[&[&str]] = &[
        &["runs"],
        &["show", "@last"],
        &["show", "@last", "--include", "actions,resources,events"],
        &["show", "@last", "fail"],
        &["watch", "@last"],
        &["result", "@last"],
        &["events", "@last"],
        &["why", "@last"],
        &["why", "@last", "fail"],
        &["graph", "@last"],
        &["graph", "@last", "--format", "mermaid"],
        &["graph", "@last", "--format", "dot"],
        &["graph", "@last", "--format", "svg"],
        &["graph", "hostile.json"],
        &["workflows"],
        &["workflows", "show", "hostile"],
        &["workflows", "versions", "hostile"],
        &["diff", "hostile", "1", "1"],
        &["verify", "@last"],
        &["reattempt", "@last", "--reason", HOSTILE],
        &["fork", "@last", "--from", "fail", "--reason", HOSTILE],
        &["fork", "@last", "--from", HOSTILE],
        &["skip", "@last", "fail", "--reason", HOSTILE],
        &["signal", "@last", HOSTILE],
        &[
            "set-result",
            "@last",
            "fail",
            &hostile(),
            "--reason",
            HOSTILE,
        ],
        &["cancel", "@last", "--reason", HOSTILE],
        &["show", "@last"],
        &["events", "@last"],
        &["runs", "--label", &label],
        &["runs", "--workflow", HOSTILE],
        &["runs", "--status", HOSTILE],
        &["show", HOSTILE],
        &["workflows", "show", HOSTILE],
        &["actions", HOSTILE],
        &["dead-letters"],
        &["schedules"],
        &["simulate", "hostile.json"],
        &["doctor"],
        &["config"],
        &["--data-dir", HOSTILE, "runs"],
    ];
    for arguments in all {
        run(arguments);
    }
}

/// Problems quote what they are about.
#[test]
fn problems_quote_hostile_texts_as_text() {
    let world = World::new();
    let text = hostile();
    for definition in [
        definition_with_names(&text),
        format!(r#"{{ "id": {text}, "nodes": [] }}"#),
        format!(r#"{{ "id": "a", {text}: 1, "nodes": [] }}"#),
        format!(r#"{{ "id": "a", "nodes": [{{ "id": {text}, "actionType": {text} }}] }}"#),
        format!(
            r#"{{ "id": "a", "nodes": [{{ "id": "n", "actionType": "core.echo",
                "dependsOn": [{text}], "parameters": {{ "a": "{{{{ nothing('{}') }}}}" }} }}] }}"#,
            HOSTILE.escape_unicode()
        ),
        format!("{{ \"id\": \"a\", \"nodes\": {HOSTILE} }}"),
        format!("id: a\nnodes: \"{HOSTILE}\"\n"),
    ] {
        for name in ["bad.json", "bad.yaml"] {
            let file = world.file(name, &definition);
            for command in ["validate", "run", "publish", "graph", "simulate"] {
                let arguments = [command, file.as_str()];
                let answer = world.windlass(&arguments);
                assert_ne!(answer.code, 0, "{definition}");
                check(&arguments, &answer);
            }
        }
    }
}

/// What programs read is exact: the text itself, as JSON writes it.
#[test]
fn json_keeps_every_character() {
    let world = World::new();
    let file = world.file("hostile.json", &definition());
    let said = format!(r#"{{"said": {}}}"#, hostile());
    let arguments = ["run", &file, "--trigger", &said, "--json"];
    let execution = world.windlass(&arguments).json();
    let output = &execution["nodes"]["echo"]["output"]["said"];
    assert_eq!(*output, HOSTILE, "{execution}");
    assert_eq!(execution["nodes"]["fail"]["error"]["message"], HOSTILE);
    // People get the same JSON, with the letters that a terminal obeys as escapes.
    let answer = world.windlass(&["workflows", "show", "hostile"]);
    assert_eq!(offence(&answer.stdout), None);
    assert_eq!(answer.json()["description"], HOSTILE);
}
