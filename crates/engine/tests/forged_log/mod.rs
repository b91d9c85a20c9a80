//! A log that was changed after it was written.

use windlass_core::event::{AttemptResult, Event};
use windlass_core::{Digest, RunId};
use windlass_orchestrator::codec;
use windlass_store::{Append, Head, Log as _, MemoryStore, Queries as _, Wait as _, WriterId};
use windlass_test_support::catalogue;
use windlass_test_support::in_memory::World;

/// A copy of a run's log in which the ancestry of a node is another, and the record that
/// was changed.
pub(crate) async fn forge(
    world: &World,
    run: RunId,
    text: &str,
    path: &str,
) -> (MemoryStore, Option<u64>) {
    let forged = MemoryStore::new();
    catalogue::publish(&forged, None, text).await;
    let mut head = Head::NONE;
    let mut second = None;
    for record in world
        .store
        .read(run, 1, usize::MAX)
        .wait()
        .expect("records")
    {
        let mut transition = codec::decode(&record.bytes).expect("a transition");
        for event in &mut transition.events {
            if let Event::AttemptEnded(ended) = event
                && &*ended.node == path
            {
                ended.ancestry = Some(Digest::of(b"forged"));
                assert!(matches!(ended.result, AttemptResult::Succeeded(_)));
                second = Some(record.sequence);
            }
        }
        let mut builder = codec::RecordBuilder::default();
        for event in &transition.events {
            builder.push(event, transition.at);
        }
        let append = Append {
            row: world
                .store
                .run(run)
                .wait()
                .expect("a row")
                .filter(|_| head == Head::NONE),
            ..Append::of_record(run, head, (WriterId(1), record.sequence), builder.finish())
        };
        let answers = forged.append(vec![append]).await;
        head = answers
            .into_iter()
            .next()
            .expect("an answer")
            .expect("appended")
            .head;
    }
    (forged, second)
}
