//! Sentences of the contract with the real binary, where two parts of it meet: children and
//! time, variables of two runs at once, forks and what is shown, limits on both sides.

use serde_json::{Value, json};
use windlass_test_support::process::World;

fn statuses(run: &Value) -> Vec<(&str, &str)> {
    let nodes = run["nodes"].as_object().expect("nodes");
    let mut all: Vec<_> = nodes
        .iter()
        .map(|(path, node)| (path.as_str(), node["status"].as_str().expect("a status")))
        .collect();
    all.sort_unstable();
    all
}

/// The hash of a node that ran first, from what it gave.
fn first_hash(node: &str, attempt: u32, output: &str) -> String {
    let digest = sha256(output);
    sha256(&format!("{node}:{attempt}:{digest}"))
}

fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let bytes = digest.as_ref().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_time_of_a_subworkflow_node_bounds_its_child() {
    let world = World::with_files(&[
        (
            "slow.json",
            r#"{"id":"slow","nodes":[{"id":"x","waitForSignal":{"name":"never"}}]}"#,
        ),
        (
            "parent.json",
            r#"{"id":"parent","nodes":[
              {"id":"child","subworkflow":{"workflowId":"slow","input":{}},
               "policies":{"timeoutMs":100}}]}"#,
        ),
    ]);
    world.run(&["publish", "slow.json"]).expect(0);
    let run = world.run(&["run", "parent.json", "--json", "-q"]).expect(1);
    let run = run.json();
    assert_eq!(run["nodes"]["child"]["error"]["code"], "TIMEOUT");
    let child = world.run(&["show", "@last:slow", "--json"]).expect(0);
    assert_eq!(child.json()["status"], "Cancelled");
}

#[test]
fn children_that_a_join_lets_go_are_not_left_running() {
    let world = World::with_files(&[
        (
            "slow.json",
            r#"{"id":"slow","nodes":[{"id":"x","actionType":"core.sleep","parameters":{"ms":60000}}]}"#,
        ),
        (
            "waits.json",
            r#"{"id":"waits","nodes":[{"id":"x","waitForSignal":{"name":"never"}}]}"#,
        ),
        (
            "parent.json",
            r#"{"id":"parent","nodes":[
              {"id":"slow","subworkflow":{"workflowId":"slow","input":{}},"edges":[{"targetNode":"join"}]},
              {"id":"waits","subworkflow":{"workflowId":"waits","input":{}},"edges":[{"targetNode":"join"}]},
              {"id":"quick","actionType":"core.sleep","parameters":{"ms":300},"edges":[{"targetNode":"join"}]},
              {"id":"join","actionType":"core.echo","join":"any"}]}"#,
        ),
    ]);
    world.run(&["publish", "slow.json"]).expect(0);
    world.run(&["publish", "waits.json"]).expect(0);
    let run = world.run(&["run", "parent.json", "--json", "-q"]).expect(0);
    let run = run.json();
    let expected = [
        ("join", "Succeeded"),
        ("quick", "Succeeded"),
        ("slow", "Cancelled"),
        ("waits", "Cancelled"),
    ];
    assert_eq!(statuses(&run), expected);
    for child in ["@last:slow", "@last:waits"] {
        let child = world.run(&["show", child, "--json"]).expect(0);
        assert_eq!(child.json()["status"], "Cancelled");
    }
}

