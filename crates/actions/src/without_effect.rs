//! Actions whose result follows from their parameters and the attempt alone: a simulation
//! evaluates them as a run does, without a worker.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_engine::ActionError;

use crate::{fail, script, sleep};

/// How an action ends that does nothing outside.
#[derive(Debug)]
pub struct Evaluated {
    /// How long it takes, in milliseconds.
    pub takes_ms: u64,
    /// Its output as JSON, or its error.
    pub result: Result<String, ActionError>,
}

/// Evaluates an action with its rendered parameters; nothing if it does something outside.
pub fn evaluate(action: &str, attempt: u32, parameters: &str) -> Option<Evaluated> {
    let mut takes_ms = 0;
    let result = match action {
        "core.echo" => Ok(parameters.to_owned()),
        "core.script" => read(action, parameters)
            .and_then(|parameters: script::Parameters| written(&parameters.expression)),
        "core.fail" => {
            read(action, parameters).and_then(|it| written(&fail::outcome(attempt, it)?))
        }
        "core.sleep" => read(action, parameters).and_then(|it: sleep::Parameters| {
            takes_ms = it.ms;
            written(&sleep::Output { ms: it.ms })
        }),
        _ => return None,
    };
    Some(Evaluated { takes_ms, result })
}

fn read<T: DeserializeOwned>(action: &str, parameters: &str) -> Result<T, ActionError> {
    serde_json::from_str(parameters).map_err(|error| {
        let message = format!("the parameters do not fit {action}: {error}");
        ActionError::failed("PARAMETERS_INVALID", message)
    })
}

fn written(output: &impl Serialize) -> Result<String, ActionError> {
    serde_json::to_string(output)
        .map_err(|error| ActionError::failed("OUTPUT_NOT_JSON", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn the_result_follows_from_parameters_and_attempt() {
        let output = |action, attempt, parameters| {
            let evaluated = evaluate(action, attempt, parameters).expect("it is known");
            (evaluated.takes_ms, evaluated.result.map_err(|it| it.code))
        };
        assert_eq!(
            output("core.script", 1, r#"{"expression":[1,2]}"#),
            (0, Ok("[1,2]".to_owned()))
        );
        assert_eq!(
            output("core.sleep", 1, r#"{"ms":50}"#),
            (50, Ok(r#"{"ms":50}"#.to_owned()))
        );
        let until = r#"{"code":"NO","untilAttempt":2}"#;
        assert_eq!(output("core.fail", 1, until), (0, Err("NO".into())));
        assert_eq!(
            output("core.fail", 2, until),
            (0, Ok(r#"{"attempt":2}"#.to_owned()))
        );
        assert!(evaluate("http.request", 1, "{}").is_none());
    }
}
