//! One accounting of `concurrency` and of pools for several processes: a limit holds over all of
//! them, and no place or slot is lost with a process.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::{Millis, RunId, RunStatus};
use windlass_engine::StartRequest;
use windlass_store::{MemoryStore, Partitions, PoolKey, PoolRow, Role};
use windlass_test_support::cluster::{Word, World};

const WORKFLOW: &str = "limited";

#[derive(Clone, Copy)]
enum Limit {
    /// Runs at once.
    Gate(u32),
    /// Attempts at once.
    Pool(u32),
}

impl Limit {
    fn most(self) -> usize {
        let (Self::Gate(most) | Self::Pool(most)) = self;
        most as usize
    }

    fn definition(self) -> String {
        let (concurrency, pool) = match self {
            Self::Gate(limit) => (json!({ "key": "k", "limit": limit }), json!(null)),
            Self::Pool(_) => (json!(null), json!({ "name": "p" })),
        };
        let mut definition = json!({
            "id": WORKFLOW,
            "nodes": [{ "id": "n", "actionType": "test" }],
        });
        if !concurrency.is_null() {
            definition["concurrency"] = concurrency;
        }
        if !pool.is_null() {
            definition["nodes"][0]["pool"] = pool;
        }
        definition.to_string()
    }
}

/// Three processes over a store in memory with eight partitions.
async fn world(limit: Limit) -> Arc<World> {
    let store = MemoryStore::new();
    store.set_partitions(8);
    let world = World::new(Arc::new(store));
    world.publish(&limit.definition()).await;
    if let Limit::Pool(slots) = limit {
        let row = PoolRow {
            pool: PoolKey::new(None, "p"),
            slots,
            updated_at: Millis(0),
        };
        world.store.put_pool(row).await.expect("a pool");
    }
    for _ in 0..3 {
        world.join().await;
    }
    world.spread().await;
    world
}

async fn start(world: &World, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for turn in 0..count {
        let engine = world.engine(turn);
        let started = engine
            .enqueue(WORKFLOW, None, StartRequest::default())
            .await;
        runs.push(started.expect("it is queued").run);
    }
    runs
}

/// Lets a run that has begun go on for a while, so that another would be seen beside it, and end.
async fn end(world: Arc<World>, run: RunId) {
    while !world.stage.is_open(run) {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    tokio::time::sleep(Duration::from_millis(25)).await;
    let word = Word::Succeed(json!(1));
    world.stage.give(run, "n", false, word).await;
}

async fn end_all(world: &Arc<World>, runs: &[RunId]) {
    let ending = runs.iter().map(|&run| end(Arc::clone(world), run));
    futures_util::future::join_all(ending).await;
    for &run in runs {
        world.ended(run).await;
        let row = world.store.run(run).await.expect("a row").expect("a run");
        assert_eq!(row.status, RunStatus::Succeeded);
    }
}

async fn nothing_is_held(world: &World) {
    let held = async || {
        let places = world.store.places(&Partitions::All, None, 9).await;
        let slots = world.store.slots(&Partitions::All, None, 9).await;
        places.expect("places").len() + slots.expect("slots").len()
    };
    while held().await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn holds_over_all_processes(limit: Limit) {
    let world = world(limit).await;
    let runs = start(&world, 9).await;
    end_all(&world, &runs).await;
    assert_eq!(world.stage.most_runs(), limit.most());
    nothing_is_held(&world).await;
}

async fn holds_while_processes_die(limit: Limit) {
    let world = world(limit).await;
    let runs = start(&world, 8).await;
    let disturbed = Arc::clone(&world);
    let disturbing = tokio::spawn(async move {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let oldest = disturbed.live()[0];
            disturbed.join().await;
            disturbed.kill(oldest);
        }
    });
    end_all(&world, &runs).await;
    disturbing.await.expect("processes came and went");
    assert_eq!(world.stage.most_runs(), limit.most());
    nothing_is_held(&world).await;
}

#[tokio::test]
async fn a_concurrency_limit_holds_over_all_processes() {
    holds_over_all_processes(Limit::Gate(1)).await;
    holds_over_all_processes(Limit::Gate(2)).await;
}

#[tokio::test]
async fn a_pool_holds_over_all_processes() {
    holds_over_all_processes(Limit::Pool(1)).await;
    holds_over_all_processes(Limit::Pool(2)).await;
}

#[tokio::test]
async fn a_concurrency_limit_holds_while_processes_die_and_loses_no_place() {
    holds_while_processes_die(Limit::Gate(1)).await;
}

#[tokio::test]
async fn a_pool_holds_while_processes_die_and_loses_no_slot() {
    holds_while_processes_die(Limit::Pool(1)).await;
}

/// A node that the process calls itself, beside one that needs a slot.
const BESIDE: &str = r#"{"id":"beside","nodes":[{"id":"m","actionType":"test"},
    {"id":"n","actionType":"test","pool":{"name":"p"}}]}"#;

#[tokio::test]
async fn runs_that_are_set_aside_wait_in_no_line_and_any_process_says_until_when() {
    let store = MemoryStore::new();
    store.set_partitions(1);
    let world = World::new(Arc::new(store));
    world.set_poison_delay(600_000);
    world.publish(BESIDE).await;
    let pool = PoolKey::new(None, "p");
    let row = PoolRow {
        pool: pool.clone(),
        slots: 1,
        updated_at: Millis(0),
    };
    world.store.put_pool(row).await.expect("a pool");
    let front = world.join_as(&[Role::Api]).await;
    let front = world.engine_of(front);
    let mut owner = world.join_as(&[Role::Orchestrator, Role::Worker]).await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let request = StartRequest::default();
        let started = front.enqueue("beside", None, request).await;
        runs.push(started.expect("it is queued").run);
    }
    let in_use = async || {
        let usage = world.store.pool_use(&pool, 9).await.expect("a pool");
        (usage.holders.len(), usage.waiters.len())
    };
    for _ in 0..2 {
        // Each has an attempt in the process, and one of them the slot.
        while world.stage.waiting() < 3 || in_use().await != (1, 1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // As long as an attempt takes to be called by the next owner.
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.kill(owner);
        while world.stage.waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        owner = world.join_as(&[Role::Orchestrator, Role::Worker]).await;
    }
    let left = async {
        while in_use().await != (1, 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(20), left).await;
    assert!(left.is_ok(), "it waits in line: {:?}", in_use().await);
    for run in runs {
        let row = world.store.run(run).await.expect("a row").expect("a run");
        loop {
            let aside = front.suspended_anywhere(&row).await.expect("an answer");
            if let Some(aside) = aside {
                assert_eq!(aside.deaths, 2);
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
