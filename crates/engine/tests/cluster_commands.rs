//! Commands for runs of another process: they go through the inbox to the owner, are carried
//! out once, and answered by what its log says.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::command::{CommandRequest, RunCommand};
use windlass_core::event::{Actor, Event};
use windlass_core::run::Refusal;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{CommandAnswer, CommandError, Engine, StartRequest};
use windlass_store::{MemoryStore, Offer, Partitions};
use windlass_test_support::cluster::{Word, World};

/// A node that ends as a test says, then one that waits for a signal.
const WORK: &str = r#"{"id":"work","nodes":[
    {"id":"n","actionType":"test","edges":[{"targetNode":"w"}]},
    {"id":"w","waitForSignal":{"name":"go"}}]}"#;

/// Processes over a store in memory with eight partitions, and the workflow.
async fn world() -> Arc<World> {
    let store = MemoryStore::new();
    store.set_partitions(8);
    let world = World::new(Arc::new(store));
    world.publish(WORK).await;
    world
}

/// Starts a run, and waits until its first node does.
async fn start(world: &World, engine: &Engine) -> RunId {
    let waiting = world.stage.waiting();
    let started = engine.enqueue("work", None, StartRequest::default()).await;
    let run = started.expect("it is queued").run;
    while world.stage.waiting() == waiting {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    run
}

/// A run, the engine that owns it and one that does not.
async fn run_of_another(world: &World) -> (RunId, Engine, Engine) {
    world.spread().await;
    let run = start(world, &world.engine(0)).await;
    let (owner, _) = world.owner(run).await;
    let other = world.live().into_iter().find(|it| *it != owner);
    let other = other.expect("two processes");
    (run, world.engine_of(owner), world.engine_of(other))
}

fn keyed(command: RunCommand, key: &str) -> CommandRequest {
    let request: CommandRequest = command.by(Actor::default());
    request.with("null").keyed(Some(key))
}

fn signal(key: &str) -> CommandRequest {
    keyed(RunCommand::Signal { name: "go".into() }, key)
}

async fn send(
    engine: &Engine,
    run: RunId,
    command: RunCommand,
) -> Result<CommandAnswer, CommandError> {
    let request: CommandRequest = command.by(Actor::default());
    engine.command(run, request.with("null")).await
}

/// Repeats a request until a process owns the run.
async fn answered(engine: &Engine, run: RunId, request: &CommandRequest) -> CommandAnswer {
    loop {
        match engine.command(run, request.clone()).await {
            Ok(answer) => return answer,
            Err(CommandError::OwnerUnavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn status(world: &World, run: RunId) -> RunStatus {
    let row = world.store.run(run).await.expect("a row");
    row.expect("a run").status
}

/// How often the log says that the signal came.
async fn signals(world: &World, run: RunId) -> usize {
    let events = world.events(run).await.into_iter();
    let signals = events.filter(|(_, event)| matches!(event, Event::SignalReceived(_)));
    signals.count()
}

/// No item waits, and none was left behind.
async fn inbox_is_empty(world: &World, run: RunId) -> bool {
    let all = &Partitions::All;
    let offered = world.store.offered(all, None, 9).await.expect("runs");
    offered.is_empty() && world.store.inbox(run).await.expect("items").is_empty()
}

#[tokio::test]
async fn commands_reach_a_run_through_an_engine_that_does_not_own_it() {
    let world = world().await;
    world.join().await;
    world.join().await;
    let (run, _, other) = run_of_another(&world).await;
    let (_, writer) = world.owner(run).await;
    assert!(!other.is_acquired(run).await);

    let paused = send(&other, run, RunCommand::Pause).await.expect("paused");
    assert_eq!(paused.status, Some(RunStatus::Paused));
    assert!(!paused.repeated);
    assert_eq!(status(&world, run).await, RunStatus::Paused);
    send(&other, run, RunCommand::Resume)
        .await
        .expect("resumed");
    let word = Word::Fail("BROKEN".to_owned());
    world.stage.give(run, "n", false, word).await;
    world.ended(run).await;
    assert_eq!(status(&world, run).await, RunStatus::Failed);

    let nodes = vec!["n".to_owned()];
    let reattempt = RunCommand::Reattempt { nodes };
    send(&other, run, reattempt).await.expect("tried again");
    let word = Word::Succeed(json!(1));
    world.stage.give(run, "n", false, word).await;
    let go = RunCommand::Signal { name: "go".into() };
    send(&other, run, go).await.expect("received");
    world.ended(run).await;
    assert_eq!(status(&world, run).await, RunStatus::Succeeded);

    for (by, event) in world.events(run).await {
        if event.actor().is_some() {
            assert_eq!(by, writer, "{event:?} is not the owner's");
        }
    }
    assert!(inbox_is_empty(&world, run).await);
}

#[tokio::test]
async fn a_cancel_through_another_engine_ends_the_run() {
    let world = world().await;
    world.join().await;
    world.join().await;
    let (run, _, other) = run_of_another(&world).await;
    let cancel = RunCommand::Cancel { compensate: false };
    send(&other, run, cancel).await.expect("cancelled");
    world.ended(run).await;
    assert_eq!(status(&world, run).await, RunStatus::Cancelled);
}

#[tokio::test]
async fn a_refusal_reads_the_same_through_every_engine() {
    let world = world().await;
    world.join().await;
    world.join().await;
    let (run, owner, other) = run_of_another(&world).await;
    let unknown = "no-such-node".to_owned();
    let commands = [
        RunCommand::Resume,
        RunCommand::Compensate,
        RunCommand::Reattempt { nodes: Vec::new() },
        RunCommand::Reattempt {
            nodes: vec!["n".to_owned()],
        },
        RunCommand::Skip { node: unknown },
        RunCommand::Signal { name: "no".into() },
    ];
    for command in commands {
        let here = send(&owner, run, command.clone()).await;
        let there = send(&other, run, command.clone()).await;
        let (here, there) = (here.expect_err("refused"), there.expect_err("refused"));
        assert_eq!(format!("{there:?}"), format!("{here:?}"), "{command:?}");
        assert_eq!(there.to_string(), here.to_string());
    }
    assert!(inbox_is_empty(&world, run).await);
    let gone = RunId::from_bytes([7; 16]);
    let missing = send(&other, gone, RunCommand::Pause).await;
    assert!(matches!(missing, Err(CommandError::Load(_))), "{missing:?}");
}

#[tokio::test]
async fn a_repeated_key_gets_the_first_answer_through_every_engine() {
    let world = world().await;
    world.join().await;
    world.join().await;
    let (run, owner, other) = run_of_another(&world).await;
    let first = other.command(run, keyed(RunCommand::Pause, "k")).await;
    let first = first.expect("paused");
    assert!(!first.repeated);
    for engine in [&other, &owner] {
        let again = engine.command(run, keyed(RunCommand::Pause, "k")).await;
        let again = again.expect("known");
        assert_eq!((again.status, again.repeated), (first.status, true));
        let reused = engine.command(run, keyed(RunCommand::Resume, "k")).await;
        let reused = reused.expect_err("another command");
        let is_reused = matches!(
            &reused,
            CommandError::Refused {
                refusal: Refusal::KeyReused(_),
                ..
            }
        );
        assert!(is_reused, "{reused}");
    }
    let at_once = (0..12).map(|turn| {
        let engine = if turn % 3 == 0 { &owner } else { &other };
        engine.command(run, signal("s"))
    });
    let answers = futures_util::future::join_all(at_once).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(signals(&world, run).await, 1);
}

#[tokio::test]
async fn the_next_owner_carries_out_once_what_was_offered_to_a_dead_one() {
    let world = world().await;
    world.join().await;
    world.join().await;
    let (run, _, other) = run_of_another(&world).await;
    let (owner, _) = world.owner(run).await;
    world.kill(owner);
    // The dead process holds the partition until its session expires.
    let answer = answered(&other, run, &signal("s")).await;
    assert_eq!(answer.status, Some(RunStatus::Running));
    assert_ne!(world.owner(run).await.0, owner);
    assert!(answered(&other, run, &signal("s")).await.repeated);
    assert_eq!(signals(&world, run).await, 1);
    assert!(inbox_is_empty(&world, run).await);
}

#[tokio::test]
async fn without_an_owner_a_command_stays_offered_and_its_key_gets_the_answer_later() {
    let world = world().await;
    let owner = world.join().await;
    world.spread().await;
    let run = start(&world, &world.engine_of(owner)).await;
    let engine = world.engine_of(owner);
    let paused = send(&engine, run, RunCommand::Pause).await;
    paused.expect("paused");
    world.kill(owner);
    let front = world.front().await;
    let unanswered = front.command(run, signal("s")).await;
    let unanswered = unanswered.expect_err("no process owns it");
    assert!(
        matches!(&unanswered, CommandError::OwnerUnavailable { key } if **key == *"s"),
        "{unanswered}"
    );
    // The run does not allow this one, which its caller learns later, too.
    let refused = front.command(run, keyed(RunCommand::Pause, "r")).await;
    let is_unavailable = matches!(refused, Err(CommandError::OwnerUnavailable { .. }));
    assert!(is_unavailable, "{refused:?}");
    assert_eq!(signals(&world, run).await, 0);
    assert_eq!(world.store.inbox(run).await.expect("items").len(), 2);

    world.join().await;
    assert!(answered(&front, run, &signal("s")).await.repeated);
    assert_eq!(signals(&world, run).await, 1);
    let refused = loop {
        match front.command(run, keyed(RunCommand::Pause, "r")).await {
            Err(CommandError::OwnerUnavailable { .. }) => {}
            Err(error) => break error,
            Ok(answer) => panic!("{answer:?}"),
        }
    };
    assert_eq!(refused.to_string(), "the run is paused already");
    assert!(inbox_is_empty(&world, run).await);
    // The first answer was read: the run decides on the next request anew.
    send(&front, run, RunCommand::Resume)
        .await
        .expect("resumed");
    let paused = answered(&front, run, &keyed(RunCommand::Pause, "r")).await;
    assert!(!paused.repeated);
}

#[tokio::test]
async fn every_command_is_carried_out_once_while_processes_come_and_go() {
    let world = world().await;
    world.join().await;
    world.join().await;
    world.spread().await;
    let front = world.front().await;
    let mut runs = Vec::new();
    for turn in 0..8 {
        runs.push(start(&world, &world.engine(turn)).await);
    }
    let disturbed = Arc::clone(&world);
    let disturbing = tokio::spawn(async move {
        for turn in 0..4 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let oldest = disturbed.live()[0];
            disturbed.join().await;
            match turn % 2 {
                0 => disturbed.kill(oldest),
                _ => disturbed.stop(oldest).await,
            }
        }
    });
    let sending = runs.iter().enumerate().map(|(number, &run)| {
        let (world, front) = (Arc::clone(&world), front.clone());
        tokio::spawn(async move {
            for turn in 0..12 {
                let request = signal(&format!("{number}-{turn}"));
                for attempt in 0.. {
                    let engine = match (number + turn + attempt) % 3 {
                        0 => front.clone(),
                        place => world.engine(place),
                    };
                    match engine.command(run, request.clone()).await {
                        Ok(_) => break,
                        Err(CommandError::OwnerUnavailable { .. } | CommandError::Stopped) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
        })
    });
    for sent in sending.collect::<Vec<_>>() {
        sent.await.expect("all are sent");
    }
    disturbing.await.expect("processes came and went");
    for run in runs {
        assert_eq!(signals(&world, run).await, 12, "run {run}");
        world
            .stage
            .give(run, "n", false, Word::Succeed(json!(1)))
            .await;
        world.ended(run).await;
        assert_eq!(status(&world, run).await, RunStatus::Succeeded);
    }
}

#[tokio::test]
async fn a_full_inbox_takes_no_further_command() {
    let world = world().await;
    world.join().await;
    world.join().await;
    let (run, owner, other) = run_of_another(&world).await;
    let row = owner.store().run(run).await.expect("a store");
    let partition = row.expect("a row").partition;
    // Of a kind that no owner of this version takes.
    let offers = (0..10_000).map(|number| Offer {
        run,
        partition,
        key: format!("later/{number}").into(),
        bytes: Vec::new(),
    });
    let offered = owner.store().offer(offers.collect()).await;
    offered.expect("they wait");
    let refused = other.command(run, signal("one-more")).await;
    let refused = refused.expect_err("there is no room").to_string();
    assert!(refused.contains("10000 items wait"), "{refused}");
    // The owner's own commands need no inbox.
    let cancelled = send(&owner, run, RunCommand::Cancel { compensate: false }).await;
    cancelled.expect("it is carried out");
}
