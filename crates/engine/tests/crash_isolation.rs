//! Runs that cannot be read or crash the process: they are dead-lettered, and the others go on.

use std::collections::BTreeMap;

use crate::serve_world::{Floor, GATED, PLAIN, World};
use tokio::runtime::{Builder, Runtime};
use windlass_core::event::Actor;
use windlass_core::{Millis, RunId, RunStatus};
use windlass_engine::{Recovery, Serving};
use windlass_orchestrator::codec;
use windlass_store::{
    Admission as _, Append, DeadLetters as _, Head, KeyValue as _, Log as _, MemoryStore,
    Queries as _, RunRow, TenantFilter, Wait as _, WriterId,
};

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

fn serving() -> Serving {
    Serving {
        // Suspects do not wait: the test decides when the next process starts.
        poison_delay_ms: 0,
        poison_trial_ms: 200,
        ..Serving::default()
    }
}

/// A process that serves until the run's action is under way, and then dies, or stops.
fn process(store: &MemoryStore, run: RunId, stops: bool) -> Recovery {
    let runtime = runtime();
    let recovery = runtime.block_on(async {
        let world = World::on(store.clone(), Floor::new(0));
        let recovery = world.engine.serve(serving()).await.expect("serves");
        let dead = |run| {
            world
                .store
                .run(run)
                .wait()
                .expect("a store")
                .is_some_and(|row| row.dead)
        };
        while world.floor.working() == 0 && !dead(run) {
            tokio::task::yield_now().await;
        }
        if stops {
            world.engine.shutdown().await;
        }
        recovery
    });
    // The runtime ends without waiting for anything, as in a power loss.
    runtime.shutdown_background();
    recovery
}

