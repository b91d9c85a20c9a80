//! The results that a run's log has, by node instance. The log is walked, because the
//! state forgets the inside of iterations that have ended.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::RunId;
use windlass_core::event::{AttemptResult, Event, ReusedNode};
use windlass_core::run::{Change, Run};
use windlass_core::value::Stored;

use crate::Backend;
use crate::load::LoadError;
use crate::plans::Plans;
use crate::replay::{EventPosition, Visitor, replay};

/// What a run has come to.
pub(super) struct Results {
    /// Its state at the end of the log.
    pub(super) run: Run,
    /// The last result of each node instance that succeeded, or skipped itself.
    pub(super) nodes: BTreeMap<Box<str>, ReusedNode>,
    /// Those that ended with a result of the run that this one was forked from; some may have
    /// run again since, and have none in `nodes`.
    pub(super) reused: BTreeSet<Box<str>>,
    /// What nodes wrote into variables, in the order of the log.
    pub(super) writes: Vec<Write>,
    /// The iterations in which an attempt has ended, by path: `orders[1]`.
    pub(super) iterations: BTreeSet<Box<str>>,
}

/// A variable that a node wrote.
pub(super) struct Write {
    pub(super) node: Box<str>,
    pub(super) name: Box<str>,
    pub(super) value: Stored,
}

/// Walks a run's log.
pub(super) fn results(store: &dyn Backend, plans: &Plans, id: RunId) -> Result<Results, LoadError> {
    let mut collect = Collect::default();
    let loaded = replay(store, plans, id, &mut collect)?;
    Ok(Results {
        run: loaded.run,
        nodes: collect.nodes,
        reused: collect.reused,
        writes: collect.writes,
        iterations: collect.iterations,
    })
}

#[derive(Default)]
struct Collect {
    nodes: BTreeMap<Box<str>, ReusedNode>,
    /// Results of the run that this one was forked from, until they are used.
    offered: BTreeMap<Box<str>, ReusedNode>,
    reused: BTreeSet<Box<str>>,
    writes: Vec<Write>,
    iterations: BTreeSet<Box<str>>,
}

impl Visitor for Collect {
    type Error = LoadError;

    fn before(&mut self, run: &Run, event: &Event, _: EventPosition) -> Result<(), LoadError> {
        match event {
            Event::Reattempted { nodes, .. } => {
                for node in nodes.iter().filter_map(|node| run.resolve(node)) {
                    for path in run.after_all(node).into_iter().map(|node| run.path(node)) {
                        self.forget(&path);
                    }
                }
            }
            // A loop that begins anew forgets its iterations.
            Event::Expanded { node, .. }
            | Event::Looped {
                node, iteration: 0, ..
            } => {
                self.forget_inside(node);
            }
            _ => {}
        }
        Ok(())
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        _: EventPosition,
        changes: &[Change],
    ) -> Result<(), LoadError> {
        match event {
            Event::AttemptEnded(ended) => {
                self.note_iteration(&ended.node);
                let output = match &ended.result {
                    AttemptResult::Succeeded(output) => Some(Some(output.clone())),
                    AttemptResult::Skipped {} => Some(None),
                    _ => None,
                };
                match output {
                    Some(output) => self.keep(ReusedNode {
                        node: ended.node.clone(),
                        attempt: ended.attempt,
                        output,
                        files: ended.files.clone(),
                        ancestry: ended.ancestry,
                        taken: None,
                    }),
                    // What is inside a loop that failed still has its results.
                    None => drop(self.nodes.remove(&ended.node)),
                }
                self.write(&ended.node, &ended.vars);
            }
            Event::SetByHand(set) => {
                self.keep(ReusedNode {
                    node: set.node.clone(),
                    attempt: set.attempt,
                    output: Some(set.output.clone()),
                    files: Vec::new(),
                    ancestry: Some(set.ancestry),
                    taken: None,
                });
                self.write(&set.node, &set.vars);
            }
            Event::Routed { node, taken } => {
                if let Some(result) = self.nodes.get_mut(node) {
                    result.taken = Some(taken.clone());
                }
            }
            Event::Reused(nodes) => {
                let offered = nodes.iter().cloned();
                self.offered
                    .extend(offered.map(|node| (node.node.clone(), node)));
            }
            _ => {}
        }
        self.take_offered(run, changes);
        Ok(())
    }
}

impl Collect {
    fn keep(&mut self, result: ReusedNode) {
        self.reused.remove(&result.node);
        self.nodes.insert(result.node.clone(), result);
    }

    fn note_iteration(&mut self, node: &str) {
        if let Some((iteration, _)) = node.rsplit_once('/')
            && !self.iterations.contains(iteration)
        {
            self.iterations.insert(iteration.into());
        }
    }

    fn write(&mut self, node: &str, vars: &BTreeMap<Box<str>, Stored>) {
        self.writes.extend(vars.iter().map(|(name, value)| Write {
            node: node.into(),
            name: name.clone(),
            value: value.clone(),
        }));
    }

    fn forget(&mut self, path: &str) {
        self.nodes.remove(path);
        self.writes.retain(|write| &*write.node != path);
        self.forget_inside(path);
    }

    fn forget_inside(&mut self, path: &str) {
        let inside = format!("{path}[");
        self.iterations.retain(|path| !path.starts_with(&inside));
        let begin: Box<str> = inside.as_str().into();
        let paths: Vec<Box<str>> = self
            .nodes
            .range(begin..)
            .take_while(|(path, _)| path.starts_with(&inside))
            .map(|(path, _)| path.clone())
            .collect();
        for path in &paths {
            self.nodes.remove(path);
        }
        if !paths.is_empty() {
            self.writes.retain(|write| !write.node.starts_with(&inside));
        }
    }

    /// Nodes that ended with a result of the run before that one.
    fn take_offered(&mut self, run: &Run, changes: &[Change]) {
        if self.offered.is_empty() {
            return;
        }
        for change in changes {
            if let Change::Ended(node, ..) = change
                && run.find_status(*node).is_some()
                && run.is_reused(*node)
                && let Some(result) = self.offered.get(&run.path(*node))
            {
                self.nodes.insert(result.node.clone(), result.clone());
                self.reused.insert(result.node.clone());
            }
        }
    }
}
