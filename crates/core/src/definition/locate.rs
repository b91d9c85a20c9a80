//! From pointers to byte ranges: one more pass over the text, only when there
//! is something to report.

use std::collections::BTreeMap;
use std::ops::Range;

use super::path::steps;
use super::scan::{Container, KeyToken, Scalar, Sink, scan};

/// The places of the pointers asked for, in one pass over the text.
pub(crate) struct Places {
    tree: Vec<Wanted>,
}

/// Where a value stands, and its key if it has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spot {
    pub(crate) key: Option<Range<usize>>,
    pub(crate) value: Range<usize>,
}

/// One step of the pointers asked for.
#[derive(Default)]
struct Wanted {
    children: BTreeMap<String, usize>,
    spot: Option<Spot>,
}

impl Places {
    /// Finds these pointers in a valid text.
    pub(crate) fn find<'p>(
        text: &str,
        nesting: usize,
        pointers: impl IntoIterator<Item = &'p str>,
    ) -> Self {
        let mut places = Self {
            tree: vec![Wanted::default()],
        };
        for pointer in pointers {
            let mut at = 0;
            for step in steps(pointer) {
                at = match places.tree[at].children.get(&step) {
                    Some(next) => *next,
                    None => {
                        places.tree.push(Wanted::default());
                        let next = places.tree.len() - 1;
                        places.tree[at].children.insert(step, next);
                        next
                    }
                };
            }
        }
        let mut locator = Locator {
            places: &mut places,
            frames: Vec::new(),
        };
        // Places found before an error in the text are still right.
        let _ = scan(text, nesting, &mut locator);
        places
    }

    /// The place of a pointer, or of the nearest value around it.
    pub(crate) fn get(&self, pointer: &str) -> Spot {
        let mut at = 0;
        let mut spot = self.tree[0].spot.clone();
        for step in steps(pointer) {
            let Some(next) = self.tree[at].children.get(&step) else {
                break;
            };
            at = *next;
            if self.tree[at].spot.is_some() {
                spot = self.tree[at].spot.clone();
            }
        }
        spot.unwrap_or_default()
    }
}

struct Locator<'p, 't> {
    places: &'p mut Places,
    frames: Vec<Frame<'t>>,
}

struct Frame<'t> {
    /// The requested step that this container is.
    wanted: Option<usize>,
    key: Option<KeyToken<'t>>,
    index: Option<usize>,
}

impl Locator<'_, '_> {
    /// Takes note of where a value begins; says which step it is.
    fn begin(&mut self, span: Range<usize>) -> Option<usize> {
        let (wanted, key) = match self.frames.last() {
            None => (Some(0), None),
            Some(frame) => {
                let children = frame.wanted.map(|at| &self.places.tree[at].children);
                let children = children.filter(|children| !children.is_empty());
                let wanted = children.and_then(|children| match (frame.index, &frame.key) {
                    (Some(index), _) => children.get(&index.to_string()),
                    (None, Some(key)) => children.get(&*key.text),
                    (None, None) => None,
                });
                (
                    wanted.copied(),
                    frame.key.as_ref().map(|key| key.span.clone()),
                )
            }
        };
        if let Some(at) = wanted {
            self.places.tree[at].spot = Some(Spot { key, value: span });
        }
        wanted
    }

    fn next(&mut self) {
        if let Some(Frame {
            index: Some(index), ..
        }) = self.frames.last_mut()
        {
            *index += 1;
        }
    }
}

impl<'t> Sink<'t> for Locator<'_, 't> {
    fn open(&mut self, at: usize, container: Container) {
        let wanted = self.begin(at..at + 1);
        self.frames.push(Frame {
            wanted,
            key: None,
            index: (container == Container::List).then_some(0),
        });
    }

    fn close(&mut self, _end: usize) {
        self.frames.pop();
        self.next();
    }

    fn key(&mut self, key: KeyToken<'t>) {
        if let Some(frame) = self.frames.last_mut() {
            frame.key = Some(key);
        }
    }

    fn scalar(&mut self, _scalar: Scalar, span: Range<usize>) {
        self.begin(span);
        self.next();
    }
}
