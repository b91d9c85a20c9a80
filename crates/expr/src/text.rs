//! Strings as JavaScript has them: sequences of UTF-16 code units.
//!
//! Well-formed text is kept as UTF-8, borrowed where possible; only text with lone surrogates
//! is kept as code units. The two never mix: what is well-formed is always UTF-8, so equal
//! strings have equal representations. When a value leaves the language its lone surrogates
//! become U+FFFD.
//!
//! The bytes of a text are reached only here: every other module pays to see them
//! ([`Text::view`]) or calls an operation that pays.

mod build;
mod units;

pub(crate) use build::TextBuilder;
pub(crate) use units::{find_units, find_units_last, unit_count};

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crate::ast::Literal;
use crate::limits::{Budget, Price};
use crate::problem::Fallible;
use crate::work;

/// A string.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Borrowed from an input or from the source.
    Borrowed(&'a str),
    /// Built by the expression.
    Shared(Rc<str>),
    /// Borrowed from the source, and holding at least one lone surrogate.
    WideBorrowed(&'a [u16]),
    /// Built, and holding at least one lone surrogate.
    Wide(Rc<[u16]>),
}

/// What a text holds.
#[derive(Clone, Copy)]
pub(crate) enum View<'t> {
    Plain(&'t str),
    /// Code units with at least one lone surrogate.
    Wide(&'t [u16]),
}

impl<'t> View<'t> {
    /// The text, unless it holds a lone surrogate.
    pub(crate) fn plain(self) -> Option<&'t str> {
        match self {
            Self::Plain(text) => Some(text),
            Self::Wide(_) => None,
        }
    }

    pub(crate) fn is_ascii(self) -> bool {
        self.plain().is_some_and(str::is_ascii)
    }
}

/// JavaScript's white space and line ends.
pub(crate) fn is_space(letter: char) -> bool {
    matches!(
        letter,
        '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{3000}'
                | '\u{feff}'
    )
}

impl<'a> Text<'a> {
    pub(crate) fn literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Plain(text) => Self::Borrowed(text),
            Literal::Wide(units) => Self::WideBorrowed(units),
        }
    }

    /// Text that is paid for.
    pub(crate) fn built(text: &str) -> Self {
        work::built(text.len());
        Self::Shared(text.into())
    }

    /// One character.
    pub(crate) fn letter(letter: char) -> Self {
        match units::ascii(letter) {
            Some(text) => Self::Borrowed(text),
            None => Self::built(letter.encode_utf8(&mut [0; 4])),
        }
    }

    /// One code unit.
    pub(crate) fn unit(unit: u16) -> Self {
        match char::from_u32(u32::from(unit)) {
            Some(letter) => Self::letter(letter),
            None => Self::Wide([unit].into()),
        }
    }

    /// Code units, which are paid for here.
    pub(crate) fn from_units(units: &[u16], budget: &mut Budget) -> Fallible<Self> {
        budget.build(2 * units.len())?;
        Ok(build::of_units(units))
    }

    /// Code units that are paid for.
    pub(crate) fn of_units(units: &[u16]) -> Self {
        build::of_units(units)
    }

    fn raw(&self) -> View<'_> {
        match self {
            Self::Borrowed(text) => View::Plain(text),
            Self::Shared(text) => View::Plain(text),
            Self::WideBorrowed(units) => View::Wide(units),
            Self::Wide(units) => View::Wide(units),
        }
    }

    /// What it holds, for a reader that goes over all of it at a price.
    pub(crate) fn view(&self, price: Price, budget: &mut Budget) -> Fallible<View<'_>> {
        budget.read_at(self.size(), price)?;
        work::read(self.size());
        Ok(self.raw())
    }

    /// The text with U+FFFD for every lone surrogate, for a reader that goes over all of it.
    pub(crate) fn lossy(&self, price: Price, budget: &mut Budget) -> Fallible<Cow<'_, str>> {
        if let View::Wide(units) = self.view(price, budget)? {
            budget.build(3 * units.len())?;
        }
        Ok(self.lossy_unpaid())
    }

    /// As [`lossy`](Self::lossy), where nothing is evaluated or the caller has paid.
    pub(crate) fn lossy_unpaid(&self) -> Cow<'_, str> {
        match self.raw() {
            View::Plain(text) => Cow::Borrowed(text),
            View::Wide(units) => Cow::Owned(String::from_utf16_lossy(units)),
        }
    }

    /// The first characters, for a message.
    pub(crate) fn excerpt(&self, count: usize) -> String {
        match self.raw() {
            View::Plain(text) => text.chars().take(count).collect(),
            View::Wide(units) => char::decode_utf16(units.iter().copied())
                .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
                .take(count)
                .collect(),
        }
    }

    /// The code units, copied unless it is kept as such; the copy counts as built.
    pub(crate) fn units(&self, budget: &mut Budget) -> Fallible<Cow<'_, [u16]>> {
        match self.raw() {
            View::Wide(units) => Ok(Cow::Borrowed(units)),
            View::Plain(text) => {
                budget.read(text.len())?;
                let count = unit_count(text);
                budget.build(2 * count)?;
                work::built(2 * count);
                let mut units = Vec::with_capacity(count);
                units.extend(text.encode_utf16());
                Ok(Cow::Owned(units))
            }
        }
    }

    /// Bytes it occupies, for the account.
    pub(crate) fn size(&self) -> usize {
        match self.raw() {
            View::Plain(text) => text.len(),
            View::Wide(units) => units.len() * 2,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size() == 0
    }

    pub(crate) fn is_wide(&self) -> bool {
        matches!(self.raw(), View::Wide(_))
    }

    /// `length`: how many code units.
    pub(crate) fn length(&self, budget: &mut Budget) -> Fallible<usize> {
        match self.raw() {
            View::Wide(units) => Ok(units.len()),
            View::Plain(text) => {
                budget.read(text.len())?;
                Ok(unit_count(text))
            }
        }
    }

    /// The code units from `start` up to `end`, which are in range and in order.
    pub(crate) fn slice(
        &self,
        start: usize,
        end: usize,
        budget: &mut Budget,
    ) -> Fallible<Text<'a>> {
        let text = match self.raw() {
            View::Plain(text) => text,
            View::Wide(units) if start == 0 && end == units.len() => return Ok(self.clone()),
            View::Wide(units) => return Text::from_units(&units[start..end], budget),
        };
        budget.read(text.len())?;
        if let Some((from, to)) = units::byte_range(text, start, end) {
            return self.bytes(from, to, budget);
        }
        // An end falls inside a character, so the part holds a lone surrogate.
        budget.build_many(end - start, 2)?;
        work::built(2 * (end - start));
        let mut units = Vec::with_capacity(end - start);
        units.extend(text.encode_utf16().skip(start).take(end - start));
        Ok(Text::Wide(units.into()))
    }

    /// The bytes of plain text from one character's start up to another's.
    pub(crate) fn bytes(&self, from: usize, to: usize, budget: &mut Budget) -> Fallible<Text<'a>> {
        match self {
            Self::Borrowed(text) => Ok(Text::Borrowed(&text[from..to])),
            Self::Shared(text) if from == 0 && to == text.len() => {
                Ok(Text::Shared(Rc::clone(text)))
            }
            Self::Shared(text) => {
                budget.build(to - from)?;
                Ok(Text::built(&text[from..to]))
            }
            Self::WideBorrowed(_) | Self::Wide(_) => Ok(self.clone()),
        }
    }

    /// Whether both are the same text.
    pub(crate) fn equals(&self, other: &Text<'_>, budget: &mut Budget) -> Fallible<bool> {
        let size = self.size();
        if size != other.size() || self.is_wide() != other.is_wide() {
            return Ok(false);
        }
        budget.read(size)?;
        Ok(self.same(other))
    }

    fn same(&self, other: &Text<'_>) -> bool {
        match (self.raw(), other.raw()) {
            (View::Plain(one), View::Plain(two)) => units::equal(one.as_bytes(), two.as_bytes()),
            (View::Wide(one), View::Wide(two)) => units::equal(one, two),
            _ => false,
        }
    }

    /// Order by code units, as JavaScript's `<` and `sort` have it.
    pub(crate) fn compare(&self, other: &Text<'_>, budget: &mut Budget) -> Fallible<Ordering> {
        budget.read(self.size().min(other.size()).saturating_mul(2))?;
        Ok(match (self.raw(), other.raw()) {
            (View::Plain(one), View::Plain(two)) => units::compare(one, two),
            (View::Wide(one), View::Wide(two)) => {
                work::read(2 * one.len().min(two.len()));
                one.cmp(two)
            }
            (View::Plain(one), View::Wide(two)) => {
                units::compare_iterators(one.encode_utf16(), two.iter().copied())
            }
            (View::Wide(one), View::Plain(two)) => {
                units::compare_iterators(one.iter().copied(), two.encode_utf16())
            }
        })
    }

    /// The byte at which plain `needle` first occurs in plain text, at or after byte `from`.
    pub(crate) fn find_from(
        &self,
        needle: &Text<'_>,
        from: usize,
        budget: &mut Budget,
    ) -> Fallible<Option<usize>> {
        let (View::Plain(text), View::Plain(needle)) = (self.raw(), needle.raw()) else {
            return Ok(None);
        };
        let found = units::find(&text[from..], needle, budget)?;
        Ok(found.map(|at| from + at))
    }

    /// The byte at which plain `needle` last occurs in plain text, beginning at or before code
    /// unit `from`.
    pub(crate) fn find_before(
        &self,
        needle: &Text<'_>,
        from: usize,
        budget: &mut Budget,
    ) -> Fallible<Option<usize>> {
        let (View::Plain(text), View::Plain(needle)) = (self.raw(), needle.raw()) else {
            return Ok(None);
        };
        if needle.len() > text.len() {
            return Ok(None);
        }
        budget.read(text.len())?;
        let (start, _) = units::offset_of(text, from);
        let end = text.floor_char_boundary(start.saturating_add(needle.len()).min(text.len()));
        units::find_last(&text[..end], needle, budget)
    }

    /// How many code units lie between two bytes of plain text.
    pub(crate) fn units_between(
        &self,
        start: usize,
        end: usize,
        budget: &mut Budget,
    ) -> Fallible<usize> {
        budget.read(end - start)?;
        Ok(match self.raw() {
            View::Plain(text) => unit_count(&text[start..end]),
            View::Wide(_) => end - start,
        })
    }

    /// The first byte of plain text at or after code unit `position` that begins a character.
    pub(crate) fn offset_after(&self, position: usize, budget: &mut Budget) -> Fallible<usize> {
        budget.read(self.size())?;
        let View::Plain(text) = self.raw() else {
            return Ok(position);
        };
        let (offset, inside) = units::offset_of(text, position);
        Ok(text.ceil_char_boundary(offset + usize::from(inside)))
    }

    /// Characters, as iterating a string gives them: lone surrogates stand alone. The caller
    /// pays for each.
    pub(crate) fn characters(&self) -> Vec<Text<'a>> {
        work::read(self.size());
        match self {
            Self::Borrowed(text) => text.split_inclusive(|_| true).map(Text::Borrowed).collect(),
            Self::Shared(text) => text.chars().map(Text::letter).collect(),
            Self::WideBorrowed(_) | Self::Wide(_) => {
                let View::Wide(units) = self.raw() else {
                    return Vec::new();
                };
                char::decode_utf16(units.iter().copied())
                    .map(|letter| match letter {
                        Ok(letter) => Text::letter(letter),
                        Err(lone) => Text::unit(lone.unpaired_surrogate()),
                    })
                    .collect()
            }
        }
    }

    /// Its code units, each as a text. The caller pays for each.
    pub(crate) fn single_units(&self) -> Vec<Text<'a>> {
        work::read(self.size());
        match self {
            Self::Borrowed(text) if text.is_ascii() => self.characters(),
            _ => match self.raw() {
                View::Plain(text) => text.encode_utf16().map(Text::unit).collect(),
                View::Wide(units) => units.iter().copied().map(Text::unit).collect(),
            },
        }
    }

    /// Joins parts, whose price is paid here.
    pub(crate) fn concat<'b>(parts: &[Text<'_>], budget: &mut Budget) -> Fallible<Text<'b>> {
        let mut joined = TextBuilder::new();
        for part in parts {
            joined.push(part, budget)?;
        }
        Ok(joined.finish())
    }

    /// Whether this is exactly a word of the language.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.raw().plain() == Some(word)
    }

    /// The text, if it is not longer than a word of the language may be.
    pub(crate) fn word(&self) -> Option<&str> {
        self.raw().plain().filter(|text| text.len() <= 64)
    }

    /// What it holds, for a reader that pays by itself.
    pub(crate) fn unpaid_view(&self) -> View<'_> {
        self.raw()
    }

    /// The plain text, for a reader that the caller has paid for.
    pub(crate) fn unpaid(&self) -> Option<&str> {
        self.raw().plain()
    }

    /// The array index it spells, if it is one.
    pub(crate) fn array_index(&self) -> Option<u32> {
        let text = self.word()?;
        let canonical = text == "0" || text.starts_with(|first: char| ('1'..='9').contains(&first));
        if !canonical || text.len() > 10 {
            return None;
        }
        text.parse().ok().filter(|index| *index != u32::MAX)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

impl Eq for Text<'_> {}

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        work::read(self.size());
        match self.raw() {
            View::Plain(text) => text.hash(state),
            View::Wide(units) => units.hash(state),
        }
    }
}

/// A key to look up, free of the lifetime of a map's keys.
#[derive(Hash)]
pub(crate) struct Lookup<'k, 'b>(pub(crate) &'k Text<'b>);

impl<'a> indexmap::Equivalent<Text<'a>> for Lookup<'_, '_> {
    fn equivalent(&self, key: &Text<'a>) -> bool {
        self.0.same(key)
    }
}