#[test]
fn a_shared_child_gives_back_what_it_wrote_and_nothing_that_it_only_read() {
    let world = World::with_files(&[
        (
            "kid.json",
            r#"{"id":"kid","vars":{"own":1},"nodes":[
              {"id":"wait","waitForSignal":{"name":"go"},"edges":[{"targetNode":"set"}]},
              {"id":"set","actionType":"core.echo","parameters":{"seen":"{{ vars.read }}"},
               "setVars":{"written":"by the child"}}]}"#,
        ),
        (
            "parent.json",
            r#"{"id":"parent","vars":{"read":"old","written":"by the parent"},"nodes":[
              {"id":"child","subworkflow":{"workflowId":"kid","input":{},"isolation":"shared"}},
              {"id":"change","actionType":"core.echo","setVars":{"read":"new"}}]}"#,
        ),
    ]);
    world.run(&["publish", "kid.json"]).expect(0);
    world
        .run(&["run", "parent.json", "--wait", "3", "-q"])
        .expect(7);
    world
        .run(&["signal", "@last:kid", "go", "--wait", "20", "-q"])
        .expect(0);
    world.run(&["resume", "@last:parent", "-q"]);
    let run = world.run(&["show", "@last:parent", "--json"]).expect(0);
    let run = run.json();
    assert_eq!(run["status"], "Succeeded");
    let expected = json!({"own": 1, "read": "new", "written": "by the child"});
    assert_eq!(run["vars"], expected);
    assert_eq!(run["nodes"]["child"]["output"], json!({"seen": "old"}));
}

#[test]
fn a_fork_from_inside_a_loop_lists_every_instance() {
    let world = World::with_files(&[(
        "flow.json",
        r#"{"id":"flow","nodes":[
          {"id":"each","forEach":{"items":[1,2,3],"body":{"nodes":[
            {"id":"x","actionType":"core.echo","parameters":{"n":"{{ item }}"}},
            {"id":"y","actionType":"core.echo","parameters":{"n":"{{ item }}"},"dependsOn":["x"]}]}}}]}"#,
    )]);
    world.run(&["run", "flow.json", "-q"]).expect(0);
    let fork = world.run(&["fork", "@last", "--from", "each[1]/y", "--json", "-q"]);
    let fork = fork.expect(0).json();
    let paths = [
        "each",
        "each[0]/x",
        "each[0]/y",
        "each[1]/x",
        "each[1]/y",
        "each[2]/x",
        "each[2]/y",
    ];
    let expected: Vec<_> = paths.map(|path| (path, "Succeeded")).into();
    assert_eq!(statuses(&fork), expected);
    let reused = |path: &str| fork["nodes"][path]["reused"] == json!(true);
    let again: Vec<_> = paths.into_iter().filter(|path| !reused(path)).collect();
    assert_eq!(again, ["each", "each[1]/y"]);
    for (at, path) in ["each[0]/y", "each[1]/y", "each[2]/y"].iter().enumerate() {
        assert_eq!(fork["nodes"][path]["output"], json!({"n": at + 1}));
    }
}

#[test]
fn what_an_expression_may_build_is_not_less_than_what_a_node_may_give() {
    let script = |length: usize| {
        format!(
            r#"{{"id":"big","nodes":[{{"id":"a","actionType":"core.script",
              "parameters":{{"expression":"'x'.repeat({length})"}}}}]}}"#
        )
    };
    let limit = 10 * 1024 * 1024;
    let world = World::new();
    let run = |length: usize| {
        world.definition("big.json", &script(length));
        world.run(&["run", "big.json", "--json", "-q"])
    };
    // Two bytes are the quotes.
    let fits = run(limit - 2).expect(0).json();
    assert_eq!(fits["output"].as_str().map(str::len), Some(limit - 2));
    for longer in [limit - 1, 16 * 1024 * 1024] {
        let failed = run(longer).expect(1).json();
        let code = &failed["nodes"]["a"]["error"]["code"];
        assert_eq!(code, "OUTPUT_LIMIT", "{longer}");
    }
    let built = run(16 * 1024 * 1024 + 1).expect(1).json();
    assert_eq!(built["nodes"]["a"]["error"]["code"], "EXPRESSION_LIMIT");
}

