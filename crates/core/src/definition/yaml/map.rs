//! The way back: from the converted JSON text to lines and columns of the YAML.

use std::ops::Range;

use saphyr_parser::Span;

use crate::definition::place::{Position, Positions};
use crate::definition::scan::unescape;

/// Where one key or value of the JSON text comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    json: usize,
    /// In characters of the YAML text.
    start: usize,
    end: usize,
    position: Position,
}

impl Mark {
    /// The JSON text from this byte on comes from this span.
    pub(super) fn new(json: usize, span: Span) -> Self {
        Self {
            json,
            start: span.start.index(),
            end: span.end.index(),
            position: position(span),
        }
    }
}

/// The converted text, and where its parts stand in the YAML file.
pub(crate) struct Map<'t> {
    text: &'t str,
    /// The JSON text.
    pub(crate) json: String,
    marks: Vec<Mark>,
}

impl<'t> Map<'t> {
    pub(super) fn new(text: &'t str, json: String, marks: Vec<Mark>) -> Self {
        Self { text, json, marks }
    }

    fn find(&self, range: &Range<usize>, characters: &mut Characters<'t>) -> Position {
        let after = self.marks.partition_point(|mark| mark.json <= range.start);
        let Some(mark) = after.checked_sub(1).and_then(|at| self.marks.get(at)) else {
            return Position {
                line: 1,
                column: 1,
                length: 1,
            };
        };
        let inside = range.start > mark.json && self.json[mark.json..].starts_with('"');
        if inside && let Some(position) = self.within(mark, range, characters) {
            return position;
        }
        mark.position
    }

    /// The place inside a text: the line of the value that holds it is looked
    /// for in the source, which finds everything that is not written with escapes.
    fn within(
        &self,
        mark: &Mark,
        range: &Range<usize>,
        characters: &mut Characters<'t>,
    ) -> Option<Position> {
        let source = characters.slice(mark.start, mark.end);
        let before = unescape(self.json.get(mark.json + 1..range.start)?);
        let wanted = unescape(self.json.get(range.clone())?);
        let wanted = wanted.lines().next().unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let lead = &before[line_start..];
        let found = match source.find(&format!("{lead}{wanted}")) {
            Some(at) => at + lead.len(),
            None => only(source, wanted)?,
        };
        let (mut line, mut column) = (mark.position.line, mark.position.column);
        for character in source[..found].chars() {
            if character == '\n' {
                line += 1;
                column = 1;
            } else {
                column += 1;
            }
        }
        let length = u32::try_from(wanted.chars().count()).unwrap_or(u32::MAX);
        Some(Position {
            line,
            column,
            length: length.max(1),
        })
    }
}

impl Positions for Map<'_> {
    fn positions(&self, ranges: &[Range<usize>]) -> Vec<Position> {
        let mut characters = Characters::new(self.text);
        ranges
            .iter()
            .map(|range| self.find(range, &mut characters))
            .collect()
    }
}

/// Where a part stands in a text, if it does so exactly once.
fn only(text: &str, part: &str) -> Option<usize> {
    let at = text.find(part)?;
    (!part.is_empty() && text.rfind(part) == Some(at)).then_some(at)
}

/// Counts the characters of a text forwards, so that finding many places by
/// their character is one walk.
struct Characters<'t> {
    text: &'t str,
    character: usize,
    byte: usize,
}

impl<'t> Characters<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            character: 0,
            byte: 0,
        }
    }

    /// The text between two characters; the first is not before that of an earlier call.
    fn slice(&mut self, start: usize, end: usize) -> &'t str {
        let step = self.offset(start.saturating_sub(self.character));
        self.byte += step;
        self.character = start.max(self.character);
        let length = self.offset(end.saturating_sub(start));
        &self.text[self.byte..self.byte + length]
    }

    fn offset(&self, characters: usize) -> usize {
        let rest = &self.text[self.byte..];
        rest.char_indices()
            .nth(characters)
            .map_or(rest.len(), |(at, _)| at)
    }
}

/// Where a span stands, with a width that ends with its line.
pub(super) fn position(span: Span) -> Position {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let same_line = span.start.line() == span.end.line();
    let length = if same_line { span.len() } else { 1 };
    Position {
        line: number(span.start.line().max(1)),
        column: number(span.start.col() + 1),
        length: number(length.max(1)),
    }
}

/// The line with this number, from 1.
pub(super) fn line(text: &str, number: usize) -> &str {
    text.lines()
        .nth(number.saturating_sub(1))
        .unwrap_or_default()
}
