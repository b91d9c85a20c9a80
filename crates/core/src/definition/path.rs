//! Where the validation stands in the document: a list on the stack that costs
//! nothing until a problem asks for it as a pointer.

use std::fmt::Write as _;

/// A place in the document, from the innermost step outwards.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The document itself.
    pub(crate) const ROOT: Path<'static> = Path {
        parent: None,
        step: Step::Root,
    };

    /// A member of the object here.
    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    /// An element of the list here.
    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    /// The RFC 6901 pointer of this place.
    pub(crate) fn pointer(&self) -> String {
        let mut steps = Vec::new();
        let mut here = Some(self);
        while let Some(path) = here {
            steps.push(path.step);
            here = path.parent;
        }
        let mut pointer = String::new();
        for step in steps.into_iter().rev() {
            match step {
                Step::Root => {}
                Step::Key(key) => push_key(&mut pointer, key),
                Step::Index(index) => push_index(&mut pointer, index),
            }
        }
        pointer
    }
}

/// Appends a key to a pointer, escaped as RFC 6901, section 3, says.
pub(crate) fn push_key(pointer: &mut String, key: &str) {
    pointer.push('/');
    for character in key.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

/// Appends an index to a pointer.
pub(crate) fn push_index(pointer: &mut String, index: usize) {
    // Writing to a string cannot fail.
    let _ = write!(pointer, "/{index}");
}

/// The steps of a pointer, unescaped.
pub(crate) fn steps(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer
        .split('/')
        .skip(1)
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
}
