//! Every pair of a run's status and an input, and of a node's status and a word about
//! its attempt: legal or refused. A refusal changes nothing.

use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, Event};
use windlass_core::run::{Input, Outcome, PendingDecision, Refusal, Run};
use windlass_core::{NodeStatus, RunStatus};

use windlass_test_support::fixture::notation;
use windlass_test_support::harness::{self, Harness, digest, failure, output, retriable};

/// `a` fails and blocks `b`; `c` can be kept running beside it.
const GRAPH: [&str; 4] = [
    "timeoutMs 1000",
    "a -> b",
    "nodes c",
    r#"a retry {"maxAttempts": 2, "jitter": false}"#,
];

fn new(graph: &[&str]) -> Harness {
    Harness::new(&notation::definition(graph), "null")
}

fn give(harness: &mut Harness, inputs: &[Input]) {
    for input in inputs {
        harness.give(input).expect("a legal input");
    }
}

fn no_actor() -> Actor {
    Actor::default()
}

/// A run in this status; `stopping` means that it was asked to stop and has not ended.
fn run_that_is(status: RunStatus, stopping: bool) -> Harness {
    let mut harness = new(&GRAPH);
    if status == RunStatus::Pending {
        return harness;
    }
    give(&mut harness, &[Input::Begin]);
    let c = harness.index("c");
    harness.running.insert(c);
    match status {
        RunStatus::Pending | RunStatus::Running => {}
        RunStatus::Paused => give(
            &mut harness,
            &[Input::command(RunCommand::Pause, no_actor())],
        ),
        RunStatus::Succeeded => {
            for node in ["a", "b", "c"] {
                harness.end(node, output("1")).expect("an open attempt");
            }
        }
        RunStatus::Failed => {
            harness.end("c", output("1")).expect("an open attempt");
            harness.end("a", failure("BOOM")).expect("an open attempt");
        }
        RunStatus::Cancelled => {
            give(
                &mut harness,
                &[
                    Input::command(RunCommand::Cancel { compensate: false }, no_actor()),
                    Input::GraceEnded,
                ],
            );
        }
    }
    if stopping {
        give(
            &mut harness,
            &[Input::command(
                RunCommand::Cancel { compensate: false },
                no_actor(),
            )],
        );
    }
    assert_eq!(harness.run.status(), status);
    harness
}

/// The inputs that are about a run as a whole, by name.
fn inputs() -> Vec<(&'static str, Input)> {
    vec![
        ("begin", Input::Begin),
        ("pause", Input::command(RunCommand::Pause, no_actor())),
        ("resume", Input::command(RunCommand::Resume, no_actor())),
        (
            "cancel",
            Input::command(RunCommand::Cancel { compensate: false }, no_actor()),
        ),
        ("timeout", Input::TimedOut),
        ("grace", Input::GraceEnded),
        ("recover", Input::Recover(Default::default())),
        (
            "reattempt",
            Input::command(RunCommand::Reattempt { nodes: Vec::new() }, no_actor()),
        ),
    ]
}

#[test]
fn runs_take_or_refuse_every_input() {
    use RunStatus::{Cancelled, Failed, Paused, Pending, Running, Succeeded};
    // Which inputs are legal; all others are refused.
    let table: [(RunStatus, bool, &[&str]); 8] = [
        (Pending, false, &["begin", "cancel", "recover"]),
        (Running, false, &["pause", "cancel", "timeout", "recover"]),
        (Running, true, &["grace", "recover"]),
        (Paused, false, &["resume", "cancel", "timeout", "recover"]),
        (Paused, true, &["resume", "grace", "recover"]),
        (Succeeded, false, &[]),
        (Failed, false, &["reattempt"]),
        (Cancelled, false, &["reattempt"]),
    ];
    for (status, stopping, legal) in table {
        for (name, input) in inputs() {
            let mut harness = run_that_is(status, stopping);
            harness.now = harness.now.plus(1000);
            check(&mut harness, &input, legal.contains(&name), || {
                format!("{name} when {status}, stopping: {stopping}")
            });
        }
    }
}

