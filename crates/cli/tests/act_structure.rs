//! Acting on loops, waits, children and sagas with the real binary: signals, results by
//! hand, compensation, forks.

use serde_json::{Value, json};
use windlass_test_support::process::World;

const APPROVE: &str = r#"{"id":"approve","nodes":[
  {"id":"ask","actionType":"core.echo"},
  {"id":"wait","waitForSignal":{"name":"decision","schema":{"type":"object","required":["ok"],
    "properties":{"ok":{"type":"boolean"}}}},"dependsOn":["ask"]},
  {"id":"done","actionType":"core.echo","parameters":{"ok":"{{ context.data['wait'].ok }}"},
   "dependsOn":["wait"]}]}"#;

/// The second item fails until it is tried again.
const ITEMS: &str = r#"{"id":"items","vars":{"who":"me"},"output":{"who":"{{ vars.who }}",
  "all":"{{ context.data['each'] }}"},"nodes":[
  {"id":"first","actionType":"core.echo","parameters":{"n":"{{ trigger.n ?? 1 }}"}},
  {"id":"each","forEach":{"items":"{{ [1,2,3] }}","parallel":false,"onItemFailure":"fail","body":{"nodes":[
    {"id":"x","actionType":"core.echo","parameters":{"n":"{{ item }}"}},
    {"id":"y","actionType":"core.fail","parameters":{"untilAttempt":"{{ item == 2 ? 2 : 1 }}"},
     "dependsOn":["x"]}]}},"dependsOn":["first"]}]}"#;

const SAGA: &str = r#"{"id":"saga","compensation":"manual","nodes":[
  {"id":"a","actionType":"core.echo","compensate":{"actionType":"core.echo"}},
  {"id":"b","actionType":"core.echo","compensate":{"actionType":"core.fail","parameters":{"code":"STUCK"}},
   "dependsOn":["a"]},
  {"id":"bad","actionType":"core.fail","dependsOn":["b"]}]}"#;

fn world(name: &str, text: &str) -> World {
    World::with_files(&[(name, text)])
}

/// Starts a run that waits, and leaves it.
fn left(world: &World, file: &str) {
    world.run(&["run", file, "--wait", "3", "-q"]).expect(7);
}

/// The failure's code, as programs read it.
fn code(stderr: &str) -> Value {
    let last = stderr.lines().last().expect("a line");
    let failure: Value = serde_json::from_str(last).expect("JSON");
    failure["error"]["code"].clone()
}

