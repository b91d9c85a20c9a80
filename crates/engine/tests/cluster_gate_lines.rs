//! Runs that a process has set aside, or that became dead letters, hold up no run behind them at
//! the gate of their concurrency key. The processes here search their partitions only when they
//! take them, so that what begins follows from wake-ups alone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::{Millis, RunId, RunStatus};
use windlass_engine::{Engine, Options, StartRequest};
use windlass_orchestrator::supervisor::LeaseOptions;
use windlass_store::{
    Append, DeadLetter, Head, MemoryStore, Partition, Partitions, Role, RunRow, WriterId,
};
use windlass_test_support::cluster::{LEASES, Word, World};

const WORKFLOW: &str = r#"{"id":"gated","concurrency":{"key":"k","limit":1},
    "nodes":[{"id":"n","actionType":"test"}]}"#;

/// Longer than any test takes.
const NEVER_MS: u64 = 3_600_000;

async fn world(partitions: u32) -> Arc<World> {
    let store = MemoryStore::new();
    store.set_partitions(partitions);
    let world = World::new(Arc::new(store));
    world.set_poison_delay(NEVER_MS);
    world.publish(WORKFLOW).await;
    world
}

async fn join(world: &World) -> usize {
    let leases = LeaseOptions {
        sweep_ms: NEVER_MS,
        ..LEASES
    };
    let options = |options| Options {
        leases: Some(leases),
        ..options
    };
    world.join_with(&Role::ALL, options).await
}

/// A process that takes requests and works on no partition.
async fn front(world: &World) -> Engine {
    let process = world.join_as(&[Role::Api]).await;
    world.engine_of(process)
}

async fn row(world: &World, run: RunId) -> RunRow {
    world.store.run(run).await.expect("a row").expect("a run")
}

/// Starts a run in a partition before any process works on one: those that come to another one are
/// made dead letters, and must not begin before that.
async fn start_in(world: &World, front: &Engine, partition: Partition) -> RunId {
    loop {
        let started = front.enqueue("gated", None, StartRequest::default()).await;
        let run = started.expect("it is queued").run;
        if row(world, run).await.partition == partition {
            return run;
        }
        let letter = DeadLetter {
            run,
            tenant: None,
            workflow: "gated".into(),
            reason: "it came to the wrong partition".into(),
            payload: b"{}".to_vec(),
            deliveries: 0,
            at: Millis(1),
            damage: None,
        };
        world.store.add_dead_letter(letter).await.expect("a letter");
    }
}

async fn soon(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(waited.is_ok(), "{what}");
}

async fn parked(world: &World) -> Vec<RunId> {
    let gates = world.store.parked_gates(&Partitions::All).await;
    let mut runs = Vec::new();
    for (_, gate) in gates.expect("gates") {
        let rows = world.store.parked(&Partitions::All, &gate, 9).await;
        runs.extend(rows.expect("rows").into_iter().map(|row| row.run));
    }
    runs
}

async fn succeed(world: &World, run: RunId) {
    let word = Word::Succeed(json!(1));
    world.stage.give(run, "n", false, word).await;
    world.ended(run).await;
}

#[tokio::test]
async fn runs_that_are_set_aside_stand_in_no_line_of_a_gate() {
    let world = world(2).await;
    let front = front(&world).await;
    let aside = start_in(&world, &front, Partition(0)).await;
    let one = start_in(&world, &front, Partition(1)).await;
    let other = start_in(&world, &front, Partition(1)).await;
    // Of two runs of the same millisecond the one with the smaller id goes first.
    let (first, behind) = (one.min(other), one.max(other));
    world.store.park(vec![aside]).await.expect("it is parked");
    // Two processes crashed while they acquired it.
    let session = json!({ "crashes": { aside.to_string(): 2 } });
    let text = session.to_string().into_bytes();
    let kept = world.store.keep_note("session", "00000000000000aa", text);
    kept.await.expect("a note");
    for _ in 0..2 {
        join(&world).await;
    }
    soon("each is owned by another process", async || {
        world.owner(aside).await != world.owner(first).await
    })
    .await;
    soon("the first begins", async || world.stage.is_open(first)).await;
    soon("the one behind is parked", async || {
        parked(&world).await.contains(&behind)
    })
    .await;
    succeed(&world, first).await;
    soon("the one behind begins", async || {
        world.stage.is_open(behind)
    })
    .await;
    succeed(&world, behind).await;
    assert_eq!(row(&world, aside).await.status, RunStatus::Pending);
    assert!(parked(&world).await.is_empty());
}

#[tokio::test]
async fn a_run_that_was_set_aside_stands_in_line_again_once_its_time_has_come() {
    let world = world(1).await;
    world.set_poison_delay(50);
    let front = front(&world).await;
    let before = join(&world).await;
    let first = start_in(&world, &front, Partition(0)).await;
    soon("the first begins", async || world.stage.is_open(first)).await;
    let mut behind = Vec::new();
    for _ in 0..2 {
        behind.push(start_in(&world, &front, Partition(0)).await);
    }
    soon("the others are parked", async || {
        parked(&world).await.len() == behind.len()
    })
    .await;
    // The place of the first stays taken: the next process recovers it.
    world.kill(before);
    let urgent = StartRequest {
        priority: 9,
        ..StartRequest::default()
    };
    let aside = front.enqueue("gated", None, urgent).await;
    let aside = aside.expect("it is queued").run;
    let session = json!({ "crashes": { aside.to_string(): 2 } });
    let text = session.to_string().into_bytes();
    let kept = world.store.keep_note("session", "00000000000000aa", text);
    kept.await.expect("a note");
    join(&world).await;
    soon("it stands in line", async || {
        parked(&world).await.first() == Some(&aside)
    })
    .await;
    // The place that comes free is its own, although others wait for it all the time.
    succeed(&world, first).await;
    soon("it begins", async || world.stage.is_open(aside)).await;
    for &run in &behind {
        assert_eq!(row(&world, run).await.status, RunStatus::Pending);
    }
    succeed(&world, aside).await;
    for _ in &behind {
        let next = async || {
            behind
                .iter()
                .find(|&&run| world.stage.is_open(run))
                .copied()
        };
        soon("the next begins", async || next().await.is_some()).await;
        succeed(&world, next().await.expect("one is open")).await;
    }
    assert!(parked(&world).await.is_empty());
}

/// A run that is first in line for its priority, with a log that cannot be read.
async fn damaged(world: &World, like: RunId) -> RunId {
    let mut bytes = *like.as_bytes();
    bytes[14] ^= 1;
    let run = RunId::from_bytes(bytes);
    let record = b"nonsense".to_vec();
    let append = Append {
        row: Some(RunRow {
            run,
            priority: 9,
            request_id: run.to_string().into(),
            ..row(world, like).await
        }),
        ..Append::of_record(run, Head::NONE, (WriterId(9), 1), record)
    };
    let appended = world.store.append(vec![append]).await.remove(0);
    appended.expect("stored");
    run
}

#[tokio::test]
async fn a_dead_letter_gives_its_place_at_a_gate_to_the_next() {
    let world = world(1).await;
    let front = front(&world).await;
    let first = start_in(&world, &front, Partition(0)).await;
    let unreadable = damaged(&world, first).await;
    join(&world).await;
    soon("it is a dead letter", async || {
        row(&world, unreadable).await.dead
    })
    .await;
    soon("the next begins", async || world.stage.is_open(first)).await;
    succeed(&world, first).await;
    soon("nothing is held", async || {
        let places = world.store.places(&Partitions::All, None, 9).await;
        places.expect("places").is_empty()
    })
    .await;
}
