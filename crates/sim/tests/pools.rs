//! Scenarios of pools that seeds found, kept readable: each broke a rule once.

use windlass_core::command::RunCommand;
use windlass_orchestrator::{Begin, Effect, ShardInput};
use windlass_sim::harness::{ShardHarness, success};
use windlass_store::{GivenSlots, WorkKey};

/// A node in a pool, and one beside it, which keeps the run in memory.
const POOLED: &str = r#"{"id":"w","nodes":[
    {"id":"a","actionType":"act","pool":{"name":"p"}},
    {"id":"beside","actionType":"act"}]}"#;

fn started(definition: &str) -> ShardHarness {
    let mut harness = ShardHarness::new(definition);
    harness.start(Begin::Now);
    harness.settle();
    harness
}

/// What the shard does about slots, and what it hands out.
fn steps(harness: &mut ShardHarness) -> Vec<String> {
    let effects = harness.effects().into_iter();
    let steps = effects.filter_map(|effect| {
        let verb = effect.split(['(', ' ']).next()?.to_owned();
        let node = effect.split("node: \"").nth(1);
        match (verb.as_str(), node) {
            ("dispatch", _) => Some(effect),
            ("TakeSlots", Some(node)) => Some(format!("take {}", node.split('"').next()?)),
            ("GiveSlots", _) => Some("give".to_owned()),
            _ => None,
        }
    });
    steps.collect()
}

fn answer(harness: &mut ShardHarness, path: &str, granted: bool) {
    let (run, node, attempt) = (harness.run, harness.instance(path), 1);
    let answer = ShardInput::SlotsAnswered {
        run,
        node,
        attempt,
        granted,
    };
    harness.shard.handle(answer, harness.now);
}

fn audit(harness: &mut ShardHarness, path: &str) {
    let attempt = WorkKey {
        run: harness.run,
        instance: harness.instance(path),
        attempt: 1,
    };
    let fence = harness.replay().1.sequence;
    let seen = GivenSlots { attempt, fence };
    harness.shard.audit_slots(vec![(seen, false)]);
}

#[test]
fn an_answer_from_before_slots_were_given_back_does_not_count() {
    let mut harness = started(POOLED);
    assert_eq!(steps(&mut harness), ["dispatch beside#1", "take a"]);
    harness.command(RunCommand::Pause);
    harness.settle();
    harness.command(RunCommand::Resume);
    harness.settle();
    assert_eq!(steps(&mut harness), ["give", "take a"]);
    // The first question had been granted; what it got was given back since.
    answer(&mut harness, "a", true);
    assert!(steps(&mut harness).is_empty());
    answer(&mut harness, "a", false);
    assert!(steps(&mut harness).is_empty());
    harness.shard.look_at_pools();
    assert_eq!(steps(&mut harness), ["take a"]);
    answer(&mut harness, "a", true);
    assert_eq!(steps(&mut harness), ["dispatch a#1"]);
}

#[test]
fn one_node_at_a_time_gives_slots_back_for_a_node_that_comes_before_it() {
    let mut harness = started(
        r#"{"id":"w","executionMode":"sequential","nodes":[
            {"id":"wait","delay":{"ms":100}},
            {"id":"after","actionType":"act","dependsOn":["wait"],"pool":{"name":"p"}},
            {"id":"last","actionType":"act","pool":{"name":"p"}}]}"#,
    );
    assert_eq!(steps(&mut harness), ["take last"]);
    answer(&mut harness, "last", false);
    harness.pass(100);
    harness.settle();
    harness.shard.look_at_pools();
    assert_eq!(steps(&mut harness), ["take last"]);
    answer(&mut harness, "last", true);
    assert_eq!(steps(&mut harness), ["give", "take after"]);
    answer(&mut harness, "after", true);
    assert_eq!(steps(&mut harness), ["dispatch after#1"]);
}

#[test]
fn the_slots_of_an_attempt_that_has_ended_are_kept_until_that_is_durable() {
    let mut harness = started(POOLED);
    answer(&mut harness, "a", true);
    steps(&mut harness);
    harness.end("a", 1, success());
    harness.poll();
    audit(&mut harness, "a");
    assert!(steps(&mut harness).is_empty());
    harness.settle();
    audit(&mut harness, "a");
    assert_eq!(steps(&mut harness), ["give"]);
}

