//! Whatever a run's log refers to is noted as used, and stays when others are forgotten.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::{Digest, RunId, RunStatus};
use windlass_engine::fork::{Ask, ForkGraph, fork};
use windlass_engine::verify::verify;
use windlass_store::{Blobs as _, Log as _, Queries as _, Retention as _, Wait as _};
use windlass_test_support::in_memory::World;

/// The values that are stored apart and that a run's log names, wherever it does.
fn named(world: &World, run: RunId) -> BTreeSet<Digest> {
    let records = world.store.read(run, 1, usize::MAX).wait().expect("a log");
    let mut found = BTreeSet::new();
    for record in records {
        let text = String::from_utf8_lossy(&record.bytes).into_owned();
        let parts = text.split(|c: char| !c.is_ascii_hexdigit());
        found.extend(parts.filter_map(|part| part.parse::<Digest>().ok()));
    }
    found.retain(|digest| world.store.blob(digest).wait().expect("readable").is_some());
    found
}

fn assert_used(world: &World, run: RunId, at_least: usize) {
    let named = named(world, run);
    assert!(named.len() >= at_least, "{} values of {run}", named.len());
    for digest in named {
        assert!(
            world.store.uses(run, &digest).wait().expect("known"),
            "{digest}"
        );
    }
}

fn large(letter: &str) -> String {
    letter.repeat(6_000)
}

const CHILD: &str = r#"{"id":"child","nodes":[
  {"id":"a","actionType":"core.echo","parameters":{"got":"{{ trigger.text }}","more":"child"}}]}"#;

fn parent() -> String {
    let nodes = r#"{"id":"parent","vars":{"long":"LONG","kept":""},"output":"{{ context.data['a'] }}","nodes":[
      {"id":"a","actionType":"core.echo","parameters":{"got":"{{ trigger.text }}"},
       "setVars":{"kept":"{{ output.got + 'k' }}"}},
      {"id":"each","dependsOn":["a"],"forEach":{"items":"{{ [trigger.text, trigger.text + 'i'] }}",
       "body":{"nodes":[{"id":"b","actionType":"core.echo","parameters":{"item":"{{ item }}"}}]}}},
      {"id":"sub","dependsOn":["each"],"subworkflow":{"workflowId":"child","input":{"text":"{{ trigger.text + 's' }}"}}},
      {"id":"ask","dependsOn":["sub"],"waitForSignal":{"name":"go"}},
      {"id":"end","dependsOn":["ask"],"actionType":"core.echo","parameters":{"n":1}}]}"#;
    nodes.replace("LONG", &large("v"))
}

#[tokio::test]
async fn a_fork_keeps_what_it_took_from_a_run_that_is_forgotten() {
    let world = World::new();
    world.publish(CHILD).await;
    let mut request = world.publish(&parent()).await;
    request.request.trigger = format!(r#"{{"text":"{}"}}"#, large("t"));
    let origin = world.engine.start(&request).await.expect("started").run;
    let signal = RunCommand::Signal { name: "go".into() }
        .by(Actor::default())
        .with(format!(r#""{}""#, large("g")).as_str());
    world.engine.command(origin, signal).await.expect("taken");
    assert_eq!(world.end(origin).await, RunStatus::Succeeded);
    let child = world.store.children(origin).wait().expect("a list")[0].run;
    // Trigger, variables, outputs, items, input of the child, signal, result.
    assert_used(&world, origin, 7);
    assert_used(&world, child, 2);

    let ask = Ask {
        origin,
        from: vec!["end".to_owned()],
        graph: ForkGraph::Same,
        trigger: None,
        vars: BTreeMap::new(),
        reuse_compensated: false,
        actor: Default::default(),
    };
    let engine = &world.engine;
    let forked = fork(&**engine.store(), engine.plans(), engine.values(), &ask).expect("a fork");
    let run = engine.start(&forked.new_run).await.expect("started").run;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    let before = named(&world, run);
    assert_used(&world, run, 5);

    let forgotten = world.store.forget(vec![origin, child], false).await;
    assert_eq!(forgotten.expect("done"), 2);
    assert_eq!(
        named(&world, run),
        before,
        "nothing that it names went away"
    );
    verify(&**engine.store(), engine.plans(), run).expect("it can be read to its end");
}

#[tokio::test]
async fn a_graph_that_belongs_to_a_run_alone_goes_with_it() {
    let world = World::new();
    let mut request = world.publish(&parent().replace("parent", "own")).await;
    let text = parent().replace("parent", "own");
    request.frozen = Some(text.as_str().into());
    request.definition = Digest::of(text.as_bytes());
    request.request.trigger = r#"{"text":"t"}"#.to_owned();
    world.publish(CHILD).await;
    let run = world.engine.start(&request).await.expect("started").run;
    let digest = Digest::of(text.as_bytes());
    assert!(world.store.uses(run, &digest).wait().expect("known"));
    let signal = RunCommand::Signal { name: "go".into() }
        .by(Actor::default())
        .with("1");
    world.engine.command(run, signal).await.expect("taken");
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
    let kept = world.store.forget(vec![run], false).await.expect("done");
    assert_eq!(kept, 1);
    assert_eq!(world.store.blob(&digest).wait().expect("readable"), None);
}
