//! Strings as JavaScript has them: sequences of UTF-16 code units.
//!
//! Well-formed text is kept as UTF-8, borrowed where possible; only text with lone surrogates
//! is kept as code units. The two never mix: what is well-formed is always UTF-8, so equal
//! strings have equal representations. When a value leaves the language its lone surrogates
//! become U+FFFD.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crate::ast::Literal;
use crate::limits::Budget;
use crate::problem::Fallible;

/// A string.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Borrowed from an input or from the source.
    Borrowed(&'a str),
    /// Built by the expression.
    Shared(Rc<str>),
    /// Built, and holding at least one lone surrogate.
    Wide(Rc<[u16]>),
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
            Literal::Wide(units) => Self::Wide(units.as_ref().into()),
        }
    }

    pub(crate) fn built(text: String) -> Self {
        Self::Shared(text.into())
    }

    pub(crate) fn from_units(units: &[u16]) -> Self {
        match String::from_utf16(units) {
            Ok(text) => Self::Shared(text.into()),
            Err(_) => Self::Wide(units.into()),
        }
    }

    /// The text, unless it holds a lone surrogate.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Borrowed(text) => Some(text),
            Self::Shared(text) => Some(text),
            Self::Wide(_) => None,
        }
    }

    /// The text with U+FFFD for every lone surrogate.
    pub(crate) fn lossy(&self) -> Cow<'_, str> {
        match self {
            Self::Borrowed(text) => Cow::Borrowed(text),
            Self::Shared(text) => Cow::Borrowed(text),
            Self::Wide(units) => Cow::Owned(String::from_utf16_lossy(units)),
        }
    }

    /// The code units, copied.
    pub(crate) fn units(&self, budget: &mut Budget) -> Fallible<Rc<[u16]>> {
        Ok(match self {
            Self::Wide(units) => Rc::clone(units),
            Self::Borrowed(_) | Self::Shared(_) => {
                let text = self.as_str().unwrap_or_default();
                // Memory that is given back at once costs time only.
                budget.steps(1 + text.len() as u64 / 64)?;
                text.encode_utf16().collect()
            }
        })
    }

    /// Bytes it occupies, for the account.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Borrowed(text) => text.len(),
            Self::Shared(text) => text.len(),
            Self::Wide(units) => units.len() * 2,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// `length`: how many code units.
    pub(crate) fn length(&self, budget: &mut Budget) -> Fallible<usize> {
        budget.scan(self.size())?;
        Ok(match self {
            Self::Wide(units) => units.len(),
            _ => unit_count(self.as_str().unwrap_or_default()),
        })
    }

    /// The code units from `start` up to `end`, which are in range and in order.
    pub(crate) fn slice(
        &self,
        start: usize,
        end: usize,
        budget: &mut Budget,
    ) -> Fallible<Text<'a>> {
        budget.scan(self.size())?;
        if let Some((from, to)) = self.byte_range(start, end) {
            return match self {
                Self::Borrowed(text) => Ok(Text::Borrowed(&text[from..to])),
                Self::Shared(text) if from == 0 && to == text.len() => {
                    Ok(Text::Shared(Rc::clone(text)))
                }
                _ => {
                    budget.build(to - from)?;
                    Ok(Text::Shared(
                        self.as_str().unwrap_or_default()[from..to].into(),
                    ))
                }
            };
        }
        let units = self.units(budget)?;
        budget.build_many(end - start, 2)?;
        Ok(Text::from_units(&units[start..end]))
    }

    /// The byte range of a range of code units, if neither end falls inside a character.
    fn byte_range(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let text = self.as_str()?;
        if text.is_ascii() {
            return Some((start, end));
        }
        let from = byte_offset(text, start)?;
        let to = from + byte_offset(&text[from..], end - start)?;
        Some((from, to))
    }

    /// Order by code units, as JavaScript's `<` and `sort` have it.
    pub(crate) fn compare(&self, other: &Text<'_>, budget: &mut Budget) -> Fallible<Ordering> {
        budget.scan(self.size().min(other.size()))?;
        Ok(match (self.as_str(), other.as_str()) {
            (Some(one), Some(two)) => compare_units(one, two),
            _ => self.units(budget)?.cmp(&other.units(budget)?),
        })
    }

    /// Characters, as iterating a string gives them: lone surrogates stand alone.
    pub(crate) fn characters(&self) -> Vec<Text<'a>> {
        match self {
            Self::Borrowed(text) => text.split_inclusive(|_| true).map(Text::Borrowed).collect(),
            Self::Shared(text) => text
                .chars()
                .map(|letter| Text::built(letter.into()))
                .collect(),
            Self::Wide(units) => char::decode_utf16(units.iter().copied())
                .map(|letter| match letter {
                    Ok(letter) => Text::built(letter.into()),
                    Err(lone) => Text::Wide([lone.unpaired_surrogate()].into()),
                })
                .collect(),
        }
    }

    /// Joins parts, whose price is paid here.
    pub(crate) fn concat<'b>(parts: &[Text<'_>], budget: &mut Budget) -> Fallible<Text<'b>> {
        let size = parts.iter().map(Text::size).fold(0, usize::saturating_add);
        budget.build(size)?;
        if parts.iter().all(|part| part.as_str().is_some()) {
            let mut text = String::with_capacity(size);
            for part in parts {
                text.push_str(part.as_str().unwrap_or_default());
            }
            return Ok(Text::built(text));
        }
        let mut units = Vec::with_capacity(size);
        for part in parts {
            units.extend_from_slice(&part.units(budget)?);
        }
        Ok(Text::from_units(&units))
    }

    /// Whether this is exactly `text`.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

/// How many UTF-16 code units a text has.
pub(crate) fn unit_count(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().map(char::len_utf16).sum()
    }
}

/// The byte at which code unit `position` starts; `None` inside a character or past the end.
fn byte_offset(text: &str, position: usize) -> Option<usize> {
    if position == 0 {
        return Some(0);
    }
    if text.is_ascii() {
        return (position <= text.len()).then_some(position);
    }
    let mut seen = 0;
    for (offset, letter) in text.char_indices() {
        if seen == position {
            return Some(offset);
        }
        seen += letter.len_utf16();
    }
    (seen == position).then_some(text.len())
}

fn compare_units(one: &str, two: &str) -> Ordering {
    let differs = one
        .bytes()
        .zip(two.bytes())
        .position(|(left, right)| left != right);
    match differs {
        None => one.len().cmp(&two.len()),
        Some(at) => {
            let start = (0..=at)
                .rev()
                .find(|at| one.is_char_boundary(*at))
                .unwrap_or(0);
            one[start..].encode_utf16().cmp(two[start..].encode_utf16())
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Wide(one), Self::Wide(two)) => one == two,
            _ => self.as_str().is_some() && self.as_str() == other.as_str(),
        }
    }
}

impl Eq for Text<'_> {}

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Wide(units) => units.hash(state),
            _ => self.as_str().hash(state),
        }
    }
}