/// A run whose node `a` is in this status.
fn node_that_is(status: NodeStatus) -> Harness {
    let graph = match status {
        NodeStatus::Pending | NodeStatus::Blocked => ["z -> a", "nodes keep"].to_vec(),
        _ => vec![
            "nodes a keep",
            r#"a retry {"maxAttempts": 2, "jitter": false}"#,
        ],
    };
    let mut harness = new(&graph);
    give(&mut harness, &[Input::Begin]);
    let a = harness.index("a");
    let mut end = |outcome: Outcome| harness.end("a", outcome).map(|_| ());
    match status {
        NodeStatus::Pending | NodeStatus::Queued => Ok(()),
        NodeStatus::Running => harness.give(&still(a, 1)).map(|_| ()),
        NodeStatus::Waiting => end(retriable("BUSY", None)),
        NodeStatus::Succeeded => end(output("1")),
        NodeStatus::Failed => end(failure("BOOM")),
        NodeStatus::Skipped => end(Outcome::Skipped),
        NodeStatus::Blocked => harness.end("z", failure("BOOM")).map(|_| ()),
        NodeStatus::Cancelled => {
            let keep = harness.index("keep");
            harness.running.insert(keep);
            harness
                .give(&Input::command(
                    RunCommand::Cancel { compensate: false },
                    no_actor(),
                ))
                .map(|_| ())
        }
    }
    .expect("a legal way there");
    assert_eq!(harness.run.node_status(a), status);
    assert!(!harness.run.status().is_final());
    harness
}

fn still(node: u32, attempt: u32) -> Input {
    Input::StillRunning {
        node,
        attempt,
        started: harness::BEGIN,
        worker: "worker".into(),
    }
}

#[test]
fn nodes_take_or_refuse_every_word() {
    use NodeStatus::{
        Blocked, Cancelled, Failed, Pending, Queued, Running, Skipped, Succeeded, Waiting,
    };
    // The attempt whose end is taken, whether the attempt may still start, and whether
    // the node can be tried again.
    let table = [
        (Pending, None, false, false),
        (Queued, Some(1), true, false),
        (Running, Some(1), false, false),
        (Waiting, Some(2), true, false),
        (Succeeded, None, false, false),
        (Failed, None, false, true),
        (Skipped, None, false, false),
        (Blocked, None, false, false),
        // The run is being stopped, which is why the node is.
        (Cancelled, None, false, false),
    ];
    for (status, open, may_run, may_reattempt) in table {
        for attempt in 0..4 {
            for outcome in [
                output("1"),
                failure("X"),
                retriable("X", None),
                Outcome::Skipped,
            ] {
                let mut harness = node_that_is(status);
                let before = digest(&harness.run);
                let what = format!("{outcome:?} of attempt {attempt} when {status}");
                let result = harness.end_attempt("a", attempt, outcome);
                assert_eq!(result.is_ok(), open == Some(attempt), "{what}");
                if result.is_err() {
                    assert_eq!(result.err(), Some(Refusal::NotOpen), "{what}");
                    assert_eq!(before, digest(&harness.run), "{what}");
                }
            }
            let mut harness = node_that_is(status);
            let input = still(harness.index("a"), attempt);
            check(
                &mut harness,
                &input,
                may_run && open == Some(attempt),
                || format!("still running, attempt {attempt} when {status}"),
            );
        }
        let mut harness = node_that_is(status);
        let attempt = harness.run.attempt(harness.index("a"));
        let stopped = harness.end_attempt("a", attempt, Outcome::Stopped);
        assert!(
            stopped.is_err(),
            "stopped without being told to, when {status}"
        );
        let input = Input::command(
            RunCommand::Reattempt {
                nodes: vec![harness.index("a")],
            },
            no_actor(),
        );
        check(&mut harness, &input, may_reattempt, || {
            format!("reattempt when {status}")
        });
    }
}

