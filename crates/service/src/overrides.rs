//! `--set`: changes to the trigger, the variables or a node's parameters before a run
//! starts. A value is JSON if it reads as JSON, else text.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use windlass_core::definition::{Body, Definition, JsonText, Node};
use windlass_core::plan::{AmbiguousName, Plan};
use windlass_engine::{StartError, canonical};

use crate::failure::{Failure, FailureKind};

/// What can be set, for messages.
const POSSIBLE: &str =
    "set trigger.PATH=VALUE, vars.NAME=VALUE or nodes.NODE.parameters.PATH=VALUE";

/// One change: where, and to what.
#[derive(Debug)]
struct Change {
    /// As it was written, for messages.
    key: String,
    path: Vec<String>,
    value: Value,
}

/// The changes that a command line asks for.
#[derive(Debug, Default)]
pub struct Overrides {
    trigger: Vec<Change>,
    vars: Vec<Change>,
    nodes: Vec<(String, Change)>,
}

impl Overrides {
    /// Reads `key=value` arguments.
    pub fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut overrides = Self::default();
        for argument in arguments {
            let (key, value) = argument
                .split_once('=')
                .ok_or_else(|| usage(format!("--set {argument}: there is no '='")))?;
            let value =
                serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            overrides.add(key, value)?;
        }
        Ok(overrides)
    }

    fn add(&mut self, key: &str, value: Value) -> Result<(), Failure> {
        let parts: Vec<&str> = key.split('.').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(usage(format!("--set {key}: the path has an empty part")));
        }
        let change = |path: &[&str]| Change {
            key: key.to_owned(),
            path: path.iter().map(|&part| part.to_owned()).collect(),
            value: value.clone(),
        };
        match parts.as_slice() {
            ["trigger", path @ ..] if !path.is_empty() => self.trigger.push(change(path)),
            ["vars", path @ ..] if !path.is_empty() => self.vars.push(change(path)),
            ["nodes", node, "parameters", path @ ..] if !path.is_empty() => {
                self.nodes.push(((*node).to_owned(), change(path)));
            }
            _ => return Err(usage(format!("--set {key}: there is no such thing to set"))),
        }
        Ok(())
    }

    /// Whether the trigger changes.
    pub fn changes_trigger(&self) -> bool {
        !self.trigger.is_empty()
    }

    /// Whether the definition itself changes.
    pub fn changes_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Refuses changes of nodes whose results are reused: they would change nothing, silently.
    ///
    /// # Errors
    /// The first such change.
    pub fn refuse_reused(&self, plan: &Plan, reused: &[Box<str>]) -> Result<(), Failure> {
        for (name, change) in &self.nodes {
            let path = plan.named_path(name)?;
            let node = path.split(['[', '/']).next().unwrap_or(&path);
            if reused.iter().any(|it| **it == *node) {
                let message = format!("--set {}: the result of '{node}' is reused", change.key);
                return Err(usage(message).hint(format!("let it run again with --from {node}")));
            }
        }
        Ok(())
    }

    /// Changes the trigger's JSON text.
    pub fn apply_to_trigger(&self, text: String) -> Result<String, Failure> {
        if self.trigger.is_empty() {
            return Ok(text);
        }
        let mut trigger: Value = serde_json::from_str(&text).map_err(|error| {
            let message = format!("the trigger is not JSON: {error}");
            Failure::new(FailureKind::TriggerNotJson, message)
        })?;
        // Writing the trigger anew would drop one of two equal keys, so a repeated key is
        // refused first.
        canonical(&text).map_err(StartError::TriggerRepeatsKey)?;
        for change in &self.trigger {
            change.apply(&mut trigger)?;
        }
        Ok(trigger.to_string())
    }

    /// The variables that differ from the definition's. Only declared ones can be set:
    /// a misspelt name would otherwise change nothing, silently.
    pub fn vars(&self, plan: &Plan) -> Result<BTreeMap<Box<str>, JsonText>, Failure> {
        self.vars_of(plan.vars())
    }

    /// The variables that differ from these.
    pub fn vars_of(
        &self,
        known: &BTreeMap<Box<str>, JsonText>,
    ) -> Result<BTreeMap<Box<str>, JsonText>, Failure> {
        let mut values: BTreeMap<&str, Value> = BTreeMap::new();
        for change in &self.vars {
            let name = change.path[0].as_str();
            let declared = known.get(name).ok_or_else(|| {
                let known: Vec<&str> = known.keys().map(|name| &**name).collect();
                let known = match known.as_slice() {
                    [] => "it declares none".to_owned(),
                    names => format!("it declares {}", names.join(", ")),
                };
                let key = &change.key;
                let message = format!("--set {key}: the definition declares no such variable");
                Failure::new(FailureKind::Usage, message).hint(known)
            })?;
            let value = values
                .entry(name)
                .or_insert_with(|| serde_json::from_str(declared.get()).unwrap_or(Value::Null));
            change.apply_below(1, value)?;
        }
        let raw = |(name, value): (&str, Value)| Some((name.into(), to_raw(&value)?));
        Ok(values.into_iter().filter_map(raw).collect())
    }

    /// Changes the parameters of nodes.
    pub fn apply_to_nodes(&self, definition: &mut Definition) -> Result<(), Failure> {
        for (id, change) in &self.nodes {
            let ids = definition.nodes.iter().map(|node| &*node.id);
            let hint = nearest(id, ids).unwrap_or_else(|| POSSIBLE.to_owned());
            let path = named(&definition.nodes, id)?;
            let Some(node) = find_node(&mut definition.nodes, &path) else {
                let message = format!("--set {}: there is no node '{id}'", change.key);
                return Err(usage(message).hint(hint));
            };
            let text = node.parameters.as_ref().map_or("{}", |raw| raw.get());
            let mut parameters = serde_json::from_str(text).unwrap_or(Value::Object(Map::new()));
            change.apply(&mut parameters)?;
            node.parameters = to_raw(&parameters);
        }
        Ok(())
    }
}

