//! How many durable writes a run takes, and that the work grows with the graph and no
//! faster. Counted, not timed.

use windlass_orchestrator::{Begin, Effect};
use windlass_sim::bench::{Bench, success};

fn chain(nodes: usize) -> String {
    let nodes: Vec<String> = (0..nodes)
        .map(|index| match index {
            0 => r#"{"id":"n0","actionType":"act"}"#.to_owned(),
            _ => format!(
                r#"{{"id":"n{index}","actionType":"act","dependsOn":["n{}"]}}"#,
                index - 1
            ),
        })
        .collect();
    format!(r#"{{"id":"chain","nodes":[{}]}}"#, nodes.join(","))
}

/// One node, then `width`, then a join.
fn fan(width: usize) -> String {
    let mut nodes = vec![r#"{"id":"first","actionType":"act"}"#.to_owned()];
    let names: Vec<String> = (0..width).map(|index| format!("n{index}")).collect();
    nodes.extend(
        names
            .iter()
            .map(|name| format!(r#"{{"id":"{name}","actionType":"act","dependsOn":["first"]}}"#)),
    );
    let all = names.join("\",\"");
    nodes.push(format!(
        r#"{{"id":"join","actionType":"act","dependsOn":["{all}"]}}"#
    ));
    format!(r#"{{"id":"fan","nodes":[{}]}}"#, nodes.join(","))
}

#[derive(Debug, Default)]
struct Figures {
    appends: u64,
    dispatches: u64,
    effects: u64,
    inputs: u64,
    finished: bool,
}

/// When an append is answered, relative to the work that is going on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// Actions take no time: whatever is handed out, also meanwhile, ends before.
    AfterAllWork,
    /// Actions take about as long as an append: what is with workers when the append
    /// begins ends before it is answered, what is handed out later does not.
    AfterOneRound,
}

fn drive(definition: &str, answers: Answers) -> Figures {
    let mut bench = Bench::new(definition);
    let mut figures = Figures::default();
    bench.start(Begin::Now);
    while !figures.finished {
        figures.appends += bench.poll() as u64;
        let mut round = take(&mut bench, &mut figures);
        while !round.is_empty() {
            for (node, attempt) in round.drain(..) {
                bench.end_index(node, attempt, success());
                figures.appends += bench.poll() as u64;
            }
            if answers == Answers::AfterAllWork {
                round = take(&mut bench, &mut figures);
            }
        }
        if !bench.in_flight.is_empty() {
            bench.answer();
        }
    }
    figures.inputs = bench.inputs;
    figures
}

fn take(bench: &mut Bench, figures: &mut Figures) -> Vec<(u32, u32)> {
    let mut dispatched = Vec::new();
    while let Some(effect) = bench.shard.poll_effect() {
        figures.effects += 1;
        match effect {
            Effect::Dispatch(dispatch) => {
                figures.dispatches += 1;
                dispatched.push((dispatch.node, dispatch.attempt));
            }
            Effect::Finished { .. } => figures.finished = true,
            _ => {}
        }
    }
    dispatched
}

#[test]
fn a_chain_takes_one_append_for_each_node_and_one_to_begin() {
    for nodes in [1, 2, 10, 100, 1_000] {
        let figures = drive(&chain(nodes), Answers::AfterAllWork);
        assert_eq!(figures.appends, nodes as u64 + 1, "{nodes} nodes");
        assert_eq!(figures.dispatches, nodes as u64);
    }
}

#[test]
fn ten_thousand_instant_actions_take_at_most_a_hundred_records() {
    let figures = drive(&fan(10_000), Answers::AfterAllWork);
    println!("instant actions: {figures:?}");
    assert_eq!(figures.dispatches, 10_002);
    assert!(figures.appends <= 100, "{figures:?}");
}

/// With at most 100 nodes of a run out at once, a round cannot record more than 100.
#[test]
fn actions_as_slow_as_an_append_are_recorded_a_round_at_a_time() {
    let figures = drive(&fan(10_000), Answers::AfterOneRound);
    println!("slower actions: {figures:?}");
    assert_eq!(figures.dispatches, 10_002);
    assert!(figures.appends <= 10_000 / 50 + 4, "{figures:?}");
}

#[test]
fn work_grows_with_the_graph_and_no_faster() {
    for answers in [Answers::AfterAllWork, Answers::AfterOneRound] {
        for width in [100, 1_000, 10_000] {
            let figures = drive(&fan(width), answers);
            let work = figures.inputs + figures.effects;
            // A result in, a dispatch out, and their share of answers and progress.
            assert!(work <= 3 * width as u64 + 30, "{width}: {figures:?}");
        }
    }
}
