//! `replace` and `replaceAll` with string patterns.

use crate::ast::CallbackKind;
use crate::eval::{Evaluator, Passed};
use crate::problem::Fallible;
use crate::subject::Subject;
use crate::text::Text;
use crate::value::Value;

/// What stands in for a match.
enum Replacement<'a> {
    Text(Text<'a>),
    Callback(&'a CallbackKind),
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
        None => Replacement::Text(passed.get(1).to_text(run.budget)?),
    };
    let subject = Subject::new(text, run.budget)?;
    let (length, size) = (subject.len(), pattern.length(run.budget)?);
    let mut parts: Vec<Text<'a>> = Vec::new();
    // Of the text: where the next search starts, and where what is copied ends.
    let (mut from, mut copied) = (0, 0);
    while from <= length {
        run.budget.steps(1)?;
        let Some(found) = subject.find(&pattern, from, run.budget)? else {
            break;
        };
        parts.push(subject.slice(copied, found, run.budget)?);
        match &replacement {
            Replacement::Text(template) => {
                substitute(run, template, &subject, (found, found + size), &mut parts)?
            }
            Replacement::Callback(callback) => {
                let position = Value::Number(found as f64);
                let values = [
                    Value::String(pattern.clone()),
                    position,
                    Value::String(text.clone()),
                ];
                let value = run.call(callback, &values)?;
                parts.push(value.to_text(run.budget)?);
            }
        }
        copied = found + size;
        // An empty pattern matches once at each position.
        from = found + size.max(1);
        if !all {
            break;
        }
    }
    if parts.is_empty() {
        return Ok(Value::String(text.clone()));
    }
    parts.push(subject.slice(copied, length, run.budget)?);
    Ok(Value::String(Text::concat(&parts, run.budget)?))
}

/// Appends a replacement with its `$` patterns filled in (ECMA-262, 22.1.3.19.1).
fn substitute<'a>(
    run: &mut Evaluator<'_, 'a>,
    template: &Text<'a>,
    subject: &Subject<'a>,
    found: (usize, usize),
    parts: &mut Vec<Text<'a>>,
) -> Fallible<()> {
    if template.as_str().is_some_and(|plain| !plain.contains('$')) {
        parts.push(template.clone());
        return Ok(());
    }
    let units = template.units(run.budget)?;
    let mut plain = 0;
    let mut index = 0;
    while index + 1 < units.len() {
        run.budget.steps(1)?;
        let next = u8::try_from(units[index + 1]).unwrap_or(0);
        if units[index] != u16::from(b'$') || !matches!(next, b'$' | b'&' | b'`' | b'\'') {
            index += 1;
            continue;
        }
        parts.push(template.slice(plain, index, run.budget)?);
        parts.push(match next {
            b'&' => subject.slice(found.0, found.1, run.budget)?,
            b'`' => subject.slice(0, found.0, run.budget)?,
            b'\'' => subject.slice(found.1, subject.len(), run.budget)?,
            _ => Text::Borrowed("$"),
        });
        index += 2;
        plain = index;
    }
    parts.push(template.slice(plain, units.len(), run.budget)?);
    Ok(())
}
