//! Forks and healing on runs that an engine made in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use windlass_core::command::{CommandRequest, RunCommand};
use windlass_core::event::Actor;
use windlass_core::plan::Plan;
use windlass_core::{Millis, NodeStatus, RunId, RunStatus};
use windlass_engine::fork::{Ask, ForkError, ForkGraph};
use windlass_engine::{CommandAnswer, CommandError, Options, load_run};
use windlass_store::{DeadLetter, DeadLetters as _, Queries as _, Wait as _};
use windlass_test_support::in_memory::World;

fn ask(origin: RunId, from: &[&str]) -> Ask {
    Ask {
        origin,
        from: from.iter().map(|&node| node.to_owned()).collect(),
        graph: ForkGraph::Same,
        trigger: None,
        vars: BTreeMap::new(),
        reuse_compensated: false,
        actor: Default::default(),
    }
}

const CHAIN: &str = r#"{"id":"w","vars":{"seen":""},"output":"{{ vars.seen }}","nodes":[
  {"id":"a","actionType":"core.echo","parameters":{"n":"{{ trigger.n ?? 1 }}"},
   "setVars":{"seen":"{{ vars.seen + 'a' + output.n }}"},
   "edges":[{"targetNode":"b","condition":"output.n == 1"},{"targetNode":"x","condition":"output.n != 1"}]},
  {"id":"x","actionType":"core.echo"},
  {"id":"b","actionType":"core.echo","parameters":{"n":"{{ context.data['a'].n + (trigger.m ?? 1) }}"},
   "setVars":{"seen":"{{ vars.seen + 'b' + output.n }}"},"edges":[{"targetNode":"c"}]},
  {"id":"c","actionType":"core.echo","setVars":{"seen":"{{ vars.seen + 'c' }}"}}]}"#;

#[tokio::test]
async fn a_fork_runs_chosen_nodes_and_those_after_them() {
    let world = World::new();
    let mut request = world.publish(CHAIN).await;
    request.request.trigger = r#"{"n":1}"#.to_owned();
    let origin = world.run_request(&request).await;
    assert_eq!(world.show(origin)["output"], "a1b2c");
    let mut ask = ask(origin, &["b"]);
    ask.trigger = Some(r#"{"m":40}"#.to_owned());
    let forked = world.fork(&ask).expect("a fork");
    assert_eq!(forked.again, ["b".into(), Box::from("c")]);
    assert_eq!(forked.reused, [Box::from("a")]);
    assert_eq!(forked.rest.len(), 1, "x was skipped, and is decided anew");
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.ran(run), ["b", "c"]);
    let shown = world.show(run);
    assert_eq!(shown["status"], "Succeeded");
    assert_eq!(shown["output"], "a1b41c");
    assert_eq!(shown["nodes"]["x"]["status"], "Skipped");
    let loaded = world.engine.load(run).expect("loaded").run;
    let from = loaded.queued().origin.clone().expect("an origin");
    assert_eq!((from.execution_id, from.nodes), (origin, vec!["b".into()]));
    assert!(loaded.is_reused(loaded.resolve("a").expect("a node")));
    world.verify(run);
    let again = world
        .fork(&self::ask(run, &["c"]))
        .expect("a fork of a fork");
    assert_eq!(again.reused.len(), 2);
    let run = world.run_request(&again.new_run).await;
    assert_eq!(world.ran(run), ["c"]);
    assert_eq!(world.show(run)["output"], "a1b41c");
}

#[tokio::test]
async fn variables_that_are_set_win_and_unknown_nodes_are_named() {
    let world = World::new();
    let request = world.publish(CHAIN).await;
    let origin = world.run_request(&request).await;
    let mut with = ask(origin, &["c"]);
    let value = serde_json::value::to_raw_value(&json!("mine ")).expect("JSON");
    with.vars.insert("seen".into(), value);
    let forked = world.fork(&with).expect("a fork");
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.show(run)["output"], "mine c");
    let unknown = world.fork(&ask(origin, &["nope"])).expect_err("refused");
    assert!(matches!(unknown, ForkError::UnknownNode(node) if node == "nope"));
    let none = world.fork(&ask(origin, &[])).expect_err("refused");
    assert!(matches!(none, ForkError::NoNode));
}

