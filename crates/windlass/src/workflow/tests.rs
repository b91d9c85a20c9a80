//! One test for each rule of the builder.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::definition::{
    CompensationPolicy, ExecutionMode, FailurePolicy, InFlight, OnCompensationError, When,
};

use super::{BuildError, Problem, Workflow, WorkflowBuilder};
use crate::{ActionError, Context, Reply, Retry, nodes};

fn flow() -> WorkflowBuilder {
    Workflow::builder("flow")
}

/// The graph as `node<dependencies`, in the order of declaration.
fn graph(workflow: &Workflow) -> String {
    let node = |node: &windlass_core::definition::Node| {
        let dependencies: Vec<&str> = node.depends_on.iter().map(|name| &**name).collect();
        format!("{}<{}", node.id, dependencies.join(","))
    };
    let nodes: Vec<String> = workflow.definition().nodes.iter().map(node).collect();
    nodes.join(" ")
}

fn json_of(workflow: &Workflow) -> Value {
    serde_json::from_str(workflow.json()).expect("JSON")
}

fn problems(result: Result<Workflow, BuildError>) -> Vec<String> {
    let error = result.expect_err("refused");
    error.problems.iter().map(ToString::to_string).collect()
}

const ECHO: &str = "core.echo";

#[test]
fn a_step_depends_on_the_previous_one_and_the_first_is_an_entry() {
    let workflow = flow().step("a", ECHO).step("b", ECHO).step("c", ECHO);
    assert_eq!(graph(&workflow.build().expect("built")), "a< b<a c<b");
}

#[test]
fn an_inserted_step_goes_between_and_the_chain_follows() {
    let workflow = flow()
        .step("validate", ECHO)
        .step("complete", ECHO)
        .step("audit", ECHO)
        .after("validate")
        .build()
        .expect("built");
    assert_eq!(graph(&workflow), "validate< complete<audit audit<validate");
    let workflow = flow()
        .step("validate", ECHO)
        .step("complete", ECHO)
        .step("audit", ECHO)
        .before("complete")
        .build()
        .expect("built");
    assert_eq!(graph(&workflow), "validate< complete<audit audit<validate");
}

#[test]
fn positions_bind_late() {
    let workflow = flow()
        .step("audit", ECHO)
        .after("validate")
        .step("validate", ECHO)
        .step("ship", ECHO)
        .build()
        .expect("built");
    assert_eq!(graph(&workflow), "audit<validate validate< ship<audit");
}

#[test]
fn a_task_has_the_dependencies_it_names_and_is_not_in_the_chain() {
    let workflow = flow()
        .step("validate", ECHO)
        .task("inventory", ECHO)
        .depends_on(["validate"])
        .task("alone", ECHO)
        .step("charge", ECHO)
        .build()
        .expect("built");
    assert_eq!(
        graph(&workflow),
        "validate< inventory<validate alone< charge<validate"
    );
}

#[test]
fn steps_and_tasks_refer_to_each_other_in_any_order() {
    let workflow = flow()
        .task("fraud", ECHO)
        .depends_on(["validate"])
        .step("validate", ECHO)
        .step("charge", ECHO)
        .depends_on(["fraud"])
        .build()
        .expect("built");
    assert_eq!(graph(&workflow), "fraud<validate validate< charge<fraud");
}

#[test]
fn depends_on_stands_instead_of_the_position_and_the_step_stays_in_the_chain() {
    let workflow = flow()
        .step("a", ECHO)
        .step("b", ECHO)
        .step("c", ECHO)
        .depends_on(["a"])
        .step("d", ECHO)
        .build()
        .expect("built");
    assert_eq!(graph(&workflow), "a< b<a c<a d<c");
}

#[test]
fn depending_on_nothing_makes_an_entry() {
    let workflow = flow()
        .step("a", ECHO)
        .step("b", ECHO)
        .entry()
        .step("c", ECHO)
        .depends_on(Vec::<String>::new())
        .step("d", ECHO)
        .build()
        .expect("built");
    assert_eq!(graph(&workflow), "a< b< c< d<c");
}

