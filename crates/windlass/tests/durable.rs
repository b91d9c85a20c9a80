//! The engine on a folder: the next process recovers what one began.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tokio::sync::Notify;
use windlass::{ActionError, Context, Engine, OpenError, RunStatus, Workflow};
use windlass_store::Wait as _;

/// A workflow that counts its calls; without `go_on`, its second step waits to be asked to stop.
fn waiting(calls: &Arc<AtomicU32>, reached: &Arc<Notify>, go_on: bool) -> Workflow {
    let (counted, reached) = (Arc::clone(calls), Arc::clone(reached));
    let first = move |_: Context| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok("first") }
    };
    let second = move |context: Context| {
        let reached = Arc::clone(&reached);
        async move {
            reached.notify_one();
            if !go_on {
                context.stop_asked().await;
                return Err(ActionError::stopped());
            }
            Ok(context.idempotency_key.clone())
        }
    };
    Workflow::builder("waiting")
        .step("first", first)
        .step("second", second)
        .build()
        .expect("built")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_run_is_carried_on_by_the_next_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let (calls, reached) = (Arc::default(), Arc::new(Notify::new()));
    let workflow = waiting(&calls, &reached, false);
    let engine = Engine::embedded(folder.path())
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let run = engine.start(&workflow, ()).await.expect("started").id();
    reached.notified().await;
    engine.shutdown().await;
    drop(engine);

    let workflow = waiting(&calls, &reached, true);
    let engine = Engine::embedded(folder.path())
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    assert_eq!(engine.recovery().recovered, [run]);
    let run = engine.find(run).wait().expect("found");
    assert_eq!(run.wait().await.expect("ended"), RunStatus::Succeeded);
    assert_eq!(
        run.execution().await.expect("read").output,
        json!(format!("{}/second", run.id()))
    );
    assert_eq!(
        calls.load(Ordering::SeqCst),
        1,
        "what had ended does not run again"
    );
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_with_unknown_actions_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (calls, reached) = (Arc::default(), Arc::new(Notify::new()));
    let workflow = waiting(&calls, &reached, false);
    let engine = Engine::embedded(folder.path())
        .workflow(&workflow)
        .open()
        .await
        .expect("open");
    let run = engine.start(&workflow, ()).await.expect("started").id();
    reached.notified().await;
    engine.shutdown().await;
    drop(engine);

    let engine = Engine::embedded(folder.path()).open().await.expect("open");
    let left = &engine.recovery().left;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].0, run);
    assert!(left[0].1.contains("register it"), "{}", left[0].1);
    assert_eq!(
        engine
            .find(run)
            .wait()
            .expect("found")
            .status()
            .wait()
            .expect("read"),
        RunStatus::Running
    );
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_holds_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::embedded(folder.path()).open().await.expect("open");
    let error = Engine::embedded(folder.path())
        .open()
        .await
        .err()
        .expect("refused");
    assert!(
        matches!(error, OpenError::InUse { .. } | OpenError::Store(_)),
        "{error}"
    );
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_code_is_not_a_new_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let version = async |workflow: &Workflow| {
        let engine = Engine::embedded(folder.path())
            .workflow(workflow)
            .open()
            .await
            .expect("open");
        let run = engine.start(workflow, ()).await.expect("started");
        run.wait().await.expect("ended");
        let version = run.execution().await.expect("read").json["version"].clone();
        engine.shutdown().await;
        version
    };
    let one = || Workflow::builder("flow").step("a", "core.echo");
    assert_eq!(version(&one().build().expect("built")).await, 1);
    assert_eq!(version(&one().build().expect("built")).await, 1);
    let two = one().step("b", "core.echo").build().expect("built");
    assert_eq!(version(&two).await, 2);
}
