//! Retention: which runs are deleted, and which never are.

use crate::serve_world::{PLAIN, World};
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Clock as _, Retain, Serving, StartRequest, SystemClock};
use windlass_store::{Queries as _, RunFilter, Wait as _};

fn kept(world: &World) -> Vec<RunId> {
    let filter = RunFilter {
        limit: 1000,
        ..RunFilter::default()
    };
    let rows = world.store.runs(&filter).wait().expect("a store").rows;
    let mut runs: Vec<_> = rows.into_iter().map(|row| row.run).collect();
    runs.sort();
    runs
}

async fn ended(world: &mut World, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for _ in 0..count {
        let run = world.enqueue(None, "{}").await;
        world.floor.permits.add_permits(1);
        assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
        runs.push(run);
        // Runs that end in the same millisecond have no order.
        let now = SystemClock.now();
        while SystemClock.now() == now {
            tokio::task::yield_now().await;
        }
    }
    runs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_ended_go_and_what_goes_on_stays() {
    let mut world = World::new(0);
    world.publish(None, PLAIN).await;
    let serving = Serving::default();
    world.engine.serve(serving).await.expect("serves");
    let going = world.enqueue(None, "{}").await;
    while world.floor.working() == 0 {
        tokio::task::yield_now().await;
    }
    // The permit is for the run that came first.
    let second = world.enqueue(None, "{}").await;
    world.floor.permits.add_permits(1);
    let (first_ended, _) = world.next_ended().await;
    let going = if first_ended == going { second } else { going };
    let retain = Retain {
        count: Some(0),
        ..Retain::default()
    };
    assert_eq!(world.engine.forget_old(&retain).await.expect("a store"), 1);
    assert_eq!(kept(&world), [going]);
    world.floor.permits.add_permits(1);
    world.next_ended().await;
    let runs = ended(&mut world, 10).await;
    let retain = Retain {
        count: Some(3),
        age_ms: Some(3_600_000),
        ..Retain::default()
    };
    assert_eq!(world.engine.forget_old(&retain).await.expect("a store"), 8);
    let mut last = runs[7..].to_vec();
    last.sort();
    assert_eq!(kept(&world), last);
    let nothing = world.engine.forget_old(&Retain::default()).await;
    assert_eq!(nothing.expect("a store"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_family_goes_together_or_not_at_all() {
    let mut world = World::new(0);
    world.publish(None, PLAIN).await;
    let parent = r#"{"id":"parent","nodes":[
        {"id":"a","subworkflow":{"workflowId":"w","input":{}},"edges":[{"targetNode":"b"}]},
        {"id":"b","actionType":"test.work","parameters":{}}]}"#;
    world.publish(None, parent).await;
    let serving = Serving::default();
    world.engine.serve(serving).await.expect("serves");
    let family = world
        .engine
        .enqueue("parent", None, StartRequest::default())
        .await;
    let parent = family.expect("queued").run;
    // The child has ended, its parent goes on.
    world.floor.permits.add_permits(1);
    let (child, _) = world.next_ended().await;
    assert_ne!(child, parent);
    let all = Retain {
        count: Some(0),
        ..Retain::default()
    };
    assert_eq!(world.engine.forget_old(&all).await.expect("a store"), 0);
    world.floor.permits.add_permits(1);
    assert_eq!(world.next_ended().await, (parent, RunStatus::Succeeded));
    // The child is the first to be deleted; its parent is deleted with it.
    let one = Retain {
        count: Some(1),
        ..Retain::default()
    };
    assert_eq!(world.engine.forget_old(&one).await.expect("a store"), 2);
    assert_eq!(kept(&world), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_id_stays_taken_if_it_is_to() {
    for keep in [false, true] {
        let mut world = World::new(2);
        world.publish(None, PLAIN).await;
        let serving = Serving::default();
        world.engine.serve(serving).await.expect("serves");
        let request = StartRequest {
            request_id: Some("r".into()),
            ..StartRequest::default()
        };
        let first = world
            .engine
            .enqueue("w", None, request.clone())
            .await
            .expect("queued");
        world.next_ended().await;
        let retain = Retain {
            bytes: Some(0),
            keep_request_ids: keep,
            ..Retain::default()
        };
        assert_eq!(world.engine.forget_old(&retain).await.expect("a store"), 1);
        let second = world
            .engine
            .enqueue("w", None, request)
            .await
            .expect("queued");
        assert_eq!(second.existing, keep);
        assert_eq!(second.run == first.run, keep);
    }
}
