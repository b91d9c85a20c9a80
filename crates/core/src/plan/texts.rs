//! Ids and parameters of all nodes, one behind the other in one text: a node has about
//! twenty bytes of both, and a box for each would cost more than that.

use std::ops::Range;

/// Says that a node has no parameters.
const NONE: u32 = u32::MAX;

/// The ids and parameters of a plan's nodes.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    text: String,
}

/// Where a node's id and its parameters stand: the one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextSpan {
    start: u32,
    id_bytes: u32,
    parameters_bytes: u32,
}

impl Texts {
    /// Adds the texts of a node; none if there is no room for them.
    pub(crate) fn add(&mut self, id: &str, parameters: Option<&str>) -> Option<TextSpan> {
        let bytes = |text: &str| u32::try_from(text.len()).ok();
        let place = TextSpan {
            start: bytes(&self.text)?,
            id_bytes: bytes(id)?,
            parameters_bytes: match parameters {
                Some(parameters) => bytes(parameters).filter(|&bytes| bytes != NONE)?,
                None => NONE,
            },
        };
        self.text.push_str(id);
        self.text.push_str(parameters.unwrap_or_default());
        Some(place)
    }

    /// Makes room for this many bytes more.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.text.reserve_exact(bytes);
    }

    /// Gives back the room that was not needed.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
    }

    pub(crate) fn id(&self, place: TextSpan) -> &str {
        &self.text[place.id()]
    }

    pub(crate) fn parameters(&self, place: TextSpan) -> Option<&str> {
        Some(&self.text[place.parameters()?])
    }
}

impl TextSpan {
    fn id(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.id_bytes as usize
    }

    fn parameters(self) -> Option<Range<usize>> {
        let start = self.id().end;
        (self.parameters_bytes != NONE).then(|| start..start + self.parameters_bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_again() {
        let mut texts = Texts::default();
        let added = [("a", Some("{}")), ("ä", None), ("", Some("")), ("d", None)];
        let places = added.map(|(id, parameters)| texts.add(id, parameters).expect("room"));
        for (place, (id, parameters)) in places.into_iter().zip(added) {
            assert_eq!(texts.id(place), id);
            assert_eq!(texts.parameters(place), parameters);
        }
    }
}
