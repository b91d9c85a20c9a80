//! How many durable writes a run takes, that the work grows with the graph and no faster,
//! and that a loop is as large after many rounds as after few. Counted, not timed.

use windlass_core::run::Outcome;
use windlass_core::value::Payload;
use windlass_orchestrator::{Begin, Effect};
use windlass_sim::harness::{ShardHarness, success};

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
    let mut harness = ShardHarness::new(definition);
    let mut figures = Figures::default();
    harness.start(Begin::Now);
    while !figures.finished {
        figures.appends += harness.poll() as u64;
        let mut round = take(&mut harness, &mut figures);
        while !round.is_empty() {
            for (node, attempt) in round.drain(..) {
                harness.end_index(node, attempt, success());
                figures.appends += harness.poll() as u64;
            }
            if answers == Answers::AfterAllWork {
                round = take(&mut harness, &mut figures);
            }
        }
        if !harness.in_flight.is_empty() {
            harness.answer();
        }
    }
    figures.inputs = harness.inputs;
    figures
}

fn take(harness: &mut ShardHarness, figures: &mut Figures) -> Vec<(u32, u32)> {
    let mut dispatched = Vec::new();
    while let Some(effect) = harness.shard.poll_effect() {
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

/// What a loop needs after so many rounds.
#[derive(Debug, Default)]
struct Round {
    /// Values that the shard holds.
    values: usize,
    /// Bytes of the state.
    state: usize,
}

/// What a `while` needs after each of these rounds, and the most bytes of records between
/// two checkpoints, with every output another.
fn go_round(after: &[u32]) -> (Vec<Round>, usize) {
    let rounds = after.iter().max().copied().unwrap_or_default();
    let mut harness = ShardHarness::new(&format!(
        r#"{{"id":"w","nodes":[{{"id":"again","while":{{"condition":"iteration < {rounds}",
            "maxIterations":{rounds},"body":{{"nodes":[
            {{"id":"x","actionType":"act","parameters":{{"n":"{{{{ last.n }}}}"}}}}]}}}}}}]}}"#
    ));
    let (mut seen, mut since, mut most, mut done) = (Vec::new(), 0, 0, 0);
    harness.start(Begin::Now);
    loop {
        while harness.poll() > 0 || !harness.in_flight.is_empty() {
            since += harness.in_flight[0].record.len();
            most = most.max(since);
            harness.answer();
        }
        let mut next = None;
        while let Some(effect) = harness.shard.poll_effect() {
            match effect {
                Effect::Dispatch(dispatch) => next = Some((dispatch.node, dispatch.attempt)),
                Effect::Checkpoint { .. } => since = 0,
                Effect::Finished { .. } => return (seen, most),
                _ => {}
            }
        }
        let (node, attempt) = next.expect("a round after the other");
        let output = Payload::new(format!("{{\"n\":{done}}}"));
        harness.end_index(node, attempt, Outcome::Succeeded(output));
        done += 1;
        if after.contains(&done) {
            let run = harness.shard.run(harness.run).expect("it goes on");
            seen.push(Round {
                values: harness.shard.values_held(harness.run),
                state: run.clone().snapshot().expect("a state").len(),
            });
        }
    }
}

#[test]
fn a_loop_is_as_large_after_many_rounds_as_after_few() {
    let (rounds, _) = go_round(&[10, 5_000, 20_000]);
    let [few, many, more] = &rounds[..] else {
        panic!("three rounds are looked at: {rounds:?}");
    };
    // Some digits of its numbers.
    assert!(more.state < few.state + 100, "{rounds:?}");
    assert!(
        many.values <= 5_000 && more.values <= many.values + 10,
        "{rounds:?}"
    );
}

#[test]
fn a_loop_gets_a_checkpoint_every_mebibyte_of_its_log() {
    let (_, most) = go_round(&[20_000]);
    // And some records more, which were decided before it was stored.
    let bound = windlass_orchestrator::Options::default().checkpoint_bytes + 64 * 1024;
    assert!(most <= bound, "{most} bytes without a checkpoint");
}

/// A state with many results is large, and storing it is worth its cost only now and then.
#[test]
fn checkpoints_of_a_long_list_are_a_small_part_of_its_log() {
    let items: Vec<usize> = (0..10_000).collect();
    let mut harness = ShardHarness::new(&format!(
        r#"{{"id":"each","nodes":[{{"id":"all","forEach":{{"items":{items:?},"body":{{"nodes":[
            {{"id":"x","actionType":"act","parameters":{{"n":"{{{{ item }}}}"}}}}]}}}}}}]}}"#
    ));
    let (mut log, mut checkpoints, mut ended) = (0, 0, 0);
    harness.start(Begin::Now);
    while ended < items.len() {
        while harness.poll() > 0 || !harness.in_flight.is_empty() {
            log += harness.in_flight[0].record.len();
            harness.answer();
        }
        let mut open = Vec::new();
        while let Some(effect) = harness.shard.poll_effect() {
            match effect {
                Effect::Dispatch(dispatch) => open.push((dispatch.node, dispatch.attempt)),
                Effect::Checkpoint { bytes, .. } => checkpoints += bytes.len(),
                _ => {}
            }
        }
        for (node, attempt) in open {
            let parameters = format!("{{\"n\":{ended},\"text\":\"{}\"}}", "x".repeat(200));
            harness.end_index(node, attempt, Outcome::Succeeded(Payload::new(parameters)));
            ended += 1;
        }
    }
    assert!(log > 4 * 1024 * 1024, "{log} bytes of log");
    println!("{checkpoints} bytes of checkpoints, {log} of log");
    assert!(checkpoints * 3 <= log, "{checkpoints} of {log} bytes");
}