#[test]
fn also_depends_on_adds_to_the_position() {
    let workflow = flow()
        .step("a", ECHO)
        .step("b", ECHO)
        .task("t", ECHO)
        .step("c", ECHO)
        .also_depends_on(["t", "b", "t"])
        .step("audit", ECHO)
        .after("b")
        .build()
        .expect("built");
    assert_eq!(graph(&workflow), "a< b<a t< c<audit,t,b audit<b");
}

#[test]
fn the_first_step_may_also_depend_on_a_task() {
    let workflow = flow()
        .step("a", ECHO)
        .also_depends_on(["t"])
        .task("t", ECHO);
    assert_eq!(graph(&workflow.build().expect("built")), "a<t t<");
}

#[test]
fn depends_on_and_also_depends_on_join() {
    let workflow = flow()
        .step("a", ECHO)
        .step("b", ECHO)
        .task("t", ECHO)
        .step("c", ECHO)
        .depends_on(["a"])
        .also_depends_on(["t"]);
    assert_eq!(graph(&workflow.build().expect("built")), "a< b<a t< c<a,t");
}

#[test]
fn names_are_shared_by_steps_and_tasks() {
    let found = problems(
        flow()
            .step("a", ECHO)
            .task("a", ECHO)
            .step("a", ECHO)
            .build(),
    );
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("two nodes named 'a'"), "{found:?}");
}

#[test]
fn every_dangling_name_is_an_error_that_lists_what_is_known() {
    let built = flow()
        .step("validate", ECHO)
        .step("charge", ECHO)
        .after("validat")
        .step("b", ECHO)
        .before("nowhere")
        .task("t", ECHO)
        .depends_on(["chagre"])
        .on_failure("gone-1")
        .edge("gone-2", When::Always, None)
        .when_failed("gone-3")
        .switch("1", [("x", "gone-4")], Some("gone-5"))
        .step("c", ECHO)
        .also_depends_on(["gone-6"])
        .build();
    let found = problems(built);
    assert_eq!(found.len(), 9, "{found:#?}");
    assert_eq!(
        found[0],
        "'charge' refers to 'validat' (after), which does not exist; did you mean 'validate'? \
         known: 'validate', 'charge', 'b', 't', 'c'"
    );
    assert!(found[2].contains("did you mean 'charge'?"), "{found:#?}");
}

#[test]
fn a_step_cannot_be_placed_beside_a_task() {
    let found = problems(
        flow()
            .step("a", ECHO)
            .task("t", ECHO)
            .step("b", ECHO)
            .after("t")
            .build(),
    );
    assert_eq!(
        found,
        [
            "'b' is placed beside 't', which is a task, and tasks are not in the chain; the steps \
          are 'a', 'b'"
        ]
    );
}

#[test]
fn a_step_has_one_place() {
    let found = problems(
        flow()
            .step("a", ECHO)
            .step("b", ECHO)
            .after("a")
            .before("a")
            .build(),
    );
    assert_eq!(
        found,
        ["'b' has several places; say `after` or `before` once"]
    );
}

#[test]
fn places_in_a_circle_are_refused() {
    let error = flow()
        .step("a", ECHO)
        .after("b")
        .step("b", ECHO)
        .after("a")
        .build()
        .expect_err("refused");
    let nodes = vec!["a".into(), "b".into()];
    assert_eq!(error.problems, [Problem::PlacedInCircle { nodes }]);
}

