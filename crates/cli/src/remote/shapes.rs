//! Answers of the server, as far as the store reads them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use windlass_core::run::Instance;
use windlass_core::{Digest, Millis, RunId};
use windlass_service::run_item::RunDetails;
use windlass_store::{DefinitionRow, Head, Record, ResourceRow, WorkflowRow, WriterId};

use crate::moment::since;

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) next: Option<String>,
}

/// A moment as answers write it.
pub(super) fn moment(text: &str) -> Option<Millis> {
    since(text, Millis(0)).ok()
}

/// A workflow in a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkflowShape {
    workflow_id: Box<str>,
    tenant_id: Option<Box<str>>,
    display_name: Option<Box<str>>,
    version: u32,
    enabled: bool,
    updated_at: String,
    damage: Option<Box<str>>,
}

impl WorkflowShape {
    pub(super) fn row(self) -> Option<WorkflowRow> {
        Some(WorkflowRow {
            tenant: self.tenant_id,
            workflow: self.workflow_id,
            display_name: self.display_name,
            version: self.version,
            enabled: self.enabled,
            updated_at: moment(&self.updated_at)?,
            damage: self.damage,
        })
    }
}

/// A version in a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionShape {
    workflow_id: Box<str>,
    version: u32,
    digest: Digest,
    signature: Digest,
    published_at: String,
}

impl VersionShape {
    pub(super) fn row(self, tenant: Option<&str>) -> Option<DefinitionRow> {
        Some(DefinitionRow {
            tenant: tenant.map(Into::into),
            workflow: self.workflow_id,
            version: self.version,
            digest: self.digest,
            signature: self.signature,
            at: moment(&self.published_at)?,
            text: Vec::new(),
        })
    }
}

impl VersionShape {
    pub(super) fn version(&self) -> u32 {
        self.version
    }
}

/// A run's log with all that is needed to show it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenedShape {
    #[serde(flatten)]
    pub(super) log: LogShape,
    pub(super) row: RunDetails,
    pub(super) short_id: String,
    pub(super) definitions: Vec<DefinitionShape>,
    /// What workers have: the instance, the attempt, since when. Older servers do not tell.
    #[serde(default)]
    pub(super) at_work: Vec<(Instance, u32, i64)>,
}

/// A version with its text.
#[derive(Deserialize)]
pub(super) struct DefinitionShape {
    #[serde(flatten)]
    pub(super) row: VersionShape,
    pub(super) text: String,
}

/// A part of a run's log.
#[derive(Deserialize)]
pub(super) struct LogShape {
    head: HeadShape,
    records: Vec<RecordShape>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadShape {
    sequence: u64,
    append_id: u64,
    chain: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordShape {
    sequence: u64,
    writer: String,
    append_id: u64,
    chain: String,
    bytes: String,
}

impl LogShape {
    /// Where the log ends, and the records.
    pub(super) fn parts(self) -> Option<(Head, Vec<Record>)> {
        let head = Head {
            sequence: self.head.sequence,
            chain: chain(&self.head.chain)?,
            append_id: self.head.append_id,
        };
        let records = self.records.into_iter().map(RecordShape::record);
        Some((head, records.collect::<Option<_>>()?))
    }
}

impl RecordShape {
    fn record(self) -> Option<Record> {
        Some(Record {
            sequence: self.sequence,
            writer: WriterId(u64::from_str_radix(&self.writer, 16).ok()?),
            append_id: self.append_id,
            chain: chain(&self.chain)?,
            bytes: STANDARD.decode(&self.bytes).ok()?,
        })
    }
}

fn chain(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(text, 16).ok()?;
    (text.len() == 32).then(|| number.to_be_bytes())
}

/// A run as a whole, of which only the links matter here.
#[derive(Deserialize)]
pub(super) struct ExecutionShape {
    pub(super) resources: Vec<ResourceShape>,
}

#[derive(Deserialize)]
pub(super) struct ResourceShape {
    system: Box<str>,
    r#type: Box<str>,
    id: Box<str>,
    url: Option<Box<str>>,
    node: Box<str>,
}

impl ResourceShape {
    pub(super) fn row(self, run: RunId) -> ResourceRow {
        ResourceRow {
            tenant: None,
            system: self.system,
            kind: self.r#type,
            id: self.id,
            url: self.url,
            run,
            node: self.node,
        }
    }
}
