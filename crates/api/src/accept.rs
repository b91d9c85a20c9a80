//! What the client wants to read, as far as it matters here: failures as plain JSON or as
//! problem details, and a stream of events or a page.

use http::{HeaderMap, header};

/// How a failure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// `application/json`.
    Plain,
    /// `application/problem+json`.
    Problem,
}

/// Problem details where the client names them and prefers nothing else: one that takes both says
/// so to get them.
pub(crate) fn error_format(headers: &HeaderMap) -> ErrorFormat {
    let problem = quality(headers, "application/problem+json");
    let plain = quality(headers, "application/json");
    if problem > 0 && problem >= plain {
        ErrorFormat::Problem
    } else {
        ErrorFormat::Plain
    }
}

/// Whether the client asks for server-sent events.
#[must_use]
pub fn wants_events(headers: &HeaderMap) -> bool {
    quality(headers, "text/event-stream") > 0
}

/// The weight, in thousandths, that the client gives to exactly this type; wildcards do not
/// count, since they say nothing of this type. RFC 9110, section 12.4.2.
fn quality(headers: &HeaderMap, media: &str) -> u32 {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let named = parts.next()?.eq_ignore_ascii_case(media);
            named.then(|| {
                let weight = parts
                    .find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
                weight.map_or(1000, thousandths)
            })
        })
        .max()
        .unwrap_or(0)
}

fn thousandths(weight: &str) -> u32 {
    let weight: f32 = weight.trim().parse().unwrap_or(0.0);
    // NaN becomes zero by the conversion.
    (weight.clamp(0.0, 1.0) * 1000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, expected: ErrorFormat) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert_eq!(error_format(&headers), expected, "{accept}");
    }

    #[test]
    fn problem_details_where_they_are_asked_for() {
        assert_eq!(error_format(&HeaderMap::new()), ErrorFormat::Plain);
        check("*/*", ErrorFormat::Plain);
        check("application/json", ErrorFormat::Plain);
        check("application/problem+json", ErrorFormat::Problem);
        check("application/problem+json, */*", ErrorFormat::Problem);
        check("Application/Problem+JSON;q=0.2", ErrorFormat::Problem);
        check("application/problem+json;q=0", ErrorFormat::Plain);
        check("application/problem+json;q=x", ErrorFormat::Plain);
        check(
            "application/json, application/problem+json;q=0.9",
            ErrorFormat::Plain,
        );
        check(
            "application/json;q=0.5, application/problem+json",
            ErrorFormat::Problem,
        );
        check(
            "application/json, application/problem+json",
            ErrorFormat::Problem,
        );
    }
}
