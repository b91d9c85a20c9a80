//! Whether two states hold the same in every field. Code that compares a run's state with the
//! replay of its log asks this first, and compares the answers to each query only if it is not
//! so: two states may differ in a field and still answer every query alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::environment::Held;
use super::frame::{Frame, Instance};
use super::superseded::Superseded;
use super::{Run, Undo};
use crate::plan::Plan;

/// Compares the named fields of two values; a field that is not named does not compile.
macro_rules! same_fields {
    ($type:ident, $one:expr, $other:expr, [$($equal:ident),*], [$($apart:ident),*]) => {{
        let $type { $($equal),*, $($apart: _),* } = $one;
        $(*$equal == $other.$equal)&&*
    }};
}

impl Run {
    /// Whether two states hold the same. Graphs are the same if they are one in memory; how
    /// many events a state was made from does not count.
    pub fn is_same(&self, other: &Self) -> bool {
        self.has_same_facts(other)
            && Arc::ptr_eq(&self.plan, &other.plan)
            && self.staged.is_none()
            && other.staged.is_none()
            && same_frame(&self.top, &other.top)
            && self.frames.len() == other.frames.len()
            && same_all(self.frames.values(), other.frames.values(), same_frame)
            && same_shapes(&self.shapes, &other.shapes)
            && same_map(&self.kept, &other.kept, same_kept)
            && same_map(&self.kept_frames, &other.kept_frames, same_frame)
            && same_held(&self.trigger, &other.trigger)
            && same_map(&self.vars, &other.vars, same_held)
            && same_undo(self.undo.as_ref(), other.undo.as_ref())
    }

    #[rustfmt::skip]
    fn has_same_facts(&self, other: &Self) -> bool {
        same_fields!(
            Run, self, other,
            [
                id, queued, version, definition, frozen, heals, graph_waits, workflow, correlation_id,
                status, created_at, started_at, ended_at, reopened_at, clock_from, records,
                loops, removed, past, next_instance, active, blocked_by, recovered, taken, due,
                children, transactional, signals, waiters, since, to_route, to_join, to_stop,
                to_open, to_settle, to_advance, quiet, garbage, completed, reuse, output_bytes,
                vars_bytes,
                failures, finished, deaths, answered
            ],
            // Which graphs are in use is found out when a snapshot is taken.
            [
                plan, staged, event_count, top, frames, shapes, kept, kept_frames, graphs, trigger,
                vars, undo
            ]
        )
    }
}

#[rustfmt::skip]
fn same_frame(one: &Frame, other: &Frame) -> bool {
    Arc::ptr_eq(&one.plan, &other.plan)
        && same_fields!(
            Frame, one, other,
            [
                graph, base, ids, owner, nodes, edges, counts, routing, failed, stop, levels,
                done, previous
            ],
            [plan]
        )
}

fn same_kept(one: &Superseded, other: &Superseded) -> bool {
    Arc::ptr_eq(&one.plan, &other.plan)
        && same_fields!(Superseded, one, other, [frame, path, node, value], [plan])
}

fn same_held(one: &Held, other: &Held) -> bool {
    one.text() == other.text() && one.blob() == other.blob()
}

fn same_undo(one: Option<&Undo>, other: Option<&Undo>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// The shapes that nodes had before the graph changed.
type Shapes = BTreeMap<Instance, (Arc<Plan>, u32)>;

fn same_shapes(one: &Shapes, other: &Shapes) -> bool {
    same_map(one, other, |one, other| {
        Arc::ptr_eq(&one.0, &other.0) && one.1 == other.1
    })
}

fn same_map<K: Ord, V>(
    one: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
) -> bool {
    one.len() == other.len() && one.keys().eq(other.keys()) && {
        same_all(one.values(), other.values(), same)
    }
}

fn same_all<'a, V: 'a>(
    one: impl Iterator<Item = &'a V>,
    other: impl Iterator<Item = &'a V>,
    same: impl Fn(&V, &V) -> bool,
) -> bool {
    one.zip(other).all(|(one, other)| same(one, other))
}