#[tokio::test]
async fn one_item_of_a_loop_runs_again() {
    let world = World::new();
    let request = world
        .publish(
            r#"{"id":"w","nodes":[
      {"id":"each","forEach":{"items":"{{ [1,2,3] }}","body":{"nodes":[
        {"id":"a","actionType":"core.echo","parameters":{"n":"{{ item }}"}},
        {"id":"b","actionType":"core.echo","parameters":{"n":"{{ context.data['a'].n * 10 }}"},"dependsOn":["a"]}]}}},
      {"id":"end","actionType":"core.echo","parameters":{"all":"{{ context.data['each'] }}"},"dependsOn":["each"]}]}"#,
        )
        .await;
    let origin = world.run_request(&request).await;
    let forked = world.fork(&ask(origin, &["each[1]/b"])).expect("a fork");
    assert_eq!(forked.again, ["each[1]/b".into(), Box::from("end")]);
    assert_eq!(forked.reused.len(), 5);
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.ran(run), ["each[1]/b", "each", "end"]);
    let (old, new) = (world.show(origin), world.show(run));
    assert_eq!(old["output"], new["output"]);
    assert_eq!(new["output"]["all"][1]["n"], 20);
    world.verify(run);
}

#[tokio::test]
async fn rounds_before_the_chosen_one_are_reused_and_later_ones_are_not() {
    let world = World::new();
    let request = world
        .publish(
            r#"{"id":"w","nodes":[
      {"id":"round","while":{"condition":"iteration < 4","body":{"nodes":[
        {"id":"a","actionType":"core.echo","parameters":{"n":"{{ (last?.n ?? 0) + 1 }}"}}]}}}]}"#,
        )
        .await;
    let origin = world.run_request(&request).await;
    assert_eq!(world.show(origin)["output"]["last"]["n"], 4);
    let forked = world.fork(&ask(origin, &["round[2]/a"])).expect("a fork");
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.ran(run), ["round[2]/a", "round[3]/a", "round"]);
    assert_eq!(
        world.show(run)["output"],
        json!({"iterations": 4, "last": {"n": 4}})
    );
}

#[tokio::test]
async fn what_failed_and_was_tried_again_is_forked_as_it_ended() {
    let world = World::new();
    let request = world
        .publish(
            r#"{"id":"w","nodes":[
      {"id":"a","actionType":"core.echo","parameters":{"n":1}},
      {"id":"b","actionType":"core.fail","parameters":{"untilAttempt":2},"dependsOn":["a"]},
      {"id":"c","actionType":"core.echo","dependsOn":["b"]}]}"#,
        )
        .await;
    let origin = world.run_request(&request).await;
    let failed = world.fork(&ask(origin, &["a"])).expect("a fork");
    assert!(failed.reused.is_empty());
    let actor = Actor::default();
    world
        .engine
        .command(
            origin,
            RunCommand::Reattempt { nodes: Vec::new() }.by(actor),
        )
        .await
        .expect("again");
    world.engine.wait(origin).await.expect("ended");
    let forked = world.fork(&ask(origin, &["c"])).expect("a fork");
    assert_eq!(forked.reused, ["a".into(), Box::from("b")]);
    assert_eq!(forked.new_run.reused[1].attempt, 2);
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.ran(run), ["c"]);
}

