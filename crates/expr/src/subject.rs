//! A string prepared for many searches for another string, each of which costs only the part
//! that it goes over.
//!
//! Places are in the string's own unit: bytes of well-formed text, code units otherwise.

use std::borrow::Cow;

use crate::limits::{Budget, Price};
use crate::problem::Fallible;
use crate::text::{self, Text, TextBuilder};

/// The code units of a text.
type Units<'s> = Cow<'s, [u16]>;

/// A string and what is looked for in it.
pub(crate) struct Subject<'s, 'a> {
    text: &'s Text<'a>,
    needle: &'s Text<'s>,
    /// Both as code units, where bytes would miss a match inside a character.
    units: Option<(Units<'s>, Units<'s>)>,
}

impl<'s, 'a> Subject<'s, 'a> {
    pub(crate) fn new(
        text: &'s Text<'a>,
        needle: &'s Text<'s>,
        budget: &mut Budget,
    ) -> Fallible<Self> {
        // Nothing is found between the halves of a character, unless it is a half, or empty.
        let halves = text.is_wide()
            || needle.is_wide()
            || (needle.is_empty() && !text.view(Price::READ, budget)?.is_ascii());
        let units = if halves {
            Some((text.units(budget)?, needle.units(budget)?))
        } else {
            None
        };
        Ok(Self {
            text,
            needle,
            units,
        })
    }

    pub(crate) fn len(&self) -> usize {
        match &self.units {
            Some((units, _)) => units.len(),
            None => self.text.size(),
        }
    }

    pub(crate) fn needle_len(&self) -> usize {
        match &self.units {
            Some((_, needle)) => needle.len(),
            None => self.needle.size(),
        }
    }

    /// Bytes or code units that are cut out.
    pub(crate) fn slice(
        &self,
        start: usize,
        end: usize,
        budget: &mut Budget,
    ) -> Fallible<Text<'a>> {
        match &self.units {
            Some((units, _)) => Text::from_units(&units[start..end], budget),
            None => self.text.bytes(start, end, budget),
        }
    }

    /// Appends a part.
    pub(crate) fn append(
        &self,
        start: usize,
        end: usize,
        out: &mut TextBuilder,
        budget: &mut Budget,
    ) -> Fallible<()> {
        match &self.units {
            Some((units, _)) => out.push_units(&units[start..end], budget),
            None => out.push_range(self.text, start, end, budget),
        }
    }

    /// Where the needle first occurs at or after `from`.
    pub(crate) fn find(&self, from: usize, budget: &mut Budget) -> Fallible<Option<usize>> {
        match &self.units {
            Some((units, needle)) => text::find_units(units, needle, from, budget),
            None => self.text.find_from(self.needle, from, budget),
        }
    }

    /// How many code units lie between two places.
    pub(crate) fn distance(
        &self,
        start: usize,
        end: usize,
        budget: &mut Budget,
    ) -> Fallible<usize> {
        match &self.units {
            Some(_) => Ok(end - start),
            None => self.text.units_between(start, end, budget),
        }
    }
}

/// Where `needle` first occurs in `text` at or after code unit `from`, in code units.
pub(crate) fn index_of(
    text: &Text<'_>,
    needle: &Text<'_>,
    from: usize,
    budget: &mut Budget,
) -> Fallible<Option<usize>> {
    if needle.is_empty() {
        return Ok(Some(from.min(text.length(budget)?)));
    }
    if text.is_wide() || needle.is_wide() {
        let (units, needle) = (text.units(budget)?, needle.units(budget)?);
        return text::find_units(&units, &needle, from, budget);
    }
    let start = match from {
        0 => 0,
        _ => text.offset_after(from, budget)?,
    };
    match text.find_from(needle, start, budget)? {
        Some(at) => text.units_between(0, at, budget).map(Some),
        None => Ok(None),
    }
}

/// Where `needle` last occurs in `text` at or before code unit `from`, in code units.
pub(crate) fn last_index_of(
    text: &Text<'_>,
    needle: &Text<'_>,
    from: usize,
    budget: &mut Budget,
) -> Fallible<Option<usize>> {
    if needle.is_empty() {
        return Ok(Some(from.min(text.length(budget)?)));
    }
    if text.is_wide() || needle.is_wide() {
        let (units, needle) = (text.units(budget)?, needle.units(budget)?);
        return text::find_units_last(&units, &needle, from, budget);
    }
    match text.find_before(needle, from, budget)? {
        Some(at) => text.units_between(0, at, budget).map(Some),
        None => Ok(None),
    }
}