#[test]
fn how_a_value_was_typed_does_not_change_its_ancestry() {
    let world = World::with_files(&[(
        "flow.json",
        r#"{"id":"flow","nodes":[
          {"id":"constant","actionType":"core.echo","parameters":{ "\u00e9" : "\u00fc\/" , "n": 1.50 }},
          {"id":"signal","waitForSignal":{"name":"go"}},
          {"id":"hand","waitForSignal":{"name":"never"}}]}"#,
    )]);
    world
        .run(&["run", "flow.json", "--wait", "3", "-q"])
        .expect(7);
    let typed = r#"{ "a" :  [1, 2.50], "\u00e9": "\u00fc" }"#;
    world
        .run(&["signal", "@last", "go", typed, "--wait", "3", "-q"])
        .expect(7);
    world
        .run(&["set-result", "@last", "hand", typed, "-q"])
        .expect(0);
    let run = world.run(&["show", "@last", "--json"]).expect(0).json();
    let hash = |node: &str| run["nodes"][node]["ancestryHash"].clone();
    let compact = "{\"a\":[1,2.50],\"\u{e9}\":\"\u{fc}\"}";
    assert_eq!(hash("signal"), first_hash("signal", 1, compact));
    assert_eq!(hash("hand"), first_hash("hand", 1, compact));
    let constant = "{\"\u{e9}\":\"\u{fc}/\",\"n\":1.50}";
    assert_eq!(hash("constant"), first_hash("constant", 1, constant));
    world.run(&["verify", "@last"]).expect(0);
}

#[test]
fn a_run_that_is_opened_again_follows_the_newest_version() {
    let first = r#"{"id":"flow","inFlight":"healing","nodes":[
      {"id":"a","actionType":"core.fail","parameters":{"untilAttempt":2},"edges":[{"targetNode":"b"}]},
      {"id":"b","actionType":"core.echo"}]}"#;
    let second = first.replace(
        r#"{"id":"b","actionType":"core.echo"}"#,
        r#"{"id":"b","actionType":"core.echo","edges":[{"targetNode":"c"}]},
           {"id":"c","actionType":"core.echo"}"#,
    );
    let world = World::with_files(&[("first.json", first), ("second.json", &second)]);
    world.run(&["run", "first.json", "-q"]).expect(1);
    world.run(&["publish", "second.json"]).expect(0);
    let run = world.run(&["reattempt", "@last", "--json", "-q"]).expect(0);
    let run = run.json();
    assert_eq!(run["version"], 2);
    let expected = [("a", "Succeeded"), ("b", "Succeeded"), ("c", "Succeeded")];
    assert_eq!(statuses(&run), expected);
}

#[test]
fn what_ends_or_holds_a_parent_does_the_same_to_its_children() {
    let world = World::with_files(&[
        (
            "kid.json",
            r#"{"id":"kid","nodes":[
              {"id":"book","actionType":"core.echo","compensate":{"actionType":"core.echo"},
               "edges":[{"targetNode":"slow"}]},
              {"id":"slow","actionType":"core.sleep","parameters":{"ms":60000}}]}"#,
        ),
        (
            "parent.json",
            r#"{"id":"parent","timeoutMs":500,"nodes":[
              {"id":"child","subworkflow":{"workflowId":"kid","input":{}}}]}"#,
        ),
    ]);
    world.run(&["publish", "kid.json"]).expect(0);
    let parent = world.run(&["run", "parent.json", "--json", "-q"]).expect(1);
    let parent = parent.json();
    assert_eq!(parent["error"]["code"], "RUN_TIMEOUT");
    assert_eq!(parent["nodes"]["child"]["status"], "Cancelled");
    let child = world.run(&["show", "@last:kid", "--json"]).expect(0).json();
    assert_eq!(child["status"], "Failed");
    assert_eq!(child["error"]["code"], "RUN_TIMEOUT");
    assert_eq!(child["compensation"], "complete");
}

