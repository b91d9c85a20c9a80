//! The workflows of a world: every version of each, by its number and by the digest of
//! its text. All of them are drawn before the world begins; the world decides when each is
//! published. Most graphs are never asked for, so each is built when it is.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
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

impl Version {
    fn new(text: &str, plan: Arc<Plan>) -> Self {
        let digest = Digest::of(text.as_bytes());
        let text = text.into();
        Self { digest, plan, text }
    }
}

/// A definition that was drawn; what is drawn from it shares the nodes that stay.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Everything but the nodes.
    pub head: Value,
    /// The nodes of the top level.
    pub nodes: Vec<Arc<Value>>,
    /// What it is said to be.
    pub description: Option<&'static str>,
}

impl Draft {
    /// The text of the whole, put together from the texts of its parts.
    fn text(&self) -> String {
        let mut text = self.head.to_string();
        text.truncate(text.len() - 1);
        let nodes: Vec<String> = self.nodes.iter().map(|node| node.to_string()).collect();
        let nodes = nodes.join(",");
        let description = self.description.map_or_else(String::new, |description| {
            format!(",\"description\":{}", Value::from(description))
        });
        format!("{text},\"nodes\":[{nodes}]{description}}}")
    }
}

/// A version that a request may name.
#[derive(Clone, Debug)]
struct Entry {
    draft: Option<Draft>,
    made: OnceLock<Version>,
}

impl Entry {
    fn drawn(draft: Draft) -> Self {
        Self {
            draft: Some(draft),
            made: OnceLock::new(),
        }
    }

    fn made(version: Version) -> Self {
        Self {
            draft: None,
            made: version.into(),
        }
    }

    fn version(&self) -> &Version {
        self.made.get_or_init(|| {
            let draft = self.draft.as_ref().expect("what is not drawn is made");
            let text = draft.text();
            Version::new(&text, workload::plan(&text))
        })
    }
}

/// All workflows.
#[derive(Clone, Debug, Default)]
pub struct WorkflowCatalogue {
    workflows: BTreeMap<Box<str>, Vec<Entry>>,
    /// Graphs that are no version, and that a user may import.
    imports: BTreeMap<Box<str>, Vec<Entry>>,
}

impl WorkflowCatalogue {
    /// Adds a version of the workflow that the text is of; its number, from 1.
    ///
    /// # Panics
    /// The text is not a definition that the engine runs.
    pub fn add(&mut self, text: &str) -> u32 {
        self.insert(text, workload::plan(text))
    }

    /// Adds a version whose graph is at hand; its number, from 1.
    pub fn insert(&mut self, text: &str, plan: Arc<Plan>) -> u32 {
        let version = Version::new(text, plan);
        let workflow = version.plan.workflow().into();
        let versions = self.workflows.entry(workflow).or_default();
        versions.push(Entry::made(version));
        versions.len() as u32
    }

    /// Adds a version of a workflow, which must be a definition that the engine runs.
    pub fn draw(&mut self, workflow: &str, draft: Draft) {
        let versions = self.workflows.entry(workflow.into()).or_default();
        versions.push(Entry::drawn(draft));
    }

    /// Adds a graph of a workflow, to be imported; it must be one that the engine runs.
    pub fn draw_import(&mut self, workflow: &str, draft: Draft) {
        let imports = self.imports.entry(workflow.into()).or_default();
        imports.push(Entry::drawn(draft));
    }

    /// A graph of a workflow that a user may import: the number picks it.
    ///
    /// # Panics
    /// It is not one that the engine runs.
    pub fn import(&self, workflow: &str, number: u32) -> Option<&Version> {
        let imports = self.imports.get(workflow)?;
        let import = imports.get(number as usize % imports.len().max(1));
        import.map(Entry::version)
    }

    /// A version of a workflow.
    ///
    /// # Panics
    /// It is not one that the engine runs.
    pub fn version(&self, workflow: &str, version: u32) -> Option<&Version> {
        let place = (version as usize).checked_sub(1)?;
        let entry = self.workflows.get(workflow)?.get(place);
        entry.map(Entry::version)
    }

    /// How many versions of a workflow there are.
    pub fn versions(&self, workflow: &str) -> u32 {
        self.workflows.get(workflow).map_or(0, Vec::len) as u32
    }

    /// The graph of the text with this digest, which some version or import has.
    pub fn graph(&self, digest: &Digest) -> Option<Arc<Plan>> {
        Some(Arc::clone(&self.made(digest)?.plan))
    }

    /// The text with this digest, which some version or import has.
    pub fn text(&self, digest: &Digest) -> Option<Arc<str>> {
        Some(Arc::clone(&self.made(digest)?.text))
    }

    fn made(&self, digest: &Digest) -> Option<&Version> {
        let lists = self.workflows.values().chain(self.imports.values());
        let mut made = lists.flatten().filter_map(|entry| entry.made.get());
        made.find(|version| version.digest == *digest)
    }

    /// The names of all workflows.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.workflows.keys().map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use crate::WorkloadKind;
    use crate::random::Random;
    use crate::workload::Workload;

    /// Worlds build only what they ask for; here everything is asked for.
    #[test]
    fn everything_that_is_drawn_is_a_graph() {
        let mut imported = 0;
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let kind = [WorkloadKind::Plain, WorkloadKind::Structured][seed as usize % 2];
            let catalogue = Workload::draw(&mut random, 8_000, kind).catalogue;
            for (name, versions) in &catalogue.workflows {
                for number in 1..=versions.len() as u32 {
                    let version = catalogue.version(name, number).expect("it is there");
                    let plan = catalogue.graph(&version.digest).expect("it is made");
                    assert_eq!(plan.workflow(), &**name);
                }
            }
            for (name, graphs) in &catalogue.imports {
                for number in 0..graphs.len() as u32 {
                    let graph = catalogue.import(name, number).expect("it is there");
                    assert_eq!(graph.plan.workflow(), &**name);
                    imported += 1;
                }
            }
        }
        assert!(imported > 100, "{imported}");
    }
}
