//! Several engines share a store: partitions are divided between them, and what one leaves
//! behind another carries on. The cases are those that the rules are held against
//! (`core/tests/structured_cases`), played by real engines.

mod cluster_world;

use std::sync::Arc;
use std::time::Duration;

use cluster_world::{Word, World};
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_core::command::RunCommand;
use windlass_core::definition::{Format, Options, Source, parse};
use windlass_core::event::Hand;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{CommandError, LoadError, Plans, StartRequest, Unavailable, verify};

/// Partitions of these worlds.
const PARTITIONS: u32 = 8;

const CASES: [&str; 6] = [
    include_str!("../../core/tests/structured_cases/joins.txt"),
    include_str!("../../core/tests/structured_cases/for_each.txt"),
    include_str!("../../core/tests/structured_cases/repeats.txt"),
    include_str!("../../core/tests/structured_cases/scopes.txt"),
    include_str!("../../core/tests/structured_cases/waits.txt"),
    include_str!("../../core/tests/structured_cases/compensations.txt"),
];

/// A case that takes longer is stuck: nothing waits for more than a lease, again and again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Moves that depend on the moment: a real engine's timers fire by themselves, and what is
/// cancelled depends on who has begun what.
const OF_THE_MOMENT: [&str; 6] = ["fire", "timeout", "grace", "take", "cancel", "stopped"];

/// One case: its definition, its moves, and what it comes to.
struct Case {
    title: String,
    definition: Vec<u8>,
    moves: Vec<String>,
    expected: Vec<String>,
}

/// The cases that do not depend on the moment, each with a workflow of its own.
fn cases() -> Vec<Case> {
    let files = CASES.iter().flat_map(|file| {
        let file = file.strip_prefix("=== ").expect("a case");
        file.split("\n=== ")
    });
    let parsed = files
        .enumerate()
        .map(|(number, case)| parse_case(number, case));
    let moment = |word: &str| OF_THE_MOMENT.contains(&word);
    parsed
        .filter(|case| !case.moves.iter().any(|it| it.split(' ').any(moment)))
        .collect()
}

fn parse_case(number: usize, case: &str) -> Case {
    let (title, rest) = case.split_once('\n').expect("a title");
    let mut parts = rest.split("\n>");
    let yaml = parts.next().expect("a definition");
    let text = format!("id: case-{number}\n{yaml}").replace("{id: ", "{actionType: test, id: ");
    let source = Source {
        format: Format::Yaml,
        ..Source::new("case.yaml", text.as_bytes())
    };
    let definition = parse(&source, &Options::default())
        .expect("a definition")
        .json;
    let parts: Vec<&str> = parts.collect();
    let refused = |part: &&&str| !lines(part).any(|line| line == "refused");
    let moves = parts.iter().filter(refused);
    let moves = moves.map(|part| part.lines().next().expect("a move").trim().to_owned());
    let last = parts.last().expect("a move");
    let expected = lines(last).filter(|line| !line.is_empty() && line != "refused");
    Case {
        title: title.to_owned(),
        definition: definition.to_vec(),
        moves: moves.collect(),
        expected: expected.map(|line| without_moment(&line)).collect(),
    }
}

/// What is said under a move.
fn lines(part: &str) -> impl Iterator<Item = String> + '_ {
    part.lines().skip(1).map(|line| line.trim().to_owned())
}

/// What does not depend on whether a worker had an attempt when it was let go, nor on the order
/// of undoing, which the events tell.
fn without_moment(line: &str) -> String {
    match line
        .split_once(": ")
        .filter(|_| line.starts_with("compensation"))
    {
        Some((word, _)) => word.to_owned(),
        None if line.contains(" Cancelled") => line.split(" #").next().unwrap_or(line).to_owned(),
        None => line.to_owned(),
    }
}

