//! Limits can be set, each has its own code, and what is at the limit is let through.

use serde_json::Value;
use windlass_test_support::process::{World, ended};

/// A definition that is as large, as deep and as busy as its letters say.
fn flow(nodes: usize, output: usize) -> String {
    let node = |n: usize| {
        format!(
            r#"{{"id":"n{n}","actionType":"core.echo","parameters":"{}"}}"#,
            "x".repeat(output)
        )
    };
    let nodes: Vec<String> = (0..nodes).map(node).collect();
    format!(r#"{{"id":"flow","nodes":[{}]}}"#, nodes.join(","))
}

/// Runs a definition under a limit; its exit, and the code of what was refused or failed.
fn run(definition: &str, setting: (&str, usize), trigger: &str) -> (i32, Option<String>) {
    let world = World::new();
    world.definition("flow.json", definition);
    let mut command = world.command(&["run", "flow.json", "--json", "-q", "--trigger", trigger]);
    command.env(setting.0, setting.1.to_string());
    let done = ended(command);
    let code = done.code;
    let value: Value = match code {
        0 | 1 => done.json(),
        _ => serde_json::from_str(&done.stderr).expect("a JSON error"),
    };
    let found = [
        &value["error"]["code"],
        &value["nodes"]["n0"]["error"]["code"],
        &value["error"]["details"][0]["code"],
    ];
    let text = |value: &&Value| value.as_str().map(str::to_owned);
    let named = found.iter().filter_map(text);
    let outer = ["RUN_FAILED", "DEFINITION_INVALID", "NODE_FAILED"];
    let mut named = named.filter(|code| !outer.contains(&code.as_str()));
    (code, named.next_back())
}

#[track_caller]
fn at_the_limit(setting: &str, limit: usize, code: &str, make: impl Fn(usize) -> (String, String)) {
    let try_with = |size: usize| {
        let (definition, trigger) = make(size);
        run(&definition, (setting, limit), &trigger)
    };
    assert_eq!(try_with(limit).0, 0, "{setting} at the limit");
    let (exit, found) = try_with(limit + 1);
    assert!(matches!(exit, 1 | 3), "{setting}: exit {exit}");
    assert_eq!(found.as_deref(), Some(code), "{setting}");
}

fn with_trigger(trigger: String) -> (String, String) {
    (flow(1, 1), trigger)
}

#[test]
fn every_limit_can_be_set() {
    let plain = |definition: String| (definition, "{}".to_owned());
    at_the_limit("WINDLASS_LIMIT_NODES", 3, "NODE_LIMIT", |nodes| {
        plain(flow(nodes, 1))
    });
    let empty = flow(1, 0).len();
    at_the_limit(
        "WINDLASS_LIMIT_DEFINITION_BYTES",
        empty + 9,
        "DEFINITION_TOO_LARGE",
        |bytes| plain(flow(1, bytes - empty)),
    );
    at_the_limit("WINDLASS_LIMIT_NESTING", 10, "NESTING_LIMIT", |depth| {
        with_trigger(format!("{}{}", "[".repeat(depth), "]".repeat(depth)))
    });
    at_the_limit(
        "WINDLASS_LIMIT_TRIGGER_BYTES",
        30,
        "TRIGGER_TOO_LARGE",
        |bytes| with_trigger(format!("\"{}\"", "x".repeat(bytes - 2))),
    );
    at_the_limit("WINDLASS_LIMIT_OUTPUT_BYTES", 50, "OUTPUT_LIMIT", |bytes| {
        plain(flow(1, bytes - 2))
    });
    at_the_limit(
        "WINDLASS_LIMIT_RUN_OUTPUTS_BYTES",
        50,
        "RUN_OUTPUTS_LIMIT",
        |bytes| plain(flow(1, bytes - 2)),
    );
}

#[test]
fn variables_have_a_limit_together() {
    let setting = "WINDLASS_LIMIT_VARS";
    // What the definition begins with, and what a node sets; the name counts too.
    let declared = |bytes: usize| {
        let value = "x".repeat(bytes - 3);
        let flow = flow(1, 1).replacen('{', &format!(r#"{{"vars":{{"v":"{value}"}},"#), 1);
        (flow, "{}".to_owned())
    };
    at_the_limit(setting, 50, "VARS_LIMIT", declared);
    let set = |bytes: usize| {
        let output = flow(1, bytes - 3);
        let flow = output.replacen(
            r#""actionType""#,
            r#""setVars":{"v":"{{ output }}"},"actionType""#,
            1,
        );
        (flow, "{}".to_owned())
    };
    at_the_limit(setting, 50, "VARS_LIMIT", set);
}

#[test]
fn a_schema_has_a_limit() {
    let schema = |subschemas: usize| {
        let parts = vec!["true"; subschemas - 1].join(",");
        let schema = format!(r#"{{"triggerSchema":{{"allOf":[{parts}]}},"#);
        (flow(1, 1).replacen('{', &schema, 1), "{}".to_owned())
    };
    at_the_limit("WINDLASS_LIMIT_SCHEMA", 10, "SCHEMA_LIMIT", schema);
}

#[test]
fn expressions_have_limits_of_their_own() {
    let script = |expression: String| {
        let node = format!(
            r#"{{"id":"n0","actionType":"core.echo","parameters":"{{{{{expression}}}}}"}}"#
        );
        let definition = format!(r#"{{"id":"flow","nodes":[{node}]}}"#);
        (definition, "{}".to_owned())
    };
    let refused = |setting: &str, limit: usize, fits: &str, does_not: &str| {
        for (expression, expected) in [(fits, None), (does_not, Some("EXPRESSION_LIMIT"))] {
            let (definition, trigger) = script(expression.to_owned());
            let (exit, code) = run(&definition, (setting, limit), &trigger);
            assert_eq!(code.as_deref(), expected, "{setting} {expression}");
            assert_eq!(exit == 0, expected.is_none(), "{setting} {expression}");
        }
    };
    refused("WINDLASS_LIMIT_EXPRESSION_BYTES", 5, "1+1+1", "1+1+10");
    refused(
        "WINDLASS_LIMIT_EXPRESSION_NESTING",
        6,
        "((1))",
        "((((((((1))))))))",
    );
    let many = "[1,2,3].map(x => [1,2,3].map(y => x * y).length)";
    refused("WINDLASS_LIMIT_EXPRESSION_STEPS", 20, "1 + 1", many);
    let long = "'x'.repeat(500).length";
    refused("WINDLASS_LIMIT_EXPRESSION_BUILT_BYTES", 100, "1 + 1", long);
}

#[test]
fn a_limit_that_is_none_is_refused() {
    let world = World::new();
    world.definition("flow.json", &flow(1, 1));
    for (setting, value) in [
        ("WINDLASS_LIMIT_NODES", "0"),
        ("WINDLASS_LIMIT_NESTING", "65"),
        ("WINDLASS_LIMIT_OUTPUT_BYTES", "1073741825"),
        ("WINDLASS_LIMIT_EXPRESSION_STEPS", "many"),
        ("WINDLASS_LIMIT_VARS", "0"),
        ("WINDLASS_LIMIT_SCHEMA", "-1"),
        ("WINDLASS_LIMIT_RETRY_AFTER", "off"),
    ] {
        let mut command = world.command(&["run", "flow.json"]);
        command.env(setting, value);
        let refused = ended(command).expect(2);
        assert!(refused.stderr.contains("limit_"), "{}", refused.stderr);
    }
}