#[test]
fn a_secret_is_recorded_neither_in_a_key_nor_as_addresses_and_forms_have_it() {
    let world = World::with_files(&[(
        "flow.json",
        r#"{"id":"flow","nodes":[{"id":"a","actionType":"core.echo","parameters":{
          "key":"{{ ({ [secrets.TOKEN]: 1, [`x-${secrets.TOKEN}`]: 2 }) }}",
          "part":"https://example.com/?token={{ encodeURIComponent(secrets.TOKEN) }}",
          "whole":"{{ encodeURI('https://example.com/' + secrets.TOKEN) }}",
          "form":"{{ encodeURIComponent(secrets.TOKEN).replaceAll('%20', '+') }}"}}]}"#,
    )]);
    let mut command = world.command(&["run", "flow.json", "--json", "-q"]);
    command.env("WINDLASS_SECRET_TOKEN", "hush/hush & 'é'");
    let run = windlass_test_support::process::ended(command)
        .expect(0)
        .json();
    let expected = json!({
        "key": {"[redacted]": 1, "x-[redacted]": 2},
        "part": "https://example.com/?token=[redacted]",
        "whole": "https://example.com/[redacted]",
        "form": "[redacted]",
    });
    assert_eq!(run["nodes"]["a"]["output"], expected);
    for shown in [
        &["show", "@last", "--json", "--include", "actions"][..],
        &["events", "@last", "--json"],
    ] {
        let shown = world.run(shown).expect(0);
        assert!(!shown.stdout.contains("hush"), "{}", shown.stdout);
    }
}

#[test]
fn a_node_of_a_closed_iteration_is_refused_by_the_name_of_its_loop() {
    let world = World::with_files(&[(
        "flow.json",
        r#"{"id":"flow","nodes":[
          {"id":"each","forEach":{"items":[1,2],"onItemFailure":"collect","body":{"nodes":[
            {"id":"x","actionType":"core.fail","parameters":{"untilAttempt":"{{ item }}"}}]}}}]}"#,
    )]);
    let run = world.run(&["run", "flow.json", "--json", "-q"]).expect(0);
    assert_eq!(run.json()["nodes"]["each[1]/x"]["status"], "Failed");
    for command in [
        &["reattempt", "@last", "each[1]/x"][..],
        &["reattempt", "@last", "each[1]/x", "--dry-run"],
        &["skip", "@last", "each[1]/x"],
    ] {
        let refused = world.run(command).expect(6);
        // What a dry run finds is its answer.
        let (said, word) = match command.contains(&"--dry-run") {
            true => (refused.stdout, "would refuse"),
            false if command[0] == "skip" => (refused.stderr, "SKIP_REFUSED"),
            false => (refused.stderr, "REATTEMPT_REFUSED"),
        };
        assert!(said.contains(word) && said.contains(": each"), "{said}");
    }
    for unknown in ["each[2]/x", "each[1]/y", "each[x]/x", "other[0]/x"] {
        let refused = world.run(&["reattempt", "@last", unknown]).expect(4);
        assert!(
            refused.stderr.contains("NODE_NOT_FOUND"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_graph_that_was_changed_by_hand_needs_no_signature() {
    let world = World::with_files(&[(
        "flow.json",
        r#"{"id":"flow","nodes":[{"id":"a","waitForSignal":{"name":"go"}}]}"#,
    )]);
    world
        .run(&["run", "flow.json", "--wait", "3", "-q"])
        .expect(7);
    world.run(&["pause", "@last"]).expect(0);
    let mut graph = world.run(&["export", "@last"]).expect(0).json();
    let changed = graph.as_object_mut().expect("an object");
    changed.remove("signature");
    changed["nodes"]["b"] = json!({"actionType": "core.echo", "dependsOn": ["a"]});
    world.definition("graph.json", &graph.to_string());
    world.run(&["import", "@last", "graph.json"]).expect(0);
    let paused = world.run(&["show", "@last", "--json"]).expect(0).json();
    assert_eq!(paused["graph"], "frozen");
    assert_eq!(statuses(&paused), [("a", "Waiting"), ("b", "Pending")]);
    let run = world.run(&["run", "graph.json", "--wait", "3", "-q"]);
    run.expect(7);
}

#[test]
fn schemas_that_cannot_be_used_are_told_beside_all_other_problems() {
    let world = World::with_files(&[(
        "flow.json",
        r#"{"id":"flow","triggerSchema":{"type":"nothing"},"nodes":[
          {"id":"a","waitForSignal":{"name":"go","schema":{"type":"nothing"}},
           "edges":[{"targetNode":"missing"}]},
          {"actionType":"core.echo","parameters":"{{ none }}"}]}"#,
    )]);
    let found = world.run(&["validate", "flow.json", "--json"]).expect(3);
    let text = found.stdout;
    for (code, pointer) in [
        ("INVALID_SCHEMA", "/triggerSchema"),
        ("INVALID_SCHEMA", "/nodes/0/waitForSignal/schema"),
        ("UNKNOWN_NODE", "/nodes/0/edges/0/targetNode"),
        ("MISSING_KEY", "/nodes/1"),
        ("EXPRESSION_UNKNOWN_NAME", "/nodes/1/parameters"),
    ] {
        assert!(
            text.contains(code) && text.contains(pointer),
            "{code}\n{text}"
        );
    }
}

#[test]
fn what_undoes_an_iteration_sees_the_names_of_that_iteration() {
    let world = World::with_files(&[(
        "flow.json",
        r#"{"id":"flow","nodes":[
          {"id":"loop","while":{"condition":"iteration < 3","body":{
            "nodes":[{"id":"x","actionType":"core.echo","parameters":{"round":"{{ iteration }}"},
              "compensate":{"actionType":"core.echo","parameters":{
                "round":"{{ output.round }}","iteration":"{{ iteration }}","last":"{{ last }}"}}}],
            "output":"round {{ iteration }}"}},"edges":[{"targetNode":"fails"}]},
          {"id":"fails","actionType":"core.fail"}]}"#,
    )]);
    world.run(&["run", "flow.json", "-q"]).expect(1);
    let run = world.run(&["show", "@last", "--json", "--include", "actions"]);
    let run = run.expect(0).json();
    let actions = run["actions"].as_array().expect("actions").iter();
    let undone: Vec<_> = actions
        .filter(|action| action["compensation"] == json!(true))
        .map(|action| (action["node"].clone(), action["parameters"].clone()))
        .collect();
    let expected = [
        (2, json!("round 1")),
        (1, json!("round 0")),
        (0, Value::Null),
    ];
    let expected = expected.map(|(round, last)| {
        let parameters = json!({"round": round, "iteration": round, "last": last});
        (json!(format!("loop[{round}]/x")), parameters)
    });
    assert_eq!(undone, expected);
}

