//! When a schedule's times are.

use super::cron_fields;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use windlass_core::Millis;

/// The longest cron expression, in bytes.
pub const CRON_LIMIT_BYTES: usize = 256;

/// The shortest and the longest time between two times, in milliseconds.
pub const EVERY_LIMIT_MS: (u64, u64) = (1000, 366 * 86_400_000);

/// The longest name of a time zone, in bytes.
const ZONE_LIMIT_BYTES: usize = 64;

/// The times of a schedule.
#[derive(Clone, Debug)]
pub struct Timing {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Cron { cron: Box<Cron>, zone: TimeZone },
    Every(i64),
}

/// A problem of a schedule, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleProblem {
    /// The key that is wrong, as a JSON pointer.
    pub pointer: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl ScheduleProblem {
    pub(crate) fn new(pointer: &'static str, message: impl Into<String>) -> Self {
        Self {
            pointer,
            message: message.into(),
        }
    }
}

impl Timing {
    /// The times that are meant: either by a cron expression of five fields, or six with
    /// seconds first, in a time zone, or by a distance.
    ///
    /// # Errors
    /// Neither or both are given, or one cannot be used.
    pub fn new(
        cron: Option<&str>,
        every_ms: Option<u64>,
        timezone: &str,
    ) -> Result<Self, ScheduleProblem> {
        let zone = zone(timezone)?;
        let kind = match (cron, every_ms) {
            (Some(text), None) => Kind::Cron {
                cron: Box::new(parse(text)?),
                zone,
            },
            (None, Some(every)) => Kind::Every(distance(every)?),
            (None, None) => {
                let message = "it has no time: give cron or everyMs";
                return Err(ScheduleProblem::new("/cron", message));
            }
            (Some(_), Some(_)) => {
                let message = "it has two times: give cron or everyMs, not both";
                return Err(ScheduleProblem::new("/everyMs", message));
            }
        };
        Ok(Self { kind })
    }

    /// The first time of a schedule that begins now.
    pub fn first(&self, now: Millis) -> Option<Millis> {
        self.after(now, now)
    }

    /// The first time after a moment; `from` is one of its times, or where it began.
    pub fn after(&self, moment: Millis, from: Millis) -> Option<Millis> {
        match &self.kind {
            Kind::Cron { cron, zone } => next(cron, zone, moment),
            Kind::Every(every) => {
                let passed = moment.0.checked_sub(from.0)?.max(0) / every;
                let ahead = passed.checked_add(1)?.checked_mul(*every)?;
                from.0.checked_add(ahead).map(Millis)
            }
        }
    }

    /// The last times from `from`, which is one, to `until`: at most so many, in order.
    pub fn between(&self, from: Millis, until: Millis, most: usize) -> Vec<Millis> {
        let mut times = Vec::new();
        let mut end = until;
        while times.len() < most {
            let Some(last) = self.last(from, end) else {
                break;
            };
            times.push(last);
            end = Millis(last.0 - 1);
        }
        times.reverse();
        times
    }

    /// The last time from `from`, which is one, to `until`.
    fn last(&self, from: Millis, until: Millis) -> Option<Millis> {
        if until < from {
            return None;
        }
        match &self.kind {
            Kind::Every(every) => Some(Millis(from.0 + (until.0 - from.0) / every * every)),
            Kind::Cron { .. } => {
                // The later of two moments never has the earlier time after it. So the last
                // moment that is followed by a time within the bounds is found by halving,
                // however many times there are between.
                let (mut low, mut high) = (from.0 - 1, until.0);
                let mut last = from;
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    match self.after(Millis(middle), from) {
                        Some(at) if at <= until => {
                            last = last.max(at);
                            // Nothing lies between.
                            low = middle.max(at.0 - 1);
                        }
                        _ => high = middle,
                    }
                }
                match self.after(Millis(low), from) {
                    Some(at) if at <= until => Some(last.max(at)),
                    _ => Some(last),
                }
            }
        }
    }
}

fn zone(name: &str) -> Result<TimeZone, ScheduleProblem> {
    let wrong = |message: String| ScheduleProblem::new("/timezone", message);
    if name.len() > ZONE_LIMIT_BYTES {
        let message = format!("a time zone's name has at most {ZONE_LIMIT_BYTES} bytes");
        return Err(wrong(message));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte);
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(wrong("it is no name of a time zone".to_owned()));
    }
    let unknown = |_| wrong(format!("there is no time zone '{name}'"));
    TimeZone::get(name).map_err(unknown)
}

fn distance(every_ms: u64) -> Result<i64, ScheduleProblem> {
    let (least, most) = EVERY_LIMIT_MS;
    if !(least..=most).contains(&every_ms) {
        let message = format!("{every_ms} is not from {least} to {most}");
        return Err(ScheduleProblem::new("/everyMs", message));
    }
    Ok(i64::try_from(every_ms).unwrap_or(i64::MAX))
}

fn parse(text: &str) -> Result<Cron, ScheduleProblem> {
    let wrong = |message: String| ScheduleProblem::new("/cron", message);
    if text.len() > CRON_LIMIT_BYTES {
        let message = format!("a cron expression has at most {CRON_LIMIT_BYTES} bytes");
        return Err(wrong(message));
    }
    if !text
        .bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic())
    {
        return Err(wrong("it has other characters than cron knows".to_owned()));
    }
    cron_fields::check(text).map_err(wrong)?;
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build();
    let cron = parser.parse(text);
    cron.map_err(|error| wrong(error.to_string().trim_end_matches('.').to_owned()))
}

/// The first time after a moment. Times that a change of the clocks leaves out come right
/// after it, those that come twice count once; what comes every so many minutes or hours
/// goes on as the hours really pass.
fn next(cron: &Cron, zone: &TimeZone, moment: Millis) -> Option<Millis> {
    // Cron knows whole seconds.
    let second = moment.0.div_euclid(1000);
    let start = Timestamp::from_second(second).ok()?.to_zoned(zone.clone());
    let found: Zoned = cron.find_next_occurrence(&start, false).ok()?;
    let at = Millis(found.timestamp().as_millisecond());
    (at > moment).then_some(at)
}
