//! Real engines play the text fixtures: those that end with the whole report, and do not
//! depend on the moment.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use windlass_core::RunId;
use windlass_core::command::RunCommand;
use windlass_core::event::Actor;
use windlass_engine::{CommandError, Plans, StartRequest, verify};

use super::{Word, World};
use crate::fixture::{self, Case, FixtureStep};
use crate::report::{CompensationReport, NodeReport, RunReport, without_messages};

/// A case that takes longer is stuck: nothing waits for more than a lease, again and again.
const PATIENCE: Duration = Duration::from_secs(600);

/// Commands that depend on the moment: a real engine's timers fire by themselves, and what is
/// cancelled depends on which process has begun what.
const OF_THE_MOMENT: [&str; 7] = [
    "due", "timeout", "advance", "grace", "running", "cancel", "stopped",
];

/// A case, and the workflow that it has to itself.
struct Played {
    case: Case,
    workflow: String,
    definition: String,
}

/// The cases that real engines play.
fn cases() -> Vec<Played> {
    let names = fixture::names().into_iter();
    let cases = names.flat_map(|name| fixture::cases(&name));
    let has_moment = |step: &FixtureStep| {
        let mut words = step.command.split(' ');
        words.any(|word| OF_THE_MOMENT.contains(&word))
    };
    let cases = cases
        .filter(|case| case.final_report().is_some() && !case.steps.iter().any(has_moment))
        .enumerate();
    let played = cases.map(|(number, case)| {
        let workflow = format!("case-{number}");
        let definition = serde_json::from_str::<Value>(&case.setup().definition);
        let mut definition = definition.expect("JSON");
        definition["id"] = workflow.as_str().into();
        Played {
            definition: definition.to_string(),
            workflow,
            case,
        }
    });
    played.collect()
}

