//! Simulations as JSON, and what is wrong in them in a sentence each.

use serde_json::{Value, json};
use windlass_sim::account::{Account, Ending};
use windlass_sim::simulate::Simulation;

use super::summary::{Ended, Summary};

/// What is wrong, a sentence each.
pub fn problems(summary: &Summary) -> Vec<String> {
    let endings = summary.endings.iter().filter_map(problem);
    let broken = summary.broken.iter().map(|(seed, rule)| {
        format!("Windlass broke one of its own rules (seed {seed}), please report it: {rule}")
    });
    broken.chain(endings).collect()
}

/// What is wrong with runs that ended like this, if anything is.
fn problem(ended: &Ended) -> Option<String> {
    let (runs, seed) = (ended.runs, ended.seed);
    let noun = if runs == 1 { "run" } else { "runs" };
    Some(match &ended.ending {
        // A broken rule is a problem of Windlass, and told as such.
        Ending::Finished { .. } | Ending::RuleBroken => return None,
        Ending::Stuck(signals) if signals.is_empty() => {
            format!("{runs} {noun} can make no progress (seed {seed})")
        }
        Ending::Stuck(signals) => {
            let options: Vec<String> = signals.iter().map(|it| format!("--signal {it}")).collect();
            let options = options.join(" ");
            format!("{runs} {noun} wait for a signal that is never sent (seed {seed}): {options}")
        }
        Ending::TooManySteps => {
            format!(
                "{runs} {noun} did not end within the steps simulated (seed {seed}): --max-steps"
            )
        }
        Ending::TooLong => format!("{runs} {noun} had not ended after a year (seed {seed})"),
    })
}

fn ending_json(ending: &Ending) -> Value {
    match ending {
        Ending::Finished {
            status,
            code,
            nodes,
            handled,
            compensated,
        } => json!({
            "ending": status, "code": code, "nodes": nodes, "handled": handled,
            "compensation": compensated.map(|all| if all { "complete" } else { "incomplete" }),
        }),
        Ending::Stuck(signals) => json!({ "ending": "Stuck", "signals": signals }),
        Ending::TooManySteps => json!({ "ending": "TooManySteps" }),
        Ending::TooLong => json!({ "ending": "TooLong" }),
        Ending::RuleBroken => json!({ "ending": "RuleBroken" }),
    }
}

/// All runs, counted.
pub fn as_json(simulation: &Simulation, summary: &Summary) -> Value {
    let endings: Vec<Value> = summary
        .endings
        .iter()
        .map(|ended| {
            let mut value = ending_json(&ended.ending);
            value["runs"] = json!(ended.runs);
            value["share"] = json!(ended.runs as f64 / summary.runs.max(1) as f64);
            value["seed"] = json!(ended.seed);
            value
        })
        .collect();
    let conditions: Vec<Value> = summary
        .conditions
        .iter()
        .map(|(condition, asked)| {
            json!({
                "node": condition.node, "targetNode": condition.target, "when": condition.when,
                "asked": asked.asked, "taken": asked.taken,
            })
        })
        .collect();
    let failures: Vec<Value> = summary
        .failures
        .iter()
        .map(|((node, code), failed)| {
            json!({
                "node": node, "code": code, "message": failed.message,
                "attempts": failed.attempts, "runs": failed.runs,
            })
        })
        .collect();
    let durations = summary.durations.as_ref().map(|times| {
        json!({ "min": times.min, "median": times.median, "p95": times.p95, "max": times.max })
    });
    json!({
        "workflowId": simulation.plan.workflow(),
        "runs": summary.runs,
        "crashes": summary.crashes,
        "endings": endings,
        "durationMs": durations,
        "neverRan": summary.never_ran,
        "conditions": conditions,
        "failures": failures,
        "problems": problems(summary),
    })
}

/// One run, with what happened in it.
pub fn one_as_json(simulation: &Simulation, account: &Account) -> Value {
    let mut value = ending_json(&account.ending);
    value["workflowId"] = json!(simulation.plan.workflow());
    value["seed"] = json!(account.seed);
    value["durationMs"] = json!(account.duration_ms);
    value["events"] = events(account);
    value
}

/// What happened in a run, and after how many milliseconds.
pub fn events(account: &Account) -> Value {
    let events = account.story.iter();
    events
        .map(|(after, words)| json!({ "afterMs": after, "what": words }))
        .collect()
}
