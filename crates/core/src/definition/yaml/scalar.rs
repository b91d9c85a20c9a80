//! Scalars of the YAML 1.2 core schema (section 10.3) as JSON.

/// Appends a text as a JSON string.
pub(super) fn push_text(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            control if control < ' ' => {
                json.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

/// Appends a plain scalar as what the core schema says it is.
pub(super) fn push_plain(json: &mut String, text: &str) -> Result<(), &'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => json.push_str("null"),
        "true" | "True" | "TRUE" => json.push_str("true"),
        "false" | "False" | "FALSE" => json.push_str("false"),
        _ => {
            let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
            if matches!(unsigned, ".inf" | ".Inf" | ".INF")
                || matches!(text, ".nan" | ".NaN" | ".NAN")
            {
                return Err("JSON has no infinity and no NaN");
            }
            match number(text) {
                Some(number) => {
                    let value = number.parse::<f64>();
                    if !value.is_ok_and(f64::is_finite) {
                        return Err("the number is out of range");
                    }
                    json.push_str(&number);
                }
                None => push_text(json, text),
            }
        }
    }
    Ok(())
}

/// The JSON number that a plain scalar stands for, if it is one.
fn number(text: &str) -> Option<String> {
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
            let value = u128::from_str_radix(digits, radix).ok();
            return value.filter(|_| plain).map(|value| value.to_string());
        }
    }
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let some = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
    if !some || !digits(whole) || !fraction.is_none_or(digits) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    };
    let mut number = format!("{sign}{whole}");
    if let Some(fraction) = fraction {
        number.push('.');
        number.push_str(if fraction.is_empty() { "0" } else { fraction });
    }
    if let Some(exponent) = exponent {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if unsigned.is_empty() || !digits(unsigned) {
            return None;
        }
        number.push('e');
        number.push_str(exponent);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str, expected: &str) {
        let mut json = String::new();
        push_plain(&mut json, yaml).expect("a scalar");
        assert_eq!(json, expected, "{yaml}");
    }

    #[test]
    fn core_schema() {
        for (yaml, json) in [
            ("", "null"),
            ("~", "null"),
            ("NULL", "null"),
            ("True", "true"),
            ("no", "\"no\""),
            ("yes", "\"yes\""),
            ("on", "\"on\""),
            ("0", "0"),
            ("007", "7"),
            ("-0", "-0"),
            ("+12", "12"),
            ("0o17", "15"),
            ("0xFF", "255"),
            ("0x", "\"0x\""),
            ("1.", "1.0"),
            (".5", "0.5"),
            ("-1.5e+3", "-1.5e+3"),
            ("1e", "\"1e\""),
            (".", "\".\""),
            ("-", "\"-\""),
            ("1_000", "\"1_000\""),
            ("12:30", "\"12:30\""),
            ("2001-01-01", "\"2001-01-01\""),
        ] {
            check(yaml, json);
        }
        assert!(push_plain(&mut String::new(), ".inf").is_err());
        assert!(push_plain(&mut String::new(), "1e999").is_err());
    }
}
