//! What expressions see (semantics §6): references resolved to values.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use windlass_expr::Reference;

use super::frame::{FrameKey, Instance};
use super::{Facts, Run};
use crate::id::{Digest, DigestMap, Millis};
use crate::plan::Structure;
use crate::status::NodeStatus;
use crate::value::{Stored, ValueRef};

/// Values by digest: what `wants` asked for.
pub type Values = DigestMap<Loaded>;

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

    /// The bytes of the JSON text.
    pub(crate) fn size(&self) -> u64 {
        let text = self.text().map(|text| text.len() as u64);
        let blob = || self.blob.map(|blob| u64::from(blob.size));
        text.or_else(blob).unwrap_or(0)
    }

    fn loaded(&self, values: &Values) -> Option<Loaded> {
        let blob = || values.get(&self.blob?.digest);
        self.inline.as_ref().or_else(blob).cloned()
    }
}

/// Where an expression stands: the parts of the scope that differ from place to place.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) now: Millis,
    /// The scope whose nodes it may name first.
    pub(crate) frame: FrameKey,
    /// The node whose edges, variables or parameters are evaluated.
    pub(crate) node: Option<Instance>,
    /// The node's output, where the scope has one.
    pub(crate) output: Option<&'a Value>,
    /// The node's error, where the scope has one.
    pub(crate) error: Option<&'a Value>,
    /// The loop whose own condition it is: `iteration` and `last` are that loop's.
    pub(crate) cycle: Option<Instance>,
}

impl Place<'_> {
    /// A node's own place, in the scope it stands in.
    pub(crate) fn of(run: &Run, node: Instance, now: Millis) -> Self {
        Self {
            now,
            frame: run.key_of(node),
            node: Some(node),
            output: None,
            error: None,
            cycle: None,
        }
    }

    /// A scope's place, where no node is meant.
    pub(crate) fn at(frame: FrameKey, now: Millis) -> Self {
        Self {
            now,
            frame,
            node: None,
            output: None,
            error: None,
            cycle: None,
        }
    }
}

/// What a name of a body stands for.
pub(crate) enum BodyValue {
    /// An item of a stored list.
    Item(ValueRef, u32),
    Number(u32),
    Stored(ValueRef),
    Null,
}

impl Run {
    /// The instance that a name means in a scope: inner ids shadow outer ones.
    pub(crate) fn named(&self, key: FrameKey, id: &str) -> Option<Instance> {
        let frame = self.frame(key);
        match frame.plan.find(frame.graph, id) {
            Some(node) => Some(frame.instance(node)),
            None => self.named(self.key_of(frame.owner?.node), id),
        }
    }

    /// What `item`, `index`, `iteration`, `last` or a loop's own name for its item mean.
    pub(crate) fn body_value(
        &self,
        key: FrameKey,
        cycle: Option<Instance>,
        name: &str,
    ) -> Option<BodyValue> {
        if let Some(cycle) = cycle.filter(|_| matches!(name, "iteration" | "last")) {
            let state = self.loops.get(&cycle);
            // Before an iteration it is the one to come, after one the one that ended.
            let is_after = matches!(self.structure(cycle), Some(Structure::RetryUntil(_)));
            let count = state.map_or(0, |cycle| cycle.next);
            return Some(match (name, state) {
                ("iteration", _) => BodyValue::Number(count - u32::from(is_after && count > 0)),
                (_, Some(cycle)) => cycle
                    .last_output()
                    .map_or(BodyValue::Null, BodyValue::Stored),
                (_, None) => BodyValue::Null,
            });
        }
        let owner = self.frame(key).owner?;
        let outer = self.key_of(owner.node);
        let cycle = self.loops.get(&owner.node)?;
        let (plan, index) = self.plan_node(owner.node);
        let each = match plan.structure(index) {
            Some(Structure::ForEach(each)) => Some(each),
            _ => None,
        };
        match (name, each) {
            ("iteration", _) | ("index", Some(_)) => Some(BodyValue::Number(owner.iteration)),
            ("last", None) => {
                // One that is being undone may be an earlier one.
                let is_last = owner.iteration + 1 == cycle.next;
                let previous = match is_last {
                    true => cycle.previous,
                    false => self.frame(key).previous,
                };
                Some(previous.map_or(BodyValue::Null, BodyValue::Stored))
            }
            (name, Some(each)) if name == "item" || each.item_name.as_deref() == Some(name) => {
                Some(BodyValue::Item(cycle.items?, owner.iteration))
            }
            ("index", None) => {
                let outer = self.body_value(outer, None, name);
                Some(outer.unwrap_or(BodyValue::Number(owner.iteration)))
            }
            ("last", Some(_)) => {
                let outer = self.body_value(outer, None, name);
                Some(outer.unwrap_or(BodyValue::Null))
            }
            _ => self.body_value(outer, None, name),
        }
    }

