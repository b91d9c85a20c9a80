//! What expressions see (semantics §6): references resolved to values.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use windlass_expr::Reference;

use super::Run;
use crate::id::{Digest, Millis};
use crate::plan::NodeIndex;
use crate::status::NodeStatus;
use crate::value::{Stored, ValueRef};

/// Values by digest: what `wants` asked for.
pub type Values = BTreeMap<Digest, Loaded>;

/// A value's JSON text, parsed when an expression first names it.
#[derive(Clone, Debug)]
pub struct Loaded {
    text: Arc<str>,
    parsed: Arc<OnceLock<Value>>,
}

impl Loaded {
    /// Wraps JSON text.
    pub fn new(text: Arc<str>) -> Self {
        Self {
            text,
            parsed: Arc::default(),
        }
    }

    /// The text as it is stored.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The parsed value.
    pub fn value(&self) -> &Value {
        self.parsed
            .get_or_init(|| serde_json::from_str(&self.text).unwrap_or(Value::Null))
    }
}

/// A value that the state may hold because it stands in the log anyway: the trigger,
/// or a variable.
#[derive(Clone, Debug)]
pub struct Held {
    inline: Option<Loaded>,
    blob: Option<ValueRef>,
}

impl Held {
    /// Holds a stored value.
    pub fn new(stored: &Stored) -> Self {
        match stored {
            Stored::Inline(raw) => Self {
                inline: Some(Loaded::new(Arc::from(raw.get()))),
                blob: None,
            },
            Stored::Blob { digest, .. } => Self {
                inline: None,
                blob: Some(ValueRef::new(stored, *digest, 0)),
            },
        }
    }

    /// The JSON text, unless it is a blob.
    pub fn text(&self) -> Option<&Arc<str>> {
        self.inline.as_ref().map(Loaded::text)
    }

    /// Where the blob is, if it is one.
    pub fn blob(&self) -> Option<ValueRef> {
        self.blob
    }

    fn loaded(&self, values: &Values) -> Option<Loaded> {
        let blob = || values.get(&self.blob?.digest);
        self.inline.as_ref().or_else(blob).cloned()
    }
}

/// Where an expression stands: the parts of the scope that differ from place to place.
pub(crate) struct Place<'a> {
    pub(crate) now: Millis,
    /// The node whose edges, variables or parameters are evaluated.
    pub(crate) node: Option<NodeIndex>,
    /// The node's output, where the scope has one.
    pub(crate) output: Option<&'a Value>,
    /// The node's error, where the scope has one.
    pub(crate) error: Option<&'a Value>,
}

impl Run {
    /// Adds the stored values that these references need.
    pub(crate) fn want<'a>(
        &self,
        references: impl IntoIterator<Item = &'a Reference>,
        wants: &mut Vec<ValueRef>,
    ) {
        for reference in references {
            match reference {
                Reference::Entry { table, key } if &**table == "context.data" => {
                    wants.extend(self.plan.index(key).and_then(|node| self.value(node)));
                }
                Reference::Value(name) if matches!(&**name, "trigger" | "$") => {
                    wants.extend(self.trigger.blob());
                }
                Reference::Value(name) if &**name == "vars" => {
                    wants.extend(self.vars.values().filter_map(Held::blob));
                }
                Reference::Entry { .. } | Reference::Value(_) => {}
            }
        }
    }

    /// Resolves references, one input slot each.
    pub(crate) fn inputs<'a>(
        &self,
        references: &[Reference],
        place: &Place<'a>,
        values: &Values,
    ) -> Inputs<'a> {
        let slots = references
            .iter()
            .map(|reference| self.input(reference, place, values));
        Inputs {
            slots: slots.collect(),
        }
    }

    fn input<'a>(
        &self,
        reference: &Reference,
        place: &Place<'a>,
        values: &Values,
    ) -> Option<Slot<'a>> {
        match reference {
            Reference::Entry { table, key } if &**table == "context.data" => {
                self.data(self.plan.index(key)?, values)
            }
            Reference::Entry { .. } => None,
            Reference::Value(name) => match &**name {
                "trigger" | "$" => self.trigger.loaded(values).map(Slot::Shared),
                "vars" => Some(Slot::Own(self.vars_value(values))),
                "run" => Some(Slot::Own(self.run_value(place.node))),
                "now" => Some(Slot::Own(Value::String(place.now.to_string()))),
                "uuid" => Some(Slot::Own(Value::String(self.uuid(place.node)))),
                "output" => place.output.map(Slot::Borrowed),
                "error" => place.error.map(Slot::Borrowed),
                _ => None,
            },
        }
    }

    /// A node's output, or `{error, errorNode}` of a failed one.
    fn data<'a>(&self, node: NodeIndex, values: &Values) -> Option<Slot<'a>> {
        let value = values.get(&self.value(node)?.digest)?;
        if self.node_status(node) == NodeStatus::Failed {
            let data = json!({ "error": value.value(), "errorNode": self.plan.id(node) });
            return Some(Slot::Own(data));
        }
        Some(Slot::Shared(value.clone()))
    }

    fn vars_value(&self, values: &Values) -> Value {
        let vars: Map<String, Value> = self
            .vars
            .iter()
            .filter_map(|(name, held)| {
                Some((name.to_string(), held.loaded(values)?.value().clone()))
            })
            .collect();
        Value::Object(vars)
    }

    /// The `run` object of the scope.
    pub(crate) fn run_value(&self, node: Option<NodeIndex>) -> Value {
        json!({
            "id": self.id.to_string(),
            "workflowId": &*self.queued.workflow,
            "version": self.queued.version,
            "attempt": node.map_or(1, |node| self.attempt(node).max(1)),
        })
    }

    /// A UUID that is the same for the same idempotency key, for ever.
    pub(crate) fn uuid(&self, node: Option<NodeIndex>) -> String {
        let key = node.map_or_else(|| self.id.to_string(), |node| self.idempotency_key(node));
        let digest = Digest::of(key.as_bytes());
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&digest.0[..16]);
        // RFC 9562 §5.8: a custom UUID keeps the version and variant bits.
        uuid::Builder::from_custom_bytes(bytes)
            .into_uuid()
            .to_string()
    }
}

/// Resolved references.
pub(crate) struct Inputs<'a> {
    slots: Vec<Option<Slot<'a>>>,
}

enum Slot<'a> {
    Shared(Loaded),
    Own(Value),
    Borrowed(&'a Value),
}

impl Inputs<'_> {
    /// The slots as the evaluator takes them.
    pub(crate) fn as_slots(&self) -> Vec<Option<&Value>> {
        self.slots
            .iter()
            .map(|slot| {
                slot.as_ref().map(|slot| match slot {
                    Slot::Shared(value) => value.value(),
                    Slot::Own(value) => value,
                    Slot::Borrowed(value) => value,
                })
            })
            .collect()
    }
}