#[test]
fn a_signal_is_checked_and_carries_the_run_on() {
    let world = world("approve.json", APPROVE);
    left(&world, "approve.json");
    let wrong = world.run(&["signal", "@last", "decision", r#"{"ok":"yes"}"#, "--json"]);
    let wrong = wrong.expect(3);
    let failure: Value = serde_json::from_str(wrong.stderr.trim()).expect("JSON");
    assert_eq!(failure["error"]["code"], "SIGNAL_INVALID");
    assert_eq!(failure["error"]["details"][0]["pointer"], "/ok");
    let not_json = world.run(&["signal", "@last", "decision", "{"]).expect(3);
    assert!(
        not_json.stderr.contains("SIGNAL_INVALID"),
        "{}",
        not_json.stderr
    );
    let unknown = world.run(&["signal", "@last", "decisoin"]).expect(6);
    assert!(
        unknown.stderr.contains("SIGNAL_UNKNOWN"),
        "{}",
        unknown.stderr
    );
    assert!(
        unknown.stderr.contains("it knows decision"),
        "{}",
        unknown.stderr
    );
    let usage = world.run(&["signal", "@last"]).expect(2);
    assert!(
        usage.stderr.contains("windlass signal RUN NAME"),
        "{}",
        usage.stderr
    );
    let dry = ["signal", "@last", "decision", r#"{"ok":true}"#, "--dry-run"];
    world.run(&dry).expect(0);
    world.definition("payload.json", "{\n \"ok\": true\n}\n");
    let ended = world.run(&["signal", "@last", "decision", "@payload.json", "--json"]);
    let run = ended.expect(0).json();
    assert_eq!(run["status"], "Succeeded");
    assert_eq!(run["output"], json!({"ok": true}));
    let late = world
        .run(&["signal", "@last", "decision", r#"{"ok":true}"#])
        .expect(6);
    assert!(late.stderr.contains("RUN_ENDED"), "{}", late.stderr);
}

#[test]
fn a_signal_need_not_fit_the_schema_of_a_node_that_has_its_signal() {
    let two = r#"{"id":"two","nodes":[
      {"id":"first","waitForSignal":{"name":"go","schema":{"type":"object"}}},
      {"id":"other","waitForSignal":{"name":"hold"},"dependsOn":["first"]},
      {"id":"second","waitForSignal":{"name":"go","schema":{"type":"number"}},"dependsOn":["other"]}]}"#;
    let world = world("two.json", two);
    left(&world, "two.json");
    let signal = |name: &str, payload: &str| {
        world.run(&[
            "signal", "@last", name, payload, "--wait", "3", "-q", "--json",
        ])
    };
    // Both nodes may get it.
    assert_eq!(code(&signal("go", "7").expect(3).stderr), "SIGNAL_INVALID");
    let two = two.replace(r#""type":"number""#, r#""type":["number","object"]"#);
    std::fs::write(world.path().join("two.json"), two).expect("a file");
    left(&world, "two.json");
    signal("go", "{}").expect(7);
    signal("go", "7").expect(7);
    let ended = signal("hold", "null").expect(0).json();
    assert_eq!(ended["nodes"]["second"]["output"], 7);
}

#[test]
fn a_signal_that_no_node_waits_for_any_more_is_unknown() {
    let definition = r#"{"id":"two","nodes":[
      {"id":"first","waitForSignal":{"name":"go","schema":{"type":"object"}}},
      {"id":"other","waitForSignal":{"name":"hold"},"dependsOn":["first"]}]}"#;
    let world = world("two.json", definition);
    left(&world, "two.json");
    let first = ["signal", "@last", "go", "{}", "--wait", "3", "-q"];
    world.run(&first).expect(7);
    let late = world.run(&["signal", "@last", "go", "7"]).expect(6).stderr;
    assert!(late.contains("SIGNAL_UNKNOWN"), "{late}");
    assert!(late.contains("it knows hold"), "{late}");
}

#[test]
fn a_signal_through_the_holder_returns_at_once() {
    let world = world("approve.json", APPROVE);
    let mut holder = world.start(&["run", "approve.json", "--json"]);
    let run = holder.run_id();
    holder.wait_for("ask: Succeeded");
    let early = ["signal", &run, "decision", r#"{"ok":false}"#, "--json"];
    let given = world.run(&early).expect(0).json();
    assert_eq!(given["executionId"], run.as_str());
    let ended = holder.end().expect(0);
    assert_eq!(ended.json()["output"]["ok"], false);
}

#[test]
fn a_signal_that_was_taken_survives_a_kill() {
    let slow = APPROVE.replace(
        r#""actionType":"core.echo","parameters":{"ok":"{{ context.data['wait'].ok }}"}"#,
        r#""actionType":"core.sleep","parameters":{"ms":60000}"#,
    );
    let slow = slow.replacen("{", r#"{"output":"{{ context.data['wait'] }}","#, 1);
    let world = world("approve.json", &slow);
    let mut holder = world.start(&["run", "approve.json"]);
    let run = holder.run_id();
    holder.wait_for("ask: Succeeded");
    world
        .run(&["signal", &run, "decision", r#"{"ok":true}"#])
        .expect(0);
    holder.kill();
    let ended = world.run(&["skip", &run, "done", "--json"]).expect(0);
    assert_eq!(ended.json()["output"], json!({"ok": true}));
}

#[test]
fn many_runs_get_a_signal() {
    let world = world("approve.json", APPROVE);
    left(&world, "approve.json");
    left(&world, "approve.json");
    let payload = r#"{"ok":true}"#;
    let filter = [
        "signal",
        "--filter",
        "workflow=approve",
        "decision",
        payload,
        "--json",
    ];
    let given = world.run(&filter).expect(0).json();
    assert_eq!(given.as_array().map(Vec::len), Some(2));
    assert!(
        given
            .as_array()
            .expect("a list")
            .iter()
            .all(|run| run["status"] == "Succeeded")
    );
}

#[test]
fn a_paused_run_keeps_its_signal() {
    let world = world("approve.json", APPROVE);
    left(&world, "approve.json");
    world.run(&["pause", "@last"]).expect(0);
    let given = world
        .run(&["signal", "@last", "decision", r#"{"ok":true}"#])
        .expect(0);
    assert!(given.stdout.contains("Paused"), "{}", given.stdout);
    world.run(&["resume", "@last", "-q"]).expect(0);
}

#[test]
fn nodes_inside_loops_are_tried_again_and_given_results() {
    let world = world("items.json", ITEMS);
    world.run(&["run", "items.json", "-q"]).expect(1);
    let dry = ["reattempt", "@last", "each[1]/y", "--dry-run", "--json"];
    let would = world.run(&dry).expect(0).json();
    assert_eq!(would["again"], json!(["each", "each[1]/y"]));
    let closed = world.run(&["reattempt", "@last", "each[0]/y"]).expect(6);
    assert!(closed.stderr.contains("fork"), "{}", closed.stderr);
    let ended = world
        .run(&["reattempt", "@last", "each[1]/y", "--json"])
        .expect(0)
        .json();
    assert_eq!(ended["output"]["all"][1]["attempt"], 2);
    world.run(&["run", "items.json", "-q"]).expect(1);
    let invalid = world
        .run(&["set-result", "@last", "each[1]/y", "{", "--json"])
        .expect(3);
    assert_eq!(code(&invalid.stderr), "RESULT_INVALID");
    let set = [
        "set-result",
        "@last",
        "each[1]/y",
        r#"{"by":"hand"}"#,
        "--json",
    ];
    let ended = world.run(&set).expect(0).json();
    assert_eq!(ended["output"]["all"][1], json!({"by": "hand"}));
    let refused = world
        .run(&["set-result", "@last", "first", "1", "--json"])
        .expect(6);
    assert_eq!(code(&refused.stderr), "REATTEMPT_REFUSED");
    world.run(&["run", "items.json", "-q"]).expect(1);
    let skipped = world
        .run(&["skip", "@last", "each[1]/y", "--json"])
        .expect(0)
        .json();
    assert_eq!(skipped["output"]["all"][1], Value::Null);
    world.run(&["skip", "@last", "nope"]).expect(4);
}

#[test]
fn compensation_is_the_operators() {
    let world = world("saga.json", SAGA);
    world.run(&["run", "saga.json", "-q"]).expect(1);
    let preview = ["compensate", "@last", "--preview", "--json"];
    let before = world.run(&preview).expect(0).json();
    assert_eq!(before["compensation"], Value::Null);
    let nodes = |preview: &Value| {
        let nodes = preview["nodes"].as_array().expect("a list").iter();
        let text = |node: &Value| format!("{}:{}", node["node"], node["status"]).replace('"', "");
        nodes.map(text).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&before), ["b:Pending", "a:Pending"]);
    let dry = world
        .run(&["compensate", "@last", "--dry-run", "--json"])
        .expect(0)
        .json();
    assert_eq!(dry["undone"], json!(["b", "a"]));
    let early = world
        .run(&["compensate", "@last", "--retry", "b"])
        .expect(6);
    assert!(early.stderr.contains("has not begun"), "{}", early.stderr);
    let incomplete = world.run(&["compensate", "@last", "-q"]).expect(1);
    assert!(
        incomplete.stderr.contains("incomplete"),
        "{}",
        incomplete.stderr
    );
    let stuck = world.run(&preview).expect(0).json();
    assert_eq!(stuck["compensation"], "incomplete");
    assert_eq!(nodes(&stuck), ["b:Failed", "a:Succeeded"]);
    world
        .run(&["compensate", "@last", "--retry", "b", "-q"])
        .expect(1);
    world
        .run(&["compensate", "@last", "--skip", "b", "-q"])
        .expect(0);
    let done = world.run(&preview).expect(0).json();
    assert_eq!(done["compensation"], "complete");
    let again = world.run(&["reattempt", "@last", "--json"]).expect(6);
    assert_eq!(code(&again.stderr), "COMPENSATED");
}

#[test]
fn cancelling_can_undo() {
    let waits = APPROVE.replace(
        r#"{"id":"ask","actionType":"core.echo"}"#,
        r#"{"id":"ask","actionType":"core.echo","compensate":{"actionType":"core.echo"}}"#,
    );
    let world = world("approve.json", &waits);
    left(&world, "approve.json");
    let dry = ["cancel", "@last", "--compensate", "--dry-run", "--json"];
    assert_eq!(world.run(&dry).expect(0).json()["undone"], json!(["ask"]));
    world.run(&["cancel", "@last", "--compensate"]).expect(0);
    let preview = world
        .run(&["compensate", "@last", "--preview", "--json"])
        .expect(0)
        .json();
    assert_eq!(preview["status"], "Cancelled");
    assert_eq!(preview["compensation"], "complete");
}

#[test]
fn a_fork_reuses_what_came_before() {
    let world = world("items.json", ITEMS);
    world.run(&["run", "items.json", "-q"]).expect(1);
    world
        .run(&["set-result", "@last", "each[1]/y", "7", "-q"])
        .expect(0);
    let dry = [
        "fork",
        "@last",
        "--from",
        "each[2]/y",
        "--dry-run",
        "--json",
    ];
    let would = world.run(&dry).expect(0).json();
    assert_eq!(would["again"], json!(["each[2]/y"]));
    assert_eq!(would["rest"], json!([]));
    let reused = would["reused"].as_array().expect("a list");
    assert!(reused.contains(&json!("each[1]/y")) && reused.contains(&json!("first")));
    let fork = [
        "fork",
        "@last",
        "--from",
        "each[2]/y",
        "--set",
        "vars.who=you",
        "--reason",
        "the third was wrong",
        "--json",
    ];
    let ended = world.run(&fork).expect(0).json();
    assert_eq!(ended["origin"]["reason"], "the third was wrong");
    let shown = world.run(&["show", "@last"]).expect(0).stdout;
    assert!(shown.contains("the third was wrong"), "{shown}");
    assert_eq!(
        ended["output"],
        json!({"who": "you", "all": [{"attempt": 1}, 7, {"attempt": 1}]})
    );
    world.run(&["verify", "@last"]).expect(0);
    world.run(&["fork", "@last", "--from", "nope"]).expect(4);
    world.run(&["fork", "@last"]).expect(2);
    world
        .run(&["fork", "@last", "--from", "each", "--set", "vars.nope=1"])
        .expect(2);
}

/// The trip's booking is undone when its payment fails.
const TRIP: &str = r#"{"id":"trip","output":"{{ context.data['book'] }}","nodes":[
  {"id":"quote","actionType":"core.echo"},
  {"id":"book","actionType":"core.echo","parameters":{"n":"{{ trigger.n }}"},
   "compensate":{"actionType":"core.echo"},"dependsOn":["quote"]},
  {"id":"pay","actionType":"core.fail","parameters":{"untilAttempt":"{{ trigger.n }}"},
   "dependsOn":["book"]}]}"#;

#[test]
fn a_fork_refuses_other_parameters_for_a_node_whose_result_it_reuses() {
    let two = r#"{"id":"two","nodes":[{"id":"a","actionType":"core.echo"},
        {"id":"b","actionType":"core.echo","dependsOn":["a"]}]}"#;
    let world = world("two.json", two);
    world.run(&["run", "two.json", "-q"]).expect(0);
    let fork = |node: &str| {
        let set = format!("nodes.{node}.parameters.q=5");
        world.run(&["fork", "@last", "--from", "b", "--set", &set])
    };
    let refused = fork("a").expect(2);
    assert!(refused.stderr.contains("--from a"), "{}", refused.stderr);
    fork("b").expect(0);
}

#[test]
fn a_fork_begins_at_a_node_that_failed_in_an_iteration_that_has_ended() {
    let world = world(
        "collect.json",
        r#"{"id":"collect","nodes":[{"id":"each","forEach":{"items":[1,2],
            "onItemFailure":"collect","body":{"nodes":[
              {"id":"x","actionType":"core.fail","parameters":{"untilAttempt":
                "{{ item == 2 && trigger.bad ? 9 : 1 }}","retriable":false}},
              {"id":"y","dependsOn":["x"],"actionType":"core.echo"}]}}}]}"#,
    );
    let trigger = ["--trigger", r#"{"bad": true}"#];
    world
        .run(&[&["run", "collect.json"], &trigger[..]].concat())
        .expect(0);
    for node in ["each[1]/x", "each[1]/y"] {
        let dry = ["fork", "@last", "--from", node, "--dry-run", "--json"];
        let would = world.run(&dry).expect(0).json();
        assert!(would["again"].to_string().contains(node), "{would}");
    }
    let unknown = ["fork", "@last", "--from", "each[7]/x", "--json"];
    world.run(&unknown).failed(4, "NODE_NOT_FOUND");
    let fork = [
        "fork",
        "@last",
        "--from",
        "each[1]/x",
        "--set",
        "trigger.bad=false",
    ];
    let ended = world
        .run(&[&fork[..], &["--json"]].concat())
        .expect(0)
        .json();
    assert_eq!(ended["status"], "Succeeded", "{ended}");
    assert_eq!(ended["nodes"]["each"]["counts"]["failed"], 0, "{ended}");
}

