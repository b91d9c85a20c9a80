//! Actions by name, with their types erased.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::Schema;
use serde_json::value::RawValue;
use windlass_core::event::ResourceLink;
use windlass_core::value::StoredFile;

use super::{Action, ActionError, Context};

/// A call under way.
pub(crate) type Call<'a> = Pin<Box<dyn Future<Output = Result<Called, ActionError>> + Send + 'a>>;

/// What a call gives: output as JSON text, or nothing if it was skipped.
pub(crate) struct Called {
    pub(crate) output: Option<String>,
    pub(crate) meta: Option<Box<RawValue>>,
    pub(crate) resources: Vec<ResourceLink>,
    pub(crate) files: Vec<StoredFile>,
}

trait Erased: Send + Sync {
    fn describe(&self) -> Description;
    fn call<'a>(&'a self, context: Context, parameters: &'a str) -> Call<'a>;
}

/// An action as `windlass actions` shows it.
#[derive(Clone, Debug)]
pub struct Description {
    /// What definitions call it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its parameters.
    pub parameters: Schema,
    /// JSON Schema of its output.
    pub output: Schema,
}

impl<A: Action> Erased for A {
    fn describe(&self) -> Description {
        Description {
            name: self.name().to_owned(),
            description: self.description().to_owned(),
            parameters: schemars::schema_for!(A::Parameters),
            output: schemars::schema_for!(A::Output),
        }
    }

    fn call<'a>(&'a self, context: Context, parameters: &'a str) -> Call<'a> {
        Box::pin(async move {
            let parameters = serde_json::from_str(parameters)
                .map_err(|error| unfit::<A>(self.name(), parameters, &error))?;
            let reply = self.run(context, parameters).await?;
            let output = match &reply.output {
                Some(output) => Some(serde_json::to_string(output).map_err(|error| {
                    let message = format!("the output is not JSON: {error}");
                    ActionError::failed("OUTPUT_NOT_JSON", message)
                })?),
                None => None,
            };
            Ok(Called {
                output,
                meta: reply.meta,
                resources: reply.resources,
                files: reply.files,
            })
        })
    }
}

/// Says which parameter does not fit. The text was rendered, so a line and column of it would
/// lead nowhere.
fn unfit<A: Action>(action: &str, parameters: &str, error: &serde_json::Error) -> ActionError {
    let mut reader = serde_json::Deserializer::from_str(parameters);
    let again = serde_path_to_error::deserialize::<_, A::Parameters>(&mut reader);
    let pointer = again.err().map(|error| pointer_of(error.path()));
    let pointer = pointer.unwrap_or_default();
    let reason = error.to_string();
    let reason = reason.rsplit_once(" at line ").map_or(&*reason, |it| it.0);
    let message = match pointer.is_empty() {
        true => format!("the parameters do not fit {action}: {reason}"),
        false => format!("the parameters do not fit {action}: {pointer}: {reason}"),
    };
    let failed = ActionError::failed("PARAMETERS_INVALID", message);
    failed.with_details(&serde_json::json!({ "pointer": pointer }))
}

/// As an RFC 6901 pointer.
fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path.iter() {
        let step = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } => key.replace('~', "~0").replace('/', "~1"),
            // A variant is no step of the document, and what follows is not known.
            Segment::Enum { .. } | Segment::Unknown => break,
        };
        pointer.push('/');
        pointer.push_str(&step);
    }
    pointer
}

/// The actions an engine knows.
#[derive(Clone, Default)]
pub struct Registry {
    actions: BTreeMap<Box<str>, Arc<dyn Erased>>,
    /// Actions that exist and are switched off, with what switches them on.
    switched_off: BTreeMap<&'static str, &'static str>,
}

impl Registry {
    /// No actions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an action; a later one of the same name replaces it.
    pub fn register(&mut self, action: impl Action) -> &mut Self {
        self.actions.insert(action.name().into(), Arc::new(action));
        self
    }

    /// Leaves out an action that exists: a node that names it fails with the remedy.
    pub fn switch_off(&mut self, name: &'static str, remedy: &'static str) -> &mut Self {
        self.actions.remove(name);
        self.switched_off.insert(name, remedy);
        self
    }

    /// What switches an action on, if it is switched off.
    pub(crate) fn remedy(&self, name: &str) -> Option<&'static str> {
        self.switched_off.get(name).copied()
    }

    /// The names of all actions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.actions.keys().map(|name| &**name)
    }

    /// Whether there is an action of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.actions.contains_key(name)
    }

    /// What all actions are and take.
    pub fn describe(&self) -> Vec<Description> {
        self.actions
            .values()
            .map(|action| action.describe())
            .collect()
    }

    /// Calls an action; `None` if there is none of that name.
    pub(crate) fn call<'a>(
        &'a self,
        name: &str,
        context: Context,
        parameters: &'a str,
    ) -> Option<Call<'a>> {
        Some(self.actions.get(name)?.call(context, parameters))
    }
}
