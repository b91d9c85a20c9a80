//! Scenarios that seeds found, kept readable: each broke a rule once.

use windlass_orchestrator::{Begin, Command};
use windlass_sim::bench::{Bench, failure, success};

fn bench(nodes: &str) -> Bench {
    Bench::new(&format!("{{\"id\":\"w\",\"nodes\":[{nodes}]}}"))
}

fn started(nodes: &str) -> Bench {
    let mut bench = bench(nodes);
    bench.start(Begin::Now);
    bench.settle();
    bench
}

const A: &str = r#"{"id":"a","actionType":"act"}"#;
const A_THEN_B: &str = r#"{"id":"a","actionType":"act"},
    {"id":"b","actionType":"act","dependsOn":["a"]}"#;

#[test]
fn a_resume_hands_nothing_out_before_it_is_durable() {
    let mut bench = started(A_THEN_B);
    bench.command(Command::Pause);
    bench.end("a", 1, success());
    bench.settle();
    bench.effects();
    bench.command(Command::Resume);
    assert!(bench.effects().is_empty());
    bench.settle();
    assert_eq!(bench.effects(), ["answer 2 ok", "dispatch b#1"]);
}

#[test]
fn a_run_that_begins_later_is_let_go_and_begins_when_adopted() {
    let mut bench = bench(A);
    bench.start(Begin::Later);
    bench.settle();
    assert_eq!(bench.effects(), ["accepted"]);
    assert!(!bench.shard.holds(bench.run));
    bench.adopt(true);
    bench.settle();
    assert_eq!(bench.effects(), ["dispatch a#1"]);
}

#[test]
fn a_paused_run_that_was_only_loaded_goes_on_when_resumed() {
    let mut bench = started(A_THEN_B);
    bench.command(Command::Pause);
    bench.end("a", 1, success());
    bench.settle();
    bench.restart(false);
    bench.command(Command::Resume);
    bench.settle();
    assert_eq!(bench.effects(), ["answer 2 ok", "dispatch b#1"]);
}

#[test]
fn a_stopping_run_that_was_only_loaded_ends_after_any_command() {
    let mut bench = started(A);
    bench.command(Command::Pause);
    bench.command(|hand| Command::Cancel {
        hand,
        compensate: false,
    });
    bench.settle();
    bench.restart(false);
    bench.command(Command::Pause);
    bench.settle();
    assert!(bench.effects().contains(&"finished Cancelled".to_owned()));
}

#[test]
fn a_reattempt_takes_back_what_runs_after_an_always_edge() {
    let mut bench = started(
        r#"{"id":"f","actionType":"act","edges":[{"targetNode":"x","when":"always"}]},
           {"id":"x","actionType":"act"}"#,
    );
    bench.end("f", 1, failure());
    bench.settle();
    assert!(bench.effects().contains(&"dispatch x#1".to_owned()));
    bench.command(|hand| Command::Reattempt(vec![0], hand));
    bench.settle();
    assert_eq!(
        bench.effects(),
        ["give up x#1", "answer 1 ok", "dispatch f#2"]
    );
    bench.end("x", 1, success());
    bench.end("f", 2, success());
    bench.settle();
    assert_eq!(bench.effects(), ["dispatch x#2"]);
}

#[test]
fn a_stop_names_the_attempt_that_the_worker_has() {
    let mut bench = started(A);
    bench.effects();
    bench.command(|hand| Command::Cancel {
        hand,
        compensate: false,
    });
    bench.poll();
    bench.end("a", 1, failure());
    bench.command(|hand| Command::Reattempt(Vec::new(), hand));
    bench.answer();
    assert_eq!(bench.effects(), ["answer 1 ok"]);
    bench.settle();
    assert_eq!(bench.effects(), ["answer 2 ok", "dispatch a#2"]);
}

#[test]
fn recovery_does_not_hand_out_what_is_reopened_meanwhile() {
    let mut bench = started(r#"{"id":"f","actionType":"act"},{"id":"g","actionType":"act"}"#);
    bench.end("f", 1, failure());
    bench.settle();
    bench.restart(true);
    bench.poll();
    bench.command(|hand| Command::Reattempt(vec![0], hand));
    bench.answer();
    assert!(bench.effects().is_empty());
    bench.settle();
    assert_eq!(
        bench.effects(),
        ["answer 1 ok", "dispatch f#2", "dispatch g#1"]
    );
}

#[test]
fn an_earlier_grace_does_not_end_a_later_one() {
    let mut bench = started(A);
    bench.command(|hand| Command::Cancel {
        hand,
        compensate: false,
    });
    bench.settle();
    bench.end("a", 1, failure());
    bench.command(|hand| Command::Reattempt(Vec::new(), hand));
    bench.settle();
    bench.pass(5_000);
    bench.command(|hand| Command::Cancel {
        hand,
        compensate: false,
    });
    bench.settle();
    bench.effects();
    bench.pass(5_000);
    bench.settle();
    assert!(bench.effects().is_empty());
    bench.pass(5_000);
    bench.settle();
    assert_eq!(bench.effects(), ["give up a#2", "finished Cancelled"]);
}

#[test]
fn a_reattempt_does_not_forget_what_waits_for_its_level() {
    let mut bench = Bench::new(
        r#"{"id":"w","executionMode":"levels","nodes":[
           {"id":"f","actionType":"act"},
           {"id":"o","actionType":"act","edges":[{"targetNode":"p","when":"failure"}]},
           {"id":"p","actionType":"act"},
           {"id":"q","actionType":"act","dependsOn":["o"]},
           {"id":"h","actionType":"act","dependsOn":["o","p"]}]}"#,
    );
    bench.start(Begin::Now);
    bench.settle();
    bench.end("f", 1, failure());
    bench.end("o", 1, success());
    bench.settle();
    bench.command(|hand| Command::Reattempt(vec![0], hand));
    bench.settle();
    bench.end("f", 2, success());
    bench.effects();
    bench.end("q", 1, success());
    bench.settle();
    assert_eq!(bench.effects(), ["dispatch h#1"]);
}

#[test]
fn an_attempt_that_a_dead_process_may_have_begun_keeps_its_number() {
    let mut bench = started(A);
    bench.effects();
    bench.restart(true);
    bench.command(|hand| Command::Cancel {
        hand,
        compensate: false,
    });
    bench.command(|hand| Command::Reattempt(Vec::new(), hand));
    bench.settle();
    assert!(bench.effects().contains(&"dispatch a#2".to_owned()));
}
