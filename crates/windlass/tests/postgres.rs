//! Several engines of one service on one database.
#![cfg(feature = "postgres")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass::{Context, Engine, OpenError, Workflow};
use windlass_test_support::postgres::{Proxy, server};

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1_200 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("in vain: {what}");
}

fn workflow(factor: i64) -> Workflow {
    let step = move |_: Context, number: i64| async move { Ok(number * factor) };
    Workflow::builder("times")
        .description(format!("times {factor}"))
        .step("multiply", step)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_on_one_database_share_the_runs() {
    let url = server().fresh();
    let workflow = workflow(2);
    let one = Engine::postgres(&url)
        .workflow(&workflow)
        .open()
        .await
        .unwrap();
    let two = Engine::postgres(&url)
        .workflow(&workflow)
        .open()
        .await
        .unwrap();
    for number in 0..10 {
        let engine = if number % 2 == 0 { &one } else { &two };
        assert_eq!(engine.run(&workflow, number).await.unwrap(), number * 2);
    }
    // What one has started the other finds, also when the first is gone.
    let run = one.start(&workflow, 21).await.unwrap();
    one.shutdown().await;
    let found = two.find(run.id()).await.unwrap();
    assert_eq!(found.result().await.unwrap(), 42);
    two.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_deploy_does_not_replace_a_newer_one() {
    let url = server().fresh();
    let versions = async |engine: &Engine| {
        let versions = engine.inner().store().versions(None, "times").await;
        versions.unwrap().len()
    };
    let (old, new) = (workflow(2).revision(1), workflow(3).revision(2));
    let first = Engine::postgres(&url).workflow(&old).open().await.unwrap();
    assert_eq!(versions(&first).await, 1);
    first.shutdown().await;
    let second = Engine::postgres(&url).workflow(&new).open().await.unwrap();
    assert_eq!(versions(&second).await, 2);
    let again = Engine::postgres(&url).workflow(&old).open().await.unwrap();
    assert_eq!(versions(&again).await, 2);
    again.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_the_owner_lacks_is_called_by_an_engine_that_has_it() {
    let url = server().fresh();
    let called = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&called);
    let step = move |_: Context, number: i64| {
        seen.lock().unwrap().insert(number);
        async move { Ok(number * 2) }
    };
    let workflow = Workflow::builder("elsewhere")
        .step("double", step)
        .build()
        .unwrap();
    // The first engine takes every partition, and knows neither the workflow nor its action.
    let owner = Engine::postgres(&url).open().await.unwrap();
    let owned = async |engine: &Engine| engine.inner().partitions_owned();
    until("the first owns everything", async || {
        owned(&owner).await == 64
    })
    .await;
    let able = Engine::postgres(&url)
        .workflow(&workflow)
        .open()
        .await
        .unwrap();
    until("each owns a share", async || {
        owned(&owner).await > 0 && owned(&able).await > 0 && owned(&owner).await < 64
    })
    .await;
    // Ids are random: among so many runs the first engine owns some.
    let mut runs = Vec::new();
    for number in 0..32 {
        runs.push((number, able.start(&workflow, number).await.unwrap()));
    }
    let cluster = owner.inner().cluster().await.unwrap();
    let first = cluster.sessions.into_iter().find(|it| it.is_self).unwrap();
    let mut elsewhere = 0;
    for (number, run) in runs {
        assert_eq!(run.result().await.unwrap(), number * 2);
        let row = able.inner().store().run(run.id()).await.unwrap().unwrap();
        elsewhere += usize::from(first.partitions.contains(&row.partition));
    }
    assert!(elsewhere > 0, "the first engine owned none of the runs");
    assert_eq!(
        called.lock().unwrap().len(),
        32,
        "each in the engine that has the action"
    );
    owner.shutdown().await;
    able.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_waits_for_a_database_that_is_away_if_it_is_told_to() {
    let proxy = Proxy::to(&server().address());
    proxy.refuse(true);
    let url = server().at(proxy.address());
    let refused = Engine::postgres(&url).open().await;
    assert!(
        matches!(refused, Err(OpenError::Store(_))),
        "it does not wait by itself"
    );
    let limit = Duration::from_millis(1);
    let refused = Engine::postgres(&url).wait_for_database(limit).open().await;
    assert!(
        matches!(refused, Err(OpenError::Store(_))),
        "nor longer than it is told to"
    );
    let waiting = Engine::postgres(&url).wait_for_database(Duration::from_secs(60));
    let opening = tokio::spawn(waiting.open());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!opening.is_finished());
    proxy.refuse(false);
    let engine = opening.await.unwrap().unwrap();
    engine.shutdown().await;
}
