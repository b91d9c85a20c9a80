//! Appends with unclear answers: the run goes on without a restart and does nothing twice, or it is
//! dead-lettered if the store has lost commits.

use crate::serve_world::World;
use windlass_core::event::Event;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Serving, StartRequest};
use windlass_orchestrator::codec;
use windlass_store::{
    AppendFault, DeadLetters as _, Log as _, MemoryStore, Queries as _, Wait as _,
};

const CHAIN: &str = r#"{"id":"w","nodes":[
    {"id":"a","actionType":"test.work","edges":[{"targetNode":"b"}],"parameters":{"key":"a"}},
    {"id":"b","actionType":"test.work","edges":[{"targetNode":"c"}],"parameters":{"key":"b"}},
    {"id":"c","actionType":"test.work","edges":[{"targetNode":"d"}],"parameters":{"key":"c"}},
    {"id":"d","actionType":"test.work","parameters":{"key":"d"}}]}"#;

/// A run whose first action is under way; from now on appends meet these faults.
async fn begun(faults: &[AppendFault]) -> (World, RunId) {
    let world = World::new(0);
    world.publish(None, CHAIN).await;
    let serving = Serving::default();
    world.engine.serve(serving).await.expect("serves");
    let run = world.enqueue(None, "{}").await;
    while world.floor.working() == 0 {
        tokio::task::yield_now().await;
    }
    world.store.fail_appends(faults.iter().copied());
    world.floor.permits.add_permits(100);
    (world, run)
}

fn events(store: &MemoryStore, run: RunId) -> Vec<Event> {
    let records = store
        .read(run, 1, usize::MAX)
        .wait()
        .expect("a store")
        .into_iter();
    let read = |bytes: Vec<u8>| codec::decode(&bytes).expect("readable").events;
    records.flat_map(|record| read(record.bytes)).collect()
}

/// The run ends well, as if nothing had happened.
async fn continues_despite(faults: &[AppendFault]) {
    let (mut world, run) = begun(faults).await;
    assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
    assert_eq!(world.store.faults_left(), 0, "all of them were met");
    let ends = |event: &&Event| matches!(event, Event::AttemptEnded { .. });
    let events = events(&world.store, run);
    assert_eq!(events.iter().filter(ends).count(), 4, "{events:?}");
    let recovered = |event: &Event| matches!(event, Event::Recovered { .. });
    assert!(!events.iter().any(recovered), "nothing was done again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_was_written_without_an_answer_counts() {
    continues_despite(&[AppendFault::AnswerLost; 3]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_was_lost_with_its_answer_is_appended_again() {
    continues_despite(&[AppendFault::NotWritten; 5]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_becomes_durable_after_the_question_is_recognized() {
    use AppendFault::{AnswerLost, NotWritten, Nothing, WrittenLate};
    continues_despite(&[WrittenLate, Nothing, WrittenLate, NotWritten, AnswerLost]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_whose_answer_was_lost_is_resolved_and_made_once() {
    use AppendFault::{AnswerLost, NotWritten, WrittenLate};
    for faults in [
        &[AnswerLost][..],
        &[NotWritten, NotWritten],
        &[WrittenLate],
        &[NotWritten, AnswerLost],
    ] {
        let mut world = World::new(100);
        world.publish(None, CHAIN).await;
        world.store.fail_appends(faults.iter().copied());
        // It panics if the start is not accepted.
        let run = world.enqueue(None, "{}").await;
        assert_eq!(world.store.faults_left(), 0, "all of them were met");
        let serving = Serving::default();
        world.engine.serve(serving).await.expect("serves");
        assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
        let queued = |event: &&Event| matches!(event, Event::Queued(_));
        let events = events(&world.store, run);
        assert_eq!(events.iter().filter(queued).count(), 1, "{events:?}");
    }
    // A store that never says is not asked for ever.
    let world = World::new(100);
    world.publish(None, CHAIN).await;
    world.store.fail_appends([NotWritten; 9]);
    let request = StartRequest {
        trigger: "{}".to_owned(),
        ..StartRequest::default()
    };
    assert!(world.engine.enqueue("w", None, request).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_another_process_wrote_to_is_read_again() {
    let (mut world, run) = begun(&[AppendFault::Overtaken]).await;
    let waiting = world.engine.wait(run).await;
    assert_eq!(waiting.expect("it is still ours"), RunStatus::Succeeded);
    assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
    let events = events(&world.store, run);
    let recovered = |event: &&Event| matches!(event, Event::Recovered { .. });
    assert_eq!(events.iter().filter(recovered).count(), 1, "{events:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_begins_while_a_run_is_read_again_ends_with_the_run() {
    for _ in 0..20 {
        let (world, run) = begun(&[AppendFault::Overtaken]).await;
        // The other's record is there, and the run is about to be read again.
        while world.store.faults_left() > 0 {
            tokio::task::yield_now().await;
        }
        let status = world.engine.wait(run).await.expect("it is still ours");
        assert_eq!(status, RunStatus::Succeeded);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_acknowledged_records_are_gone_is_set_aside_and_not_read_again() {
    let (world, run) = begun(&[AppendFault::CommitLost]).await;
    let dead = || {
        world
            .store
            .run(run)
            .wait()
            .expect("a store")
            .expect("a row")
            .dead
    };
    while !dead() {
        tokio::task::yield_now().await;
    }
    let before = world.store.head(run).wait().expect("a store");
    let letter = world.store.dead_letter(run).wait().expect("a store");
    let reason = letter.expect("a letter").reason;
    assert!(reason.contains("acknowledged"), "{reason}");
    assert!(world.engine.requeue(run).await.expect("a store"));
    assert!(
        !world.engine.is_acquired(run).await,
        "its log is not the truth"
    );
    assert_eq!(world.store.head(run).wait().expect("a store"), before);
    assert_eq!(world.store.faults_left(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_actions_of_a_run_that_cannot_be_written_are_stopped() {
    const TWO: &str = r#"{"id":"w","nodes":[
        {"id":"a","actionType":"test.work","parameters":{"key":"a"}},
        {"id":"b","actionType":"test.work","parameters":{"key":"b"}}]}"#;
    let mut world = World::new(0);
    world.publish(None, TWO).await;
    let serving = Serving::default();
    world.engine.serve(serving).await.expect("serves");
    let run = world.enqueue(None, "{}").await;
    while world.floor.begun() < 2 {
        tokio::task::yield_now().await;
    }
    world.store.fail_appends([AppendFault::Refused]);
    // One of them ends, and its end cannot be recorded.
    world.floor.permits.add_permits(1);
    while world.floor.begun() < 4 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(world.store.faults_left(), 0);
    for node in ["a", "b"] {
        assert_eq!(
            world.floor.most(node),
            1,
            "{node} is not done twice at once"
        );
    }
    world.floor.permits.add_permits(2);
    assert_eq!(world.next_ended().await, (run, RunStatus::Succeeded));
}