#[test]
fn a_fork_books_again_what_was_undone() {
    let world = world("trip.json", TRIP);
    let run = [
        "run",
        "trip.json",
        "-q",
        "--trigger",
        r#"{"n":2}"#,
        "--json",
    ];
    let failed = world.run(&run).expect(1).json();
    assert_eq!(failed["compensation"], "complete");
    let origin = failed["executionId"].as_str().expect("an id");
    let fork = ["fork", origin, "--from", "pay", "--set", "trigger.n=1"];
    let with = |more: &[&'static str]| world.run(&[&fork[..], more].concat()).expect(0);
    let dry = with(&["--dry-run"]).stdout;
    assert!(dry.contains("again: pay, book (compensated)"), "{dry}");
    assert!(dry.contains("reused: quote"), "{dry}");
    let dry = with(&["--dry-run", "--reuse-compensated"]).stdout;
    assert!(dry.contains("again: pay\n"), "{dry}");
    assert!(dry.contains("book (compensated)"), "{dry}");
    let dry = with(&["--dry-run", "--json"]).json();
    let mark = |reused: bool| json!([{"node": "book", "status": "Succeeded", "reused": reused}]);
    assert_eq!(dry["again"], json!(["pay", "book"]));
    assert_eq!(dry["compensated"], mark(false));
    let dry = with(&["--dry-run", "--reuse-compensated", "--json"]).json();
    assert_eq!(dry["compensated"], mark(true));
    let many = [
        "fork",
        "--filter",
        "workflow=trip",
        "--from",
        "pay",
        "--dry-run",
    ];
    let many = world.run(&many).expect(0).stdout;
    assert!(many.contains("again: pay, book (compensated)"), "{many}");
    let booked = with(&["-q", "--json"]).json();
    assert_eq!(booked["output"]["n"], 1, "{booked}");
    assert_ne!(booked["nodes"]["book"]["reused"], true, "{booked}");
    let reused = with(&["-q", "--json", "--reuse-compensated"]).json();
    assert_eq!(reused["output"]["n"], 2, "{reused}");
    assert_eq!(reused["nodes"]["book"]["reused"], true, "{reused}");
    world.run(&["verify", "@last"]).expect(0);
}

#[test]
fn a_fork_may_walk_another_graph() {
    let world = world("items.json", ITEMS);
    world.run(&["run", "items.json", "-q"]).expect(1);
    let request = ["--request-id", "once", "--json"];
    let set = [
        "--set",
        "nodes.each/y.parameters.untilAttempt=1",
        "--set",
        "trigger.n=9",
    ];
    let mut fork = vec!["fork", "@last:items", "--from", "first"];
    fork.extend(set);
    fork.extend(request);
    let ended = world.run(&fork).expect(0).json();
    assert_eq!(ended["status"], "Succeeded");
    assert_eq!(ended["existing"], false);
    assert_eq!(ended["nodes"]["first"]["output"]["n"], 9);
    let twice = world.run(&fork).expect(0).json();
    assert_eq!(twice["executionId"], ended["executionId"]);
    assert_eq!(twice["existing"], true);
    let better = ITEMS.replace("item == 2 ? 2 : 1", "1");
    world.definition("items.json", &better);
    world.run(&["publish", "items.json"]).expect(0);
    let newest = ["fork", "@last", "--from", "each", "--newest", "--json"];
    assert_eq!(world.run(&newest).expect(0).json()["version"], 2);
    let missing = world
        .run(&["fork", "@last", "--from", "each", "--version", "9"])
        .expect(4);
    assert!(
        missing.stderr.contains("VERSION_NOT_FOUND"),
        "{}",
        missing.stderr
    );
}

/// Many old runs are forked together: here, and through the process that holds the directory.
#[test]
fn forks_of_many() {
    let world = world("items.json", ITEMS);
    world.definition("approve.json", APPROVE);
    world.run(&["run", "items.json", "-q"]).expect(1);
    world.run(&["run", "items.json", "-q"]).expect(1);
    let none = world.run(&["fork", "--filter", "workflow=other", "--from", "each"]);
    assert!(none.expect(0).stderr.contains("no run fits"));
    let origins = world
        .run(&["runs", "--workflow", "items", "--json"])
        .expect(0)
        .json();
    let origins: Vec<_> = origins["items"].as_array().expect("a list").clone();
    let set = "nodes.each/y.parameters.untilAttempt=1";
    let fork = |more: &[&'static str]| {
        let mut fork = vec!["fork", "--filter", "workflow=items", "--set", set, "--json"];
        fork.extend(["--filter", "status=Failed"]);
        fork.extend(more);
        world.run(&fork)
    };
    let would = fork(&["--from", "each", "--dry-run"]).expect(0).json();
    assert_eq!(would.as_array().map(Vec::len), Some(2), "{would}");
    let forks = fork(&["--from", "each"]).expect(0).json();
    for (fork, origin) in forks.as_array().expect("a list").iter().zip(&origins) {
        assert_eq!(fork["status"], "Succeeded");
        assert_eq!(fork["origin"]["executionId"], origin["executionId"]);
        let id = fork["executionId"].as_str().expect("an id");
        let shown = world.run(&["show", id, "--json"]).expect(0).json();
        assert_eq!(shown["origin"]["executionId"], origin["executionId"]);
    }
    let refused = fork(&["--from", "nope"]).expect(4).json();
    assert_eq!(refused[1]["error"]["code"], "NODE_NOT_FOUND", "{refused}");
    let mut holder = world.start(&["run", "approve.json"]);
    let waiting = holder.run_id();
    holder.wait_for("ask: Succeeded");
    let forks = fork(&["--from", "each"]).expect(0).json();
    assert_eq!(forks.as_array().map(Vec::len), Some(2), "{forks}");
    for fork in forks.as_array().expect("a list") {
        let id = fork["executionId"].as_str().expect("an id");
        world.run(&["watch", id]).expect(0);
    }
    world
        .run(&["signal", &waiting, "decision", r#"{"ok":true}"#])
        .expect(0);
    holder.end().expect(0);
    let with_id = [
        "fork",
        "--filter",
        "status=Failed",
        "--from",
        "x",
        "--request-id",
        "a",
    ];
    world.run(&with_id).expect(2);
}

#[test]
fn a_fork_goes_through_the_holder() {
    let world = world("items.json", ITEMS);
    world.definition("approve.json", APPROVE);
    world.run(&["run", "items.json", "-q"]).expect(1);
    let mut holder = world.start(&["run", "approve.json"]);
    let waiting = holder.run_id();
    holder.wait_for("ask: Succeeded");
    let set = "nodes.each/y.parameters.untilAttempt=1";
    let fork = [
        "fork",
        "@last:items",
        "--from",
        "first",
        "--set",
        set,
        "--json",
    ];
    let ended = world.run(&fork).expect(0).json();
    assert_eq!(ended["status"], "Succeeded");
    world
        .run(&["signal", &waiting, "decision", r#"{"ok":true}"#])
        .expect(0);
    holder.end().expect(0);
}

#[test]
fn children_follow_their_parent() {
    let world = world("approve.json", APPROVE);
    world.definition(
        "parent.json",
        r#"{"id":"parent","nodes":[{"id":"sub","subworkflow":{"workflowId":"approve","input":{}}},
           {"id":"after","actionType":"core.echo","dependsOn":["sub"]}]}"#,
    );
    world.run(&["publish", "approve.json"]).expect(0);
    left(&world, "parent.json");
    let of_parent = ["runs", "--parent", "@last:parent", "--json"];
    let child = || world.run(&of_parent).expect(0).json()["items"][0].clone();
    let id = child()["executionId"].as_str().expect("an id").to_owned();
    world.run(&["pause", "@last:parent"]).expect(0);
    assert_eq!(child()["status"], "Paused");
    world
        .run(&["resume", "@last:parent", "-q", "--wait", "3"])
        .expect(7);
    assert_eq!(child()["status"], "Running");
    // The process that executes the child also recovers the runs that wait for it.
    world
        .run(&["signal", &id, "decision", r#"{"ok":true}"#, "-q"])
        .expect(0);
    let parent = ["runs", "--workflow", "parent", "--json"];
    let parent = world.run(&parent).expect(0).json()["items"][0].clone();
    assert_eq!(parent["status"], "Succeeded");
}

/// A fork reuses what stands after a node that runs again, because it had failed: reached by
/// another way than in the run it comes from, it is still that run's result.
#[test]
fn a_fork_that_takes_another_way_is_verified() {
    let world = world(
        "ways.json",
        r#"{"id":"ways","nodes":[
          {"id":"try","actionType":"core.fail","parameters":{"untilAttempt":"{{ trigger.n }}"},
           "edges":[{"targetNode":"join"},{"targetNode":"help","when":"failure"}]},
          {"id":"help","actionType":"core.echo","edges":[{"targetNode":"join"}]},
          {"id":"join","actionType":"core.echo","edges":[{"targetNode":"end"}]},
          {"id":"end","actionType":"core.echo"}]}"#,
    );
    let run = ["run", "ways.json", "-q", "--trigger", r#"{"n":2}"#];
    world.run(&run).expect(0);
    let fork = ["fork", "@last", "--from", "end", "--set", "trigger.n=1"];
    let forked = world.run(&[&fork[..], &["--json", "-q"]].concat());
    let nodes = forked.expect(0).json()["nodes"].clone();
    assert_eq!(nodes["help"]["status"], "Skipped");
    assert_eq!(nodes["join"]["reused"], true);
    let verified = world.run(&["verify", "@last", "--json"]).expect(0).json();
    assert_eq!(verified["valid"], true, "{verified}");
}