/// Plays a case on whichever engines there are.
async fn play(world: &World, case: &Case, turn: usize, at: &watch::Sender<String>) -> RunId {
    let workflow = serde_json::from_slice::<Value>(&case.definition).expect("JSON");
    let workflow = workflow["id"].as_str().expect("an id").to_owned();
    for words in &case.moves {
        if let Some(node) = words.split(' ').nth(1) {
            world.stage.expect(&workflow, node);
        }
    }
    let mut run = None;
    for (number, words) in case.moves.iter().enumerate() {
        at.send_replace(words.clone());
        let mut parts = words.splitn(3, ' ');
        let verb = parts.next().expect("a verb");
        let first = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or("null");
        let json = || serde_json::from_str(value).expect("JSON");
        let word = |verb: &str| match verb {
            "succeed" => Word::Succeed(json()),
            "fail" => Word::Fail,
            "retry" => Word::Retry,
            "skip" => Word::Skip,
            verb => panic!("unknown move '{verb}'"),
        };
        match (verb, run) {
            ("start", _) => run = Some(start(world, &workflow, turn).await),
            ("signal", Some(run)) => signal(world, run, (first, value), number).await,
            (verb, Some(run)) => {
                let (node, word) = match verb {
                    "undo" => ("undo", word(first)),
                    verb => (first, word(verb)),
                };
                // Spread over the time in which processes come and go.
                let pause = 40 + 13 * (turn as u64 % 16);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let part = world.stage.give(run, node, word).await;
                // Nodes are undone one after the other: the next word is the next one's.
                if verb != "undo" {
                    world.recorded(part).await;
                }
            }
            (_, None) => panic!("{}: it does not begin with a start", case.title),
        }
    }
    let run = run.expect("a start");
    at.send_replace("its end".to_owned());
    world.ended(run).await;
    run
}

