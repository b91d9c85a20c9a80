//! How an append stands in a message: the record is the payload, everything else is JSON in a
//! header. The form only grows; what an older program did not write has its default.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_store::{
    Append, Blob, Claim, Error, Head, Partition, REQUEST_CLAIM, ResourceRow, RunRow, WriterId,
    checksum,
};

use crate::error::unreadable;
use crate::names::{hex, unhex};
use crate::table::Row;

/// What a message in a run's log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A record.
    #[default]
    Record,
    /// No record: it moves the subject's last sequence, so that appends that are on their way are
    /// refused and look again.
    Fence,
    /// No record: the run never begins, because another one took over the claim that it held.
    Void,
    /// No record: the run is forgotten. What is left of it is removed.
    Forgotten,
}

/// What a message says beside the record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LogMeta {
    pub(crate) kind: Kind,
    /// The head with this message.
    pub(crate) head: StoredHead,
    /// The head before it.
    #[serde(skip_serializing_if = "StoredHead::is_none")]
    pub(crate) before: StoredHead,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) writer: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<StoredRow>,
    /// The last record that changed the run's row; 0 if the process did not know.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) row_at: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claims: Vec<StoredClaim>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<StoredResource>,
    /// The values that the record refers to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<Digest>,
    /// The offers that the record consumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) consumed: Vec<ConsumedOffer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    releases: Vec<Box<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slots: Vec<(u32, u32)>,
    /// Of a forgotten run: whether its request id stays taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) keep: bool,
}

/// An offer that a record consumes; a later offer under the same key is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ConsumedOffer {
    pub(crate) key: Box<str>,
    pub(crate) offer: Box<str>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A head in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredHead {
    #[serde(rename = "n")]
    sequence: u64,
    #[serde(rename = "c")]
    chain: String,
    #[serde(rename = "a")]
    append_id: u64,
}

impl StoredHead {
    pub(crate) fn of(head: &Head) -> Self {
        if *head == Head::NONE {
            return Self::default();
        }
        Self {
            sequence: head.sequence,
            chain: hex(&head.chain),
            append_id: head.append_id,
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn head(&self) -> Option<Head> {
        if self.is_none() {
            return Some(Head::NONE);
        }
        Some(Head {
            sequence: self.sequence,
            chain: unhex(&self.chain)?.try_into().ok()?,
            append_id: self.append_id,
        })
    }
}

/// A run's row in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredRow {
    tenant: Option<Box<str>>,
    workflow: Box<str>,
    version: u32,
    request: Box<str>,
    status: RunStatus,
    priority: u8,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<Box<str>, Box<str>>,
    created: Millis,
    started: Option<Millis>,
    ended: Option<Millis>,
    wake: Option<Millis>,
    asleep: bool,
    error: Option<Box<str>>,
    message: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Box<str>>,
    parent: Option<RunId>,
    origin: Option<RunId>,
    gate: Option<Box<str>>,
    limit: u32,
    partition: u32,
}

impl StoredRow {
    fn of(row: &RunRow) -> Self {
        let row = row.clone();
        Self {
            tenant: row.tenant,
            workflow: row.workflow,
            version: row.version,
            request: row.request_id,
            status: row.status,
            priority: row.priority,
            labels: row.labels,
            created: row.created_at,
            started: row.started_at,
            ended: row.ended_at,
            wake: row.wake_at,
            asleep: row.asleep,
            error: row.error_code,
            message: row.error_message,
            causes: row.cause_codes,
            parent: row.parent,
            origin: row.origin,
            gate: row.gate,
            limit: row.limit,
            partition: row.partition.0,
        }
    }

