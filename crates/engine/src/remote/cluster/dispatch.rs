//! A dispatch on the wire: the text of the template, and for each name in it the value, or the
//! digest of a blob. A worker reads no log. Values that stand in records are put in as text.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::Digest;
use windlass_core::run::{Dispatch, Held, ValueSource};
use windlass_core::value::{Stored, ValueRef, object_text};
use windlass_expr::{ExpressionLimits, Reference, Scope, Template};
use windlass_store::{Error, WorkItem};

use crate::values::ValueReader;

/// The version of what is written here. A later one would make its items require a label that
/// only processes of that version offer, so that an older worker never pulls them.
const VERSION: u32 = 1;

/// What every version has.
#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireDispatch {
    v: u32,
    workflow: Box<str>,
    version: u32,
    path: Box<str>,
    timeout_ms: u64,
    first_attempt: u32,
    correlation_id: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<WireParameters>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
    #[serde(default)]
    undo: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<Box<str>>,
}

#[derive(Serialize, Deserialize)]
struct WireParameters {
    template: String,
    values: Vec<WireValue>,
}

/// What a name in the template stands for.
#[derive(Serialize, Deserialize)]
struct WireValue {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<Box<str>>,
    name: Box<str>,
    value: WireSource,
}

/// A stored value.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct WireBlob {
    pub(super) digest: Digest,
    pub(super) size: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WireSource {
    Undefined,
    Text(Box<str>),
    Blob(WireBlob),
    Error { value: WireBlob, node: Box<str> },
    Item { list: WireBlob, index: u32 },
    Vars(Vec<(Box<str>, Stored)>),
    Secret(Box<str>),
}

impl From<ValueRef> for WireBlob {
    fn from(value: ValueRef) -> Self {
        let ValueRef { digest, size, .. } = value;
        Self { digest, size }
    }
}

impl From<WireBlob> for ValueRef {
    fn from(WireBlob { digest, size }: WireBlob) -> Self {
        let record = 0;
        Self {
            digest,
            size,
            record,
        }
    }
}

/// The bytes of an item; reads what stands in the run's records.
pub(super) async fn encode(dispatch: &Dispatch, values: &ValueReader) -> Result<Vec<u8>, Error> {
    let parameters = match &dispatch.parameters {
        None => None,
        Some(template) => {
            let named = template.references().iter().zip(&dispatch.sources);
            let mut wire = Vec::with_capacity(dispatch.sources.len());
            for (reference, source) in named {
                let (table, name) = match reference {
                    Reference::Value(name) => (None, name.clone()),
                    Reference::Entry { table, key } => (Some(table.clone()), key.clone()),
                };
                let value = encode_source(dispatch, source, values).await?;
                wire.push(WireValue { table, name, value });
            }
            Some(WireParameters {
                template: template.source(),
                values: wire,
            })
        }
    };
    let wire = WireDispatch {
        v: VERSION,
        workflow: Box::from(&*dispatch.workflow),
        version: dispatch.version,
        path: dispatch.path.clone(),
        timeout_ms: dispatch.timeout_ms,
        first_attempt: dispatch.first_attempt,
        correlation_id: Box::from(&*dispatch.correlation_id),
        parameters,
        broken: dispatch.broken.clone(),
        undo: dispatch.undo,
        traceparent: dispatch.traceparent.clone(),
    };
    Ok(serde_json::to_vec(&wire).expect("texts and numbers always serialise"))
}

async fn encode_source(
    dispatch: &Dispatch,
    source: &ValueSource,
    values: &ValueReader,
) -> Result<WireSource, Error> {
    let run = dispatch.run;
    Ok(match source {
        ValueSource::Undefined => WireSource::Undefined,
        ValueSource::Text(text) => WireSource::Text(Box::from(&**text)),
        ValueSource::Secret(name) => WireSource::Secret(name.clone()),
        ValueSource::Stored(value) if value.is_blob() => WireSource::Blob((*value).into()),
        ValueSource::Stored(value) => WireSource::Text(Box::from(&*values.read(run, value).await?)),
        ValueSource::Error { value, node } if value.is_blob() => WireSource::Error {
            value: (*value).into(),
            node: node.clone(),
        },
        ValueSource::Error { value, node } => {
            let error = values.read(run, value).await?;
            let node = serde_json::Value::from(&**node).to_string();
            let object = object_text([("error", &*error), ("errorNode", &*node)]);
            WireSource::Text(object.into())
        }
        ValueSource::Item(list, index) if list.is_blob() => WireSource::Item {
            list: (*list).into(),
            index: *index,
        },
        ValueSource::Item(list, index) => {
            let item = values.read_item(run, list, *index).await?;
            WireSource::Text(Box::from(&*item))
        }
        ValueSource::Vars(vars) => {
            let stored = vars.iter().filter_map(|(name, held)| {
                let stored = match (held.text(), held.blob()) {
                    (Some(text), _) => {
                        Stored::Inline(RawValue::from_string(text.to_string()).ok()?)
                    }
                    (None, Some(blob)) => Stored::Blob {
                        digest: blob.digest,
                        size: blob.size.into(),
                    },
                    (None, None) => return None,
                };
                Some((name.clone(), stored))
            });
            WireSource::Vars(stored.collect())
        }
    })
}