#[test]
fn cycles_names_and_expressions_are_checked_as_in_every_definition() {
    let codes = |built: Result<Workflow, BuildError>| -> Vec<&'static str> {
        let error = built.expect_err("refused");
        let code = |problem: &Problem| match problem {
            Problem::Definition(problem) => problem.code,
            other => panic!("{other}"),
        };
        error.problems.iter().map(code).collect()
    };
    let cycle = flow()
        .task("a", ECHO)
        .depends_on(["b"])
        .task("b", ECHO)
        .depends_on(["a"])
        .build();
    assert_eq!(codes(cycle), ["CYCLE"]);
    assert_eq!(codes(flow().build()), ["NO_NODES"]);
    assert!(!codes(flow().step("no spaces", ECHO).build()).is_empty());
    assert!(!codes(Workflow::builder("No Id").step("a", ECHO).build()).is_empty());
    let template = flow().step("a", ECHO).parameters("{{ 1 + }}").build();
    assert!(!codes(template).is_empty());
}

#[test]
fn code_workflows_heal_unless_they_are_pinned() {
    let healing = flow().step("a", ECHO).build().expect("built");
    assert_eq!(healing.definition().in_flight, InFlight::Healing);
    assert_eq!(json_of(&healing)["inFlight"], "healing");
    let pinned = flow().pinned().step("a", ECHO).build().expect("built");
    assert_eq!(pinned.definition().in_flight, InFlight::Pinned);
}

async fn plain(_: Context, text: String) -> Result<usize, ActionError> {
    Ok(text.len())
}

async fn replying(_: Context, text: String) -> Result<Reply<usize>, ActionError> {
    Ok(Reply::new(text.len()))
}

async fn alone(_: Context) -> Result<(), ActionError> {
    Ok(())
}

async fn alone_replying(_: Context) -> Result<Reply<()>, ActionError> {
    Ok(Reply::skipped())
}

#[test]
fn functions_and_closures_become_actions_named_after_their_place() {
    let workflow = flow()
        .step("plain", plain)
        .step("replying", replying)
        .step("alone", alone)
        .step("alone-replying", alone_replying)
        .step(
            "closure",
            |_: Context, number: u32| async move { Ok(number) },
        )
        .step("async-closure", async |_: Context, number: u32| Ok(number))
        .step("named", ECHO.to_owned())
        .build()
        .expect("built");
    assert_eq!(workflow.action_of("plain"), Some("flow/plain"));
    assert_eq!(workflow.action_of("named"), Some("core.echo"));
    assert_eq!(workflow.action_of("missing"), None);
    let names: Vec<&str> = workflow
        .registrations()
        .iter()
        .map(|registration| &*registration.name)
        .collect();
    assert_eq!(
        names,
        [
            "flow/plain",
            "flow/replying",
            "flow/alone",
            "flow/alone-replying",
            "flow/closure",
            "flow/async-closure"
        ]
    );
}

#[test]
fn a_function_without_parameters_gets_the_trigger_and_an_action_nothing() {
    let workflow = flow()
        .step("plain", plain)
        .step("alone", alone)
        .step("named", ECHO)
        .step("told", plain)
        .parameters("{{ context.data['plain'] }}")
        .build()
        .expect("built");
    let json = json_of(&workflow);
    assert_eq!(json["nodes"][0]["parameters"], "{{ trigger }}");
    assert_eq!(json["nodes"][1]["parameters"], Value::Null);
    assert_eq!(json["nodes"][2]["parameters"], Value::Null);
    assert_eq!(
        json["nodes"][3]["parameters"],
        "{{ context.data['plain'] }}"
    );
}

