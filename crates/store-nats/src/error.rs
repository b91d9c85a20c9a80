//! How errors of NATS collapse to the contract's few kinds, and which of them leave it open
//! whether a message was stored.

use std::fmt;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use windlass_core::RunId;
use windlass_store::{Damage, Error};

/// The server answers with this if another publish on the same subject is in process. It is no
/// conflict: the same publish may succeed at once.
const IN_PROCESS: u64 = 10164;

/// What is known after a publish without an acknowledgement.
#[derive(Debug)]
pub(crate) enum PublishFault {
    /// The subject's last message is another than expected: nothing was stored.
    Conflict,
    /// Whether it was stored is unknown.
    Unknown(Error),
    /// Nothing was stored.
    Failed(Error),
}

impl PublishFault {
    /// The error for callers that only need to know that it did not succeed.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Conflict => Error::Unavailable("another process was faster; try again".into()),
            Self::Unknown(error) | Self::Failed(error) => error,
        }
    }
}

/// Sorts the error of a publish.
pub(crate) fn publish_fault(error: &PublishError) -> PublishFault {
    match error.kind() {
        PublishErrorKind::WrongLastSequence => PublishFault::Conflict,
        PublishErrorKind::MaxPayloadExceeded => PublishFault::Failed(Error::Unavailable(
            "the message is larger than the server allows; raise `max_payload` of nats-server"
                .into(),
        )),
        PublishErrorKind::StreamNotFound => PublishFault::Failed(Error::Unavailable(
            "no stream takes the message: it was deleted, or JetStream is off on the server; \
             `windlass doctor` says which"
                .into(),
        )),
        PublishErrorKind::MaxAckPending => {
            PublishFault::Failed(Error::Unavailable("too many publishes wait".into()))
        }
        PublishErrorKind::Other => other(error),
        PublishErrorKind::TimedOut
        | PublishErrorKind::BrokenPipe
        | PublishErrorKind::WrongLastMessageId => PublishFault::Unknown(Error::Unavailable(
            format!("NATS has not acknowledged the message: {error}"),
        )),
    }
}

/// The server's own error is the source.
fn other(error: &PublishError) -> PublishFault {
    let source = std::error::Error::source(error);
    let told = source.and_then(|it| it.downcast_ref::<async_nats::jetstream::Error>());
    let Some(told) = told else {
        return PublishFault::Unknown(Error::Unavailable(format!(
            "NATS answered a publish with something else: {error}"
        )));
    };
    if told.error_code().0 == IN_PROCESS {
        return PublishFault::Unknown(Error::Unavailable(
            "another publish for the same run is in process".into(),
        ));
    }
    match may_be_stored(told) {
        true => PublishFault::Unknown(refused(told)),
        false => PublishFault::Failed(refused(told)),
    }
}

/// Whether a server says this also of a message that the others of its cluster store: its own disk
/// failed, or its own limit was reached, after the message was replicated.
fn may_be_stored(error: &async_nats::jetstream::Error) -> bool {
    let code = error.error_code();
    (code == ErrorCode::STREAM_STORE_FAILED && !is_limit(error))
        || code == ErrorCode::INSUFFICIENT_RESOURCES
        || code == ErrorCode::STREAM_SEQUENCE_NOT_MATCH
}

/// Whether the stream's own limit is reached, which is found before anything is stored.
fn is_limit(error: &async_nats::jetstream::Error) -> bool {
    error.to_string().contains("maximum")
}

/// What the server refused.
pub(crate) fn refused(error: &async_nats::jetstream::Error) -> Error {
    let code = error.error_code();
    let text = error.to_string();
    let full = code == ErrorCode::STREAM_STORE_FAILED && is_limit(error);
    if full
        || code == ErrorCode::STORAGE_RESOURCES_EXCEEDED
        || code == ErrorCode::MEMORY_RESOURCES_EXCEEDED
        || code == ErrorCode::INSUFFICIENT_RESOURCES
    {
        return Error::Full(format!(
            "a limit of JetStream is reached: {text}; raise that of the stream, the account or \
             the server"
        ));
    }
    Error::Unavailable(format!("JetStream refused: {text} (code {})", code.0))
}

