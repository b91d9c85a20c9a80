//! Moments and durations as people write and read them.

use std::time::{SystemTime, UNIX_EPOCH};

use windlass_core::Millis;

use crate::failure::{Failure, FailureKind};

/// Now.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.map_or(0, |since| since.as_millis());
    Millis(i64::try_from(since).unwrap_or(i64::MAX))
}

/// A duration in the two units that matter: `850ms`, `3.2s`, `4m 10s`, `2h 5m`, `3d 4h`.
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        1000..60_000 => format!("{}.{}s", seconds, milliseconds % 1000 / 100),
        _ if minutes < 60 => format!("{minutes}m {}s", seconds % 60),
        _ if hours < 24 => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// How long ago a moment was, roughly.
pub fn ago(at: Millis, now: Millis) -> String {
    let seconds = now.0.saturating_sub(at.0) / 1000;
    match seconds {
        i64::MIN..0 => "in the future".to_owned(),
        0..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86_400 => format!("{}h ago", seconds / 3600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// A moment for people: `2026-11-15 20:30:11 UTC`.
pub fn readable(at: Millis) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((date, time)) => format!("{date} {} UTC", &time[..time.len().min(8)]),
        None => text,
    }
}

/// Since when: `15m`, `2h`, `7d`, or a moment such as `2026-01-31T12:00:00Z`.
pub fn since(text: &str, now: Millis) -> Result<Millis, Failure> {
    relative(text)
        .map(|milliseconds| Millis(now.0.saturating_sub(milliseconds)))
        .or_else(|| absolute(text))
        .ok_or_else(|| {
            let message = format!("'{text}' is neither a duration nor a moment");
            Failure::new(FailureKind::TimeInvalid, message)
                .hint("write 15m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z")
        })
}

fn relative(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        's' => 1000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        'w' => 7 * 86_400_000,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number
        .parse::<i64>()
        .ok()
        .filter(|_| plain)?
        .checked_mul(unit)
}

/// RFC 3339, or a date alone: then its first moment in UTC.
fn absolute(text: &str) -> Option<Millis> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (
        digits(parts.next()?, 4)?,
        digits(parts.next()?, 2)?,
        digits(parts.next()?, 2)?,
    );
    let in_month = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=in_month).contains(&day) {
        return None;
    }
    let days = days_from_civil(year, month, day);
    let in_day = time.map_or(Some(0), time_of_day)?;
    Some(Millis(days * 86_400_000 + in_day))
}

/// Milliseconds after midnight UTC of `12:00:00.5Z` or `12:00:00+02:00`.
fn time_of_day(text: &str) -> Option<i64> {
    let at = text.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = text.split_at(at);
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let minutes = digits(hours, 2)? * 60 + digits(minutes, 2)?;
            if zone.starts_with('-') {
                -minutes
            } else {
                minutes
            }
        }
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |text| digits(text, 2))?;
    if hour > 23 || minute > 59 || second > 60 || parts.next().is_some() {
        return None;
    }
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{fraction}00").get(..3)?.parse().ok()?;
    Some(((hour * 60 + minute - offset) * 60 + second) * 1000 + millis)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let plain = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Days since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_written() {
        let check = |text: &str, expected: &str| {
            let found = since(text, Millis(1_000_000)).map(|at| at.to_string());
            assert_eq!(found.expect(text), expected, "{text}");
        };
        check("2026-11-15T12:00:00.123Z", "2026-11-15T12:00:00.123Z");
        check("2000-02-29", "2000-02-29T00:00:00.000Z");
        check("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00.000Z");
        check("2026-01-31 12:00Z", "2026-01-31T12:00:00.000Z");
        check("15m", "1970-01-01T00:01:40.000Z");
        for wrong in [
            "",
            "m",
            "-5m",
            "2026-02-29",
            "2026-13-01",
            "12:00",
            "2026-01-31T25:00:00Z",
        ] {
            assert!(since(wrong, Millis(0)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_two_units() {
        for (milliseconds, expected) in [
            (0, "0ms"),
            (999, "999ms"),
            (3_250, "3.2s"),
            (250_000, "4m 10s"),
            (7_500_000, "2h 5m"),
            (273_600_000, "3d 4h"),
        ] {
            assert_eq!(duration(milliseconds), expected);
        }
    }
}