    /// Whether a value is worth keeping at hand while its loop is open.
    pub fn is_pinned(&self, digest: &Digest) -> bool {
        let mut lists = self.loops.iter().filter(|(_, cycle)| cycle.running > 0);
        lists.any(|(_, cycle)| cycle.items.is_some_and(|items| items.digest == *digest))
    }

    /// Adds the stored values that these references need at a place.
    pub(crate) fn want<'a>(
        &self,
        key: FrameKey,
        cycle: Option<Instance>,
        references: impl IntoIterator<Item = &'a Reference>,
        wants: &mut Vec<ValueRef>,
    ) {
        for reference in references {
            match reference {
                Reference::Entry { table, key: id } if &**table == "context.data" => {
                    wants.extend(self.named(key, id).and_then(|node| self.value(node)));
                }
                Reference::Value(name) if matches!(&**name, "trigger" | "$") => {
                    wants.extend(self.trigger.blob());
                }
                Reference::Value(name) if &**name == "vars" => {
                    wants.extend(self.vars.values().filter_map(Held::blob));
                }
                Reference::Value(name) => {
                    if let Some(BodyValue::Item(value, _) | BodyValue::Stored(value)) =
                        self.body_value(key, cycle, name)
                    {
                        wants.push(value);
                    }
                }
                Reference::Entry { .. } => {}
            }
        }
    }

    /// Resolves references, one input slot each.
    pub(crate) fn inputs<'a>(
        &self,
        references: &[Reference],
        place: &Place<'a>,
        facts: &Facts<'a>,
    ) -> Inputs<'a> {
        let slots = references
            .iter()
            .map(|reference| self.input(reference, place, facts));
        Inputs {
            slots: slots.collect(),
        }
    }

    fn input<'a>(
        &self,
        reference: &Reference,
        place: &Place<'a>,
        facts: &Facts<'a>,
    ) -> Option<Slot<'a>> {
        let values = facts.values;
        match reference {
            Reference::Entry { table, key } if &**table == "context.data" => {
                self.data(self.named(place.frame, key)?, values)
            }
            Reference::Entry { .. } => None,
            Reference::Value(name) => match &**name {
                "trigger" | "$" => self.trigger.loaded(values).map(Slot::Shared),
                "vars" => {
                    let vars = facts.evaluations.vars(|| self.vars_value(values));
                    Some(Slot::Borrowed(vars))
                }
                "run" => Some(Slot::Own(self.run_value(place.node))),
                "now" => Some(Slot::Own(Value::String(place.now.to_string()))),
                "uuid" => Some(Slot::Own(Value::String(self.uuid(place.node)))),
                "output" => place.output.map(Slot::Borrowed),
                "error" => place.error.map(Slot::Borrowed),
                name => match self.body_value(place.frame, place.cycle, name)? {
                    BodyValue::Number(number) => Some(Slot::Own(number.into())),
                    BodyValue::Null => Some(Slot::Own(Value::Null)),
                    BodyValue::Stored(value) => {
                        values.get(&value.digest).cloned().map(Slot::Shared)
                    }
                    BodyValue::Item(list, index) => {
                        let list = values.get(&list.digest)?.value();
                        list.get(index as usize).map(Slot::Borrowed)
                    }
                },
            },
        }
    }

    /// A node's output, or `{error, errorNode}` of a failed one.
    fn data<'a>(&self, node: Instance, values: &Values) -> Option<Slot<'a>> {
        let value = values.get(&self.value(node)?.digest)?;
        if self.node_status(node) == NodeStatus::Failed {
            let data = json!({ "error": value.value(), "errorNode": self.id_of(node) });
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
    pub(crate) fn run_value(&self, node: Option<Instance>) -> Value {
        json!({
            "id": self.id.to_string(),
            "workflowId": &*self.queued.workflow,
            "version": self.version,
            "attempt": node.map_or(1, |node| self.attempt(node).max(1)),
        })
    }

    /// A UUID that is the same for the same idempotency key, for ever.
    pub(crate) fn uuid(&self, node: Option<Instance>) -> String {
        let key = node.map_or_else(|| self.id.to_string(), |node| self.idempotency_key(node));
        let digest = Digest::of(key.as_bytes());
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&digest.0[..16]);
        // RFC 9562, section 5.8: a custom UUID keeps the version and variant bits.
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