/// An error of a request that changed nothing, or may be repeated.
pub(crate) fn unavailable(what: &str, error: &dyn fmt::Display) -> Error {
    Error::Unavailable(format!("NATS: {what}: {error}"))
}

/// Whether an error says that a stream does not exist.
pub(crate) fn names_no_stream(error: &Error) -> bool {
    let code = format!("error code {}", ErrorCode::STREAM_NOT_FOUND.0);
    matches!(error, Error::Unavailable(text) if text.contains(&code))
}

/// What to do about streams whose messages are gone.
pub(crate) const REBUILD: &str = "the database has the records up to its watermark: stop all \
    servers and run `windlass rebuild --from postgres`";

/// Damage in a run's log.
pub(crate) fn damaged(place: &str, run: RunId, sequence: u64, reason: &str) -> Error {
    Error::Damaged(Box::new(Damage {
        place: format!("stream {place}"),
        run: Some(run),
        sequence: Some(sequence),
        offset: None,
        reason: reason.into(),
    }))
}

/// A stored message that cannot be read.
pub(crate) fn unreadable(subject: &str, reason: &dyn fmt::Display) -> Error {
    Error::Damaged(Box::new(Damage {
        place: format!("subject {subject}"),
        run: None,
        sequence: None,
        offset: None,
        reason: reason.to_string(),
    }))
}

/// Why a store could not be opened.
#[derive(Clone, Debug)]
pub enum OpenError {
    /// The server or the database cannot be reached now. Waiting may help.
    Away(Error),
    /// What is there is not one to work with. Waiting does not help.
    Refused(Error),
}

impl OpenError {
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(Error::Unavailable(text.into()))
    }

    pub(crate) fn away(text: impl Into<String>) -> Self {
        Self::Away(Error::Unavailable(text.into()))
    }

    /// The error in the contract's terms.
    pub fn into_error(self) -> Error {
        match self {
            Self::Away(error) | Self::Refused(error) => error,
        }
    }
}

impl From<windlass_store_postgres::OpenError> for OpenError {
    fn from(error: windlass_store_postgres::OpenError) -> Self {
        match error {
            windlass_store_postgres::OpenError::Away(error) => Self::Away(error),
            windlass_store_postgres::OpenError::Refused(error) => Self::Refused(error),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(error) | Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a publish that the server answered with this.
    fn answered(code: u64, text: &str) -> PublishFault {
        let told = format!(r#"{{"code":400,"err_code":{code},"description":"{text}"}}"#);
        let told: async_nats::jetstream::Error = serde_json::from_str(&told).unwrap();
        publish_fault(&PublishError::with_source(PublishErrorKind::Other, told))
    }

    #[test]
    fn only_a_wrong_last_sequence_is_a_conflict() {
        let conflict = PublishError::new(PublishErrorKind::WrongLastSequence);
        assert!(matches!(publish_fault(&conflict), PublishFault::Conflict));
        let in_process = answered(10164, "another publish is in process");
        assert!(matches!(in_process, PublishFault::Unknown(_)));
        for unclear in [PublishErrorKind::TimedOut, PublishErrorKind::BrokenPipe] {
            let fault = publish_fault(&PublishError::new(unclear));
            assert!(matches!(fault, PublishFault::Unknown(_)), "{unclear}");
        }
    }

    #[test]
    fn what_only_the_answering_server_could_not_store_may_be_stored_by_others() {
        for (code, text) in [
            (10077, "no space left on device"),
            (10023, "insufficient resources"),
            (10063, "expected stream sequence does not match"),
        ] {
            let fault = answered(code, text);
            assert!(matches!(fault, PublishFault::Unknown(_)), "{fault:?}");
        }
        let full = answered(10023, "insufficient resources");
        assert!(matches!(full.into_error(), Error::Full(_)));
    }

    #[test]
    fn a_limit_that_is_reached_is_named() {
        let full = answered(10077, "maximum bytes exceeded");
        assert!(
            matches!(full, PublishFault::Failed(Error::Full(_))),
            "{full:?}"
        );
        let other = answered(10054, "message size exceeds maximum allowed");
        assert!(matches!(other, PublishFault::Failed(Error::Unavailable(_))));
    }
}
