//! What expressions see (semantics §6): references resolved to values.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use windlass_expr::{Document, DocumentError, DocumentReader, Error, Reference};

use super::frame::{FrameKey, Instance};
use super::{Facts, Run};
use crate::id::{Digest, DigestMap, Millis};
use crate::plan::Structure;
use crate::status::NodeStatus;
use crate::value::{Stored, ValueRef, object_text};

/// Values by digest: those that `wants` names.
pub type Values = DigestMap<Loaded>;

/// A value's JSON text, parsed when an expression first names it.
#[derive(Clone, Debug)]
pub struct Loaded {
    text: Arc<str>,
    document: Arc<OnceLock<Document>>,
}

impl Loaded {
    /// Wraps JSON text.
    pub fn new(text: Arc<str>) -> Self {
        Self {
            text,
            document: Arc::default(),
        }
    }

    /// The text as it is stored.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The value as expressions read it, read now unless it was read before. `keep` says
    /// whether a document of so many bytes of tables is kept.
    pub(crate) fn document(
        &self,
        reader: &mut DocumentReader<'_>,
        keep: impl FnOnce(usize) -> bool,
    ) -> Result<Document, Error> {
        if let Some(document) = self.document.get() {
            reader.count(document)?;
            return Ok(document.clone());
        }
        let document = read(reader, &self.text)?;
        if keep(document.table_bytes()) {
            return Ok(self.document.get_or_init(|| document).clone());
        }
        Ok(document)
    }
}

/// Reads a text; a text that is not JSON counts as `null`.
pub(crate) fn read(reader: &mut DocumentReader<'_>, text: &Arc<str>) -> Result<Document, Error> {
    match reader.read(Arc::clone(text)) {
        Err(DocumentError::Syntax(_)) => Ok(Document::null()),
        read => Ok(read?),
    }
}

/// Reads an object made of texts; a member that is not JSON counts as `null`.
pub(crate) fn read_object<'t>(
    reader: &mut DocumentReader<'_>,
    members: impl Iterator<Item = (&'t str, &'t str)> + Clone,
) -> Result<Document, Error> {
    match reader.read(object_text(members.clone()).into()) {
        Err(DocumentError::Syntax(_)) => {
            let checked = members.map(|(name, text)| {
                let is_json = windlass_expr::check_syntax(text).is_ok();
                (name, if is_json { text } else { "null" })
            });
            read(reader, &object_text(checked).into())
        }
        read => Ok(read?),
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
pub(crate) struct EvaluationSite<'a> {
    pub(crate) now: Millis,
    /// The scope whose nodes it may name first.
    pub(crate) frame: FrameKey,
    /// The node whose edges, variables or parameters are evaluated.
    pub(crate) node: Option<Instance>,
    /// The node's output, where the scope has one.
    pub(crate) output: Option<&'a Loaded>,
    /// The node's error, where the scope has one.
    pub(crate) error: Option<&'a Loaded>,
    /// The loop whose own condition it is: `iteration` and `last` are that loop's.
    pub(crate) cycle: Option<Instance>,
}

impl EvaluationSite<'_> {
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
            // A `while` condition sees the next iteration, a `retryUntil` the one that ended.
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
                // An iteration that is being undone need not be the last one.
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
    pub(crate) fn require<'a>(
        &self,
        key: FrameKey,
        cycle: Option<Instance>,
        references: impl IntoIterator<Item = &'a Reference>,
        required: &mut Vec<ValueRef>,
    ) {
        for reference in references {
            match reference {
                Reference::Entry { table, key: id } if &**table == "context.data" => {
                    required.extend(self.named(key, id).and_then(|node| self.value(node)));
                }
                Reference::Value(name) if matches!(&**name, "trigger" | "$") => {
                    required.extend(self.trigger.blob());
                }
                Reference::Value(name) if &**name == "vars" => {
                    required.extend(self.vars.values().filter_map(Held::blob));
                }
                Reference::Value(name) => {
                    if let Some(BodyValue::Item(value, _) | BodyValue::Stored(value)) =
                        self.body_value(key, cycle, name)
                    {
                        required.push(value);
                    }
                }
                Reference::Entry { .. } => {}
            }
        }
    }

    /// Resolves references, one input slot each.
    pub(crate) fn inputs(
        &self,
        references: &[Reference],
        place: &EvaluationSite<'_>,
        facts: &Facts<'_>,
    ) -> Result<Inputs, Error> {
        let mut resolver = Resolver {
            run: self,
            place,
            facts,
            reader: facts.evaluations.reader(),
        };
        let slots = references.iter();
        let slots = slots.map(|reference| resolver.input(reference));
        Ok(Inputs {
            slots: slots.collect::<Result<_, _>>()?,
        })
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

/// Finds what the references of one evaluation stand for.
struct Resolver<'r> {
    run: &'r Run,
    place: &'r EvaluationSite<'r>,
    facts: &'r Facts<'r>,
    reader: DocumentReader<'r>,
}