/// The attempt of an item; nothing if this version of the program cannot read it.
pub(super) fn decode(item: &WorkItem) -> Option<Dispatch> {
    let Versioned { v } = serde_json::from_slice(&item.payload).ok()?;
    if v != VERSION {
        return None;
    }
    let wire: WireDispatch = serde_json::from_slice(&item.payload).ok()?;
    let (parameters, sources) = match wire.parameters {
        None => (None, Vec::new()),
        Some(parameters) => decode_parameters(parameters)?,
    };
    Some(Dispatch {
        run: item.key.run,
        workflow: Arc::from(wire.workflow),
        version: wire.version,
        node: item.key.instance,
        path: wire.path,
        attempt: item.key.attempt,
        action: Arc::from(&*item.action),
        timeout_ms: wire.timeout_ms,
        first_attempt: wire.first_attempt,
        correlation_id: Arc::from(wire.correlation_id),
        tenant: item.tenant.clone(),
        parameters,
        sources,
        // The output is read where the run is.
        keep_output: false,
        broken: wire.broken,
        undo: wire.undo,
        traceparent: wire.traceparent,
        requires: item.requires.clone(),
        priority: item.priority,
        // The owner of the run holds the slots.
        pool: None,
        reopened: false,
    })
}

type Parameters = (Option<Arc<Template>>, Vec<ValueSource>);

/// The template, and what its names stand for in its own order: another version of the program
/// may number them otherwise.
fn decode_parameters(wire: WireParameters) -> Option<Parameters> {
    let mut scope = Scope::new(&[], &[]);
    let tables: Vec<&str> = wire
        .values
        .iter()
        .filter_map(|it| it.table.as_deref())
        .collect();
    let names = wire.values.iter().filter(|it| it.table.is_none());
    let names: Vec<&str> = names.map(|it| &*it.name).collect();
    if !wire.values.is_empty() {
        scope = Scope::new(&names, &tables).with_alias("$", "trigger");
    }
    let template = match Template::constant(&wire.template) {
        Some(template) => template,
        None => Template::compile(&wire.template, &scope, &ExpressionLimits::CHECKED).ok()?,
    };
    let mut values = wire.values;
    let mut sources = Vec::with_capacity(values.len());
    for reference in template.references() {
        let (table, name) = match reference {
            Reference::Value(name) => (None, name),
            Reference::Entry { table, key } => (Some(table), key),
        };
        let is_meant = |it: &WireValue| it.table.as_ref() == table && it.name == *name;
        let place = values.iter().position(is_meant)?;
        sources.push(decode_source(values.swap_remove(place).value));
    }
    Some((Some(Arc::new(template)), sources))
}

fn decode_source(source: WireSource) -> ValueSource {
    match source {
        WireSource::Undefined => ValueSource::Undefined,
        WireSource::Text(text) => ValueSource::Text(Arc::from(text)),
        WireSource::Blob(blob) => ValueSource::Stored(blob.into()),
        WireSource::Error { value, node } => ValueSource::Error {
            value: value.into(),
            node,
        },
        WireSource::Item { list, index } => ValueSource::Item(list.into(), index),
        WireSource::Vars(vars) => {
            let held = vars.iter();
            let held = held.map(|(name, stored)| (name.clone(), Held::new(stored)));
            ValueSource::Vars(held.collect())
        }
        WireSource::Secret(name) => ValueSource::Secret(name),
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{MemoryStore, WorkKey};

    use super::*;

    /// As this version writes it; later versions must read it.
    const RECORDED: &str = include_str!("../../../tests/wire/dispatch-1.json");

    fn item(payload: &[u8]) -> WorkItem {
        let run = "01920000-0000-7000-8000-000000000001";
        WorkItem {
            key: WorkKey {
                run: run.parse().expect("an id"),
                instance: 7,
                attempt: 2,
            },
            tenant: Some("acme".into()),
            action: "act".into(),
            requires: vec!["gpu".into()],
            priority: 5,
            payload: payload.to_vec(),
        }
    }

    #[test]
    fn a_recorded_dispatch_is_read_and_written_as_it_was() {
        let recorded = item(RECORDED.trim_end().as_bytes());
        let dispatch = decode(&recorded).expect("it is of this version");
        assert_eq!(
            dispatch
                .parameters
                .as_ref()
                .expect("a template")
                .references()
                .len(),
            7
        );
        assert_eq!((dispatch.node, dispatch.attempt), (7, 2));
        let values = ValueReader::new(Arc::new(MemoryStore::new()), 1 << 20);
        let written =
            windlass_store::block_on(encode(&dispatch, &values)).expect("no value is read");
        let text = String::from_utf8(written).expect("text");
        assert_eq!(text, RECORDED.trim_end());
    }

    #[test]
    fn what_a_newer_process_wrote_is_left_alone() {
        let newer = RECORDED.replacen("\"v\":1", "\"v\":2", 1);
        assert!(decode(&item(newer.as_bytes())).is_none());
        assert!(decode(&item(b"")).is_none());
    }
}
