//! The frames of a run's iterations, by the first instance of each. Instances are numbered
//! in the order in which frames are opened, so the list is always in order, and a frame is
//! found by any of its instances: a loop over 100,000 items asks that often.

use std::collections::VecDeque;

use super::frame::{Frame, FrameKey, Instance};

/// How many places stay allocated when frames leave; the next iterations take them.
const KEPT_PLACES: usize = 256;

/// Open and kept iterations, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frames {
    /// Boxed, so that removing a frame moves pointers and not frames.
    list: VecDeque<(FrameKey, Box<Frame>)>,
}

impl Frames {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, key: FrameKey) -> Option<&Frame> {
        let (found, frame) = &self.list[self.place(key)?];
        (*found == key).then_some(frame)
    }

    pub(crate) fn get_mut(&mut self, key: FrameKey) -> Option<&mut Frame> {
        let place = self.place(key)?;
        let (found, frame) = &mut self.list[place];
        (*found == key).then_some(frame)
    }

    /// The last frame that begins at or before an instance: if any frame has it, this one
    /// does.
    pub(crate) fn before(&self, node: Instance) -> Option<&Frame> {
        Some(&self.list[self.place(node)?].1)
    }

    /// The same, to be changed.
    pub(crate) fn before_mut(&mut self, node: Instance) -> Option<&mut Frame> {
        let place = self.place(node)?;
        Some(&mut self.list[place].1)
    }

    /// Adds a frame, nearly always as the last.
    pub(crate) fn insert(&mut self, frame: Frame) {
        let key = frame.base;
        let after = self.place(key).map_or(0, |place| place + 1);
        self.list.insert(after, (key, Box::new(frame)));
    }

    pub(crate) fn remove(&mut self, key: FrameKey) -> Option<Frame> {
        let place = self.place(key).filter(|&place| self.list[place].0 == key)?;
        let (_, frame) = self.list.remove(place)?;
        if self.list.capacity() > KEPT_PLACES && self.list.len() * 4 < self.list.capacity() {
            self.list.shrink_to(self.list.len() * 2);
        }
        Some(*frame)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = FrameKey> + '_ {
        self.list.iter().map(|(key, _)| *key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Frame> + Clone {
        self.list.iter().map(|(_, frame)| &**frame)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Frame> {
        self.list.iter_mut().map(|(_, frame)| &mut **frame)
    }

    /// The place of the last frame that begins at or before an instance. Iterations of a loop
    /// are equally large, so the search first looks where the frame would be if all frames
    /// were.
    fn place(&self, node: Instance) -> Option<usize> {
        let (first, last) = (self.list.front()?.0, self.list.back()?.0);
        if node < first {
            return None;
        }
        if node >= last {
            return Some(self.list.len() - 1);
        }
        let is_here = |place: usize| {
            let next = self.list.get(place + 1);
            self.list[place].0 <= node && next.is_none_or(|next| node < next.0)
        };
        let steps = u64::from(node - first) * (self.list.len() - 1) as u64;
        let guess = (steps / u64::from(last - first)) as usize;
        if is_here(guess) {
            return Some(guess);
        }
        let after = self.list.partition_point(|(key, _)| *key <= node);
        Some(after - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::{Plan, TOP};

    fn frames(keys: &[FrameKey]) -> Frames {
        let text = r#"{"id":"w","nodes":[{"id":"a","actionType":"core.echo"}]}"#;
        let definition = serde_json::from_str(text).expect("a definition");
        let plan = Arc::new(Plan::build(definition).expect("a plan"));
        let mut frames = Frames::default();
        for &key in keys {
            frames.insert(Frame::new(Arc::clone(&plan), TOP, key, None));
        }
        frames
    }

    fn keys(frames: &Frames) -> Vec<FrameKey> {
        frames.keys().collect()
    }

    #[test]
    fn a_frame_is_found_by_every_instance_after_its_first() {
        let known = [5, 6, 9, 10, 40, 41, 42, 1000];
        let frames = frames(&known);
        for node in 0..1100 {
            let expected = known.iter().rev().find(|&&key| key <= node);
            let found = frames.before(node).map(|frame| frame.base);
            assert_eq!(found.as_ref(), expected, "{node}");
            let exact = frames.get(node).map(|frame| frame.base);
            assert_eq!(exact, known.contains(&node).then_some(node), "{node}");
        }
    }

    #[test]
    fn whatever_leaves_the_others_are_found() {
        let mut frames = frames(&(1..200).collect::<Vec<_>>());
        for gone in (1..200).step_by(3).chain([2, 198]) {
            assert_eq!(frames.remove(gone).map(|frame| frame.base), Some(gone));
            assert!(frames.remove(gone).is_none(), "{gone}");
            assert!(frames.get_mut(gone).is_none(), "{gone}");
            let left = keys(&frames);
            assert!(left.is_sorted());
            for key in left {
                assert_eq!(frames.before(key).map(|frame| frame.base), Some(key));
            }
        }
    }

    #[test]
    fn the_order_is_that_of_the_keys_however_they_came() {
        let frames = frames(&[7, 3, 9, 1]);
        assert_eq!(keys(&frames), [1, 3, 7, 9]);
        assert_eq!(frames.len(), 4);
    }
}
