//! Partial decoding of a record: the results of its attempts, and nothing else. A caller that
//! builds a long list needs one value of each event, and none of the rest.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::id::Digest;

/// The results of a transition's attempts whose values stand in its text: digest and JSON text
/// of each. `None` if the text cannot be decoded.
pub fn results(transition: &[u8]) -> Option<Vec<(Digest, &str)>> {
    let PartialRecord { events } = serde_json::from_slice(transition).ok()?;
    let ended = events.into_iter().filter_map(|event| event.attempt_ended);
    let results = ended.filter_map(|PartialAttemptEnded { digest, result }| {
        match result.succeeded.or(result.failed)? {
            PartialStored::Inline(raw) => Some((digest, raw.get())),
            PartialStored::Blob(IgnoredAny) => None,
        }
    });
    Some(results.collect())
}

#[derive(Deserialize)]
struct PartialRecord<'a> {
    #[serde(borrow)]
    events: Vec<PartialEvent<'a>>,
}

#[derive(Deserialize)]
struct PartialEvent<'a> {
    #[serde(borrow, default, rename = "AttemptEnded")]
    attempt_ended: Option<PartialAttemptEnded<'a>>,
}

#[derive(Deserialize)]
struct PartialAttemptEnded<'a> {
    digest: Digest,
    #[serde(borrow)]
    result: PartialOutcome<'a>,
}

#[derive(Deserialize)]
struct PartialOutcome<'a> {
    #[serde(borrow, default)]
    succeeded: Option<PartialStored<'a>>,
    #[serde(borrow, default)]
    failed: Option<PartialStored<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum PartialStored<'a> {
    #[serde(borrow)]
    Inline(&'a RawValue),
    Blob(IgnoredAny),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{self, AttemptEnded, AttemptResult, Transition};
    use crate::id::Millis;
    use crate::value::Payload;

    fn ended(result: AttemptResult, digest: Digest) -> event::Event {
        event::Event::AttemptEnded(Box::new(AttemptEnded {
            node: "loop[3]/node".into(),
            attempt: 2,
            started: Millis(1),
            ended: Millis(2),
            worker: "w".into(),
            result,
            digest,
            ancestry: Some(digest),
            parameters: Some(Payload::new("{\"inline\":1}").stored()),
            meta: None,
            resources: Vec::new(),
            files: Vec::new(),
            vars: Default::default(),
            lease: None,
            completed: false,
        }))
    }

    #[test]
    fn a_partial_decode_sees_what_attempts_came_to() {
        let [first, error] = ["{\"n\": [1, \"ü\"]}", "{\"code\":\"X\"}"].map(Payload::new);
        let null = Payload::null();
        let large = Payload::new(format!("\"{}\"", "x".repeat(10_000)));
        let retrying = AttemptResult::Retrying {
            error: error.stored(),
            due: Millis(3),
        };
        let transition = Transition {
            at: Millis(0),
            events: vec![
                event::Event::Started {},
                ended(AttemptResult::Succeeded(first.stored()), first.digest()),
                ended(AttemptResult::Succeeded(large.stored()), large.digest()),
                ended(AttemptResult::Skipped {}, Digest::of(b"null")),
                ended(AttemptResult::Succeeded(null.stored()), null.digest()),
                ended(retrying, error.digest()),
                event::Event::Recovered {
                    after: event::After::Death,
                    grace: None,
                },
                ended(AttemptResult::Failed(error.stored()), error.digest()),
            ],
        };
        let text = serde_json::to_vec(&transition).expect("it serialises");
        let expected = [&first, &null, &error].map(|value| (value.digest(), &**value.text()));
        assert_eq!(results(&text).expect("it is one"), expected);
        assert!(results(b"{\"events\":[7]}").is_none());
    }
}