/// Starts a run with a request id, so that asking again after a death is harmless.
async fn start(world: &World, workflow: &str, turn: usize) -> RunId {
    for attempt in 0.. {
        let request = StartRequest {
            request_id: Some(workflow.into()),
            ..StartRequest::default()
        };
        if let Ok(started) = world
            .engine(turn + attempt)
            .enqueue(workflow, None, request)
            .await
        {
            return started.run;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    unreachable!()
}

/// Sends a signal to the engine that has the run now.
async fn signal(world: &World, run: RunId, (name, payload): (&str, &str), number: usize) {
    for turn in 0.. {
        let engine = world.engine(turn);
        // Repeated with its key, a signal is received once.
        let signal = RunCommand::Signal { name: name.into() };
        let key = format!("move {number}");
        let request = signal.by(Hand::default()).with(payload).keyed(Some(key));
        let sent = engine.command(run, request).await;
        match sent {
            Ok(_) => return,
            Err(CommandError::Load(LoadError::Unavailable(Unavailable::Elsewhere)))
            | Err(CommandError::Stopped) => {}
            Err(error) => panic!("{name}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What people see of a run, as the cases write it.
fn report(execution: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut first = format!("run {}", text(&execution["status"]));
    match &execution["error"] {
        Value::Null if execution["status"] == "Succeeded" => {
            first.push_str(&format!(" = {}", output(&execution["output"])));
        }
        Value::Null => {}
        error => first.push_str(&format!(" {}", text(&error["code"]))),
    }
    let mut lines = vec![first];
    let nodes = execution["nodes"].as_object().expect("nodes");
    let mut paths: Vec<&String> = nodes.keys().collect();
    paths.sort();
    for path in paths {
        lines.push(node_line(path, &nodes[path]));
    }
    if let Some(word) = execution["compensation"].as_str() {
        lines.push(format!("compensation {word}"));
    }
    lines
}

fn node_line(path: &str, node: &Value) -> String {
    let status = node["status"].as_str().unwrap_or_default();
    let mut line = format!("{path} {status}");
    if node["attempts"].as_u64() > Some(1) && status != "Cancelled" {
        line.push_str(&format!(" #{}", node["attempts"]));
    }
    let blocked = node["blockedBy"].as_array().into_iter().flatten();
    let local = |path: &'_ Value| path.as_str()?.rsplit('/').next().map(str::to_owned);
    let blocked: Vec<String> = blocked.filter_map(local).collect();
    if !blocked.is_empty() {
        line.push_str(&format!(" by {}", blocked.join(", ")));
    }
    match status {
        "Succeeded" => line.push_str(&format!(" = {}", output(&node["output"]))),
        "Failed" => line.push_str(&failed(&node["error"])),
        _ => {}
    }
    if node["handled"] == true {
        line.push_str(", handled");
    }
    line
}

/// The cases leave the messages of errors out.
fn output(output: &Value) -> String {
    output.to_string().replace(r#""message":"as told","#, "")
}

fn failed(error: &Value) -> String {
    let code = error["code"].as_str().unwrap_or_default();
    match error.get("details").filter(|details| has_details(details)) {
        Some(details) => format!(" {code} {}", short(details)),
        None => format!(" {code}"),
    }
}

fn has_details(details: &Value) -> bool {
    details
        .as_object()
        .is_some_and(|details| !details.is_empty())
}

/// Errors inside errors by their codes alone.
fn short(details: &Value) -> Value {
    let mut details = details.clone();
    if let Some(error) = details.get("error").filter(|error| error.is_object()) {
        let inner = error.get("details").filter(|it| has_details(it)).map(short);
        details["error"] = match inner {
            Some(inner) => json!([error["code"], inner]),
            None => error["code"].clone(),
        };
    }
    details
}

/// Plays all cases at once, and compares; `disturb` acts on the world meanwhile.
async fn play_all(world: Arc<World>, disturb: impl Future<Output = ()>) {
    let cases = cases();
    assert!(cases.len() >= 60, "only {} cases are played", cases.len());
    for case in &cases {
        world.publish(&case.definition).await;
    }
    let playing = cases.into_iter().enumerate().map(|(turn, case)| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let at = watch::Sender::default();
            let playing = play(&world, &case, turn, &at);
            match tokio::time::timeout(PATIENCE, playing).await {
                Ok(run) => (case, run),
                Err(_) => panic!("{}: it waits for {}", case.title, *at.borrow()),
            }
        })
    });
    let playing: Vec<_> = playing.collect();
    disturb.await;
    let mut wrong = Vec::new();
    for played in playing {
        let (case, run) = match played.await {
            Ok(played) => played,
            Err(error) => {
                wrong.push(error.to_string());
                continue;
            }
        };
        let execution = world.execution(run);
        let seen = report(&execution);
        if seen != case.expected {
            wrong.push(format!("{}\n{seen:?}\n{:?}", case.title, case.expected));
        }
        let plans = Plans::new(1 << 20);
        let verified = verify::verify(&world.store, &plans, run).expect("it can be verified");
        assert!(
            verified.misfit.is_none(),
            "{}: {:?}",
            case.title,
            verified.misfit
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test]
async fn the_semantic_cases_hold_where_two_processes_divide_the_partitions() {
    let world = World::new(PARTITIONS);
    let (first, second) = (world.join().await, world.join().await);
    play_all(Arc::clone(&world), async {}).await;
    let processes = world.stage.processes();
    assert!(processes.contains(&first) && processes.contains(&second));
}

#[tokio::test]
async fn the_semantic_cases_hold_where_processes_die_and_others_come() {
    let world = World::new(PARTITIONS);
    let mut oldest = world.join().await;
    world.join().await;
    let disturbed = Arc::clone(&world);
    let disturb = async move {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(120)).await;
            disturbed.join().await;
            disturbed.kill(oldest);
            oldest = disturbed.live()[0];
        }
    };
    play_all(world, disturb).await;
}

#[tokio::test]
async fn the_semantic_cases_hold_where_processes_stop_and_hand_over() {
    let world = World::new(PARTITIONS);
    world.join().await;
    let disturbed = Arc::clone(&world);
    let disturb = async move {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(80)).await;
            let oldest = disturbed.live()[0];
            disturbed.join().await;
            disturbed.stop(oldest).await;
        }
    };
    play_all(world, disturb).await;
}

const PLAIN: &[u8] = br#"{"id":"plain","nodes":[{"id":"n","actionType":"test"}]}"#;

#[tokio::test]
async fn runs_that_wait_in_a_process_that_dies_end_in_the_other() {
    let world = World::new(PARTITIONS);
    let (first, _) = (world.join().await, world.join().await);
    world.publish(PLAIN).await;
    let mut runs = Vec::new();
    for turn in 0..24 {
        let started = world
            .engine(turn)
            .enqueue("plain", None, StartRequest::default())
            .await;
        runs.push(started.expect("it is queued").run);
    }
    while world.stage.waiting() < runs.len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.kill(first);
    for &run in &runs {
        world.stage.give(run, "n", Word::Succeed(json!(1))).await;
    }
    let engine = world.engine(0);
    for run in runs {
        assert_eq!(
            engine.wait(run).await.expect("it ends"),
            RunStatus::Succeeded
        );
    }
}
