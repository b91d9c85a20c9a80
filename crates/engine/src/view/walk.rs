//! Every node instance of a run, once: at its end in the log where it has one there,
//! when its iteration is forgotten where it is inside one, or after the log.
//!
//! The state forgets iterations that succeeded, so where there are loops the log is folded
//! a second time. What is kept meanwhile is the results of iterations that are open.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::NodeStatus;
use windlass_core::event::{AttemptEnded, AttemptResult, Event};
use windlass_core::run::{Change, Instance, Run};
use windlass_core::value::{Stored, ValueRef};

use super::annotations::Gathered;
use super::{Annotations, NodeCounts, Overview, Times};
use crate::Backend;
use crate::load::LoadError;
use crate::plans::Plans;
use crate::replay::{EventPosition, Visitor, replay_through, scan_through};

/// Bodies are listed unasked as long as they have no more instances than this.
pub const FEW_INSTANCES: u64 = 1000;

/// Which node instances are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// Those of the top level, and those of bodies if there are few.
    #[default]
    Few,
    /// Those of the top level.
    Top,
    /// Every one.
    All,
    /// None of them.
    None,
    /// These, by path. A loop brings the instances inside it, `loop[3]` those of one
    /// iteration.
    Only(BTreeSet<Box<str>>),
}

impl Nodes {
    /// Whether a path is among them; where that depends on the run, it is not left out.
    pub fn includes(&self, path: &str) -> bool {
        match self {
            Self::Few | Self::All => true,
            Self::None => false,
            Self::Top => !path.contains('/'),
            Self::Only(paths) => is_chosen(paths, path),
        }
    }
}

/// An instance, as it was last.
pub struct SeenInstance<'a> {
    /// Its path.
    pub path: &'a str,
    /// A state that knows it: the present one, or the last before it was forgotten.
    pub run: &'a Run,
    /// The instance.
    pub node: Instance,
    /// When it started and ended.
    pub times: &'a Times,
    /// What else is known of it.
    pub notes: &'a Annotations,
    /// Its output, if it succeeded.
    pub output: Option<&'a Stored>,
    /// Its error, if it failed.
    pub error: Option<&'a Stored>,
    /// The parameters of its last attempt that ended, as they were rendered, without secrets.
    pub input: Option<&'a Stored>,
}

/// How many instances are inside loops, however deep; those that were forgotten count.
pub fn inside(run: &Run) -> u64 {
    run.top_instances().map(|node| inside_loop(run, node)).sum()
}

/// How many instances are inside one loop.
pub(super) fn inside_loop(run: &Run, node: Instance) -> u64 {
    let counts = run.cycle(node).map(NodeCounts::of_loop);
    counts.map_or(0, |counts| counts.total())
}

/// Shows every chosen instance to `visit`, each once.
///
/// # Errors
/// The log or a value cannot be read, or what the visitor says.
pub fn for_each_instance<E: From<LoadError>>(
    store: &dyn Backend,
    plans: &Plans,
    overview: &Overview,
    nodes: &Nodes,
    visit: impl FnMut(&SeenInstance<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let run = &overview.run;
    let chosen = match nodes {
        Nodes::None => return Ok(()),
        Nodes::Few if inside(run) > FEW_INSTANCES => &Nodes::Top,
        other => other,
    };
    let mut walk = Walk {
        overview,
        chosen,
        visit,
        gathered: Gathered::default(),
        shown: Shown::default(),
        held: BTreeMap::new(),
        reused: BTreeMap::new(),
    };
    if run.forgets_nothing() && !run.instances().any(|node| run.is_reused(node)) {
        // The present state knows them all, so a second one would tell nothing new.
        scan_through(store, run.id(), overview.until, |event| {
            walk.event(run, event)
        })?;
    } else {
        replay_through(store, plans, run.id(), overview.until, &mut walk)?;
    }
    for node in run.instances() {
        if !walk.shown.contains(node) && overview.notes.is_present(run, node) {
            walk.show_present(node, End::Plain, None)?;
        }
    }
    Ok(())
}

/// How an instance ended.
#[derive(Clone, Copy)]
enum End<'a> {
    Output(&'a Stored),
    Error(&'a Stored),
    /// With neither.
    Plain,
}

impl<'a> End<'a> {
    fn of(ended: &'a AttemptEnded) -> Option<(Self, NodeStatus)> {
        Some(match &ended.result {
            AttemptResult::Succeeded(output) => (Self::Output(output), NodeStatus::Succeeded),
            AttemptResult::Failed(error) => (Self::Error(error), NodeStatus::Failed),
            AttemptResult::Skipped {} => (Self::Plain, NodeStatus::Skipped),
            AttemptResult::Stopped {} => (Self::Plain, NodeStatus::Cancelled),
            AttemptResult::Retrying { .. } => return None,
        })
    }

    /// Whether it is the end that left this value.
    fn is(self, value: Option<ValueRef>) -> bool {
        match self {
            Self::Output(stored) | Self::Error(stored) => {
                value.is_some_and(|value| value.digest == stored.digest())
            }
            Self::Plain => true,
        }
    }

    fn output(self) -> Option<&'a Stored> {
        match self {
            Self::Output(output) => Some(output),
            _ => None,
        }
    }

    fn error(self) -> Option<&'a Stored> {
        match self {
            Self::Error(error) => Some(error),
            _ => None,
        }
    }
}