#[test]
fn the_time_that_a_new_graph_gives_a_run_counts() {
    let first = r#"{"id":"flow","inFlight":"healing","nodes":[
      {"id":"wait","waitForSignal":{"name":"never"}}]}"#;
    let second = first.replacen("{", r#"{"timeoutMs":1500,"#, 1);
    let world = World::with_files(&[("first.json", first), ("second.json", &second)]);
    let mut holder = world.start(&["run", "first.json", "--json"]);
    holder.run_id();
    world.run(&["publish", "second.json"]).expect(0);
    let healed = holder.end().expect(1).json();
    assert_eq!(healed["version"], 2);
    assert_eq!(healed["error"]["code"], "RUN_TIMEOUT");

    let pinned = first.replace("healing", "pinned").replace("flow", "own");
    world.definition("own.json", &pinned);
    let mut holder = world.start(&["run", "own.json", "--json"]);
    let run = holder.run_id();
    world.run(&["pause", &run]).expect(0);
    let mut graph = world.run(&["export", &run]).expect(0).json();
    graph["timeoutMs"] = json!(1500);
    world.definition("graph.json", &graph.to_string());
    world.run(&["import", &run, "graph.json"]).expect(0);
    let imported = holder.end().expect(1).json();
    assert_eq!(imported["error"]["code"], "RUN_TIMEOUT");
}