#[tokio::test]
async fn what_succeeded_inside_a_loop_that_failed_is_reused() {
    let world = World::new();
    let request = world
        .publish(
            r#"{"id":"w","nodes":[
      {"id":"each","forEach":{"items":"{{ [1,2,3] }}","parallel":false,"body":{"nodes":[
        {"id":"a","actionType":"core.echo"},
        {"id":"b","actionType":"core.fail","parameters":{"untilAttempt":"{{ item == 2 ? 2 : 1 }}"},"dependsOn":["a"]}]}}}]}"#,
        )
        .await;
    let origin = world.run_request(&request).await;
    let actor = Actor::default();
    let node = "each[1]/b";
    world
        .engine
        .command(
            origin,
            RunCommand::SetResult {
                node: node.to_owned(),
            }
            .by(actor)
            .with("7"),
        )
        .await
        .expect("set");
    assert_eq!(
        world.engine.wait(origin).await.expect("ended"),
        RunStatus::Succeeded
    );
    let forked = world.fork(&ask(origin, &["each[2]/a"])).expect("a fork");
    let reused: Vec<&str> = forked.reused.iter().map(|node| &**node).collect();
    assert_eq!(reused, ["each[0]/a", "each[0]/b", "each[1]/a", "each[1]/b"]);
    assert!(forked.rest.is_empty());
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.ran(run), ["each[2]/a", "each[2]/b", "each"]);
    assert_eq!(world.show(run)["output"][1], 7);
}

#[tokio::test]
async fn a_fork_walks_a_graph_of_its_own() {
    let world = World::new();
    let request = world.publish(CHAIN).await;
    let origin = world.run_request(&request).await;
    let text: Arc<str> = CHAIN.replace("vars.seen + 'c'", "vars.seen + 'C'").into();
    let definition = serde_json::from_str(&text).expect("a definition");
    let plan = Arc::new(Plan::build(definition).expect("a plan"));
    let mut with = ask(origin, &["c"]);
    with.graph = ForkGraph::Frozen { text, plan };
    let forked = world.fork(&with).expect("a fork");
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.show(run)["output"], "a1b2C");
    // A process that never saw the plan reads it back from the value.
    let plans = windlass_engine::Plans::new(1024);
    let loaded = load_run(&world.store, &plans, run, |_, _| {}).expect("loaded");
    assert!(loaded.run.is_frozen());
    let again = world.fork(&ask(run, &["c"])).expect("a fork of it");
    assert!(again.new_run.frozen.is_some());
}

const WAITS: &str = r#"{"id":"w","inFlight":"healing","nodes":[
  {"id":"a","actionType":"core.echo"},
  {"id":"wait","waitForSignal":{"name":"go","schema":{"type":"object","required":["ok"]}},"dependsOn":["a"]}]}"#;

fn healed() -> String {
    let more = r#"},"dependsOn":["a"]},
      {"id":"new","actionType":"core.echo","dependsOn":["wait"]}]}"#;
    WAITS.replace(r#"},"dependsOn":["a"]}]}"#, more)
}

