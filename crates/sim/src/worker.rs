//! What actions do in a simulated world, drawn when they are started: how they end, how
//! long they take, and whether they listen when they are asked to stop.

use windlass_core::event::ResourceLink;
use windlass_core::run::{Dispatch, Failure, Outcome, Report};
use windlass_core::value::Payload;
use windlass_core::{Digest, Millis};

use crate::faults::ActionFaults;
use crate::random::Random;

/// How one execution will go.
#[derive(Debug)]
pub struct PlannedExecution {
    /// After how long it ends by itself; its timeout if it hangs.
    pub takes: u64,
    /// How it ends by itself.
    pub outcome: Outcome,
    /// After how long it ends when asked to stop, if it listens.
    pub stops_after: Option<u64>,
    /// The parameters as rendered, where they were.
    pub parameters: Option<Payload>,
}

/// Draws an execution.
pub fn draw(random: &mut Random, actions: &ActionFaults, dispatch: &Dispatch) -> PlannedExecution {
    let takes = match random.below(100) {
        kind if kind < actions.slow => random.between(250, 3000),
        kind if kind % 3 == 0 => 0,
        _ => random.between(1, 60),
    };
    let stops_after = random.chance(70).then(|| random.below(12_000));
    let hangs = random.chance(actions.hanging);
    if hangs || takes >= dispatch.timeout_ms {
        let failure = failure(random, "TIMEOUT", true);
        return PlannedExecution {
            takes: dispatch.timeout_ms,
            outcome: Outcome::Failed(failure),
            stops_after,
            parameters: None,
        };
    }
    PlannedExecution {
        takes,
        outcome: outcome(random, actions, dispatch),
        stops_after,
        parameters: None,
    }
}

fn outcome(random: &mut Random, actions: &ActionFaults, dispatch: &Dispatch) -> Outcome {
    if random.chance(actions.retriable) {
        return Outcome::Failed(failure(random, "AGAIN", true));
    }
    if random.chance(actions.permanent) {
        return Outcome::Failed(failure(random, "NEVER", false));
    }
    if random.chance(actions.skipped) {
        return Outcome::Skipped;
    }
    Outcome::Succeeded(output(random, actions, dispatch))
}

/// Outputs repeat between nodes often enough that values with one address meet.
fn output(random: &mut Random, actions: &ActionFaults, dispatch: &Dispatch) -> Payload {
    if random.chance(actions.large) {
        let letter = if random.chance(50) { "x" } else { "y" };
        return Payload::new(format!("\"{}\"", letter.repeat(4200)));
    }
    match random.below(3) {
        0 => Payload::null(),
        1 => Payload::new(format!("{}", random.below(3))),
        _ => Payload::new(format!("\"{}#{}\"", dispatch.path, dispatch.attempt)),
    }
}

/// What an action reports that stopped because it was asked to.
pub fn stopped(random: &mut Random) -> Outcome {
    if random.chance(50) {
        return Outcome::Stopped;
    }
    Outcome::Failed(Failure::permanent("STOPPED", "told to stop"))
}

fn failure(random: &mut Random, code: &str, retriable: bool) -> Failure {
    Failure {
        retriable,
        retry_after_ms: random.chance(20).then(|| random.below(1500)),
        ..Failure::permanent(code, "as drawn")
    }
}

/// The digest by which an outcome is recorded.
pub fn digest(outcome: &Outcome) -> Digest {
    match outcome {
        Outcome::Succeeded(output) => output.digest(),
        Outcome::Failed(failure) => failure.payload().digest(),
        Outcome::Skipped | Outcome::Stopped => Digest::of(b"null"),
    }
}

/// A worker's report.
pub fn report(random: &mut Random, started: Millis, ended: Millis, outcome: Outcome) -> Report {
    let resources = if random.chance(10) {
        vec![ResourceLink {
            system: "elsewhere".into(),
            kind: "thing".into(),
            id: random.below(20).to_string().into(),
            url: None,
        }]
    } else {
        Vec::new()
    };
    let parameters = match random.below(12) {
        0 => Some(Payload::new(format!("\"{}\"", "p".repeat(4300)))),
        1..=3 => Some(Payload::new("{\"a\":1}")),
        _ => None,
    };
    Report {
        started,
        ended,
        worker: "w".into(),
        outcome,
        parameters,
        meta: None,
        resources,
        files: Vec::new(),
        lease: None,
        completed: false,
    }
}
