//! The fields of a cron expression, checked one by one, so that an error names the field and
//! what it may have. What is rarer than numbers, names, ranges and steps is left to the parser.

/// A field, its range and the names of its values.
struct CronField {
    name: &'static str,
    least: u32,
    most: u32,
    /// In order from `least`.
    names: &'static [&'static str],
}

const fn plain(name: &'static str, least: u32, most: u32) -> CronField {
    CronField {
        name,
        least,
        most,
        names: &[],
    }
}

const FIELDS: [CronField; 6] = [
    plain("second", 0, 59),
    plain("minute", 0, 59),
    plain("hour", 0, 23),
    plain("day of month", 1, 31),
    CronField {
        name: "month",
        least: 1,
        most: 12,
        names: &[
            "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
        ],
    },
    CronField {
        name: "day of week",
        least: 0,
        most: 7,
        names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    },
];

/// Says what is wrong with a cron expression, as far as single fields tell.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.trim_start().starts_with('@') {
        return Ok(());
    }
    let written: Vec<&str> = text.split_whitespace().collect();
    let fields = match written.len() {
        5 => &FIELDS[1..],
        6 => &FIELDS[..],
        count => {
            return Err(format!(
                "it has {count} fields; it has five (minute, hour, day of month, month, day of \
                 week), or six with the second first"
            ));
        }
    };
    fields
        .iter()
        .zip(written)
        .try_for_each(|(field, text)| text.split(',').try_for_each(|part| field.part(text, part)))
}

impl CronField {
    /// One of the parts between commas.
    fn part(&self, text: &str, part: &str) -> Result<(), String> {
        let (base, step) = match part.split_once('/') {
            Some((base, step)) => (base, Some(step)),
            None => (part, None),
        };
        if let Some(step) = step
            && !step.parse::<u32>().is_ok_and(|step| step >= 1)
        {
            return Err(self.wrong(text, &format!("'{step}' is no step: it is a number from 1")));
        }
        if matches!(base, "*" | "?") || base.contains(['L', 'W', '#', 'l', 'w']) && self.rare() {
            return Ok(());
        }
        match base.split_once('-') {
            None => self.value(text, base).map(drop),
            Some((first, last)) => {
                let (first, last) = (self.value(text, first)?, self.value(text, last)?);
                // Names of days go around the week.
                match first <= last || self.names.len() == 7 {
                    true => Ok(()),
                    false => Err(self.wrong(text, &format!("{first} is after {last}"))),
                }
            }
        }
    }

    /// Whether it knows `L`, `W` and `#`.
    fn rare(&self) -> bool {
        self.name.starts_with("day")
    }

    fn value(&self, text: &str, value: &str) -> Result<u32, String> {
        let named = self.names.iter();
        let mut named = named.zip(self.least..);
        let found = named.find(|(name, _)| name.eq_ignore_ascii_case(value));
        let number = value.parse::<u32>().ok();
        let number = number.filter(|number| (self.least..=self.most).contains(number));
        match found.map(|(_, number)| number).or(number) {
            Some(number) => Ok(number),
            None => Err(self.wrong(text, &format!("'{value}' is none"))),
        }
    }

    fn wrong(&self, text: &str, reason: &str) -> String {
        let Self {
            name, least, most, ..
        } = self;
        let names = match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        format!("the field '{text}' is the {name}, from {least} to {most}{names}: {reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn an_error_names_the_field_and_its_range() {
        for (text, expected) in [
            (
                "0 25 * * *",
                "the field '25' is the hour, from 0 to 23: '25' is none",
            ),
            (
                "0 2 * * mon-fridy",
                "the field 'mon-fridy' is the day of week, from 0 to 7 or SUN to SAT: 'fridy' is none",
            ),
            (
                "0 0 0 1 13 *",
                "the field '13' is the month, from 1 to 12 or JAN to DEC: '13' is none",
            ),
            (
                "*/0 * * * *",
                "the field '*/0' is the minute, from 0 to 59: '0' is no step: it is a number from 1",
            ),
            (
                "9-5 * * * *",
                "the field '9-5' is the minute, from 0 to 59: 9 is after 5",
            ),
        ] {
            assert_eq!(check(text), Err(expected.to_owned()), "{text}");
        }
        let count = check("61 2 * *").expect_err("four fields");
        assert!(count.starts_with("it has 4 fields"), "{count}");
    }

    #[test]
    fn what_cron_takes_is_left_alone() {
        for text in [
            "0 9 * * *",
            "*/15 8-18 * jan-mar MON-FRI",
            "0 0 L * *",
            "0 0 15W * *",
            "0 0 * * FRI#2",
            "0 0 * * 5L",
            "30 0 2 1,15 * ?",
            "0 0 * * fri-mon",
            "@daily",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }
}