#[test]
fn a_node_has_its_settings() {
    let workflow = flow()
        .step("a", ECHO)
        .name("The first")
        .parameters(json!({ "x": 1 }))
        .retry(Retry::attempts(3).every(Duration::from_secs(1)))
        .timeout(Duration::from_secs(30))
        .compensate(plain, json!("{{ output }}"))
        .set_var("seen", "{{ output.x }}")
        .requires(["gpu"])
        .step("b", ECHO)
        .compensate("core.echo", json!({}))
        .build()
        .expect("built");
    let node = &json_of(&workflow)["nodes"][0];
    assert_eq!(node["name"], "The first");
    assert_eq!(node["parameters"], json!({ "x": 1 }));
    assert_eq!(node["policies"]["timeoutMs"], 30_000);
    assert_eq!(node["policies"]["retry"]["maxAttempts"], 3);
    assert_eq!(node["policies"]["retry"]["strategy"], "fixed");
    assert_eq!(node["compensate"]["actionType"], "flow/a/compensate");
    assert_eq!(node["compensate"]["parameters"], "{{ output }}");
    assert_eq!(node["setVars"]["seen"], "{{ output.x }}");
    assert_eq!(node["requires"], json!(["gpu"]));
    let second = &json_of(&workflow)["nodes"][1];
    assert_eq!(second["compensate"]["actionType"], "core.echo");
}

#[test]
fn a_compensation_is_an_action() {
    let wait = nodes::delay(Duration::from_secs(1));
    let error = flow()
        .step("a", ECHO)
        .compensate(wait, json!({}))
        .build()
        .expect_err("refused");
    let node = "a".into();
    assert_eq!(error.problems, [Problem::CompensationIsNoAction { node }]);
}

#[test]
fn routes_are_edges_of_their_parents() {
    let workflow = flow()
        .step("charge", ECHO)
        .on_failure("apologise")
        .edge("extra", When::Success, Some("output.big"))
        .task("apologise", ECHO)
        .task("extra", ECHO)
        .task("refund", ECHO)
        .when_failed("charge")
        .task("thank", ECHO)
        .when("charge", "output.new")
        .step("log", ECHO)
        .always_after("charge")
        .build()
        .expect("built");
    let json = json_of(&workflow);
    let edge = |target: &str, when: &str, condition: Option<&str>| match condition {
        Some(text) => json!({ "targetNode": target, "when": when, "condition": text }),
        None => json!({ "targetNode": target, "when": when }),
    };
    assert_eq!(
        json["nodes"][0]["edges"],
        json!([
            edge("extra", "success", Some("output.big")),
            edge("refund", "failure", None),
            edge("thank", "success", Some("output.new")),
            edge("log", "always", None),
        ])
    );
    assert_eq!(json["nodes"][0]["onFailure"], "apologise");
    // A dependency that is named stands instead of the position.
    assert_eq!(json["nodes"][5]["dependsOn"], Value::Null);
}

#[test]
fn a_switch_names_its_ways() {
    let workflow = flow()
        .step("kind", ECHO)
        .switch("output.kind", [("a", "left"), ("b", "right")], Some("left"))
        .task("left", ECHO)
        .task("right", ECHO)
        .build()
        .expect("built");
    let switch = &json_of(&workflow)["nodes"][0]["switch"];
    assert_eq!(switch["cases"], json!({ "a": "left", "b": "right" }));
    assert_eq!(switch["default"], "left");
}

#[test]
fn timers_signals_and_children_are_work_too() {
    let workflow = flow()
        .step("cool-down", nodes::delay(Duration::from_secs(60)))
        .step("approval", nodes::wait_for_signal("approved", None))
        .step(
            "child",
            nodes::subworkflow("other", json!({})).expect("JSON"),
        )
        .build()
        .expect("built");
    let json = json_of(&workflow);
    assert_eq!(json["nodes"][0]["delay"]["ms"], 60_000);
    assert_eq!(json["nodes"][1]["waitForSignal"]["name"], "approved");
    assert_eq!(json["nodes"][2]["subworkflow"]["workflowId"], "other");
    assert_eq!(workflow.action_of("approval"), None);
}