impl Resolver<'_> {
    fn input(&mut self, reference: &Reference) -> Result<Option<Document>, Error> {
        let (run, place, values) = (self.run, self.place, self.facts.values);
        let name = match reference {
            Reference::Entry { table, key } if &**table == "context.data" => {
                return match run.named(place.frame, key) {
                    Some(node) => self.data(node),
                    None => Ok(None),
                };
            }
            Reference::Entry { .. } => return Ok(None),
            Reference::Value(name) => name,
        };
        match &**name {
            "trigger" | "$" => self.loaded(run.trigger.loaded(values).as_ref()),
            "vars" => self.vars().map(Some),
            "run" => self.own(&run.run_value(place.node)),
            "now" => self.own(&Value::String(place.now.to_string())),
            "uuid" => self.own(&Value::String(run.uuid(place.node))),
            "output" => self.loaded(place.output),
            "error" => self.loaded(place.error),
            name => match run.body_value(place.frame, place.cycle, name) {
                None => Ok(None),
                Some(BodyValue::Number(number)) => self.own(&number.into()),
                Some(BodyValue::Null) => self.own(&Value::Null),
                Some(BodyValue::Stored(value)) => self.loaded(values.get(&value.digest)),
                Some(BodyValue::Item(list, index)) => {
                    let list = self.loaded(values.get(&list.digest))?;
                    Ok(list.and_then(|list| list.item(index as usize)))
                }
            },
        }
    }

    fn loaded(&mut self, value: Option<&Loaded>) -> Result<Option<Document>, Error> {
        let evaluations = self.facts.evaluations;
        let read =
            |value: &Loaded| value.document(&mut self.reader, |bytes| evaluations.keeps(bytes));
        value.map(read).transpose()
    }

    fn own(&mut self, value: &Value) -> Result<Option<Document>, Error> {
        read(&mut self.reader, &value.to_string().into()).map(Some)
    }

    /// A node's output, or `{error, errorNode}` of a failed one.
    fn data(&mut self, node: Instance) -> Result<Option<Document>, Error> {
        let value = self.run.value(node);
        let value = value.and_then(|value| self.facts.values.get(&value.digest));
        let Some(value) = value else {
            return Ok(None);
        };
        if self.run.node_status(node) != NodeStatus::Failed {
            return self.loaded(Some(value));
        }
        let node = Value::from(self.run.id_of(node)).to_string();
        let members = [("error", &**value.text()), ("errorNode", &node)];
        read_object(&mut self.reader, members.into_iter()).map(Some)
    }

    /// The run's variables as one object, which is built once for a decision.
    fn vars(&mut self) -> Result<Document, Error> {
        if let Some(vars) = self.facts.evaluations.vars() {
            self.reader.count(vars)?;
            return Ok(vars.clone());
        }
        let held = self.run.vars.iter();
        let loaded = held.filter_map(|(name, held)| Some((name, held.loaded(self.facts.values)?)));
        let loaded: Vec<_> = loaded.collect();
        let members = loaded.iter();
        let members = members.map(|(name, loaded)| (&***name, &**loaded.text()));
        let vars = read_object(&mut self.reader, members)?;
        self.facts.evaluations.keep_vars(&vars);
        Ok(vars)
    }
}

/// Resolved references.
pub(crate) struct Inputs {
    slots: Vec<Option<Document>>,
}

impl Inputs {
    /// The slots as the evaluator takes them.
    pub(crate) fn as_slots(&self) -> Vec<Option<&Document>> {
        self.slots.iter().map(Option::as_ref).collect()
    }
}

#[cfg(test)]
mod tests {
    use windlass_expr::{Expression, ExpressionLimits, Interrupt, Scope};

    use super::*;

    fn shown(document: &Document) -> String {
        let scope = Scope::new(&["vars"], &[]);
        let expression = Expression::compile("vars", &scope, &ExpressionLimits::default());
        let expression = expression.expect("it compiles");
        let value = expression.evaluate(&[Some(document)], &ExpressionLimits::default());
        let value = value.expect("a value").to_json();
        value.expect("JSON").to_string()
    }

    #[test]
    fn a_member_that_no_expression_can_read_is_null_and_the_others_are_not() {
        let mut reader = DocumentReader::new(None);
        let members = [
            ("a\"", "[1]"),
            ("b", r#""\ud800""#),
            ("c", "1e999"),
            ("d", "2"),
        ];
        let object = read_object(&mut reader, members.into_iter()).expect("an object");
        assert_eq!(shown(&object), r#"{"a\"":[1],"b":null,"c":null,"d":2}"#);
    }

    #[test]
    fn a_value_is_read_once_where_it_is_kept_and_reading_it_can_be_interrupted() {
        let loaded = Loaded::new("[1,2]".into());
        let stopped = Interrupt::new();
        stopped.interrupt();
        let error = loaded.document(&mut DocumentReader::new(Some(&stopped)), |_| true);
        assert!(error.is_err_and(|error| error.is_interrupted()));
        let mut reader = DocumentReader::new(None);
        loaded.document(&mut reader, |_| false).expect("read");
        assert!(loaded.document.get().is_none());
        loaded.document(&mut reader, |_| true).expect("read");
        // It is not read again, so nothing stops it.
        let again = loaded.document(&mut DocumentReader::new(Some(&stopped)), |_| false);
        assert_eq!(shown(&again.expect("kept")), "[1,2]");
    }
}
