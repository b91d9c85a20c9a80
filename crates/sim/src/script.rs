//! What actions do where a script says so and it is not drawn: a user's definition is simulated
//! with outcomes, delays and outputs by node. No action is called: those that do nothing outside
//! are evaluated, and others echo their parameters unless their output is given.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::run::{Dispatch, Failure, Held, Outcome, ValueSource};
use windlass_core::value::{Payload, ValueRef, object_text};
use windlass_expr::{Document, ExpressionLimits};

use crate::random::Random;
use crate::store::SimStore;
use crate::worker::PlannedExecution;

/// The error code of a failure that was asked for without one.
pub const SIMULATED: &str = "SIMULATED";

/// How a node behaves.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// How often it fails, from 0 to 1; for a wait, how often its signal is not sent.
    pub fail: f64,
    /// With which error.
    pub code: Option<Box<str>>,
    /// How long it takes, in milliseconds; for a wait, when its signal comes.
    pub delay: (u64, u64),
    /// What it returns; otherwise its parameters.
    pub output: Option<Arc<str>>,
}

/// What an action does of which no behaviour is told.
#[derive(Debug)]
pub struct Evaluated {
    /// How long it takes, in milliseconds.
    pub takes_ms: u64,
    /// Its output as JSON, or its error.
    pub result: Result<Arc<str>, Failure>,
}

/// Says what an action does, by its name, attempt and rendered parameters; nothing if that is
/// not known.
pub type Evaluate = fn(&str, u32, &str) -> Option<Evaluated>;

/// How everything behaves.
#[derive(Clone, Debug, Default)]
pub struct BehaviourScript {
    /// What actions do that behave as their parameters say.
    pub evaluate: Option<Evaluate>,
    /// By the node's path in the definition, `loop/node`.
    pub nodes: BTreeMap<String, Behaviour>,
    /// Every other node.
    pub others: Behaviour,
    /// The signals that are sent when a node waits for them, and their payloads.
    pub signals: BTreeMap<Box<str>, Arc<str>>,
}

impl BehaviourScript {
    /// How the node of an instance behaves: paths are given without iterations.
    pub fn behaviour(&self, path: &str) -> &Behaviour {
        self.nodes
            .get(&without_iterations(path))
            .unwrap_or(&self.others)
    }

    /// Plays one execution of the node with this path.
    pub(crate) fn play(
        &self,
        random: &mut Random,
        path: &str,
        dispatch: &Dispatch,
        store: &SimStore,
    ) -> PlannedExecution {
        let rendered = render(dispatch, store);
        let parameters = rendered.as_ref().ok().cloned().flatten();
        let behaviour = self.behaviour(path);
        // What is told of a node is not told of its compensation.
        let told = !dispatch.undo;
        let evaluated = self.evaluated(behaviour, dispatch, parameters.as_ref());
        let (low, high) = match (told, &evaluated) {
            (true, _) if behaviour.delay != (0, 0) => behaviour.delay,
            (_, Some(evaluated)) => (evaluated.takes_ms, evaluated.takes_ms),
            _ => (0, 0),
        };
        let takes = random.between(low, high);
        let fails = random.fraction() < behaviour.fail;
        let (takes, outcome) = match rendered {
            Err(failure) => (0, Outcome::Failed(failure)),
            Ok(_) if takes >= dispatch.timeout_ms => {
                let message = "the attempt took longer than its timeout";
                (dispatch.timeout_ms, retriable("TIMEOUT", message))
            }
            Ok(_) if fails && told => {
                let code = behaviour.code.as_deref().unwrap_or(SIMULATED);
                (takes, retriable(code, "as simulated"))
            }
            Ok(parameters) => {
                let output = behaviour.output.as_ref().filter(|_| told);
                let outcome = match (output, evaluated.map(|it| it.result)) {
                    (Some(text), _) => Outcome::Succeeded(Payload::new(text.clone())),
                    (None, Some(Ok(text))) => Outcome::Succeeded(Payload::new(text)),
                    (None, Some(Err(failure))) => Outcome::Failed(failure),
                    (None, None) => Outcome::Succeeded(parameters.unwrap_or_else(Payload::null)),
                };
                (takes, outcome)
            }
        };
        PlannedExecution {
            takes,
            outcome,
            stops_after: Some(0),
            parameters,
        }
    }
}

impl BehaviourScript {
    /// What the action does by itself, unless its output is told.
    fn evaluated(
        &self,
        behaviour: &Behaviour,
        dispatch: &Dispatch,
        parameters: Option<&Payload>,
    ) -> Option<Evaluated> {
        if behaviour.output.is_some() && !dispatch.undo {
            return None;
        }
        let parameters = parameters.map_or("{}", |parameters| parameters.text());
        self.evaluate?(&dispatch.action, dispatch.attempt, parameters)
    }
}

fn retriable(code: &str, message: &str) -> Outcome {
    Outcome::Failed(Failure {
        retriable: true,
        ..Failure::permanent(code, message)
    })
}

/// A path without the numbers of iterations: `loop[3]/node` is `loop/node`.
pub fn without_iterations(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut inside = false;
    for letter in path.chars() {
        match letter {
            '[' => inside = true,
            ']' => inside = false,
            letter if !inside => plain.push(letter),
            _ => {}
        }
    }
    plain
}

/// The parameters, if the node has any. The simulation has no secrets: a secret's name stands
/// in for its value.
fn render(dispatch: &Dispatch, store: &SimStore) -> Result<Option<Payload>, Failure> {
    if let Some(reason) = &dispatch.broken {
        return Err(Failure::permanent("PARAMETERS_INVALID", reason.as_str()));
    }
    let Some(template) = &dispatch.parameters else {
        return Ok(None);
    };
    let inputs: Vec<Option<Document>> = dispatch
        .sources
        .iter()
        .map(|source| resolve(dispatch, source, store))
        .collect();
    let slots: Vec<Option<&Document>> = inputs.iter().map(Option::as_ref).collect();
    let rendered = template.render(&slots, &ExpressionLimits::default());
    rendered
        .map(|text| Some(Payload::new(text)))
        .map_err(|error| Failure::permanent(error.code, format!("parameters: {}", error.message)))
}

fn resolve(dispatch: &Dispatch, source: &ValueSource, store: &SimStore) -> Option<Document> {
    let stored = |value: &ValueRef| store.value(dispatch.run, value);
    match source {
        ValueSource::Undefined => None,
        ValueSource::Text(text) => Document::parse(&**text).ok(),
        ValueSource::Stored(value) => Document::parse(stored(value)?).ok(),
        ValueSource::Item(list, index) => {
            let list = Document::parse(stored(list)?).ok()?;
            list.item(*index as usize)
        }
        ValueSource::Error { value, node } => {
            let (error, node) = (stored(value)?, Value::from(&**node).to_string());
            let members = [("error", &*error), ("errorNode", &*node)];
            Document::parse(object_text(members)).ok()
        }
        ValueSource::Vars(vars) => {
            let text = |held: &Held| held.text().cloned().or_else(|| stored(&held.blob()?));
            let members = vars.iter();
            let members = members.filter_map(|(name, held)| Some((name, text(held)?)));
            let members: Vec<_> = members.collect();
            let members = members.iter().map(|(name, text)| (&***name, &**text));
            Document::parse(object_text(members)).ok()
        }
        ValueSource::Secret(name) => Some(Document::from(Value::from(format!("secret {name}")))),
    }
}