#[test]
fn the_whole_has_its_settings() {
    let workflow = flow()
        .display_name("Flow")
        .description("For a test.")
        .tag("test")
        .label("team", "x")
        .trigger::<Vec<u32>>()
        .var("region", "eu")
        .output("{{ context.data['a'] }}")
        .failure_policy(FailurePolicy::FailFast)
        .execution_mode(ExecutionMode::Sequential)
        .compensation(CompensationPolicy::Manual)
        .timeout(Duration::from_secs(3600))
        .max_parallel(3)
        .concurrency("{{ trigger.customer }}", 1)
        .step("a", ECHO)
        .build()
        .expect("built");
    let json = json_of(&workflow);
    assert_eq!(json["displayName"], "Flow");
    assert_eq!(json["description"], "For a test.");
    assert_eq!(json["tags"], json!(["test"]));
    assert_eq!(json["labels"], json!({ "team": "x" }));
    assert_eq!(json["triggerSchema"]["type"], "array");
    assert_eq!(json["vars"], json!({ "region": "eu" }));
    assert_eq!(json["output"], "{{ context.data['a'] }}");
    assert_eq!(json["failurePolicy"], "failFast");
    assert_eq!(json["executionMode"], "sequential");
    assert_eq!(json["compensation"], "manual");
    assert_eq!(json["timeoutMs"], 3_600_000);
    assert_eq!(json["maxParallel"], 3);
    assert_eq!(json["concurrency"]["limit"], 1);
    let workflow = flow()
        .on_compensation_error(OnCompensationError::Stop)
        .step("a", ECHO)
        .build()
        .expect("built");
    let json = json_of(&workflow);
    assert_eq!(
        json["compensation"],
        json!({ "when": "onFailure", "onError": "stop" })
    );
}

#[test]
fn nodes_can_be_added_in_a_loop() {
    let mut builder = flow();
    for number in 0..3 {
        builder = builder.step(format!("s{number}"), ECHO).done();
    }
    assert_eq!(graph(&builder.build().expect("built")), "s0< s1<s0 s2<s1");
}

#[test]
fn the_same_code_gives_the_same_definition() {
    let build = || {
        let workflow = flow().step("a", plain).retry(2).step("b", ECHO).after("a");
        workflow.build().expect("built")
    };
    assert_eq!(build().json(), build().json());
    assert_eq!(build().signature(), build().signature());
}

#[test]
fn what_is_not_json_is_said_with_everything_else() {
    let odd: std::collections::BTreeMap<(u8, u8), u8> = [((1, 2), 3)].into();
    let found = problems(
        flow()
            .var("odd", &odd)
            .step("a", ECHO)
            .parameters(&odd)
            .step("a", ECHO)
            .build(),
    );
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].starts_with("a variable cannot be written as JSON"));
    assert!(found[1].starts_with("the parameters of 'a' cannot be written as JSON"));
}

#[test]
fn definitions_in_files_are_workflows_too() {
    let yaml = b"id: written\nnodes:\n  - id: a\n    actionType: core.echo\n";
    let workflow = Workflow::parse("written.yaml", yaml).expect("parsed");
    assert_eq!(workflow.id(), "written");
    assert_eq!(workflow.definition().in_flight, InFlight::Pinned);
    let error = Workflow::parse("empty.json", b"{}").expect_err("refused");
    assert!(error.to_string().contains("id"), "{error}");
}

#[test]
fn the_workflow_of_the_design_has_its_graph() {
    let workflow = flow()
        .step("validate", ECHO)
        .step("enrich", ECHO)
        .step("audit", ECHO)
        .after("validate")
        .task("check_inventory", ECHO)
        .depends_on(["enrich"])
        .task("check_fraud", ECHO)
        .depends_on(["enrich"])
        .step("charge", ECHO)
        .depends_on(["check_inventory", "check_fraud"])
        .task("external_validation", ECHO)
        .step("ship", ECHO)
        .also_depends_on(["external_validation"])
        .build()
        .expect("built");
    assert_eq!(
        graph(&workflow),
        "validate< enrich<audit audit<validate check_inventory<enrich check_fraud<enrich \
         charge<check_inventory,check_fraud external_validation< \
         ship<charge,external_validation"
    );
}