impl Change {
    fn apply(&self, root: &mut Value) -> Result<(), Failure> {
        self.apply_below(0, root)
    }

    /// Sets the value under all but the first `skip` parts of the path.
    fn apply_below(&self, skip: usize, root: &mut Value) -> Result<(), Failure> {
        let mut place = root;
        for part in &self.path[skip..] {
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            place = match place {
                Value::Object(object) => object.entry(part.as_str()).or_insert(Value::Null),
                Value::Array(items) => {
                    let count = items.len();
                    let index: Option<usize> = part.parse().ok();
                    index
                        .and_then(|index| items.get_mut(index))
                        .ok_or_else(|| {
                            let key = &self.key;
                            usage(format!(
                                "--set {key}: '{part}' is no index of a list of {count}"
                            ))
                        })?
                }
                _ => {
                    let key = &self.key;
                    return Err(usage(format!(
                        "--set {key}: '{part}' would stand inside a value that is no object"
                    )));
                }
            };
        }
        *place = self.value.clone();
        Ok(())
    }
}

/// The path that a text means: each part is an id or, where no node of that scope has such an
/// id, a name that one node alone has.
fn named(nodes: &[Node], text: &str) -> Result<String, Failure> {
    let (part, inner) = match text.split_once('/') {
        Some((part, inner)) => (part, Some(inner)),
        None => (text, None),
    };
    let by_id = nodes.iter().find(|node| *node.id == *part);
    let has_name = |node: &&Node| node.name.as_deref() == Some(part);
    let by_name: Vec<&Node> = nodes.iter().filter(has_name).collect();
    let node = match (by_id, by_name.as_slice()) {
        (Some(node), _) | (None, &[node]) => node,
        (None, []) => return Ok(text.to_owned()),
        (None, several) => {
            return Err(Failure::from(AmbiguousName {
                name: part.into(),
                nodes: several.iter().map(|node| node.id.to_string()).collect(),
            }));
        }
    };
    match inner {
        Some(inner) => {
            let inside = body(node).map_or(&[][..], |body| &body.nodes);
            Ok(format!("{}/{}", node.id, named(inside, inner)?))
        }
        None => Ok(node.id.to_string()),
    }
}

fn body(node: &Node) -> Option<&Body> {
    let each = node.for_each.as_ref().map(|it| &it.body);
    let round = node.while_loop.as_ref().map(|it| &it.body);
    let until = node.retry_until.as_ref().map(|it| &it.body);
    each.or(round).or(until)
}

/// The node with this path: its id, or those of the loops around it before it, with
/// slashes.
fn find_node<'a>(nodes: &'a mut [Node], path: &str) -> Option<&'a mut Node> {
    let (id, inner) = match path.split_once('/') {
        Some((id, inner)) => (id, Some(inner)),
        None => (path, None),
    };
    let node = nodes.iter_mut().find(|node| *node.id == *id)?;
    let Some(inner) = inner else {
        return Some(node);
    };
    let each = node.for_each.as_mut().map(|it| &mut it.body);
    let round = node.while_loop.as_mut().map(|it| &mut it.body);
    let until = node.retry_until.as_mut().map(|it| &mut it.body);
    let body = each.or(round).or(until)?;
    find_node(&mut body.nodes, inner)
}

/// The sentence that suggests the nearest of these names, if one is near.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    known
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| format!("did you mean '{candidate}'?"))
}

fn to_raw(value: &Value) -> Option<JsonText> {
    RawValue::from_string(value.to_string()).ok()
}

fn usage(message: String) -> Failure {
    Failure::new(FailureKind::Usage, message).hint(POSSIBLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(before: &str, sets: &[&str]) -> Result<String, String> {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        Overrides::parse(&sets)
            .and_then(|overrides| overrides.apply_to_trigger(before.to_owned()))
            .map_err(|failure| failure.message)
    }

    #[test]
    fn values_are_json_or_text() {
        assert_eq!(
            trigger(
                "{}",
                &["trigger.a=1", "trigger.b=x y", "trigger.c.d=[true]"]
            ),
            Ok(r#"{"a":1,"b":"x y","c":{"d":[true]}}"#.to_owned())
        );
    }

    #[test]
    fn paths_lead_through_lists() {
        assert_eq!(
            trigger(r#"{"a":[1,{"b":2}]}"#, &["trigger.a.1.b=3"]),
            Ok(r#"{"a":[1,{"b":3}]}"#.to_owned())
        );
        assert!(trigger(r#"{"a":[1]}"#, &["trigger.a.7=3"]).is_err());
        assert!(trigger(r#"{"a":1}"#, &["trigger.a.b=3"]).is_err());
    }

    #[test]
    fn what_cannot_be_set_is_named() {
        for wrong in [
            "trigger=1",
            "x.y=1",
            "nodes.a.name=1",
            "vars=2",
            "trigger..a=1",
            "novalue",
        ] {
            let sets = [wrong.to_owned()];
            let failure = Overrides::parse(&sets).expect_err(wrong);
            assert_eq!(failure.kind, FailureKind::Usage);
            assert_eq!(failure.hint.as_deref(), Some(POSSIBLE));
        }
    }
}
