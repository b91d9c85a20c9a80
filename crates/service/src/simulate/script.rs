//! What the options of a simulation say about nodes and signals.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_sim::script::{Behaviour, BehaviourScript};
use windlass_sim::simulate::scripted_nodes;

use super::SimulateOptions;
use crate::failure::{Failure, FailureKind};
use crate::overrides::nearest;

/// Reads the options; a node or signal that the definition does not have is refused.
pub(super) fn of(options: &SimulateOptions, plan: &Plan) -> Result<BehaviourScript, Failure> {
    let mut script = BehaviourScript {
        evaluate: Some(super::evaluate::evaluate),
        ..BehaviourScript::default()
    };
    for text in &options.fail {
        let (node, value) = split("--fail", text, "NODE=RATE[:CODE]")?;
        let (rate, code) = match value.split_once(':') {
            Some((rate, code)) => (rate, Some(code)),
            None => (value, None),
        };
        let rate = read_rate(text, rate)?;
        each(&mut script, plan, node, |behaviour| {
            behaviour.fail = rate;
            behaviour.code = code.map(Into::into);
        })?;
    }
    for text in &options.delay {
        let (node, value) = split("--delay", text, "NODE=MS..MS")?;
        let delay = read_delay(text, value)?;
        each(&mut script, plan, node, |behaviour| behaviour.delay = delay)?;
    }
    for text in &options.returns {
        let (node, value) = split("--returns", text, "NODE=JSON")?;
        let output = read_json("--returns", text, value)?;
        each(&mut script, plan, node, |behaviour| {
            behaviour.output = Some(Arc::clone(&output));
        })?;
    }
    for text in &options.signals {
        let (name, payload) = match text.split_once('=') {
            Some((name, value)) => (name, read_json("--signal", text, value)?),
            None => (text.as_str(), "null".into()),
        };
        let known = plan.signals();
        if !known.contains(&name) {
            let message = format!("no node waits for a signal '{name}'");
            let failure = Failure::new(FailureKind::SimulatedSignalUnknown, message);
            return Err(with_nearest(failure, name, known.into_iter()));
        }
        script.signals.insert(name.into(), payload);
    }
    Ok(script)
}

/// Changes how a node behaves: by its path, by its id wherever that is, or `*` for all.
fn each(
    script: &mut BehaviourScript,
    plan: &Plan,
    node: &str,
    change: impl Fn(&mut Behaviour),
) -> Result<(), Failure> {
    if node == "*" {
        change(&mut script.others);
        script.nodes.values_mut().for_each(change);
        return Ok(());
    }
    let known = scripted_nodes(plan);
    let Some(paths) = known.get(node) else {
        let message = format!("no action, child or wait of the definition is called '{node}'");
        let failure = Failure::new(FailureKind::SimulatedNodeUnknown, message);
        return Err(with_nearest(
            failure,
            node,
            known.keys().map(String::as_str),
        ));
    };
    for path in paths {
        let others = &script.others;
        let behaviour = script.nodes.entry(path.clone());
        change(behaviour.or_insert_with(|| others.clone()));
    }
    Ok(())
}

fn with_nearest<'a>(failure: Failure, name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    match nearest(name, known) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn usage(message: String) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

fn split<'a>(option: &str, text: &'a str, form: &str) -> Result<(&'a str, &'a str), Failure> {
    text.split_once('=')
        .ok_or_else(|| usage(format!("{option} {text}: it takes {form}")))
}

/// From 0 to 1, or in percent.
fn read_rate(text: &str, rate: &str) -> Result<f64, Failure> {
    let (number, unit) = match rate.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (rate, 1.0),
    };
    let rate = number.trim().parse::<f64>().map(|rate| rate / unit);
    rate.ok()
        .filter(|rate| (0.0..=1.0).contains(rate))
        .ok_or_else(|| {
            usage(format!(
                "--fail {text}: a rate is from 0 to 1, or 0% to 100%"
            ))
        })
}

/// A number of milliseconds, or two.
fn read_delay(text: &str, value: &str) -> Result<(u64, u64), Failure> {
    let (low, high) = value.split_once("..").unwrap_or((value, value));
    let read = |number: &str| number.trim().trim_end_matches("ms").parse::<u64>().ok();
    match (read(low), read(high)) {
        (Some(low), Some(high)) if low <= high => Ok((low, high)),
        _ => Err(usage(format!(
            "--delay {text}: a delay is milliseconds, 200 or 200..1500"
        ))),
    }
}

fn read_json(option: &str, text: &str, value: &str) -> Result<Arc<str>, Failure> {
    match serde_json::from_str::<serde_json::Value>(value) {
        Ok(_) => Ok(value.into()),
        Err(error) => Err(usage(format!("{option} {text}: not JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_fractions_or_percents() {
        assert_eq!(read_rate("", "0.25").ok(), Some(0.25));
        assert_eq!(read_rate("", "10%").ok(), Some(0.1));
        assert!(read_rate("", "1.5").is_err());
        assert!(read_rate("", "often").is_err());
    }

    #[test]
    fn delays_are_one_number_or_two() {
        assert_eq!(read_delay("", "200").ok(), Some((200, 200)));
        assert_eq!(read_delay("", "200..1500ms").ok(), Some((200, 1500)));
        assert!(read_delay("", "9..1").is_err());
    }
}