/// Plays a case on whichever engines there are.
async fn play(world: &World, played: &Played, turn: usize, at: &watch::Sender<String>) -> RunId {
    let Played { case, workflow, .. } = played;
    // Refusals are tested with the state machine; here only the final report is compared.
    let steps = case.steps.iter();
    let steps = steps.filter(|step| !step.is_refused() && step.words().0 != "report");
    let steps: Vec<&FixtureStep> = steps.collect();
    for step in &steps {
        let node = step.words().1.split(' ').next();
        world.stage.expect(workflow, node.unwrap_or_default());
    }
    let mut run = None;
    for (number, step) in steps.into_iter().enumerate() {
        at.send_replace(step.command.clone());
        let (verb, rest) = step.words();
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match (verb, run) {
            ("start", _) => run = Some(start(world, workflow, turn).await),
            ("signal", Some(run)) => signal(world, run, (first, more), number).await,
            (verb, Some(run)) => {
                let undo = verb == "undone";
                let word = match undo {
                    true => word(more),
                    false => word(&format!("{verb} {more}")),
                };
                // Spread over the time in which processes come and go.
                let pause = 40 + 13 * (turn as u64 % 16);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let part = world.stage.give(run, first, undo, word).await;
                // Nodes are undone one after the other: the next word is the next one's.
                if !undo {
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

/// How an attempt must end: `succeed [JSON]`, `fail CODE [retriable]`, `skip`.
fn word(words: &str) -> Word {
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    match (verb, rest.split_once(' ')) {
        ("succeed", _) if rest.is_empty() => Word::Succeed(Value::Null),
        ("succeed", _) => Word::Succeed(serde_json::from_str(rest).expect("JSON")),
        ("fail", None) => Word::Fail(rest.to_owned()),
        ("fail", Some((code, "retriable"))) => Word::Retry(code.to_owned()),
        ("skip", _) => Word::Skip,
        _ => panic!("an engine does not know '{words}'"),
    }
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

/// Sends a signal through any engine.
async fn signal(world: &World, run: RunId, (name, payload): (&str, &str), number: usize) {
    for turn in 0.. {
        let engine = world.engine(turn);
        // Repeated with its key, a signal is received once.
        let signal = RunCommand::Signal { name: name.into() };
        let key = format!("move {number}");
        let payload = if payload.is_empty() { "null" } else { payload };
        let request = signal.by(Actor::default()).with(payload).keyed(Some(key));
        let sent = engine.command(run, request).await;
        match sent {
            Ok(_) => return,
            // Its process died, or no process owns the run yet.
            Err(CommandError::Stopped | CommandError::OwnerUnavailable { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What people see of a run.
fn report(execution: &Value) -> RunReport {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let status = text(&execution["status"]).unwrap_or_default();
    let nodes = execution["nodes"].as_object().expect("nodes");
    let nodes = nodes.iter().map(|(path, it)| (path.clone(), node(it)));
    RunReport {
        output: (status == "Succeeded").then(|| without_messages(&execution["output"])),
        status,
        error: text(&execution["error"]["code"]),
        nodes: nodes.collect(),
        compensation: text(&execution["compensation"]).map(|status| CompensationReport {
            status,
            done: Vec::new(),
            next: None,
        }),
    }
}

fn node(node: &Value) -> NodeReport {
    let status = node["status"].as_str().unwrap_or_default().to_owned();
    let attempt = node["attempts"].as_u64().filter(|_| status != "Cancelled");
    let blocked = node["blockedBy"].as_array().into_iter().flatten();
    let name = |path: &Value| path.as_str()?.rsplit('/').next().map(str::to_owned);
    let value = match &*status {
        "Succeeded" => Some(without_messages(&node["output"])),
        "Failed" => Some(without_messages(&node["error"])),
        _ => None,
    };
    NodeReport {
        attempt: attempt.map_or(0, |attempt| attempt.try_into().expect("a small number")),
        status,
        blocked_by: blocked.filter_map(name).collect(),
        handled: node["handled"] == true,
        value,
    }
}

/// A line without what depends on the moment: whether a worker had an attempt when it was
/// cancelled, and the order of undoing, which the events tell.
fn without_moment(line: &str) -> &str {
    let end = match line.split(' ').next() {
        Some("compensation") => ": ",
        _ if line.contains(" Cancelled") => " #",
        _ => return line,
    };
    line.split(end).next().unwrap_or(line)
}

/// Plays all cases at once, and compares; `disturb` acts on the world meanwhile.
pub async fn play_all(world: Arc<World>, disturb: impl Future<Output = ()>) {
    let cases = cases();
    assert!(cases.len() >= 70, "only {} cases are played", cases.len());
    for played in &cases {
        world.publish(&played.definition).await;
    }
    let playing = cases.into_iter().enumerate().map(|(turn, played)| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let at = watch::Sender::default();
            let playing = play(&world, &played, turn, &at);
            match tokio::time::timeout(PATIENCE, playing).await {
                Ok(run) => (played.case, run),
                Err(_) => panic!("{}: it waits for {}", played.case.title, *at.borrow()),
            }
        })
    });
    let playing: Vec<_> = playing.collect();
    disturb.await;
    let mut wrong = Vec::new();
    for played in playing {
        match played.await {
            Ok((case, run)) => wrong.extend(compare(&world, &case, run)),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What is wrong with a run that has ended.
fn compare(world: &World, case: &Case, run: RunId) -> Option<String> {
    let plans = Plans::new(1 << 20);
    let verified = verify::verify(&*world.store, &plans, run).expect("it can be verified");
    if let Some(misfit) = verified.misfit {
        return Some(format!("{}: {misfit:?}", case.title));
    }
    let seen = report(&world.execution(run)).lines();
    let seen: Vec<&str> = seen.iter().map(|line| without_moment(line)).collect();
    let expected = case.final_report().expect("a report").iter();
    let expected: Vec<&str> = expected.map(|line| without_moment(line)).collect();
    (seen != expected).then(|| format!("{}\n{seen:?}\n{expected:?}", case.title))
}
