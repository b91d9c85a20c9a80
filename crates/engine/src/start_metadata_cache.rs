//! What starting a run needs of a published definition, and no more: neither its plan nor
//! its nodes. Kept for the workflows that are asked for often.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_core::Digest;
use windlass_core::concurrency::ConcurrencyRule;
use windlass_core::definition::{self, JsonText};
use windlass_store::{DefinitionRow, Wait as _};

use crate::Backend;
use crate::payload::{PayloadError, compiled};
use crate::schema::Schema;
use crate::start::StartError;

/// How many workflows and versions are known at once.
const MOST: usize = 1024;

/// How many bytes what is known of them may take together.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Whose workflow, which, and which version; none is the newest.
type CacheKey = (Option<Box<str>>, Box<str>, Option<u32>);

/// What starting a run of a workflow needs.
pub(crate) struct StartMetadata {
    pub(crate) version: u32,
    pub(crate) definition: Digest,
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    pub(crate) vars: BTreeMap<Box<str>, JsonText>,
    pub(crate) concurrency: Option<ConcurrencyRule>,
    /// The compiled `triggerSchema`, or why it cannot be used.
    pub(crate) schema: Option<Result<Arc<Schema>, PayloadError>>,
    /// About how many bytes of memory it takes.
    bytes: usize,
    pub(crate) enabled: bool,
}

/// The parts of a definition that matter here; the nodes are passed over.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionHeader {
    #[serde(default)]
    labels: BTreeMap<Box<str>, Box<str>>,
    #[serde(default)]
    vars: BTreeMap<Box<str>, JsonText>,
    trigger_schema: Option<JsonText>,
    concurrency: Option<definition::Concurrency>,
}

/// A bounded cache of them.
#[derive(Default)]
pub(crate) struct StartMetadataCache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    known: HashMap<CacheKey, Arc<StartMetadata>>,
    /// Oldest first.
    order: VecDeque<CacheKey>,
    bytes: usize,
    /// Counts invalidations, so that nothing is cached that was read before one.
    epoch: u64,
}

impl StartMetadataCache {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("nothing panics while it holds the cache")
    }

    /// What is known of the workflow; if nothing is, the count of changes so far.
    pub(crate) fn get(
        &self,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
    ) -> Result<Arc<StartMetadata>, u64> {
        let inner = self.inner();
        let key = (tenant.map(Into::into), workflow.into(), version);
        inner.known.get(&key).cloned().ok_or(inner.epoch)
    }

    /// Reads what is needed from the catalogue and keeps it.
    ///
    /// # Errors
    /// There is no such workflow or version, or it cannot be read.
    pub(crate) fn read(
        &self,
        store: &dyn Backend,
        tenant: Option<&str>,
        workflow: &str,
        version: Option<u32>,
        epoch: u64,
    ) -> Result<Arc<StartMetadata>, StartError> {
        let unknown = || StartError::UnknownWorkflow {
            workflow: workflow.into(),
            version,
        };
        let row = store.workflow(tenant, workflow).wait();
        let row = row.map_err(StartError::Store)?.ok_or_else(unknown)?;
        let found = store.definition(tenant, workflow, version).wait();
        let found = found.map_err(StartError::Store)?.ok_or_else(unknown)?;
        let known = Arc::new(StartMetadata::of(&found, row.enabled)?);
        let mut inner = self.inner();
        if inner.epoch == epoch {
            let key = (tenant.map(Into::into), workflow.into(), version);
            inner.keep(key, Arc::clone(&known));
        }
        Ok(known)
    }

    /// Anything may have changed.
    pub(crate) fn forget_all(&self) {
        let mut inner = self.inner();
        inner.epoch += 1;
        inner.known.clear();
        inner.order.clear();
        inner.bytes = 0;
    }

    /// Something about a workflow has changed.
    pub(crate) fn forget(&self, tenant: Option<&str>, workflow: &str) {
        let mut inner = self.inner();
        inner.epoch += 1;
        let is_other = |key: &CacheKey| key.0.as_deref() != tenant || &*key.1 != workflow;
        inner.known.retain(|key, _| is_other(key));
        inner.order.retain(is_other);
        inner.bytes = inner.known.values().map(|known| known.bytes).sum();
    }
}

impl Inner {
    fn keep(&mut self, key: CacheKey, known: Arc<StartMetadata>) {
        self.bytes += known.bytes;
        match self.known.insert(key.clone(), known) {
            Some(before) => self.bytes -= before.bytes,
            None => self.order.push_back(key),
        }
        while self.known.len() > MOST || self.bytes > MOST_BYTES {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            let gone = self.known.remove(&oldest);
            self.bytes -= gone.map_or(0, |known| known.bytes);
        }
    }
}

impl StartMetadata {
    fn of(row: &DefinitionRow, enabled: bool) -> Result<Self, StartError> {
        let header: DefinitionHeader = serde_json::from_slice(&row.text)
            .map_err(|error| StartError::Definition(error.to_string()))?;
        let concurrency = header.concurrency.as_ref().map(ConcurrencyRule::compile);
        let schema = header.trigger_schema.as_ref();
        let vars = header.vars.iter();
        let bytes = vars.map(|(name, value)| name.len() + value.get().len());
        let schema = schema.map(|schema| compiled(schema.get()));
        let compiled_bytes = schema.iter().flatten().map(|schema| schema.bytes());
        let bytes = bytes.sum::<usize>() + compiled_bytes.sum::<usize>();
        Ok(Self {
            version: row.version,
            definition: row.digest,
            labels: header.labels,
            vars: header.vars,
            concurrency: concurrency.transpose().map_err(StartError::Definition)?,
            schema,
            bytes,
            enabled,
        })
    }
}
