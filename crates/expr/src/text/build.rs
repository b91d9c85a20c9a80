//! Building a text piece by piece, each paid for before it is copied.

use super::{Text, View, unit_count};
use crate::limits::Budget;
use crate::problem::Fallible;
use crate::work;

/// A text that grows: UTF-8 until a lone surrogate comes, code units from then on.
#[derive(Default)]
pub(crate) struct TextBuilder {
    plain: String,
    /// Everything so far, once a lone surrogate came.
    wide: Option<Vec<u16>>,
}

impl TextBuilder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn push(&mut self, text: &Text<'_>, budget: &mut Budget) -> Fallible<()> {
        match text.raw() {
            View::Plain(text) => self.push_plain(text, budget),
            View::Wide(units) => self.push_units(units, budget),
        }
    }

    /// Appends the bytes of plain text from one character's start up to another's.
    pub(crate) fn push_range(
        &mut self,
        text: &Text<'_>,
        start: usize,
        end: usize,
        budget: &mut Budget,
    ) -> Fallible<()> {
        match text.raw() {
            View::Plain(text) => self.push_plain(&text[start..end], budget),
            View::Wide(units) => self.push_units(&units[start..end], budget),
        }
    }

    pub(crate) fn push_plain(&mut self, text: &str, budget: &mut Budget) -> Fallible<()> {
        let Some(wide) = &mut self.wide else {
            budget.build(text.len())?;
            work::built(text.len());
            self.plain.push_str(text);
            return Ok(());
        };
        // The largest size it can have; counting would be a pass of its own.
        budget.build(2 * text.len())?;
        work::built(2 * text.len());
        wide.extend(text.encode_utf16());
        Ok(())
    }

    pub(crate) fn push_units(&mut self, units: &[u16], budget: &mut Budget) -> Fallible<()> {
        budget.build(2 * units.len())?;
        work::built(2 * units.len());
        if self.wide.is_none() {
            let plain = std::mem::take(&mut self.plain);
            budget.build(2 * plain.len())?;
            work::built(2 * plain.len());
            let mut wide = Vec::with_capacity(unit_count(&plain) + units.len());
            wide.extend(plain.encode_utf16());
            self.wide = Some(wide);
        }
        if let Some(wide) = &mut self.wide {
            wide.extend_from_slice(units);
        }
        Ok(())
    }

    pub(crate) fn finish<'a>(self) -> Text<'a> {
        match self.wide {
            None if self.plain.is_empty() => Text::Borrowed(""),
            None => Text::Shared(self.plain.into()),
            Some(units) => of_units(&units),
        }
    }
}

/// Code units that are paid for.
pub(super) fn of_units<'a>(units: &[u16]) -> Text<'a> {
    work::read(2 * units.len());
    work::built(2 * units.len());
    let mut size = 0;
    for letter in char::decode_utf16(units.iter().copied()) {
        match letter {
            Ok(letter) => size += letter.len_utf8(),
            Err(_) => return Text::Wide(units.into()),
        }
    }
    let mut text = String::with_capacity(size);
    text.extend(char::decode_utf16(units.iter().copied()).flatten());
    Text::Shared(text.into())
}