fn queued(store: &MemoryStore, text: &str) -> RunId {
    let runtime = runtime();
    runtime.block_on(async {
        let world = World::on(store.clone(), Floor::new(0));
        world.publish(None, text).await;
        world
            .enqueue(None, r#"{"key":"a","why":"a trigger"}"#)
            .await
    })
}

fn row(store: &MemoryStore, run: RunId) -> RunRow {
    store.run(run).wait().expect("a store").expect("a row")
}

#[test]
fn a_run_that_crashes_its_process_three_times_is_set_aside() {
    let store = MemoryStore::new();
    let run = queued(&store, GATED);
    assert_eq!(process(&store, run, false).recovered, []);
    // The first death is forgiven at once, the second after a while, the third never.
    let second = process(&store, run, false);
    assert_eq!((second.recovered, second.waiting), (vec![run], vec![]));
    let third = process(&store, run, false);
    assert_eq!((third.recovered, third.waiting), (vec![], vec![run]));
    let fourth = process(&store, run, false);
    assert_eq!(fourth.dead_lettered.len(), 1, "{fourth:?}");
    assert!(row(&store, run).dead);
    let letter = store
        .dead_letter(run)
        .wait()
        .expect("a store")
        .expect("a letter");
    assert_eq!((letter.deliveries, &*letter.workflow), (3, "w"));
    assert!(letter.reason.contains("3 times"), "{}", letter.reason);
    let payload = String::from_utf8(letter.payload).expect("text");
    assert!(payload.contains("a trigger"), "{payload}");
    assert!(payload.contains(r#""openNodes":["n"]"#), "{payload}");
    assert_eq!(
        store.gates().wait().expect("a store"),
        [],
        "its place is free"
    );
    // The next process does not acquire it again.
    let fifth = process(&store, run, false);
    assert_eq!(fifth.recovered, []);

    // Requeued, it has all its tries again.
    let runtime = runtime();
    runtime.block_on(async {
        let mut world = World::on(store.clone(), Floor::new(0));
        world.engine.serve(serving()).await.expect("serves");
        assert!(world.engine.requeue(run).await.expect("a store"));
        assert!(!world.engine.requeue(run).await.expect("a store"));
        while world.floor.working() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.engine.load(run).expect("readable").run.deaths(), 0);
        let next = world.enqueue(None, r#"{"key":"a"}"#).await;
        world.floor.permits.add_permits(2);
        assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
        assert_eq!(world.next_ended().await, (next, RunStatus::Succeeded));
        assert_eq!(world.floor.most("a"), 1);
    });
}

#[test]
fn a_clean_stop_is_no_crash() {
    let store = MemoryStore::new();
    let run = queued(&store, PLAIN);
    process(&store, run, true);
    for _ in 0..6 {
        let recovery = process(&store, run, true);
        assert_eq!(recovery.recovered, [run]);
    }
    // Deaths between good stops still count.
    process(&store, run, false);
    assert_eq!(process(&store, run, true).recovered, [run]);
    assert_eq!(process(&store, run, false).recovered, [run]);
    assert_eq!(process(&store, run, false).waiting, [run]);
    let last = process(&store, run, false);
    assert_eq!(last.dead_lettered.len(), 1, "{last:?}");
}

#[test]
fn progress_forgives_crashes() {
    let store = MemoryStore::new();
    let text = r#"{"id":"w","nodes":[
        {"id":"a","actionType":"test.work","edges":[{"targetNode":"b"}],"parameters":{}},
        {"id":"b","actionType":"test.work","parameters":{}}]}"#;
    let run = queued(&store, text);
    process(&store, run, false);
    process(&store, run, false);
    // The third gets one node further before it dies.
    let runtime = runtime();
    runtime.block_on(async {
        let world = World::on(store.clone(), Floor::new(1));
        let recovery = world.engine.serve(serving()).await.expect("serves");
        assert_eq!(recovery.waiting, [run]);
        while world.floor.begun() < 2 {
            tokio::task::yield_now().await;
        }
    });
    runtime.shutdown_background();
    let fourth = process(&store, run, false);
    assert_eq!(fourth.recovered, [run], "{fourth:?}");
}

/// A process that serves until the killer's action runs, and then dies; or stops once the
/// killer is a dead letter.
fn killed_by(store: &MemoryStore, killer: RunId) {
    let runtime = runtime();
    runtime.block_on(async {
        let world = World::on(store.clone(), Floor::new(0));
        world.engine.serve(serving()).await.expect("serves");
        while world.floor.most("killer") == 0 && !row(store, killer).dead {
            tokio::task::yield_now().await;
        }
        if row(store, killer).dead {
            // The killer is dead-lettered, so the process stops in good order.
            world.engine.shutdown().await;
        }
    });
    runtime.shutdown_background();
}

#[test]
fn runs_in_hand_at_another_runs_crashes_are_not_set_aside() {
    let store = MemoryStore::new();
    let (killer, others) = {
        let runtime = runtime();
        runtime.block_on(async {
            let world = World::on(store.clone(), Floor::new(0));
            world.publish(None, PLAIN).await;
            let first = world.enqueue(None, r#"{"key":"long"}"#).await;
            let killer = world.enqueue(None, r#"{"key":"killer"}"#).await;
            let last = world.enqueue(None, r#"{"key":"long"}"#).await;
            (killer, [first, last])
        })
    };
    // How many crashes it takes depends on which suspect is tried first, and on how soon the
    // killer strikes while it is alone; without isolation all three would be dead-lettered after
    // three crashes.
    let deaths = (1..20).find(|_| {
        killed_by(&store, killer);
        row(&store, killer).dead
    });
    assert!(deaths.is_some_and(|deaths| deaths > 3), "{deaths:?}");
    let letter = store
        .dead_letter(killer)
        .wait()
        .expect("a store")
        .expect("a letter");
    assert!(letter.deliveries >= 3, "{letter:?}");
    for other in others {
        assert!(!row(&store, other).dead);
    }
    // And they go on to their end.
    runtime().block_on(async {
        let mut world = World::on(store.clone(), Floor::new(100));
        world.engine.serve(serving()).await.expect("serves");
        let ended = [world.next_ended().await, world.next_ended().await];
        for (run, status) in ended {
            assert!(others.contains(&run) && status == RunStatus::Succeeded);
        }
    });
}

/// The session record of a process that crashed while it acquired a run, where these had
/// crashed others twice.
async fn crashed_acquiring(store: &MemoryStore, run: Option<RunId>, twice: &[RunId]) {
    let runs = twice.iter().map(|run| (run.to_string(), 2));
    let crashes: BTreeMap<String, u32> = runs.collect();
    let session = serde_json::json!({ "acquiring": run, "crashes": crashes });
    let text = session.to_string().into_bytes();
    let kept = store.keep_note("session", "00000000000000aa", text);
    kept.await.expect("a store");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_crashes_its_process_before_it_has_begun_is_set_aside() {
    let mut world = World::new(100);
    world.publish(None, PLAIN).await;
    let killer = world.enqueue(None, "{}").await;
    let other = world.enqueue(None, "{}").await;
    crashed_acquiring(&world.store, Some(killer), &[killer]).await;
    world.engine.serve(serving()).await.expect("serves");
    assert_eq!(world.next_ended().await, (other, RunStatus::Succeeded));
    assert!(row(&world.store, killer).dead);
    let letter = world
        .store
        .dead_letter(killer)
        .wait()
        .expect("a store")
        .expect("a letter");
    assert_eq!(letter.deliveries, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspects_that_have_not_begun_wait_and_are_begun_alone() {
    let mut world = World::new(100);
    world.publish(None, GATED).await;
    let runs = [
        world.enqueue(None, r#"{"key":"a"}"#).await,
        world.enqueue(None, r#"{"key":"a"}"#).await,
    ];
    crashed_acquiring(&world.store, None, &runs).await;
    let slow = Serving {
        poison_delay_ms: 600_000,
        ..serving()
    };
    world.engine.serve(slow.clone()).await.expect("serves");
    let free = world.enqueue(None, r#"{"key":"b"}"#).await;
    assert_eq!(world.next_ended().await, (free, RunStatus::Succeeded));
    for run in runs {
        let suspended = world.engine.suspended(run).expect("it waits");
        assert_eq!(suspended.deaths, 2);
        assert_eq!(row(&world.store, run).status, RunStatus::Pending);
    }
    // A clean stop is no crash, and clears no suspect.
    world.engine.shutdown().await;
    let mut world = World::on(world.store.clone(), Floor::new(100));
    world.engine.serve(serving()).await.expect("serves");
    for _ in runs {
        let (run, status) = world.next_ended().await;
        assert!(runs.contains(&run) && status == RunStatus::Succeeded);
    }
    // Nothing is held against them once they have begun.
    world.engine.shutdown().await;
    assert_eq!(
        world
            .store
            .notes("session", None, 9)
            .wait()
            .expect("a store"),
        []
    );
}

/// What a process that serves has written about itself, and not closed.
fn open_session(store: &MemoryStore) -> serde_json::Value {
    let notes = store
        .notes("session", None, 9)
        .wait()
        .expect("a store")
        .into_iter();
    let mut sessions = notes.map(|(_, text)| serde_json::from_slice(&text).expect("JSON"));
    let open = sessions.find(|session: &serde_json::Value| session["end"].is_null());
    open.expect("an open session")
}

#[test]
fn after_a_crash_the_session_names_a_run_before_it_is_acquired() {
    let store = MemoryStore::new();
    let run = queued(&store, PLAIN);
    process(&store, run, false);
    assert_eq!(open_session(&store)["acquiring"], serde_json::Value::Null);
    process(&store, run, false);
    assert_eq!(open_session(&store)["acquiring"], run.to_string());
    // Acquired alone, it is named as that.
    process(&store, run, false);
    assert_eq!(open_session(&store)["alone"], run.to_string());
}

/// A run that waits to begin, with a log of these bytes.
async fn damaged(store: &MemoryStore, like: RunId, status: RunStatus, record: Vec<u8>) -> RunId {
    let mut bytes = *like.as_bytes();
    bytes[15] ^= 1 + status as u8;
    let run = RunId::from_bytes(bytes);
    let append = Append {
        row: Some(RunRow {
            run,
            status,
            request_id: run.to_string().into(),
            labels: BTreeMap::new(),
            started_at: (status == RunStatus::Running).then_some(Millis(1)),
            ..row(store, like)
        }),
        ..Append::of_record(run, Head::NONE, (WriterId(9), 1), record)
    };
    store.append(vec![append]).await.remove(0).expect("stored");
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_cannot_be_read_are_set_aside_and_the_others_go_on() {
    let mut world = World::new(100);
    world.publish(None, PLAIN).await;
    let good = world.enqueue(None, "{}").await;
    let pending = damaged(&world.store, good, RunStatus::Pending, b"nonsense".to_vec()).await;
    // Its definition is missing.
    let first = world
        .store
        .read(good, 1, 1)
        .wait()
        .expect("a store")
        .remove(0);
    let text = String::from_utf8_lossy(&first.bytes).into_owned();
    let mut missing = first.bytes.clone();
    let at = text.find(r#""version":1"#).expect("a version");
    missing[at + r#""version":"#.len()] = b'7';
    assert!(codec::decode(&missing).is_ok());
    let digest = text.find(r#""definition":""#).expect("a digest") + r#""definition":""#.len();
    missing[digest] = if missing[digest] == b'0' { b'1' } else { b'0' };
    let running = damaged(&world.store, good, RunStatus::Running, missing).await;
    let recovery = world.engine.serve(serving()).await.expect("serves");
    assert_eq!(recovery.dead_lettered.len(), 1, "{recovery:?}");
    assert_eq!(recovery.dead_lettered[0].0, running);
    assert_eq!(world.next_ended().await, (good, RunStatus::Succeeded));
    while !row(&world.store, pending).dead {
        tokio::task::yield_now().await;
    }
    let letters = world.store.dead_letters(&TenantFilter::Any, None, 10);
    let letters = letters.wait().expect("a store");
    assert_eq!(letters.len(), 2);
    let why = |run: RunId| letters.iter().find(|letter| letter.run == run);
    let reason = why(running).expect("a letter").reason.to_string();
    assert!(reason.contains("version 7 of 'w' is missing"), "{reason}");
    // Trying it again does not help, and does no harm.
    assert!(world.engine.requeue(running).await.expect("a store"));
    assert!(row(&world.store, running).dead);
    assert_eq!(world.engine.stats().wait().expect("numbers").queued, 0);
    // Purged, their rows say that they have ended, and no process acquires them.
    for run in [running, pending] {
        let purged = world.engine.purge(run, Actor::default()).await;
        assert!(purged.expect("purged"));
        let row = row(&world.store, run);
        assert_eq!((row.status, row.dead), (RunStatus::Failed, true));
        assert_eq!(row.error_code.as_deref(), Some("DEAD_LETTERED"));
        assert!(row.ended_at.is_some());
        assert_eq!(world.store.dead_letter(run).wait().expect("a store"), None);
        assert!(
            !world
                .engine
                .purge(run, Actor::default())
                .await
                .expect("none")
        );
    }
}
