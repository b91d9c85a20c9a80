//! Identities of traces and spans, derived from what they describe: a process that derives one
//! again, in a replay or after a restart, gets the same identity, so the parts that different
//! processes made fit together and no span is made twice.
//!
//! The text form is W3C Trace Context's `traceparent` (Recommendation, section 3.2).

use std::fmt;

use crate::id::{Digest, RunId};

/// A trace's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// A span's identity inside its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// A place in a trace, as it is handed from one program to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The span that hands it on.
    pub span: SpanId,
    /// Whether the trace is recorded: the `sampled` flag.
    pub sampled: bool,
}

/// The length of a text of the version that this code writes.
const LENGTH: usize = 55;

impl TraceParent {
    /// Reads a `traceparent`; `None` if it is not well formed (section 3.2.2).
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let version = text.get(..2)?;
        let well_formed = match version {
            "00" => bytes.len() == LENGTH,
            "ff" => false,
            // Later versions may say more after the flags.
            _ => bytes.len() == LENGTH || bytes.get(LENGTH) == Some(&b'-'),
        };
        let dashes = [2, 35, 52].iter().all(|&at| bytes.get(at) == Some(&b'-'));
        if !well_formed || !dashes {
            return None;
        }
        let [_] = digits::<1>(version)?;
        let trace = digits::<16>(text.get(3..35)?)?;
        let span = digits::<8>(text.get(36..52)?)?;
        let [flags] = digits::<1>(text.get(53..55)?)?;
        if trace == [0; 16] || span == [0; 8] {
            return None;
        }
        Some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & 1 == 1,
        })
    }

    /// The place of a run's own span; `asked` is the trace context of the request for it.
    pub fn of_run(run: RunId, asked: Option<&str>) -> Self {
        let asked = asked.and_then(Self::parse);
        Self {
            trace: asked.map_or_else(|| TraceId::of(run), |asked| asked.trace),
            span: SpanId::of_run(run),
            sampled: asked.is_none_or(|asked| asked.sampled),
        }
    }

    /// The place of another span in the same trace.
    #[must_use]
    pub fn at(self, span: SpanId) -> Self {
        Self { span, ..self }
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{}-{}-{flags:02x}", self.trace, self.span)
    }
}

impl TraceId {
    /// The trace of a run that was requested without one.
    pub fn of(run: RunId) -> Self {
        Self(derived(&format!("trace\n{run}")))
    }
}

impl SpanId {
    /// A run's span.
    pub fn of_run(run: RunId) -> Self {
        Self(derived(&format!("run\n{run}")))
    }

    /// The span of what a run did after it was opened again.
    pub fn of_reopened(run: RunId, at: crate::Millis) -> Self {
        Self(derived(&format!("reopened\n{run}\n{}", at.0)))
    }

    /// An attempt's span; `undo` tells one that undoes its node from one that runs it.
    pub fn of_attempt(run: RunId, path: &str, attempt: u32, undo: bool) -> Self {
        let kind = if undo { "undo" } else { "attempt" };
        Self(derived(&format!("{kind}\n{run}\n{path}\n{attempt}")))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// The first bytes of a text's digest.
fn derived<const N: usize>(text: &str) -> [u8; N] {
    let digest = Digest::of(text.as_bytes());
    let mut id = [0; N];
    id.copy_from_slice(&digest.0[..N]);
    id
}

/// Bytes as lower-case digits write them; upper case is not well formed.
fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let lower = !text.bytes().any(|digit| digit.is_ascii_uppercase());
    hex::decode_to_slice(text, &mut bytes).ok()?;
    lower.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Millis;

    const ASKED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_written_is_read() {
        let parent = TraceParent::parse(ASKED).unwrap();
        assert!(parent.sampled);
        assert_eq!(parent.to_string(), ASKED);
        let later = format!("01{}-more", &ASKED[2..]);
        assert_eq!(TraceParent::parse(&later), Some(parent));
    }

    #[test]
    fn what_is_not_well_formed_is_nothing() {
        let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let no_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let wrong = [
            "",
            "00",
            &ASKED[..54],
            &format!("{ASKED}-more"),
            &format!("ff{}", &ASKED[2..]),
            &ASKED.to_uppercase(),
            &ASKED.replace('-', "_"),
            &format!("0é{}", &ASKED[3..]),
            zeros,
            no_span,
        ];
        for text in wrong {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_run_stays_in_the_trace_it_was_asked_for_in() {
        let run = RunId::new(Millis(1), [7; 10]);
        let asked = TraceParent::of_run(run, Some(ASKED));
        assert_eq!(asked.trace, TraceParent::parse(ASKED).unwrap().trace);
        let alone = TraceParent::of_run(run, None);
        assert_eq!(alone, TraceParent::of_run(run, Some("nonsense")));
        assert_eq!(alone.span, asked.span);
        assert_ne!(alone.trace, asked.trace);
        let unsampled = format!("{}00", &ASKED[..53]);
        assert!(!TraceParent::of_run(run, Some(&unsampled)).sampled);
    }

    #[test]
    fn spans_differ_where_what_they_are_about_does() {
        let run = RunId::new(Millis(1), [7; 10]);
        let spans = [
            SpanId::of_run(run),
            SpanId::of_reopened(run, Millis(5)),
            SpanId::of_reopened(run, Millis(6)),
            SpanId::of_attempt(run, "a", 1, false),
            SpanId::of_attempt(run, "a", 2, false),
            SpanId::of_attempt(run, "a", 1, true),
            SpanId::of_attempt(run, "b[1]/a", 1, false),
        ];
        let different: std::collections::HashSet<_> = spans.iter().collect();
        assert_eq!(different.len(), spans.len());
    }
}