async fn is_waiting(world: &World, run: RunId) {
    loop {
        let loaded = world.engine.load(run).expect("loaded").run;
        if loaded.first_waiter("go").is_some() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn signal(world: &World, run: RunId) -> Result<CommandAnswer, CommandError> {
    let actor = Actor::default();
    world
        .engine
        .command(
            run,
            RunCommand::Signal { name: "go".into() }
                .by(actor)
                .with(r#"{"ok":1}"#),
        )
        .await
}

#[tokio::test]
async fn a_run_follows_what_is_published_while_it_waits() {
    let world = World::new();
    let request = world.publish(WAITS).await;
    let run = world.engine.start(&request).await.expect("started").run;
    is_waiting(&world, run).await;
    world.publish(&healed()).await;
    assert_eq!(world.engine.heal_all(None, "w").await.expect("healed"), 1);
    assert_eq!(world.engine.heal_all(None, "w").await.expect("healed"), 0);
    signal(&world, run).await.expect("a signal");
    assert_eq!(
        world.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    assert_eq!(world.ran(run), ["a", "wait", "new"]);
    assert_eq!(world.engine.load(run).expect("loaded").run.version(), 2);
}

#[tokio::test]
async fn a_dead_run_still_fits_its_log() {
    let world = World::new();
    let request = world.publish(CHAIN).await;
    let run = world.run_request(&request).await;
    let letter = DeadLetter {
        run,
        tenant: None,
        workflow: "w".into(),
        reason: "it would not go".into(),
        payload: b"{}".to_vec(),
        deliveries: 3,
        at: Millis(0),
        damage: None,
    };
    world.store.add_dead_letter(letter).await.expect("buried");
    assert!(
        world
            .store
            .run(run)
            .wait()
            .expect("a row")
            .expect("there")
            .dead
    );
    let engine = &world.engine;
    let verified = windlass_engine::verify::verify(&**engine.store(), engine.plans(), run);
    assert!(verified.expect("verified").misfit.is_none());
}

#[tokio::test]
async fn a_run_follows_only_what_its_tenant_published() {
    let world = World::new();
    let mut runs = Vec::new();
    for tenant in [None, Some("acme")] {
        let request = world.publish_for(tenant, WAITS).await;
        let run = world.engine.start(&request).await.expect("started").run;
        is_waiting(&world, run).await;
        runs.push(run);
    }
    world.publish_for(Some("acme"), &healed()).await;
    let heal = |tenant| world.engine.heal_all(tenant, "w");
    assert_eq!(heal(None).await.expect("looked"), 0);
    assert_eq!(heal(Some("acme")).await.expect("healed"), 1);
    for (run, (version, ran)) in runs.into_iter().zip([(1, 2), (2, 3)]) {
        signal(&world, run).await.expect("a signal");
        let status = world.engine.wait(run).await.expect("ended");
        assert_eq!(status, RunStatus::Succeeded);
        assert_eq!(
            world.engine.load(run).expect("loaded").run.version(),
            version
        );
        assert_eq!(world.ran(run).len(), ran);
    }
}

#[tokio::test]
async fn a_run_follows_what_was_published_before_it_is_picked_up() {
    let first = World::new();
    let request = first.publish(WAITS).await;
    let run = first.engine.start(&request).await.expect("started").run;
    is_waiting(&first, run).await;
    first.engine.shutdown().await;
    let second = World::on(first.store.clone(), Options::default());
    second.publish(&healed()).await;
    // The signal acquires the run; only loading it changes nothing.
    assert_eq!(second.engine.load(run).expect("loaded").run.version(), 1);
    signal(&second, run).await.expect("a signal");
    assert_eq!(
        second.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    assert_eq!(second.ran(run), ["a", "wait", "new"]);
}

#[tokio::test]
async fn recovery_heals() {
    let first = World::new();
    let sleeps = WAITS.replace(
        r#""waitForSignal":{"name":"go","schema":{"type":"object","required":["ok"]}}"#,
        r#""actionType":"core.sleep","parameters":{"ms":60000}"#,
    );
    let request = first.publish(&sleeps).await;
    let run = first.engine.start(&request).await.expect("started").run;
    while first.ran(run).is_empty() {
        tokio::task::yield_now().await;
    }
    first.engine.shutdown().await;
    let second = World::on(first.store.clone(), Options::default());
    let removed = r#"{"id":"w","inFlight":"healing","nodes":[{"id":"a","actionType":"core.echo"},
      {"id":"new","actionType":"core.echo","dependsOn":["a"]}]}"#;
    second.publish(removed).await;
    second.engine.recover_all().await.expect("recovered");
    assert_eq!(
        second.engine.wait(run).await.expect("ended"),
        RunStatus::Succeeded
    );
    assert_eq!(second.ran(run), ["a", "new"], "what was removed is let go");
}

#[tokio::test]
async fn a_pinned_run_stays_as_it_is() {
    let world = World::new();
    let pinned = WAITS.replace("healing", "pinned");
    let request = world.publish(&pinned).await;
    let run = world.engine.start(&request).await.expect("started").run;
    is_waiting(&world, run).await;
    world.publish(&healed()).await;
    assert_eq!(world.engine.heal_all(None, "w").await.expect("looked"), 0);
    signal(&world, run).await.expect("a signal");
    world.engine.wait(run).await.expect("ended");
    assert_eq!(world.ran(run), ["a", "wait"]);
}

#[tokio::test]
async fn what_a_new_graph_would_do_is_known_before() {
    let world = World::new();
    let request = world.publish(WAITS).await;
    let run = world.engine.start(&request).await.expect("started").run;
    is_waiting(&world, run).await;
    let removed =
        r#"{"id":"w","inFlight":"healing","nodes":[{"id":"z","actionType":"core.echo"}]}"#;
    let plan = world.publish(removed).await;
    let loaded = world.engine.load(run).expect("loaded").run;
    let healing = windlass_engine::would_heal(&loaded, 2, plan.definition, &plan.plan, Millis(0))
        .expect("it follows");
    assert_eq!(healing.added, [Box::from("z")]);
    assert_eq!(healing.removed, ["a".into(), Box::from("wait")]);
    assert_eq!(&*healing.warnings[0].code, "NODE_REMOVED");
    assert_eq!(healing.ready, [Box::from("z")]);
}

#[tokio::test]
async fn signals_are_checked_and_unknown_ones_refused() {
    let world = World::new();
    let request = world.publish(WAITS).await;
    let run = world.engine.start(&request).await.expect("started").run;
    is_waiting(&world, run).await;
    let actor = Actor::default;
    let invalid = world
        .engine
        .command(
            run,
            RunCommand::Signal { name: "go".into() }
                .by(actor())
                .with(r#"{"no":1}"#),
        )
        .await;
    assert!(matches!(invalid, Err(CommandError::SignalInvalid(_))));
    let unknown = world
        .engine
        .command(
            run,
            RunCommand::Signal {
                name: "stop".into(),
            }
            .by(actor())
            .with("1"),
        )
        .await;
    let message = unknown.expect_err("refused").to_string();
    assert!(
        message.contains("'stop'") && message.contains("go"),
        "{message}"
    );
    let pause = world
        .engine
        .command(run, RunCommand::Pause.by(actor()))
        .await;
    pause.expect("paused");
    signal(&world, run).await.expect("a signal");
}

/// Nodes that wait for signals of one name: one after a failure, one on a way that was not taken, one
/// that is to come.
const ONE_NAME: &str = r#"{"id":"w","nodes":[
  {"id":"a","actionType":"core.echo","setVars":{"x":"{{ output.missing }}"}},
  {"id":"blocked","waitForSignal":{"name":"go","schema":{"required":["ok"]}},"dependsOn":["a"]},
  {"id":"s","actionType":"core.echo","edges":[{"targetNode":"skipped","condition":"false"}]},
  {"id":"skipped","waitForSignal":{"name":"go","schema":{"required":["never"]}}},
  {"id":"hold","waitForSignal":{"name":"begin"}},
  {"id":"coming","waitForSignal":{"name":"go"},"dependsOn":["hold"]}]}"#;

#[tokio::test]
async fn a_signal_fits_the_schemas_of_nodes_that_a_reattempt_may_open_again() {
    let world = World::new();
    let run = world.start(ONE_NAME).await;
    let ended = [
        ("blocked", NodeStatus::Blocked),
        ("skipped", NodeStatus::Skipped),
        ("hold", NodeStatus::Waiting),
    ];
    while !ended
        .iter()
        .all(|&(node, status)| world.node(run, node) == status)
    {
        tokio::task::yield_now().await;
    }
    let go = || RunCommand::Signal { name: "go".into() }.by(Actor::default());
    let refused = world.engine.command(run, go().with(r#"{"no":1}"#)).await;
    assert!(matches!(refused, Err(CommandError::SignalInvalid(_))));
    // No reattempt leads to the node that was skipped: its schema counts no more.
    let taken = world.engine.command(run, go().with(r#"{"ok":1}"#)).await;
    taken.expect("it is kept");
}

const PARENT: &str = r#"{"id":"parent","nodes":[
  {"id":"sub","subworkflow":{"workflowId":"w","input":{}}},
  {"id":"after","actionType":"core.echo","dependsOn":["sub"]}]}"#;

/// A parent whose child waits for a signal.
async fn family(world: &World) -> (RunId, RunId) {
    world.publish(WAITS).await;
    let request = world.publish(PARENT).await;
    let parent = world.engine.start(&request).await.expect("started").run;
    let child = loop {
        let children = world.store.children(parent).wait().expect("a list");
        if let Some(row) = children.first() {
            break row.run;
        }
        tokio::task::yield_now().await;
    };
    is_waiting(world, child).await;
    (parent, child)
}

#[tokio::test]
async fn a_parent_hears_of_a_child_that_ended_while_nobody_carried_it() {
    let first = World::new();
    let (parent, child) = family(&first).await;
    first.engine.shutdown().await;
    let second = World::on(first.store.clone(), Options::default());
    signal(&second, child).await.expect("a signal");
    second.engine.wait(child).await.expect("ended");
    second.engine.shutdown().await;
    let third = World::on(first.store.clone(), Options::default());
    third.engine.recover(parent).await.expect("recovered");
    let status = third.engine.wait(parent).await.expect("ended");
    assert_eq!(status, RunStatus::Succeeded);
    assert_eq!(third.ran(parent), ["sub", "after"]);
}

#[tokio::test]
async fn pausing_and_cancelling_reach_the_children() {
    let world = World::new();
    let (parent, child) = family(&world).await;
    let status = |run| {
        world
            .store
            .run(run)
            .wait()
            .expect("a row")
            .expect("a run")
            .status
    };
    let pause = RunCommand::Pause.by(Actor::default());
    world.engine.command(parent, pause).await.expect("paused");
    world.engine.child_jobs_idle().await;
    assert_eq!(status(child), RunStatus::Paused);
    let resume = RunCommand::Resume.by(Actor::default());
    world.engine.command(parent, resume).await.expect("resumed");
    world.engine.child_jobs_idle().await;
    assert_eq!(status(child), RunStatus::Running);
    let cancel = RunCommand::Cancel { compensate: false }.by(Actor::default());
    world
        .engine
        .command(parent, cancel)
        .await
        .expect("cancelled");
    world.engine.wait(parent).await.expect("ended");
    world.engine.child_jobs_idle().await;
    assert_eq!(status(child), RunStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_many_take_up_at_once_goes_on_once() {
    let first = World::new();
    let (parent, child) = family(&first).await;
    first.engine.shutdown().await;
    for _ in 0..20 {
        let second = World::on(first.store.clone(), Options::default());
        let takers = (0..16).map(|_| {
            let engine = second.engine.clone();
            tokio::spawn(async move { engine.recover(parent).await })
        });
        for taker in takers.collect::<Vec<_>>() {
            taker.await.expect("no panic").expect("recovered");
        }
        let waiting = second.engine.wait(parent);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(5), waiting).await;
        assert!(waited.is_err(), "it was let go: {waited:?}");
        second.engine.shutdown().await;
    }
    let last = World::on(first.store.clone(), Options::default());
    signal(&last, child).await.expect("a signal");
    last.engine.recover(parent).await.expect("recovered");
    let status = last.engine.wait(parent).await.expect("ended");
    assert_eq!(status, RunStatus::Succeeded);
}

/// A request that comes again does nothing: the run is not even recovered.
#[tokio::test]
async fn a_repeated_request_leaves_a_run_alone_that_no_process_carries() {
    let world = World::new();
    let request = world.publish(WAITS).await;
    let run = world.engine.start(&request).await.expect("started").run;
    is_waiting(&world, run).await;
    let pause = |key: &str| {
        let request: CommandRequest = RunCommand::Pause.by(Actor::default());
        request.keyed(Some(key))
    };
    let first = world.engine.command(run, pause("k")).await.expect("paused");
    assert_eq!(first.status, Some(RunStatus::Paused));
    assert!(!first.repeated);
    world.engine.shutdown().await;
    let world = World::on(world.store, Options::default());
    let events = world.log(run).len();
    let again = world.engine.command(run, pause("k")).await.expect("known");
    assert_eq!((again.status, again.repeated), (first.status, true));
    let reused = world.engine.command(run, {
        let request: CommandRequest = RunCommand::Resume.by(Actor::default());
        request.keyed(Some("k"))
    });
    let reused = reused.await.expect_err("another command");
    assert!(reused.to_string().contains("idempotency key 'k'"));
    assert_eq!(world.log(run).len(), events);
    assert!(!world.engine.is_acquired(run).await);
    let invalid = world.engine.command(run, pause("")).await;
    assert!(matches!(invalid, Err(CommandError::KeyInvalid)));
}