/// Instances that were shown, a bit each.
#[derive(Default)]
struct Shown(Vec<u64>);

impl Shown {
    fn place(node: Instance) -> (usize, u64) {
        (node as usize / 64, 1 << (node % 64))
    }

    fn contains(&self, node: Instance) -> bool {
        let (word, bit) = Self::place(node);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Notes an instance; false if it was noted before.
    fn insert(&mut self, node: Instance) -> bool {
        let is_new = !self.contains(node);
        let (word, bit) = Self::place(node);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
        is_new
    }
}

/// How an instance ended that will have been forgotten.
struct HeldEnd {
    /// True for an error.
    value: Option<(bool, Stored)>,
    input: Option<Stored>,
}

struct Walk<'a, F> {
    overview: &'a Overview,
    chosen: &'a Nodes,
    visit: F,
    gathered: Gathered,
    /// Instances of the present state that were shown.
    shown: Shown,
    /// Results of instances that will have been forgotten.
    held: BTreeMap<Instance, HeldEnd>,
    /// Results of another run that instances inside bodies will take.
    reused: BTreeMap<Box<str>, Stored>,
}

impl<E: From<LoadError>, F: FnMut(&SeenInstance<'_>) -> Result<(), E>> Walk<'_, F> {
    fn includes(&self, path: &str) -> bool {
        self.chosen.includes(path)
    }

    /// An event happens; the state, before it or later, knows the paths that it names.
    fn event(&mut self, run: &Run, event: &Event) -> Result<(), E> {
        match event {
            Event::AttemptEnded(ended) => {
                if let Some(node) = run.resolve(&ended.node)
                    && let Some((end, status)) = End::of(ended)
                {
                    let end = (end, ended.parameters.as_ref());
                    self.ended(node, ended.attempt, end, status)?;
                }
            }
            Event::SetByHand(set) => {
                if let Some(node) = run.resolve(&set.node) {
                    let (end, status) = (End::Output(&set.output), NodeStatus::Succeeded);
                    self.ended(node, set.attempt, (end, None), status)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An instance ended: it is shown now, or its result is held until it is forgotten.
    fn ended(
        &mut self,
        node: Instance,
        attempt: u32,
        (end, input): (End<'_>, Option<&Stored>),
        status: NodeStatus,
    ) -> Result<(), E> {
        let present = &self.overview.run;
        let Some(now) = present.find_status(node) else {
            let value = match end {
                End::Output(value) => Some((false, value.clone())),
                End::Error(value) => Some((true, value.clone())),
                End::Plain => None,
            };
            let input = input.cloned();
            self.held.insert(node, HeldEnd { value, input });
            return Ok(());
        };
        // A loop that a reattempt inside it re-opens ends again with the same attempt.
        let fits = !present.is_structural(node) || end.is(present.value(node));
        let is_last = now == status && present.attempt(node) == attempt && fits;
        if is_last && self.overview.notes.is_present(present, node) && self.shown.insert(node) {
            return self.show_present(node, end, input);
        }
        Ok(())
    }

    fn show_present(
        &mut self,
        node: Instance,
        end: End<'_>,
        input: Option<&Stored>,
    ) -> Result<(), E> {
        let overview = self.overview;
        let path = overview.run.path(node);
        if !self.includes(&path) {
            return Ok(());
        }
        (self.visit)(&SeenInstance {
            path: &path,
            run: &overview.run,
            node,
            times: &overview.times,
            notes: &overview.notes,
            output: end.output(),
            error: end.error(),
            input,
        })
    }

    fn show_leaving(&mut self, run: &Run, node: Instance) -> Result<(), E> {
        let held = self.held.remove(&node);
        if self.overview.run.find_status(node).is_some() {
            return Ok(());
        }
        let path = run.path(node);
        if !self.overview.notes.is_present(run, node) || !self.includes(&path) {
            return Ok(());
        }
        let end = match held.as_ref().and_then(|held| held.value.as_ref()) {
            Some((false, output)) => End::Output(output),
            Some((true, error)) => End::Error(error),
            None => End::Plain,
        };
        let input = held.as_ref().and_then(|held| held.input.as_ref());
        (self.visit)(&SeenInstance {
            path: &path,
            run,
            node,
            times: &self.gathered.times,
            notes: &self.gathered.notes,
            output: end.output(),
            error: end.error(),
            input,
        })
    }

    /// Instances that took the result of another run.
    fn take_reused(&mut self, run: &Run, changes: &[Change]) -> Result<(), E> {
        if self.reused.is_empty() {
            return Ok(());
        }
        for change in changes {
            if let &Change::Ended(node, attempt, status) = change
                && run.find_status(node).is_some()
                && run.is_reused(node)
                && let Some(output) = self.reused.remove(&run.path(node))
            {
                self.ended(node, attempt, (End::Output(&output), None), status)?;
            }
        }
        Ok(())
    }
}

/// Whether a path is one of these, or inside one of these.
fn is_chosen(paths: &BTreeSet<Box<str>>, path: &str) -> bool {
    let mut end = path.len();
    loop {
        if paths.contains(&path[..end]) {
            return true;
        }
        // `a[3]/b` is inside `a[3]`, which is inside `a`.
        match path[..end].rfind(['/', '[']) {
            Some(shorter) => end = shorter,
            None => return false,
        }
    }
}

impl<E: From<LoadError>, F: FnMut(&SeenInstance<'_>) -> Result<(), E>> Visitor for Walk<'_, F> {
    type Error = E;

    fn before(&mut self, run: &Run, event: &Event, place: EventPosition) -> Result<(), E> {
        self.gathered.before(run, event, place)?;
        self.event(run, event)
    }

    fn after(
        &mut self,
        run: &Run,
        event: &Event,
        place: EventPosition,
        changes: &[Change],
    ) -> Result<(), E> {
        self.gathered.after(run, event, place, changes)?;
        if let Event::Reused(nodes) = event {
            let outputs = nodes.iter().filter_map(|node| {
                let output = node.output.clone()?;
                Some((node.node.clone(), output))
            });
            self.reused.extend(outputs);
        }
        self.take_reused(run, changes)
    }

    fn freeing(&mut self, run: &Run, node: Instance) -> Result<(), E> {
        self.show_leaving(run, node)?;
        Ok(self.gathered.freeing(run, node)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_shown_once() {
        let mut shown = Shown::default();
        for node in [0, 63, 64, 1_000_000, 1] {
            assert!(!shown.contains(node));
            assert!(shown.insert(node));
            assert!(shown.contains(node) && !shown.insert(node));
        }
        assert!(!shown.contains(2) && !shown.contains(u32::MAX));
    }

    #[test]
    fn a_loop_brings_what_is_inside_it() {
        let check = |paths: &[&str], path: &str, expected: bool| {
            let paths = paths.iter().map(|&path| path.into()).collect();
            assert_eq!(is_chosen(&paths, path), expected, "{path}");
        };
        check(&["a"], "a", true);
        check(&["a"], "ab", false);
        check(&["a"], "a[3]/b[1]/c", true);
        check(&["a[3]"], "a[3]/b", true);
        check(&["a[3]"], "a[30]/b", false);
        check(&["a[3]/b"], "a[3]/b[0]/c", true);
        check(&["a[3]/b"], "a[3]/bc", false);
        check(&["a[3]/b"], "a", false);
    }
}
