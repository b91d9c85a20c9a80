//! `--filter`: which runs to act on, as `key=value` conditions that all must hold.

use windlass_core::{Millis, RunStatus};
use windlass_engine::{Clock as _, SystemClock};
use windlass_store::RunFilter;

use crate::exit::{Exit, Failure};
use crate::overrides::nearest;

/// Reads the conditions of a filter.
pub(crate) fn parse(conditions: &[String]) -> Result<RunFilter, Failure> {
    let mut filter = RunFilter::default();
    for condition in conditions {
        let (key, value) = condition
            .split_once('=')
            .ok_or_else(|| usage(condition, "there is no '='"))?;
        match key {
            "workflow" => filter.workflow = Some(value.into()),
            "status" => filter.statuses.push(status(value)?),
            "since" => filter.since = Some(since(value, SystemClock.now())?),
            _ => match key.strip_prefix("label.") {
                Some(name) if !name.is_empty() => {
                    filter.labels.insert(name.into(), value.into());
                }
                _ => return Err(usage(condition, "there is no such key")),
            },
        }
    }
    Ok(filter)
}

fn status(text: &str) -> Result<RunStatus, Failure> {
    text.parse().map_err(|_| {
        let names = RunStatus::ALL.map(RunStatus::as_str);
        let message = format!("'{text}' is not the status of a run");
        let hint = nearest(text, names.into_iter())
            .unwrap_or_else(|| format!("it is one of {}", names.join(", ")));
        Failure::new(Exit::Usage, "USAGE", message).hint(hint)
    })
}

/// A moment: so long ago, or a day or time of the calendar in UTC.
fn since(text: &str, now: Millis) -> Result<Millis, Failure> {
    let wrong = || {
        let message = format!("since={text}: this is not a time");
        Failure::new(Exit::Usage, "USAGE", message)
            .hint("say 15m, 2h, 7d, 2026-01-31, or 2026-01-31T12:00:00Z")
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let scale: Option<i64> = match unit {
        's' => Some(1000),
        'm' => Some(60_000),
        'h' => Some(3_600_000),
        'd' => Some(86_400_000),
        _ => None,
    };
    let (Some(scale), Ok(count)) = (scale, text[..text.len() - unit.len_utf8()].parse::<u32>())
    else {
        return moment(text).ok_or_else(wrong);
    };
    Ok(Millis(now.0 - i64::from(count).saturating_mul(scale)))
}

/// `YYYY-MM-DD`, with `THH:MM:SS` and a fraction if wanted, in UTC.
fn moment(text: &str) -> Option<Millis> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00"));
    let mut parts = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    let time = time.strip_suffix('Z').unwrap_or(time);
    let mut parts = time.splitn(3, ':');
    let hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next()?.parse().ok()?;
    let second: f64 = parts.next().unwrap_or("0").parse().ok()?;
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..60.0).contains(&second);
    if !fits {
        return None;
    }
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60;
    Some(Millis(seconds * 1000 + (second * 1000.0) as i64))
}

fn usage(condition: &str, what: &str) -> Failure {
    Failure::new(Exit::Usage, "USAGE", format!("--filter {condition}: {what}"))
        .hint("workflow=ID, status=STATUS, label.KEY=VALUE or since=TIME")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        let now = Millis(1_000_000_000_000);
        let check = |text: &str, expected: i64| {
            assert_eq!(since(text, now).expect(text), Millis(expected), "{text}");
        };
        check("15m", now.0 - 900_000);
        check("7d", now.0 - 604_800_000);
        check("2000-02-29", 951_782_400_000);
        check("2026-11-15T12:00:00.123Z", 1_794_744_000_123);
        for wrong in ["", "m", "-5m", "2026-13-01", "yesterday", "2026-01-01T25:00:00Z"] {
            assert!(since(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn conditions_are_named() {
        let conditions = ["workflow=a", "status=failed", "label.team=x"].map(str::to_owned);
        let filter = parse(&conditions).expect("a filter");
        assert_eq!(filter.workflow.as_deref(), Some("a"));
        assert_eq!(filter.statuses, [RunStatus::Failed]);
        assert!(parse(&["stat=x".to_owned()]).is_err());
        let failure = parse(&["status=Faild".to_owned()]).expect_err("no status");
        assert_eq!(failure.hint.as_deref(), Some("did you mean 'Failed'?"));
    }
}
