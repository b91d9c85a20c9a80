//! Nodes that succeeded and were then taken back: they run again, their loop begins anew, or a
//! new graph does not have them. Their effects remain, so they are undone with the rest
//! (semantics §11), with the shape, the scope and the output that they had.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Run;
use super::cycle::Loop;
use super::frame::{FrameKey, Instance, Owner, TOP};
use crate::plan::{NodeIndex, Plan};
use crate::value::ValueRef;

/// The first version of the rules under which nodes that were taken back are still undone.
const KEEPING_RULES: u32 = 2;

/// A node as it was when it was taken back, under a number of its own.
#[derive(Clone, Debug)]
pub(crate) struct Superseded {
    /// The scope it stood in.
    pub(crate) frame: FrameKey,
    pub(crate) path: Box<str>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) node: NodeIndex,
    /// Its output.
    pub(crate) value: Option<ValueRef>,
}

impl Run {
    fn keeps_what_ran(&self) -> bool {
        self.queued.rules >= KEEPING_RULES
    }

    /// Takes a node back: if it had succeeded and has a compensation, it is still to be undone.
    pub(crate) fn keep_success(&mut self, node: Instance) {
        if !self.keeps_what_ran() {
            self.completed.retain(|undone| undone.node != node);
            self.transactional.remove(&node);
            return;
        }
        let child = self.transactional.remove(&node);
        let Some(at) = self.completed.iter().rposition(|it| it.node == node) else {
            return;
        };
        let kept = self.keep_place(node, self.value(node));
        self.completed[at].node = kept;
        if let Some(child) = child {
            self.transactional.insert(kept, child);
        }
    }

    /// A loop forgets its iterations. Those that hold something to undo are kept apart, with
    /// the loop's state at that time; the rest is dropped.
    pub(crate) fn leave_iterations(&mut self, node: Instance, cycle: &Loop) {
        if cycle.frames.is_empty() {
            return;
        }
        let needed = self.needed_frames();
        if !cycle.frames.values().any(|key| needed.contains(key)) {
            self.garbage.extend(cycle.frames.values());
            return;
        }
        let owner = self.keep_place(node, None);
        let mut kept = Loop {
            running: 0,
            frames: Default::default(),
            ..cycle.clone()
        };
        for (&iteration, &key) in &cycle.frames {
            if needed.contains(&key) {
                kept.frames.insert(iteration, key);
                self.frame_mut(key).owner = Some(Owner {
                    node: owner,
                    iteration,
                });
                self.keep_frame(key, &needed);
            } else {
                self.garbage.push(key);
            }
        }
        self.loops.insert(owner, kept);
    }

    /// Every scope in which something is to be undone, and those around it.
    fn needed_frames(&self) -> BTreeSet<FrameKey> {
        let mut needed = BTreeSet::new();
        if !self.keeps_what_ran() {
            return needed;
        }
        for undone in &self.completed {
            let mut key = self.key_of(undone.node);
            while key != TOP && needed.insert(key) {
                key = match self.frame(key).owner {
                    Some(owner) => self.key_of(owner.node),
                    None => TOP,
                };
            }
        }
        needed
    }

    /// Sets a frame apart, with those of its loops' iterations that are needed.
    fn keep_frame(&mut self, key: FrameKey, needed: &BTreeSet<FrameKey>) {
        let Some(frame) = self.frames.remove(key) else {
            return;
        };
        for node in frame.range() {
            self.blocked_by.remove(&node);
            self.recovered.remove(&node);
            self.taken.remove(&node);
            let Some(cycle) = self.loops.get_mut(&node) else {
                continue;
            };
            let inside = std::mem::take(&mut cycle.frames);
            let (kept, gone): (Vec<_>, Vec<_>) = inside
                .into_iter()
                .partition(|(_, key)| needed.contains(key));
            cycle.frames.extend(kept.iter().copied());
            self.garbage.extend(gone.into_iter().map(|(_, key)| key));
            for (_, key) in kept {
                self.keep_frame(key, needed);
            }
        }
        self.kept_frames.insert(key, frame);
    }

    fn keep_place(&mut self, node: Instance, value: Option<ValueRef>) -> Instance {
        let (plan, index) = self.plan_node(node);
        let kept = Superseded {
            frame: self.key_of(node),
            path: self.path(node),
            plan: Arc::clone(plan),
            node: index,
            value,
        };
        let number = self.next_instance;
        self.next_instance += 1;
        self.kept.insert(number, kept);
        number
    }

    /// Whether an instance, or one in its iteration, had succeeded and was taken back: it is
    /// only kept to be undone.
    pub fn is_taken_back(&self, node: Instance) -> bool {
        self.is_kept(node)
    }

    pub(crate) fn is_kept(&self, node: Instance) -> bool {
        if self.kept.contains_key(&node) {
            return true;
        }
        let frame = self.kept_frames.range(..=node).next_back();
        frame.is_some_and(|(_, frame)| frame.owns(node))
    }
}