/// `apply` refuses what cannot have happened: a damaged log.
#[test]
fn logs_with_impossible_events_are_corrupt() {
    let impossible: [(RunStatus, &[&str]); 4] = [
        (
            RunStatus::Pending,
            &[
                r#"{"Paused":{}}"#,
                r#"{"Resumed":{}}"#,
                r#"{"GraceEnded":{}}"#,
            ],
        ),
        (
            RunStatus::Running,
            &[
                r#"{"Started":{}}"#,
                r#"{"Resumed":{}}"#,
                r#"{"GraceEnded":{}}"#,
                r#"{"Routed":{"node":"a","taken":[]}}"#,
                r#"{"Reattempted":{"nodes":["a"]}}"#,
                r#"{"Stopping":{"cause":"cancel","running":["unknown"],"deadline":0}}"#,
                r#"{"AttemptStarted":{"node":"a","attempt":2,"started":0,"worker":"w"}}"#,
                r#"{"AttemptStarted":{"node":"b","attempt":0,"started":0,"worker":"w"}}"#,
                r#"{"AttemptStarted":{"node":"unknown","attempt":1,"started":0,"worker":"w"}}"#,
            ],
        ),
        (
            RunStatus::Paused,
            &[r#"{"Paused":{}}"#, r#"{"Started":{}}"#],
        ),
        (
            RunStatus::Failed,
            &[
                r#"{"Started":{}}"#,
                r#"{"Recovered":{}}"#,
                r#"{"Finished":{"status":"Succeeded"}}"#,
                r#"{"Reattempted":{"nodes":["b"]}}"#,
            ],
        ),
    ];
    for (status, events) in impossible {
        for text in events {
            let mut harness = run_that_is(status, false);
            let before = digest(&harness.run);
            let event: Event = serde_json::from_str(text).expect("an event");
            let result = harness.run.apply(&event, harness::BEGIN, &mut Vec::new());
            let corrupt = result.expect_err(text);
            assert_eq!(corrupt.record, harness.run.records() + 1, "{text}");
            assert_eq!(before, digest(&harness.run), "{text}");
        }
    }
}

/// Once an input has been followed, no decision of the run itself is left over.
#[test]
fn nothing_is_left_to_do_between_inputs() {
    for status in RunStatus::ALL {
        let harness = run_that_is(status, false);
        assert_eq!(
            harness.run.pending_decision(),
            None::<PendingDecision>,
            "{status}"
        );
    }
}

fn check(harness: &mut Harness, input: &Input, legal: bool, what: impl Fn() -> String) {
    let before = digest(&harness.run);
    let result = harness.give(input);
    assert_eq!(result.is_ok(), legal, "{}: {:?}", what(), result.err());
    if !legal {
        assert_eq!(before, digest(&harness.run), "{}", what());
    }
    let replayed = digest(&harness.replayed());
    assert_eq!(replayed, digest(&harness.run), "replay after {}", what());
}

/// A log written under rules that did not undo what was taken back replays as it was written.
#[test]
fn by_the_first_rules_what_was_taken_back_is_forgotten() {
    let mut harness = new(&[
        "a -always-> b",
        r#"b {"compensate": {"actionType": "undo"}}"#,
        r#"compensation "manual""#,
    ]);
    give(&mut harness, &[Input::Begin]);
    harness.end("a", failure("BOOM")).expect("an open attempt");
    harness.end("b", output("1")).expect("an open attempt");
    let a = harness.index("a");
    give(
        &mut harness,
        &[Input::command(
            RunCommand::Reattempt { nodes: vec![a] },
            no_actor(),
        )],
    );
    harness.end("a", failure("BOOM")).expect("an open attempt");
    harness.end("b", output("2")).expect("an open attempt");
    assert_eq!(harness.run.would_undo().count(), 2);
    let Event::Queued(queued) = &mut harness.log[0].events[0] else {
        panic!("a log begins with the request");
    };
    queued.rules = 1;
    assert_eq!(harness.replayed().would_undo().count(), 1);
}

/// A log written under rules that let a removed node start the next level of the old graph
/// replays as it was written.
#[test]
fn by_the_second_rules_a_removed_node_lets_the_next_level_begin() {
    let mode = r#"executionMode "levels""#;
    let heals = r#"inFlight "healing""#;
    let mut harness = new(&[heals, mode, "b -> x", "nodes a"]);
    give(&mut harness, &[Input::Begin]);
    harness.end("b", output("1")).expect("an open attempt");
    let newer = notation::definition(&[heals, mode, "b -> x", "m -> x"]);
    let (definition, plan) = harness.bring(&newer);
    let version = 2;
    let heal = Input::Heal {
        version,
        definition,
        plan,
    };
    give(&mut harness, &[heal]);
    let status = |run: &Run| run.node_status(run.resolve("x").expect("a node"));
    assert_eq!(status(&harness.run), NodeStatus::Pending);
    let Event::Queued(queued) = &mut harness.log[0].events[0] else {
        panic!("a log begins with the request");
    };
    queued.rules = 2;
    assert_eq!(status(&harness.replayed()), NodeStatus::Queued);
}

/// Comparing states may take the short way: states that hold the same are the same.
#[test]
fn a_state_is_the_same_as_its_replay_and_as_no_earlier_one() {
    let mut harness = new(&GRAPH);
    let mut earlier = vec![harness.run.clone()];
    let mut step = |harness: &mut Harness, what: &str| {
        assert!(harness.run.is_same(&harness.replayed()), "{what}");
        for state in &earlier {
            assert!(!harness.run.is_same(state), "{what}");
            assert!(state.event_count() < harness.run.event_count(), "{what}");
        }
        earlier.push(harness.run.clone());
    };
    give(&mut harness, &[Input::Begin]);
    step(&mut harness, "begun");
    harness.end("c", output("1")).expect("an open attempt");
    step(&mut harness, "an output");
    harness.end("a", failure("BOOM")).expect("an open attempt");
    step(&mut harness, "a failure");
    let again = Input::command(RunCommand::Reattempt { nodes: Vec::new() }, no_actor());
    give(&mut harness, &[again]);
    step(&mut harness, "opened again");
    let other = harness.run.clone();
    other.finish_record();
    assert!(!other.is_same(&harness.run), "a record more");
}
