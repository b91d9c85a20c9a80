//! Runs that are asked for, wait, and begin: in turn, by priority, and never more at a
//! gate than it lets through.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::serve_world::{Floor, GATED, PLAIN, World};
use tokio::runtime::Builder;
use windlass_core::command::{CommandRequest, RunCommand};
use windlass_core::event::Actor;
use windlass_core::plan::Plan;
use windlass_core::{Digest, RunId, RunStatus};
use windlass_engine::{Begin, NewRun, Serving, StartError, StartRequest};
use windlass_store::{Admission as _, Catalogue as _, MemoryStore, Queries as _, Wait as _};

fn serving(max_active_runs: usize) -> Serving {
    Serving {
        max_active_runs,
        ..Serving::default()
    }
}

fn cancel() -> CommandRequest {
    RunCommand::Cancel { compensate: false }.by(Actor::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_run_is_a_row_until_somebody_serves() {
    let mut world = World::new(100);
    world.publish(None, PLAIN).await;
    let run = world.enqueue(None, r#"{"key":"a"}"#).await;
    let row = world
        .store
        .run(run)
        .wait()
        .expect("a store")
        .expect("a row");
    assert_eq!(row.status, RunStatus::Pending);
    assert_eq!(world.engine.held().await, 0);
    assert_eq!(world.engine.stats().wait().expect("numbers").queued, 1);
    world.engine.serve(serving(8)).await.expect("serves");
    assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
    let again = world.engine.serve(serving(8)).await;
    assert!(again.is_err(), "it serves already");
    let later = world.enqueue(None, "{}").await;
    assert_eq!(world.next_ended().await, (later, RunStatus::Succeeded));
    assert_eq!(world.engine.stats().wait().expect("numbers").begun, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_stand_instead_of_the_definitions_own() {
    let world = World::new(0);
    let with_vars = PLAIN.replacen('{', r#"{"vars":{"region":"eu","kept":1},"#, 1);
    world.publish(None, &with_vars).await;
    let ask = |name: &str| {
        let value = serde_json::value::RawValue::from_string(r#""us""#.to_owned());
        let vars = BTreeMap::from([(name.into(), value.expect("JSON"))]);
        let request = StartRequest {
            vars,
            ..StartRequest::default()
        };
        world.engine.enqueue("w", None, request)
    };
    let run = ask("region").await.expect("queued").run;
    let loaded = world.engine.load(run).expect("a run");
    let vars = &loaded.run.queued().vars;
    let text = |name: &str| match &vars[name] {
        windlass_core::value::Stored::Inline(raw) => raw.get().to_owned(),
        stored => panic!("{stored:?}"),
    };
    assert_eq!(text("region"), "\"us\"");
    assert_eq!(text("kept"), "1");
    let refused = ask("regoin").await.map_err(|error| error.code());
    assert_eq!(refused, Err(Some("VARIABLE_UNKNOWN")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_checked_as_starts_are() {
    let world = World::new(0);
    let schema = r#""triggerSchema":{"type":"object","required":["key"]},"concurrency":{"key""#;
    world
        .publish(None, &GATED.replace(r#""concurrency":{"key""#, schema))
        .await;
    let ask = |trigger: &str, request: Option<&str>| {
        let request = StartRequest {
            trigger: trigger.to_owned(),
            request_id: request.map(Into::into),
            ..StartRequest::default()
        };
        world.engine.enqueue("w", None, request)
    };
    let codes = |error: StartError| error.code();
    let refused = ask("{}", None).await.map_err(codes);
    assert_eq!(refused, Err(Some("TRIGGER_INVALID")));
    let refused = ask("{", None).await.map_err(codes);
    assert_eq!(refused, Err(Some("TRIGGER_NOT_JSON")));
    let refused = ask(r#"{"key":[1]}"#, None).await.map_err(codes);
    assert_eq!(refused, Err(Some("CONCURRENCY_KEY_INVALID")));
    let first = ask(r#"{"key":"a"}"#, Some("r")).await.expect("queued");
    let second = ask(r#"{ "key" : "a" }"#, Some("r")).await.expect("queued");
    assert_eq!((second.run, second.existing), (first.run, true));
    let refused = ask(r#"{"key":"b"}"#, Some("r")).await.map_err(codes);
    assert_eq!(refused, Err(Some("REQUEST_ID_REUSED")));
    let row = world
        .store
        .run(first.run)
        .wait()
        .expect("a store")
        .expect("a row");
    assert_eq!((row.gate.as_deref(), row.limit), (Some("w\na"), 1));
    let unknown = world
        .engine
        .enqueue("nobody", None, StartRequest::default())
        .await;
    assert_eq!(
        unknown.map_err(codes).map(drop),
        Err(Some("WORKFLOW_NOT_FOUND"))
    );
    let elsewhere = StartRequest {
        tenant: Some("t".into()),
        ..StartRequest::default()
    };
    let elsewhere = world
        .engine
        .enqueue("w", None, elsewhere)
        .await
        .map_err(codes);
    assert_eq!(elsewhere.map(drop), Err(Some("WORKFLOW_NOT_FOUND")));
    world
        .store
        .set_enabled(None, "w", false)
        .await
        .expect("a store");
    world.engine.catalogue_changed(None, "w");
    let refused = ask(r#"{"key":"a"}"#, None).await.map_err(codes);
    assert_eq!(refused.map(drop), Err(Some("WORKFLOW_DISABLED")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_was_queued_is_the_row_that_its_log_says() {
    let world = World::new(0);
    world.publish(Some("t"), GATED).await;
    let run = world.enqueue_with(Some("t"), r#"{"key":"k"}"#, 7).await;
    let found = world
        .store
        .run(run)
        .wait()
        .expect("a store")
        .expect("a row");
    let loaded = world.engine.load(run).expect("readable").run;
    assert_eq!(found, windlass_orchestrator::row(&loaded, (false, None)));
    assert_eq!(found.gate.as_deref(), Some("t\tw\nk"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_noisy_tenant_does_not_starve_a_quiet_one() {
    let mut world = World::new(1_000_000);
    for tenant in ["noisy", "quiet"] {
        world.publish(Some(tenant), PLAIN).await;
    }
    for _ in 0..10_000 {
        world.enqueue(Some("noisy"), "{}").await;
    }
    let mut quiet = HashSet::new();
    for _ in 0..10 {
        quiet.insert(world.enqueue(Some("quiet"), "{}").await);
    }
    world.engine.serve(serving(4)).await.expect("serves");
    let mut before = 0;
    while !quiet.is_empty() {
        let run = world.next_begun().await;
        if !quiet.remove(&run) {
            before += 1;
        }
    }
    assert!(before <= 20, "{before} of the noisy tenant came first");
    world.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_highest_priority_goes_first_then_the_oldest() {
    let mut world = World::new(0);
    world.publish(None, PLAIN).await;
    let blocker = world.enqueue(None, "{}").await;
    world.engine.serve(serving(1)).await.expect("serves");
    assert_eq!(world.next_begun().await, blocker);
    let mut line: BTreeSet<(Reverse<u8>, RunId)> = BTreeSet::new();
    // More than a page of one priority first, so that the others come after it was read.
    for number in 0..300_u32 {
        let priority = if number < 200 { 2 } else { (number % 10) as u8 };
        let run = world.enqueue_with(None, "{}", priority).await;
        line.insert((Reverse(priority), run));
        if number == 150 {
            world.floor.permits.add_permits(1);
            let next = world.next_begun().await;
            let first = line.pop_first().expect("one");
            assert_eq!(next, first.1);
        }
    }
    for (priority, run) in line {
        world.floor.permits.add_permits(1);
        assert_eq!(world.next_begun().await, run, "{priority:?}");
    }
}

/// A source of numbers that are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// One process: it serves while requests come, some runs end, some are cancelled, and it
/// stops in the middle of it.
async fn process(world: &World, random: &mut Random, left: &mut HashSet<RunId>) {
    let active = 1 + random.below(6) as usize;
    let recovery = world.engine.serve(serving(active)).await.expect("serves");
    assert_eq!(recovery.waiting, [], "nobody died");
    for _ in 0..60 {
        let key = random.below(4);
        let fate = ["ok", "fail"][random.below(2) as usize];
        let trigger = format!(r#"{{"key":"{key}","fate":"{fate}"}}"#);
        let priority = random.below(10) as u8;
        let run = world.enqueue_with(None, &trigger, priority).await;
        left.insert(run);
        match random.below(6) {
            0 => {
                // One that has ended meanwhile refuses it.
                let _ = world.engine.command(run, cancel()).await;
            }
            1 | 2 => world.floor.permits.add_permits(1),
            _ => tokio::task::yield_now().await,
        }
    }
    world.engine.shutdown().await;
}

/// The last process: everything ends.
async fn finish(world: &World, left: &HashSet<RunId>) {
    let recovery = world.engine.serve(serving(5)).await.expect("serves");
    assert_eq!(recovery.waiting, [], "nobody died");
    world.floor.permits.add_permits(10_000);
    for run in left {
        let is_over = || {
            let row = world
                .store
                .run(*run)
                .wait()
                .expect("a store")
                .expect("a row");
            row.status.is_final()
        };
        while !is_over() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

/// Serves a mixed load through several processes; nothing is ever done twice at a gate.
fn random_schedule(seed: u64) {
    let mut random = Random(seed);
    let (store, floor) = (MemoryStore::new(), Floor::new(0));
    let mut left: HashSet<RunId> = HashSet::new();
    for round in 0..4 {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let world = World::on(store.clone(), Arc::clone(&floor));
            if round == 0 {
                world.publish(None, GATED).await;
            }
            match round {
                3 => finish(&world, &left).await,
                _ => process(&world, &mut random, &mut left).await,
            }
        });
        // What it had in hand goes with its runtime, as with a process.
        drop(runtime);
        assert_eq!(floor.working(), 0);
    }
    for key in ["0", "1", "2", "3"] {
        assert_eq!(floor.most(key), 1, "seed {seed}, key {key}");
    }
    assert_eq!(store.gates().wait().expect("a store"), []);
}

#[test]
fn a_gate_lets_no_more_through_whatever_happens() {
    for seed in 1..=6 {
        random_schedule(seed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_counts_and_a_paused_run_keeps_its_place() {
    let mut world = World::new(0);
    world.publish(None, GATED).await;
    world.engine.serve(serving(8)).await.expect("serves");
    // Begins at once, as from a terminal.
    let plan = Plan::build(serde_json::from_str(GATED).expect("a definition")).expect("a plan");
    let digest = Digest::of(GATED.as_bytes());
    let mut request = NewRun::new(Arc::new(plan), 1, digest);
    request.request.trigger = r#"{"key":"a"}"#.to_owned();
    let first = world.engine.start(&request).await.expect("started").run;
    assert_eq!(world.next_begun().await, first);
    let second = world.enqueue(None, r#"{"key":"a"}"#).await;
    let other = world.enqueue(None, r#"{"key":"b"}"#).await;
    assert_eq!(world.next_begun().await, other, "the other gate is free");
    let pause = RunCommand::Pause.by(Actor::default());
    world.engine.command(first, pause).await.expect("paused");
    let third = world.enqueue(None, r#"{"key":"c"}"#).await;
    assert_eq!(world.next_begun().await, third);
    let row = world
        .store
        .run(second)
        .wait()
        .expect("a store")
        .expect("a row");
    assert_eq!(row.status, RunStatus::Pending);
    world
        .engine
        .command(first, cancel())
        .await
        .expect("cancelled");
    assert_eq!(world.next_begun().await, second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_only_started_later_waits_its_turn() {
    let mut world = World::new(1);
    world.publish(None, PLAIN).await;
    world.engine.serve(serving(8)).await.expect("serves");
    let plan = Plan::build(serde_json::from_str(PLAIN).expect("a definition")).expect("a plan");
    let digest = Digest::of(PLAIN.as_bytes());
    let mut request = NewRun::new(Arc::new(plan), 1, digest);
    request.begin = Begin::Later;
    let run = world.engine.start(&request).await.expect("queued").run;
    assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_at_one_gate_cost_no_more_for_each_end() {
    let mut world = World::new(0);
    world.publish(None, GATED).await;
    for _ in 0..10_000 {
        world.enqueue(None, r#"{"key":"a"}"#).await;
    }
    world.engine.serve(serving(64)).await.expect("serves");
    world.next_begun().await;
    let mut ends = BTreeMap::new();
    for round in 0..12_u64 {
        let looks = world.engine.stats().wait().expect("numbers").looks;
        world.floor.permits.add_permits(1);
        world.next_begun().await;
        let now = world.engine.stats().wait().expect("numbers").looks;
        ends.insert(round, now - looks);
    }
    // The first may still have seen runs being parked.
    let most = ends.range(4..).map(|(_, looks)| *looks).max();
    assert!(most <= Some(5), "{ends:?}");
    assert_eq!(world.floor.most("a"), 1);
    world.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_does_not_begin_a_run_before_its_turn() {
    let mut world = World::new(0);
    let text = r#"{"id":"w","concurrency":{"limit":1},"nodes":[
        {"id":"n","waitForSignal":{"name":"go"}}]}"#;
    world.publish(None, text).await;
    world.engine.serve(serving(8)).await.expect("serves");
    let first = world.enqueue(None, "{}").await;
    // Two of the same millisecond have no order.
    assert_eq!(world.next_begun().await, first);
    let second = world.enqueue(None, "{}").await;
    let signal = |run| {
        world.engine.command(
            run,
            RunCommand::Signal { name: "go".into() }
                .by(Actor::default())
                .with("1"),
        )
    };
    signal(second).await.expect("kept");
    let row = world
        .store
        .run(second)
        .wait()
        .expect("a store")
        .expect("a row");
    assert_eq!(row.status, RunStatus::Pending);
    signal(first).await.expect("taken");
    assert_eq!(world.next_ended().await.0, first);
    assert_eq!(world.next_ended().await, (second, RunStatus::Succeeded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_are_active_than_allowed_and_sleepers_do_not_count() {
    let mut world = World::on(Default::default(), Floor::new(0));
    world
        .publish(
            None,
            r#"{"id":"w","nodes":[{"id":"s","waitForSignal":{"name":"go"},"edges":[{"targetNode":"n"}]},
            {"id":"n","actionType":"test.work","parameters":{"key":"x"}}]}"#,
        )
        .await;
    world.engine.serve(serving(2)).await.expect("serves");
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(world.enqueue(None, "{}").await);
    }
    // All of them begin, because those that wait for the signal leave memory.
    for _ in 0..20 {
        world.next_begun().await;
    }
    for run in &runs {
        let signal = world.engine.command(
            *run,
            RunCommand::Signal { name: "go".into() }
                .by(Actor::default())
                .with("1"),
        );
        signal.await.expect("taken");
    }
    world.floor.permits.add_permits(20);
    for _ in 0..20 {
        assert_eq!(world.next_ended().await.1, RunStatus::Succeeded);
    }
}