#[test]
fn the_slots_of_an_open_attempt_are_kept_until_its_next_owner_asks() {
    let mut harness = started(POOLED);
    answer(&mut harness, "a", true);
    steps(&mut harness);
    harness.restart(true);
    harness.poll();
    audit(&mut harness, "a");
    assert!(steps(&mut harness).is_empty());
    harness.settle();
    assert_eq!(steps(&mut harness), ["dispatch beside#1", "take a"]);
    audit(&mut harness, "a");
    assert!(steps(&mut harness).is_empty());
}

#[test]
fn the_slots_of_an_attempt_that_was_handed_out_are_kept_until_its_turn_comes_again() {
    let mut harness = started(
        r#"{"id":"w","maxParallel":1,"nodes":[
            {"id":"first","actionType":"act"},
            {"id":"a","actionType":"act","pool":{"name":"p"}}]}"#,
    );
    assert_eq!(steps(&mut harness), ["dispatch first#1"]);
    harness.end("first", 1, success());
    assert_eq!(steps(&mut harness), ["take a"]);
    answer(&mut harness, "a", true);
    assert_eq!(steps(&mut harness), ["dispatch a#1"]);
    // The end of the first is lost with the process; a worker may still have the second.
    harness.restart(true);
    harness.settle();
    assert_eq!(steps(&mut harness), ["dispatch first#1"]);
    audit(&mut harness, "a");
    assert!(steps(&mut harness).is_empty());
    harness.end("first", 1, success());
    assert_eq!(steps(&mut harness), ["take a"]);
    answer(&mut harness, "a", true);
    assert_eq!(steps(&mut harness), ["dispatch a#1"]);
}

#[test]
fn one_node_at_a_time_the_one_that_has_begun_goes_first_in_the_next_process() {
    let mut harness = started(
        r#"{"id":"w","executionMode":"sequential","nodes":[
            {"id":"wait","delay":{"ms":300}},
            {"id":"after","actionType":"act","dependsOn":["wait"],"pool":{"name":"p"}},
            {"id":"last","actionType":"act","pool":{"name":"p"}}]}"#,
    );
    answer(&mut harness, "last", true);
    assert_eq!(steps(&mut harness), ["take last", "dispatch last#1"]);
    for _ in 0..2 {
        harness.pass(250);
        harness.settle();
    }
    assert!(
        steps(&mut harness).is_empty(),
        "the log says that it has begun"
    );
    harness.restart(true);
    harness.settle();
    assert_eq!(steps(&mut harness), ["take last"]);
    audit(&mut harness, "last");
    answer(&mut harness, "last", true);
    assert_eq!(steps(&mut harness), ["dispatch last#1"]);
}

#[test]
fn what_a_shard_gives_back_is_fenced_by_the_records_that_it_knows() {
    let mut harness = started(POOLED);
    answer(&mut harness, "a", true);
    let given = |harness: &mut ShardHarness, seen: u64| {
        let attempt = WorkKey {
            run: harness.run,
            instance: harness.instance("a"),
            attempt: 1,
        };
        let seen = GivenSlots {
            attempt,
            fence: seen,
        };
        harness.shard.audit_slots(vec![(seen, false)]);
        std::iter::from_fn(|| harness.shard.poll_effect()).find_map(|effect| match effect {
            Effect::GiveSlots(given) => Some(given[0].fence),
            _ => None,
        })
    };
    harness.end("a", 1, success());
    harness.settle();
    let records = harness.replay().1.sequence;
    // Another process has asked since, with more records than this one knows.
    assert_eq!(given(&mut harness, records + 3), Some(records));
    // One that asked before has fewer.
    assert_eq!(given(&mut harness, 1), Some(records));
}

#[test]
fn slots_of_an_earlier_owners_attempt_are_kept_until_its_end_is_durable() {
    let mut harness = started(POOLED);
    answer(&mut harness, "a", true);
    assert_eq!(
        steps(&mut harness),
        ["dispatch beside#1", "take a", "dispatch a#1"]
    );
    harness.restart(true);
    harness.command(RunCommand::Cancel { compensate: false });
    // The worker may have the attempt for as long as the log does not say that it was cancelled.
    audit(&mut harness, "a");
    assert!(!steps(&mut harness).contains(&"give".to_owned()));
    harness.settle();
    assert!(
        !harness.shard.holds(harness.run),
        "its row says that it is over"
    );
}
