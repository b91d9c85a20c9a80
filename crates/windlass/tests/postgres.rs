//! Several engines of one service on one database.
#![cfg(feature = "postgres")]

use windlass::{Context, Engine, Workflow};
use windlass_test_support::postgres::server;

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
