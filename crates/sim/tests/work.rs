//! The work of a run grows with its nodes and no faster: the processor's instructions are
//! counted, not timed. Needs `valgrind`, which `cargo xtask test` installs.

#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;

use windlass_core::Digest;
use windlass_core::run::{Failure, Interrupt, Outcome};
use windlass_core::value::{Payload, ValueRef};
use windlass_orchestrator::{Begin, Effect, Pass, ShardInput};
use windlass_sim::harness::ShardHarness;

/// The child process is told how many nodes its run has.
const SIZE: &str = "WINDLASS_TEST_WORK";

/// Small against what a search for each node in a list of all of them takes at the larger size.
const SIZES: [usize; 2] = [2_500, 10_000];

/// Asserts that a run of four times the nodes takes four times the instructions, and a tenth more
/// for what grows with the logarithm.
fn is_linear(test: &str, run: impl Fn(usize)) {
    if let Ok(size) = std::env::var(SIZE) {
        return run(size.parse().expect("a size"));
    }
    let counts = SIZES.map(|size| instructions(test, size));
    let times = counts[1] as f64 / counts[0] as f64;
    println!("{test}: {counts:?}, {times:.2} times");
    assert!(times <= 4.4, "{SIZES:?} nodes take {counts:?} instructions");
}

fn instructions(test: &str, size: usize) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .arg("--cachegrind-out-file=/dev/null")
        .arg(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(SIZE, size.to_string())
        .output()
        .expect("valgrind is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the run failed: {said}");
    // Releases differ in the spaces after the I.
    let counted = said.lines().find_map(|line| line.split_once("refs:"));
    let digits = counted.map(|(_, count)| count.trim().replace(',', ""));
    let count = digits.and_then(|digits| digits.parse().ok());
    count.unwrap_or_else(|| panic!("nothing was counted: {said}"))
}

/// Runs a definition to its end and counts the attempts, each of which ends with another value.
fn drive(definition: &str, fails: impl Fn(usize) -> bool) -> usize {
    let mut harness = ShardHarness::new(definition);
    let mut values: HashMap<Digest, Arc<str>> = HashMap::new();
    let (mut attempts, mut finished) = (0, false);
    harness.start(Begin::Now);
    while !finished {
        harness.settle();
        let mut inputs = Vec::new();
        let mut open = Vec::new();
        while let Some(effect) = harness.shard.poll_effect() {
            match effect {
                Effect::Dispatch(dispatch) => open.push((dispatch.node, dispatch.attempt)),
                Effect::Load { run, values: named } => {
                    let value = |named: &ValueRef| {
                        let known = values.get(&named.digest).cloned();
                        let text = known.or_else(|| harness.store.value(run, named));
                        (named.digest, text.expect("the run has stored it"))
                    };
                    let values = named.iter().map(value).collect();
                    inputs.push(ShardInput::Loaded { run, values });
                }
                Effect::Evaluate(mut evaluation) => inputs.push(loop {
                    match evaluation.pass(&Interrupt::default()) {
                        Pass::Done(evaluated) => break ShardInput::Evaluated(evaluated),
                        Pass::Again(again) => evaluation = again,
                    }
                }),
                Effect::Finished { .. } => finished = true,
                _ => {}
            }
        }
        for input in inputs {
            harness.shard.handle(input, harness.now);
        }
        for (node, attempt) in open {
            let value = Payload::new(format!("{{\"n\":{attempts}}}"));
            values.insert(value.digest(), Arc::clone(value.text()));
            let outcome = match fails(attempts) {
                true => Outcome::Failed(Failure::permanent("NEVER", "on the bench")),
                false => Outcome::Succeeded(value),
            };
            attempts += 1;
            harness.end_index(node, attempt, outcome);
        }
    }
    attempts
}

