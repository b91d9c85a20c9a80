//! Forks of runs that were compensated: what was undone runs again, unless the caller wants it
//! reused (semantics §5.6).

use std::collections::BTreeMap;

use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::fork::{Ask, Fork, ForkGraph};
use windlass_test_support::in_memory::World;

/// A request for a fork whose trigger lets everything succeed.
fn ask(origin: RunId, from: &str) -> Ask {
    Ask {
        origin,
        from: vec![from.to_owned()],
        graph: ForkGraph::Same,
        trigger: Some(r#"{"n":1}"#.to_owned()),
        vars: BTreeMap::new(),
        reuse_compensated: false,
        actor: Actor::default(),
    }
}

/// A request for a fork that reuses what was compensated.
fn reusing(origin: RunId, from: &str) -> Ask {
    Ask {
        reuse_compensated: true,
        ..ask(origin, from)
    }
}

async fn failed(world: &World, text: &str) -> RunId {
    let mut request = world.publish(text).await;
    request.request.trigger = r#"{"n":2}"#.to_owned();
    let run = world.run_request(&request).await;
    assert_eq!(world.show(run)["status"], "Failed");
    run
}

/// Each compensated node with how far its compensation is, and whether it is reused.
fn compensated(forked: &Fork) -> Vec<(&str, NodeStatus, bool)> {
    let nodes = forked.compensated.iter();
    nodes
        .map(|it| (&*it.node, it.compensation, it.reused))
        .collect()
}

fn words(paths: &[Box<str>]) -> Vec<&str> {
    paths.iter().map(|path| &**path).collect()
}

const TRIP: &str = r#"{"id":"trip","nodes":[
  {"id":"quote","actionType":"core.echo"},
  {"id":"hotel","actionType":"core.echo","compensate":{"actionType":"core.echo"},"dependsOn":["quote"]},
  {"id":"note","actionType":"core.echo","dependsOn":["hotel"]},
  {"id":"other","actionType":"core.echo","dependsOn":["quote"]},
  {"id":"pay","actionType":"core.fail","parameters":{"untilAttempt":"{{ trigger.n }}"},
   "dependsOn":["note","other"]}]}"#;

#[tokio::test]
async fn what_was_compensated_runs_again_with_everything_after_it() {
    let world = World::new();
    let origin = failed(&world, TRIP).await;
    let forked = world.fork(&ask(origin, "pay")).expect("a fork");
    assert_eq!(words(&forked.again), ["pay", "hotel", "note"]);
    assert_eq!(words(&forked.reused), ["other", "quote"]);
    assert_eq!(
        compensated(&forked),
        [("hotel", NodeStatus::Succeeded, false)]
    );
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.show(run)["status"], "Succeeded");
    assert_eq!(world.ran(run), ["hotel", "note", "pay"]);
    assert!(world.verify(run).0.is_none());
}

#[tokio::test]
async fn what_was_compensated_is_reused_by_a_caller_who_says_so_and_by_no_later_fork() {
    let world = World::new();
    let origin = failed(&world, TRIP).await;
    let forked = world.fork(&reusing(origin, "pay")).expect("a fork");
    assert_eq!(words(&forked.again), ["pay"]);
    assert_eq!(
        compensated(&forked),
        [("hotel", NodeStatus::Succeeded, true)]
    );
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.ran(run), ["pay"]);
    let later = world.fork(&ask(run, "pay")).expect("a fork of it");
    assert_eq!(words(&later.again), ["pay", "hotel", "note"]);
    let explicit = world.fork(&reusing(run, "pay")).expect("a fork of it");
    let third = world.run_request(&explicit.new_run).await;
    let last = world.fork(&ask(third, "pay")).expect("a fork of that");
    assert_eq!(words(&last.again), ["pay", "hotel", "note"]);
    // What ran again in a fork is that fork's own, and stands.
    let anew = world.run_request(&later.new_run).await;
    let own = world.fork(&ask(anew, "pay")).expect("a fork");
    assert_eq!(words(&own.again), ["pay"]);
    assert_eq!(own.compensated, []);
}

#[tokio::test]
async fn what_the_origin_undoes_after_it_was_forked_runs_again_in_forks_of_the_fork() {
    let world = World::new();
    let manual = TRIP.replace(r#""id":"trip","#, r#""id":"trip","compensation":"manual","#);
    let origin = failed(&world, &manual).await;
    let forked = world.fork(&ask(origin, "pay")).expect("a fork");
    assert_eq!(
        (words(&forked.again), forked.compensated),
        (vec!["pay"], vec![])
    );
    let run = world.run_request(&forked.new_run).await;
    let actor = Actor::default();
    world
        .command(origin, RunCommand::Compensate.by(actor))
        .await;
    world.end(origin).await;
    let later = world.fork(&ask(run, "pay")).expect("a fork");
    assert_eq!(words(&later.again), ["pay", "hotel", "note"]);
}

#[tokio::test]
async fn what_was_compensated_inside_a_loop_runs_again() {
    let world = World::new();
    let text = r#"{"id":"each","nodes":[
      {"id":"each","forEach":{"items":"{{ [1,2] }}","body":{"nodes":[
        {"id":"see","actionType":"core.echo"},
        {"id":"book","actionType":"core.echo","compensate":{"actionType":"core.echo"},
         "dependsOn":["see"]}]}}},
      {"id":"pay","actionType":"core.fail","parameters":{"untilAttempt":"{{ trigger.n }}"},
       "dependsOn":["each"]}]}"#;
    let origin = failed(&world, text).await;
    let forked = world.fork(&ask(origin, "pay")).expect("a fork");
    assert_eq!(
        words(&forked.again),
        ["pay", "each[0]/book", "each[1]/book"]
    );
    assert_eq!(words(&forked.reused), ["each[0]/see", "each[1]/see"]);
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.show(run)["status"], "Succeeded");
    let mut ran = world.ran(run);
    ran.retain(|node| node.contains("book"));
    ran.sort();
    assert_eq!(ran, ["each[0]/book", "each[1]/book"]);
    let whole = world.fork(&reusing(origin, "pay")).expect("a fork");
    assert_eq!(words(&whole.reused), ["each"]);
    assert!(compensated(&whole).iter().all(|(_, _, reused)| *reused));
    // The loop was reused as a whole: what is inside it is the origin's all the same.
    let run = world.run_request(&whole.new_run).await;
    let later = world.fork(&ask(run, "pay")).expect("a fork of it");
    assert_eq!(words(&later.again), ["pay", "each[0]/book", "each[1]/book"]);
}

#[tokio::test]
async fn what_could_not_be_undone_stands_and_is_reused_and_marked() {
    let world = World::new();
    let stuck = TRIP.replace(
        r#""compensate":{"actionType":"core.echo"}"#,
        r#""compensate":{"actionType":"core.fail","parameters":{"code":"STUCK"}}"#,
    );
    let origin = failed(&world, &stuck).await;
    let forked = world.fork(&ask(origin, "pay")).expect("a fork");
    assert_eq!(words(&forked.again), ["pay"]);
    assert_eq!(compensated(&forked), [("hotel", NodeStatus::Failed, true)]);
    let run = world.run_request(&forked.new_run).await;
    assert_eq!(world.end(run).await, RunStatus::Succeeded);
}
