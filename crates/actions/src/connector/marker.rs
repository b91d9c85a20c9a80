//! How a repeated attempt after a crash finds the object that the first one made: by an id
//! derived from the idempotency key, in the created object and in a resource link.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use windlass_core::Digest;
use windlass_core::event::ResourceLink;
use windlass_engine::{ActionError, Context};

/// The id of the object that a node makes: the same for every attempt under one idempotency
/// key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// 32 hex digits.
    pub(crate) id: String,
}

impl Marker {
    pub(crate) fn of(context: &Context) -> Self {
        let tenant = context.tenant.as_deref().unwrap_or_default();
        let seed = format!("{tenant}\n{}", context.idempotency_key);
        let mut id = Digest::of(seed.as_bytes()).to_string();
        id.truncate(32);
        Self { id }
    }

    /// The id written as a UUID (version 8 of RFC 9562: of one's own making).
    pub(crate) fn uuid(&self) -> String {
        let id = &self.id;
        format!(
            "{}-{}-8{}-a{}-{}",
            &id[..8],
            &id[8..12],
            &id[13..16],
            &id[17..20],
            &id[20..32]
        )
    }

    /// The service's id of the object that an earlier attempt recorded as made.
    pub(crate) async fn made(
        &self,
        context: &Context,
        system: &str,
        kind: &str,
    ) -> Result<Option<String>, ActionError> {
        let found = context.resource(system, &key_kind(kind), &self.id).await;
        let found = found.map_err(|error| {
            let message = format!("the resource links cannot be read: {error}");
            ActionError::retriable("STORE_UNAVAILABLE", message)
        })?;
        let prefix = address(system, kind, "");
        Ok(found.and_then(|row| Some(row.url?.strip_prefix(&prefix)?.to_owned())))
    }

    /// The links to record: the object under the service's id, and that id under this one.
    pub(crate) fn links(
        &self,
        system: &str,
        kind: &str,
        id: &str,
        url: Option<&str>,
    ) -> [ResourceLink; 2] {
        let object = ResourceLink {
            system: system.into(),
            kind: kind.into(),
            id: id.into(),
            url: url.map(Into::into),
        };
        let key = ResourceLink {
            system: system.into(),
            kind: key_kind(kind).into(),
            id: self.id.as_str().into(),
            url: Some(address(system, kind, id).into()),
        };
        [object, key]
    }
}

fn key_kind(kind: &str) -> String {
    format!("{kind}-key")
}

/// Where the object is, in words that lead back to its id.
fn address(system: &str, kind: &str, id: &str) -> String {
    format!("{system}:{kind}/{id}")
}

/// The earliest moment at which a run can have made something, in milliseconds, by a clock that
/// differs from ours by no more than this.
pub(crate) fn earliest_ms(context: &Context, skew_ms: u64) -> u64 {
    // A run's id is a UUIDv7: its first 48 bits are the time of the request for it.
    let time = context.run.as_bytes()[..6].iter();
    let asked = time.fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    asked.saturating_sub(skew_ms)
}

/// A moment such as `2026-01-31T12:00:00.123Z` in milliseconds; `None` if the text is not one.
pub(crate) fn moment_ms(text: &str) -> Option<u64> {
    let moment = text.parse::<jiff::Timestamp>().ok()?;
    u64::try_from(moment.as_millisecond()).ok()
}

/// How many objects are remembered; only those of attempts under way matter.
const MOST_CLAIMS: usize = 4096;

/// Which object belongs to which marker, as far as this process knows: where a service has no
/// field for a marker, two attempts under way must not both take the same object for theirs.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<BTreeMap<String, String>>);

impl Claims {
    /// Claims the object for this marker; false if it belongs to another.
    pub(crate) fn claim(&self, object: &str, marker: &Marker) -> bool {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if claims.len() >= MOST_CLAIMS {
            claims.pop_first();
        }
        let holder = claims.entry(object.to_owned());
        *holder.or_insert_with(|| marker.id.clone()) == marker.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_also_a_uuid() {
        let marker = Marker {
            id: "0123456789abcdef0123456789abcdef".to_owned(),
        };
        assert_eq!(marker.uuid(), "01234567-89ab-8def-a123-456789abcdef");
    }

    #[test]
    fn an_object_belongs_to_the_first_that_claims_it() {
        let marker = |id: &str| Marker { id: id.to_owned() };
        let claims = Claims::default();
        assert!(claims.claim("1", &marker("a")));
        assert!(claims.claim("1", &marker("a")));
        assert!(!claims.claim("1", &marker("b")));
        assert!(claims.claim("2", &marker("b")));
    }
}
