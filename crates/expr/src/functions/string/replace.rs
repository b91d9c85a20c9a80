//! `replace` and `replaceAll` with string patterns.

use crate::ast::CallbackKind;
use crate::eval::{Evaluator, Passed};
use crate::limits::{Budget, Price};
use crate::problem::Fallible;
use crate::subject::Subject;
use crate::text::{Text, TextBuilder, View};
use crate::value::{ITEM_SIZE, Value};

/// What stands in for a match.
enum Replacement<'a> {
    Pieces(Vec<Piece<'a>>),
    Callback(&'a CallbackKind),
}

/// A part of a replacement text.
enum Piece<'a> {
    Text(Text<'a>),
    /// `$&`: the match.
    Match,
    /// `` $` ``: what is before the match.
    Before,
    /// `$'`: what is after the match.
    After,
}

pub(super) fn replace<'a>(
    run: &mut Evaluator<'_, 'a>,
    text: &Text<'a>,
    passed: &Passed<'a>,
    all: bool,
) -> Fallible<Value<'a>> {
    let pattern = passed.get(0).to_text(run.budget)?;
    let replacement = match passed.any_callback() {
        Some(callback) => Replacement::Callback(callback),
        None => Replacement::Pieces(pieces(passed.get(1).to_text(run.budget)?, run.budget)?),
    };
    let subject = Subject::new(text, &pattern, run.budget)?;
    let (length, size) = (subject.len(), subject.needle_len());
    let mut out = TextBuilder::new();
    // Of the text: where the next search starts, and where what is copied ends.
    let (mut from, mut copied) = (0, 0);
    // Code units before what is copied, which only a function asks for.
    let mut position = 0;
    let mut found_any = false;
    while from <= length {
        run.budget.steps(1)?;
        let Some(found) = subject.find(from, run.budget)? else {
            break;
        };
        found_any = true;
        subject.append(copied, found, &mut out, run.budget)?;
        match &replacement {
            Replacement::Pieces(pieces) => {
                let place = (found, found + size);
                substitute(pieces, &subject, place, &mut out, run.budget)?;
            }
            Replacement::Callback(callback) => {
                let at = position + subject.distance(copied, found, run.budget)?;
                position = at + subject.distance(found, found + size, run.budget)?;
                let values = [
                    Value::String(pattern.clone()),
                    Value::Number(at as f64),
                    Value::String(text.clone()),
                ];
                let value = run.call(callback, &values)?;
                out.push(&value.to_text(run.budget)?, run.budget)?;
            }
        }
        copied = found + size;
        // An empty pattern matches once at each position.
        from = found + size.max(1);
        if !all {
            break;
        }
    }
    if !found_any {
        return Ok(Value::String(text.clone()));
    }
    subject.append(copied, length, &mut out, run.budget)?;
    Ok(Value::String(out.finish()))
}

/// Appends a replacement with its `$` patterns filled in (ECMA-262, 22.1.3.19.1).
fn substitute<'a>(
    pieces: &[Piece<'a>],
    subject: &Subject<'_, 'a>,
    (start, end): (usize, usize),
    out: &mut TextBuilder,
    budget: &mut Budget,
) -> Fallible<()> {
    for piece in pieces {
        budget.steps(1)?;
        match piece {
            Piece::Text(text) => out.push(text, budget)?,
            Piece::Match => subject.append(start, end, out, budget)?,
            Piece::Before => subject.append(0, start, out, budget)?,
            Piece::After => subject.append(end, subject.len(), out, budget)?,
        }
    }
    Ok(())
}

/// Takes a replacement text apart.
fn pieces<'a>(template: Text<'a>, budget: &mut Budget) -> Fallible<Vec<Piece<'a>>> {
    let marks = marks(&template, budget)?;
    if marks.is_empty() {
        return Ok(vec![Piece::Text(template)]);
    }
    let mut pieces = Vec::new();
    let mut plain = 0;
    let is_wide = template.is_wide();
    let cut = |from: usize, to: usize, budget: &mut Budget| {
        if is_wide {
            template.slice(from, to, budget)
        } else {
            template.bytes(from, to, budget)
        }
    };
    for (at, mark) in marks {
        budget.build(2 * ITEM_SIZE)?;
        pieces.push(Piece::Text(cut(plain, at, budget)?));
        pieces.push(match mark {
            b'&' => Piece::Match,
            b'`' => Piece::Before,
            b'\'' => Piece::After,
            _ => Piece::Text(Text::Borrowed("$")),
        });
        plain = at + 2;
    }
    let length = if is_wide {
        template.size() / 2
    } else {
        template.size()
    };
    pieces.push(Piece::Text(cut(plain, length, budget)?));
    Ok(pieces)
}

/// Where the template's `$` patterns are, and which.
fn marks(template: &Text<'_>, budget: &mut Budget) -> Fallible<Vec<(usize, u8)>> {
    match template.view(Price::CONVERT, budget)? {
        View::Plain(plain) => scan(plain.len(), |at| plain.as_bytes()[at], budget),
        View::Wide(units) => {
            let byte = |at: usize| u8::try_from(units[at]).unwrap_or(0);
            scan(units.len(), byte, budget)
        }
    }
}

fn scan(
    length: usize,
    byte: impl Fn(usize) -> u8,
    budget: &mut Budget,
) -> Fallible<Vec<(usize, u8)>> {
    let mut marks = Vec::new();
    let mut index = 0;
    while index + 1 < length {
        let next = byte(index + 1);
        if byte(index) == b'$' && matches!(next, b'$' | b'&' | b'`' | b'\'') {
            budget.build(ITEM_SIZE)?;
            marks.push((index, next));
            index += 2;
        } else {
            index += 1;
        }
    }
    Ok(marks)
}