    fn row(self, run: RunId) -> RunRow {
        RunRow {
            run,
            tenant: self.tenant,
            workflow: self.workflow,
            version: self.version,
            request_id: self.request,
            status: self.status,
            priority: self.priority,
            labels: self.labels,
            created_at: self.created,
            started_at: self.started,
            ended_at: self.ended,
            wake_at: self.wake,
            asleep: self.asleep,
            error_code: self.error,
            error_message: self.message,
            cause_codes: self.causes,
            parent: self.parent,
            origin: self.origin,
            gate: self.gate,
            limit: self.limit,
            dead: false,
            partition: Partition(self.partition),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredClaim {
    namespace: Box<str>,
    key: Box<str>,
    value: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredResource {
    tenant: Option<Box<str>>,
    system: Box<str>,
    kind: Box<str>,
    id: Box<str>,
    url: Option<Box<str>>,
    node: Box<str>,
}

impl LogMeta {
    /// What a message with this append says.
    pub(crate) fn of(append: &Append, consumed: Vec<ConsumedOffer>, row_before: u64) -> Self {
        let claims = append.claims.iter().map(|claim| StoredClaim {
            namespace: claim.namespace.into(),
            key: claim.key.clone(),
            value: hex(&claim.value),
        });
        let resources = append.resources.iter().cloned().map(|row| StoredResource {
            tenant: row.tenant,
            system: row.system,
            kind: row.kind,
            id: row.id,
            url: row.url,
            node: row.node,
        });
        let blobs = append.blobs.iter().map(|blob| blob.digest);
        let mut values: Vec<Digest> = blobs.chain(append.uses.iter().copied()).collect();
        values.sort_unstable();
        values.dedup();
        Self {
            kind: Kind::Record,
            head: StoredHead::of(&checksum::next_head(append)),
            before: StoredHead::of(&append.head),
            writer: append.writer.0,
            row: append.row.as_ref().map(StoredRow::of),
            row_at: match append.row {
                Some(_) => append.head.sequence + 1,
                None => row_before,
            },
            claims: claims.collect(),
            resources: resources.collect(),
            values,
            consumed,
            releases: append.releases.clone(),
            slots: append.slots.clone(),
            keep: false,
        }
    }

    /// What a message without a record says.
    pub(crate) fn mark(kind: Kind, head: &Head) -> Self {
        Self {
            kind,
            head: StoredHead::of(head),
            ..Self::default()
        }
    }
}

/// A message of a run's log.
#[derive(Clone, Debug)]
pub(crate) struct LogMessage {
    pub(crate) run: RunId,
    pub(crate) sequence: u64,
    pub(crate) kind: Kind,
    pub(crate) head: Head,
    pub(crate) meta: LogMeta,
    pub(crate) payload: Bytes,
}

impl LogMessage {
    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        let wrong = |what: &str| unreadable(&row.subject, &what);
        let run = row.subject.rsplit('.').next();
        let run = run.and_then(|it| it.parse().ok());
        let run = run.ok_or_else(|| wrong("the subject names no run"))?;
        let meta: LogMeta = row.meta()?;
        let head = meta.head.head();
        Ok(Self {
            run,
            sequence: row.sequence,
            kind: meta.kind,
            head: head.ok_or_else(|| wrong("the head cannot be read"))?,
            meta,
            payload: row.payload.clone(),
        })
    }

    pub(crate) fn is_record(&self) -> bool {
        self.kind == Kind::Record
    }

    /// The append that the message holds, as the database takes it: values and offers are kept
    /// in JetStream, so values are only referred to, by rows without bytes.
    pub(crate) fn append(&self) -> Option<Append> {
        let LogMeta {
            before,
            writer,
            row,
            claims,
            resources,
            values,
            releases,
            slots,
            ..
        } = self.meta.clone();
        let claims = claims.into_iter().map(|claim| {
            Some(Claim {
                namespace: interned(&claim.namespace),
                key: claim.key,
                value: unhex(&claim.value)?,
            })
        });
        let resources = resources.into_iter().map(|row| ResourceRow {
            tenant: row.tenant,
            system: row.system,
            kind: row.kind,
            id: row.id,
            url: row.url,
            run: self.run,
            node: row.node,
        });
        Some(Append {
            run: self.run,
            head: before.head()?,
            writer: WriterId(writer),
            append_id: self.head.append_id,
            record: self.payload.to_vec(),
            row: row.map(|row| row.row(self.run)),
            claims: claims.collect::<Option<Vec<_>>>()?,
            resources: resources.collect(),
            blobs: values.into_iter().map(reference).collect(),
            uses: Vec::new(),
            consumed: Vec::new(),
            releases,
            slots,
        })
    }
}

/// A value without its bytes.
pub(crate) fn reference(digest: Digest) -> Blob {
    Blob {
        digest,
        bytes: std::sync::Arc::from(&[][..]),
    }
}

/// A namespace as appends have it. There are few; each is kept once.
fn interned(namespace: &str) -> &'static str {
    static KNOWN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    if namespace == REQUEST_CLAIM {
        return REQUEST_CLAIM;
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.iter().find(|it| **it == namespace) {
        return found;
    }
    let kept: &'static str = Box::leak(namespace.to_owned().into_boxed_str());
    known.push(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_comes_back_from_its_meta() {
        let run = RunId::new(Millis(1), [7; 10]);
        let append = Append {
            run,
            head: Head {
                sequence: 3,
                chain: [9; 16],
                append_id: u64::MAX,
            },
            writer: WriterId(u64::MAX),
            append_id: 5,
            record: b"record".to_vec(),
            row: None,
            claims: vec![Claim {
                namespace: "other",
                key: "k\n".into(),
                value: vec![0, 255],
            }],
            resources: Vec::new(),
            blobs: Vec::new(),
            uses: vec![Digest([3; 32])],
            consumed: vec!["c".into()],
            releases: vec!["gate".into()],
            slots: vec![(1, 2)],
        };
        let text = serde_json::to_string(&LogMeta::of(&append, Vec::new(), 0)).unwrap();
        assert!(!text.contains('\n'), "a header is one line");
        let meta: LogMeta = serde_json::from_str(&text).unwrap();
        let message = LogMessage {
            run,
            sequence: 1,
            kind: meta.kind,
            head: meta.head.head().unwrap(),
            meta,
            payload: Bytes::from_static(b"record"),
        };
        let back = message.append().unwrap();
        assert_eq!(checksum::next_head(&back), message.head);
        assert_eq!((back.head, back.writer), (append.head, append.writer));
        assert_eq!(back.claims, append.claims);
        assert_eq!(back.blobs, [reference(Digest([3; 32]))]);
        assert_eq!((back.releases, back.slots), (append.releases, append.slots));
    }
}
