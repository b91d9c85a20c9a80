//! The civil calendar: days to dates and back, ISO 8601 text to milliseconds and back.
//!
//! Proleptic Gregorian, UTC, no leap seconds — as JavaScript's `Date` counts. The algorithms
//! are Howard Hinnant's (`chrono`-compatible low-level date algorithms).

pub(super) const DAY: i64 = 86_400_000;

/// JavaScript's dates end 100,000,000 days from the epoch.
const LAST: i64 = 100_000_000 * DAY;

/// A moment taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    /// Milliseconds since midnight.
    pub(super) time: i64,
}

impl Moment {
    pub(super) fn from_milliseconds(milliseconds: i64) -> Self {
        let days = milliseconds.div_euclid(DAY);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            time: milliseconds.rem_euclid(DAY),
        }
    }

    pub(super) fn to_milliseconds(self) -> i64 {
        let year = if self.month <= 2 {
            self.year - 1
        } else {
            self.year
        };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted_month = (self.month + 9) % 12;
        let day_of_year = (153 * shifted_month + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        (era * 146_097 + day_of_era - 719_468) * DAY + self.time
    }

    /// Sunday is 0.
    pub(super) fn weekday(self) -> i64 {
        (self.to_milliseconds().div_euclid(DAY) + 4).rem_euclid(7)
    }
}

/// Reads a date, or a date and a time: `2026-01-31`, `2026-01-31T10:00`, `…:00.123Z`, `…+02:00`.
/// Without an offset a time is UTC.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let mut cursor = Cursor {
        rest: text.as_bytes(),
    };
    let year = match cursor.rest.first()? {
        b'+' => cursor.skip(1)?.digits(6)?,
        b'-' => -cursor.skip(1)?.digits(6)?,
        _ => cursor.digits(4)?,
    };
    let month = cursor.optional(b'-', 1)?;
    let day = cursor.optional(b'-', 1)?;
    let mut time = 0;
    if cursor.eat(b'T') || cursor.eat(b't') || cursor.eat(b' ') {
        time = cursor.time()?;
    }
    let plausible = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !cursor.rest.is_empty() || !plausible {
        return None;
    }
    let midnight = Moment {
        year,
        month,
        day,
        time: 0,
    };
    let milliseconds = midnight.to_milliseconds();
    // The thirtieth of February is no date.
    if Moment::from_milliseconds(milliseconds) != midnight {
        return None;
    }
    Some(milliseconds + time).filter(|milliseconds| milliseconds.abs() <= LAST)
}

/// ISO 8601 with milliseconds and `Z`, as `Date.prototype.toISOString` writes it.
pub(super) fn format(milliseconds: i64) -> Option<String> {
    if milliseconds.abs() > LAST {
        return None;
    }
    let moment = Moment::from_milliseconds(milliseconds);
    let Moment {
        year,
        month,
        day,
        time,
    } = moment;
    let year = match year {
        0..=9999 => format!("{year:04}"),
        10_000.. => format!("+{year:06}"),
        _ => format!("-{:06}", -year),
    };
    let (hour, minute, second) = (time / 3_600_000, time / 60_000 % 60, time / 1000 % 60);
    Some(format!(
        "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        time % 1000
    ))
}

struct Cursor<'t> {
    rest: &'t [u8],
}

impl Cursor<'_> {
    fn skip(&mut self, count: usize) -> Option<&mut Self> {
        self.rest = self.rest.get(count..)?;
        Some(self)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        self.rest = &self.rest[usize::from(found)..];
        found
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.rest = rest;
        Some(
            digits
                .iter()
                .fold(0, |total, digit| total * 10 + i64::from(digit - b'0')),
        )
    }

    /// Two digits after a mark, or a default without it.
    fn optional(&mut self, mark: u8, default: i64) -> Option<i64> {
        if self.eat(mark) {
            self.digits(2)
        } else {
            Some(default)
        }
    }

    /// A time of day and its offset, in milliseconds.
    fn time(&mut self) -> Option<i64> {
        let hour = self.digits(2)?;
        let minute = if self.eat(b':') {
            self.digits(2)?
        } else {
            return None;
        };
        let second = self.optional(b':', 0)?;
        let mut fraction = 0;
        if self.eat(b'.') || self.eat(b',') {
            let length = self
                .rest
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            // Digits past the milliseconds are cut off.
            let kept = length.min(3);
            fraction = self.digits(kept).filter(|_| length > 0)? * [1000, 100, 10, 1][kept];
            self.skip(length - kept)?;
        }
        let time = ((hour * 60 + minute) * 60 + second) * 1000 + fraction;
        let whole_day = hour == 24 && time == DAY;
        if minute > 59 || second > 59 || (hour > 23 && !whole_day) {
            return None;
        }
        Some(time - self.offset()?)
    }

    fn offset(&mut self) -> Option<i64> {
        if self.rest.is_empty() || self.eat(b'Z') || self.eat(b'z') {
            return Some(0);
        }
        let sign = if self.eat(b'+') {
            1
        } else if self.eat(b'-') {
            -1
        } else {
            return None;
        };
        let hour = self.digits(2)?;
        self.eat(b':');
        let minute = if self.rest.is_empty() {
            0
        } else {
            self.digits(2)?
        };
        (hour < 24 && minute < 60).then_some(sign * (hour * 60 + minute) * 60_000)
    }
}
