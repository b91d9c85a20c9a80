//! A string made ready to be searched and cut many times, each at the price of its part only.

use std::rc::Rc;

use crate::limits::Budget;
use crate::problem::Fallible;
use crate::text::Text;

/// Positions tried between two payments.
const BLOCK: usize = 256;

/// A string whose code units can be reached directly.
pub(crate) enum Subject<'a> {
    /// One byte a code unit.
    Ascii(Text<'a>),
    Units(Rc<[u16]>),
}

impl<'a> Subject<'a> {
    pub(crate) fn new(text: &Text<'a>, budget: &mut Budget) -> Fallible<Self> {
        budget.scan(text.size())?;
        if text.as_str().is_some_and(str::is_ascii) {
            return Ok(Self::Ascii(text.clone()));
        }
        Ok(Self::Units(text.units(budget)?))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ascii(text) => text.size(),
            Self::Units(units) => units.len(),
        }
    }

    /// The code units from `start` up to `end`, which are in range and in order.
    pub(crate) fn slice(
        &self,
        start: usize,
        end: usize,
        budget: &mut Budget,
    ) -> Fallible<Text<'a>> {
        match self {
            Self::Ascii(Text::Borrowed(text)) => Ok(Text::Borrowed(&text[start..end])),
            Self::Ascii(text) => {
                budget.build(end - start)?;
                Ok(Text::Shared(
                    text.as_str().unwrap_or_default()[start..end].into(),
                ))
            }
            Self::Units(units) => {
                budget.build_many(end - start, 2)?;
                Ok(Text::from_units(&units[start..end]))
            }
        }
    }

    /// Where `needle` first occurs at or after `from`.
    pub(crate) fn find(
        &self,
        needle: &Text<'_>,
        from: usize,
        budget: &mut Budget,
    ) -> Fallible<Option<usize>> {
        match self {
            Self::Ascii(text) => {
                let rest = &text.as_str().unwrap_or_default()[from..];
                let found = needle.as_str().and_then(|needle| rest.find(needle));
                budget.scan(found.unwrap_or(rest.len()))?;
                Ok(found.map(|at| from + at))
            }
            Self::Units(units) => find_units(units, &needle.units(budget)?, from, budget),
        }
    }

    /// Where `needle` last occurs at or before `from`.
    pub(crate) fn find_last(
        &self,
        needle: &Text<'_>,
        from: usize,
        budget: &mut Budget,
    ) -> Fallible<Option<usize>> {
        match self {
            Self::Ascii(text) => {
                let text = text.as_str().unwrap_or_default();
                let end = from.saturating_add(needle.size()).min(text.len());
                let found = needle.as_str().and_then(|needle| text[..end].rfind(needle));
                budget.scan(end - found.unwrap_or(0))?;
                Ok(found)
            }
            Self::Units(units) => {
                let needle = needle.units(budget)?;
                let Some(last) = units.len().checked_sub(needle.len()) else {
                    return Ok(None);
                };
                budget.scan(units.len().saturating_mul(needle.len()))?;
                Ok((0..=from.min(last))
                    .rev()
                    .find(|start| units[*start..].starts_with(&needle)))
            }
        }
    }
}

fn find_units(
    units: &[u16],
    needle: &[u16],
    from: usize,
    budget: &mut Budget,
) -> Fallible<Option<usize>> {
    let Some(last) = units.len().checked_sub(needle.len()) else {
        return Ok(None);
    };
    let mut start = from;
    while start <= last {
        budget.steps(1 + needle.len() as u64)?;
        let end = (start + BLOCK).min(last + 1);
        if let Some(found) = (start..end).find(|at| units[*at..].starts_with(needle)) {
            return Ok(Some(found));
        }
        start = end;
    }
    Ok(None)
}
