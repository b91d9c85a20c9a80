//! The workflows of a world: every version of each, by its number and by the digest of
//! its text. All of them are drawn before the world begins; when each is published is
//! the world's business.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::Digest;
use windlass_core::plan::Plan;

use crate::workload;

/// One version of a workflow.
#[derive(Clone, Debug)]
pub struct Version {
    /// Digest of its text.
    pub digest: Digest,
    /// Its graph.
    pub plan: Arc<Plan>,
    /// Its text, for a reader of a trace.
    pub text: Arc<str>,
}

/// All workflows.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    workflows: BTreeMap<Box<str>, Vec<Version>>,
    /// Graphs that are no version, and that somebody may import.
    imports: BTreeMap<Box<str>, Vec<Version>>,
    graphs: BTreeMap<Digest, Arc<Plan>>,
}

impl Catalogue {
    /// Adds a version of the workflow that the text is of; its number, from 1.
    ///
    /// # Panics
    /// The text is not a definition that the engine runs.
    pub fn add(&mut self, text: &str) -> u32 {
        self.insert(text, workload::plan(text))
    }

    /// Adds a version whose graph is at hand; its number, from 1.
    pub fn insert(&mut self, text: &str, plan: Arc<Plan>) -> u32 {
        let version = self.graph_of(text, plan);
        let workflow = version.plan.workflow().into();
        let versions = self.workflows.entry(workflow).or_default();
        versions.push(version);
        versions.len() as u32
    }

    /// Adds a graph of the workflow that the text is of, to be imported.
    ///
    /// # Panics
    /// The text is not a definition that the engine runs.
    pub fn add_import(&mut self, text: &str) {
        let version = self.graph_of(text, workload::plan(text));
        let workflow = version.plan.workflow().into();
        self.imports.entry(workflow).or_default().push(version);
    }

    fn graph_of(&mut self, text: &str, plan: Arc<Plan>) -> Version {
        let digest = Digest::of(text.as_bytes());
        self.graphs.insert(digest, Arc::clone(&plan));
        let text = text.into();
        Version { digest, plan, text }
    }

    /// A graph of a workflow that somebody may import: the number picks it.
    pub fn import(&self, workflow: &str, number: u32) -> Option<&Version> {
        let imports = self.imports.get(workflow)?;
        imports.get(number as usize % imports.len().max(1))
    }

    /// A version of a workflow.
    pub fn version(&self, workflow: &str, version: u32) -> Option<&Version> {
        let place = (version as usize).checked_sub(1)?;
        self.workflows.get(workflow)?.get(place)
    }

    /// How many versions of a workflow there are.
    pub fn versions(&self, workflow: &str) -> u32 {
        self.workflows.get(workflow).map_or(0, Vec::len) as u32
    }

    /// The graph of the text with this digest.
    pub fn graph(&self, digest: &Digest) -> Option<Arc<Plan>> {
        self.graphs.get(digest).cloned()
    }

    /// The names of all workflows.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workflows.keys().map(|name| &**name)
    }
}