/// A loop over so many items, with more about the loop and about its only node.
fn for_each(items: usize, about: &str, node: &str) -> String {
    let items: Vec<usize> = (0..items).collect();
    format!(
        r#"{{"id":"each","output":"{{{{ context.data['all'].length }}}}","nodes":[
            {{"id":"all","forEach":{{"items":{items:?}{about},"body":{{"nodes":[
            {{"id":"x","actionType":"act","parameters":{{"n":"{{{{ item }}}}"}}{node}}}]}}}}}},
            {{"id":"last","actionType":"act","dependsOn":["all"]}}]}}"#
    )
}

#[test]
fn of_a_chain() {
    is_linear("of_a_chain", |nodes| {
        let node = |index: usize| match index {
            0 => r#"{"id":"n0","actionType":"act"}"#.to_owned(),
            _ => format!(
                r#"{{"id":"n{index}","actionType":"act","dependsOn":["n{}"]}}"#,
                index - 1
            ),
        };
        let nodes: Vec<String> = (0..nodes).map(node).collect();
        let definition = format!(r#"{{"id":"chain","nodes":[{}]}}"#, nodes.join(","));
        assert_eq!(drive(&definition, |_| false), nodes.len());
    });
}

#[test]
fn of_a_fan_out_whose_join_reads_every_node() {
    is_linear("of_a_fan_out_whose_join_reads_every_node", |width| {
        let node = |index: usize| format!(r#"{{"id":"n{index}","actionType":"act"}}"#);
        let nodes: Vec<String> = (0..width).map(node).collect();
        let reads = |index: usize| format!("\"{{{{ context.data['n{index}'].n }}}}\"");
        let reads: Vec<String> = (0..width).map(reads).collect();
        let definition = format!(
            r#"{{"id":"fan","output":[{}],"nodes":[{}]}}"#,
            reads.join(","),
            nodes.join(",")
        );
        assert_eq!(drive(&definition, |_| false), width);
    });
}

#[test]
fn of_a_loop_over_items() {
    is_linear("of_a_loop_over_items", |items| {
        assert_eq!(drive(&for_each(items, "", ""), |_| false), items + 1);
    });
}

#[test]
fn of_a_loop_that_collects_its_failures() {
    is_linear("of_a_loop_that_collects_its_failures", |items| {
        let definition = for_each(items, r#","onItemFailure":"collect""#, "");
        assert_eq!(drive(&definition, |attempt| attempt % 2 == 1), items + 1);
    });
}

#[test]
fn of_a_loop_that_is_undone() {
    is_linear("of_a_loop_that_is_undone", |items| {
        let undo = r#","compensate":{"actionType":"undo","parameters":{"n":"{{ output.n }}"}}"#;
        let definition = for_each(items, "", undo);
        assert_eq!(
            drive(&definition, |attempt| attempt == items),
            2 * items + 1
        );
    });
}

#[test]
fn of_a_loop_that_goes_round() {
    is_linear("of_a_loop_that_goes_round", |rounds| {
        let definition = format!(
            r#"{{"id":"w","nodes":[{{"id":"again","while":{{"condition":"iteration < {rounds}",
                "maxIterations":{rounds},"body":{{"nodes":[
                {{"id":"x","actionType":"act","parameters":{{"n":"{{{{ last.n }}}}"}}}}]}}}}}}]}}"#
        );
        assert_eq!(drive(&definition, |_| false), rounds);
    });
}

#[test]
fn of_signals_that_are_listed_for_one_that_no_node_awaits() {
    let test = "of_signals_that_are_listed_for_one_that_no_node_awaits";
    is_linear(test, |nodes| {
        let node = |index: usize| {
            format!(
                r#"{{"id":"n{index}","waitForSignal":{{"name":"s{index}"}},"dependsOn":["a"]}}"#
            )
        };
        let nodes: Vec<String> = (0..nodes).map(node).collect();
        let definition = format!(
            r#"{{"id":"signals","nodes":[{{"id":"a","actionType":"act"}},{}]}}"#,
            nodes.join(",")
        );
        let mut harness = ShardHarness::new(&definition);
        harness.start(Begin::Now);
        harness.settle();
        let run = harness.shard.run(harness.run).expect("the run has begun");
        assert_eq!(run.awaited_signals().len(), nodes.len());
    });
}
