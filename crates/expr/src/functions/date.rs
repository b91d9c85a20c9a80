//! The language's own additions: durations and dates on ISO 8601 strings, always in UTC.
//!
//! A moment is an ISO string or milliseconds since 1970; anything else is an error.
//!
//! | call | gives |
//! |---|---|
//! | `duration('1h30m')` | milliseconds; units `ms s m h d w`, largest first or not, fractions allowed |
//! | `date.parse(iso)` | milliseconds since 1970 |
//! | `date.format(moment)` | ISO string with milliseconds and `Z` |
//! | `date.add(moment, milliseconds or '15m')` | ISO string |
//! | `date.diff(a, b)` | `a - b` in milliseconds |
//! | `date.startOf(moment, 'year' \| 'month' \| 'week' \| 'day' \| 'hour' \| 'minute' \| 'second')` | ISO string; weeks start on Monday |
//! | `date.year(moment)`, `month` (1-12), `day` (1-31), `weekday` (0 is Sunday), `hour`, `minute`, `second`, `millisecond` | a number |

use super::calendar::{self, DAY, Moment};
use super::{Function, function};
use crate::eval::{Evaluator, Passed, describe};
use crate::limits::Price;
use crate::problem::{Error, Fallible, error};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("duration", |run, passed| {
        Ok(Value::Number(duration(run, passed.get(0))?))
    }),
    function("date.parse", |run, passed| {
        Ok(number(moment(run, passed.get(0))?))
    }),
    function("date.format", |run, passed| {
        let moment = moment(run, passed.get(0))?;
        iso(run, moment)
    }),
    function("date.add", add),
    function("date.diff", |run, passed| {
        Ok(number(
            moment(run, passed.get(0))? - moment(run, passed.get(1))?,
        ))
    }),
    function("date.startOf", start_of),
    function("date.year", |run, passed| {
        part(run, passed, |moment| moment.year)
    }),
    function("date.month", |run, passed| {
        part(run, passed, |moment| moment.month)
    }),
    function("date.day", |run, passed| {
        part(run, passed, |moment| moment.day)
    }),
    function("date.weekday", |run, passed| {
        part(run, passed, Moment::weekday)
    }),
    function("date.hour", |run, passed| {
        part(run, passed, |moment| moment.time / 3_600_000)
    }),
    function("date.minute", |run, passed| {
        part(run, passed, |moment| moment.time / 60_000 % 60)
    }),
    function("date.second", |run, passed| {
        part(run, passed, |moment| moment.time / 1000 % 60)
    }),
    function("date.millisecond", |run, passed| {
        part(run, passed, |moment| moment.time % 1000)
    }),
];

fn number<'a>(milliseconds: i64) -> Value<'a> {
    Value::Number(milliseconds as f64)
}

fn out_of_range() -> Box<Error> {
    error("Invalid time value")
}

fn iso<'a>(run: &mut Evaluator<'_, 'a>, milliseconds: i64) -> Fallible<Value<'a>> {
    run.budget.build(32)?;
    calendar::format(milliseconds)
        .map(|text| Value::text(&text))
        .ok_or_else(out_of_range)
}

/// A moment: an ISO string or milliseconds since 1970.
fn moment<'a>(run: &mut Evaluator<'_, 'a>, value: &Value<'a>) -> Fallible<i64> {
    run.budget.steps(4)?;
    match value {
        Value::String(text) => {
            let plain = text.view(Price::READ, run.budget)?.plain();
            let parsed = plain.and_then(|text| calendar::parse(text.trim()));
            parsed.ok_or_else(|| {
                error("a date must be an ISO 8601 string such as 2026-01-31T10:00:00Z")
            })
        }
        other => {
            let number = other.as_number().filter(|number| number.abs() <= 8.64e15);
            let number =
                number.ok_or_else(|| error(format!("{} is not a date", describe(other))))?;
            Ok(number.trunc() as i64)
        }
    }
}

/// A duration: text with units, or a number of milliseconds.
fn duration<'a>(run: &mut Evaluator<'_, 'a>, value: &Value<'a>) -> Fallible<f64> {
    let text = match value {
        Value::String(text) => {
            run.budget.steps(1 + text.size() as u64)?;
            text.lossy(Price::READ, run.budget)?
        }
        other => {
            let message = || {
                error(format!(
                    "{} is not a duration; write one such as '15m'",
                    describe(other)
                ))
            };
            return other
                .as_number()
                .filter(|number| number.is_finite())
                .ok_or_else(message);
        }
    };
    parse_duration(&text).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        error(format!(
            "'{shown}' is not a duration; write one such as '15m' or '1h30m'"
        ))
    })
}

fn parse_duration(text: &str) -> Option<f64> {
    let text = text.trim();
    let (negative, mut rest) = text
        .strip_prefix('-')
        .map_or((false, text), |rest| (true, rest));
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|next: char| next != '.' && !next.is_ascii_digit())?;
        let amount: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|next: char| !next.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        total += amount * unit(&rest[..letters])?;
        rest = rest[letters..].trim_start();
    }
    Some(if negative { -total } else { total })
}

fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "ms" => 1.0,
        "s" => 1000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => DAY as f64,
        "w" => 7.0 * DAY as f64,
        _ => return None,
    })
}

fn add<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let start = moment(run, passed.get(0))?;
    let milliseconds = duration(run, passed.get(1))?;
    if milliseconds.abs() > 2e16 {
        return Err(out_of_range());
    }
    iso(run, start + milliseconds.trunc() as i64)
}

fn part<'a>(
    run: &mut Evaluator<'_, 'a>,
    passed: &Passed<'a>,
    part: fn(Moment) -> i64,
) -> Fallible<Value<'a>> {
    let moment = moment(run, passed.get(0))?;
    Ok(number(part(Moment::from_milliseconds(moment))))
}

fn start_of<'a>(run: &mut Evaluator<'_, 'a>, passed: &Passed<'a>) -> Fallible<Value<'a>> {
    let milliseconds = moment(run, passed.get(0))?;
    let unit = passed.get(1).to_text(run.budget)?;
    let moment = Moment::from_milliseconds(milliseconds);
    let start = match unit.word().unwrap_or_default() {
        "second" => milliseconds - milliseconds.rem_euclid(1000),
        "minute" => milliseconds - milliseconds.rem_euclid(60_000),
        "hour" => milliseconds - milliseconds.rem_euclid(3_600_000),
        "day" => milliseconds - moment.time,
        "week" => milliseconds - moment.time - (moment.weekday() + 6) % 7 * DAY,
        "month" => Moment {
            day: 1,
            time: 0,
            ..moment
        }
        .to_milliseconds(),
        "year" => Moment {
            month: 1,
            day: 1,
            time: 0,
            ..moment
        }
        .to_milliseconds(),
        _ => {
            return Err(error(
                "date.startOf knows year, month, week, day, hour, minute and second",
            ));
        }
    };
    iso(run, start)
}
