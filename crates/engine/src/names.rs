//! The names that a request gives a run. They are checked here, at the two ways in
//! ([`Engine::start`](crate::Engine::start) and [`Engine::enqueue`](crate::Engine::enqueue)),
//! so that no caller can leave it out: they become rows of indexes, and are shown. Must not
//! know the caller. Names that a run has from its parent, or from the run that it is forked
//! from, were checked when that run began, and are not checked again.

use windlass_core::event::ResourceLink;
use windlass_core::name::{
    INVALID_ERROR_CODE, KEY_BYTES, KEY_PATTERN, NameProblem, TEXT_BYTES, cut, is_key_name,
    is_short_text,
};

use crate::action::ActionError;
use crate::start::{StartError, StartRequest};

/// How many labels a request may give a run.
pub const LABELS: usize = 64;

/// The longest name of a tenant, in bytes.
pub const TENANT_BYTES: usize = 128;

/// How much of an error code that is none is kept, in bytes.
const KEPT_CODE_BYTES: usize = 256;

/// Whether a text can be a tenant's name.
#[must_use]
pub fn is_tenant(text: &str) -> bool {
    !text.is_empty() && text.len() <= TENANT_BYTES && is_short_text(text)
}

/// Whether a text can be a request id or a correlation id.
#[must_use]
pub fn is_request_id(text: &str) -> bool {
    !text.is_empty() && is_short_text(text)
}

/// Says what is wrong with labels that a request gives.
#[must_use]
pub fn label_problem<'a>(
    labels: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
) -> Option<String> {
    let count = labels.len();
    if count > LABELS {
        return Some(format!(
            "there are {count} labels; a run has at most {LABELS}"
        ));
    }
    for (key, value) in labels {
        if !is_key_name(key) {
            let key = cut(key, KEY_BYTES).escape_debug();
            return Some(format!("the label key '{key}' must match {KEY_PATTERN}"));
        }
        if !is_short_text(value) {
            return Some(format!("the label '{key}': {}", NameProblem::NoShortText));
        }
    }
    None
}

/// Checks the names that a caller gives. A child, and a fork, inherits all but the request id
/// from a run that was checked, or that began before names were.
///
/// # Errors
/// One of them cannot be a name.
pub(crate) fn check_names(request: &StartRequest, inherits: bool) -> Result<(), StartError> {
    let wrong =
        |what: &'static str, problem: String| Err(StartError::NameInvalid { what, problem });
    check_id("requestId", request.request_id.as_deref())?;
    if inherits {
        return Ok(());
    }
    check_id("correlationId", request.correlation_id.as_deref())?;
    if request.tenant.as_ref().is_some_and(|it| !is_tenant(it)) {
        let problem = format!("it has from 1 to {TENANT_BYTES} bytes and no control characters");
        return wrong("tenantId", problem);
    }
    let labels = request.labels.iter();
    match label_problem(labels.map(|(key, value)| (&**key, &**value))) {
        Some(problem) => wrong("labels", problem),
        None => Ok(()),
    }
}

fn check_id(what: &'static str, id: Option<&str>) -> Result<(), StartError> {
    if id.is_none_or(is_request_id) {
        return Ok(());
    }
    let problem = format!("it must not be empty, and {}", NameProblem::NoShortText);
    Err(StartError::NameInvalid { what, problem })
}

/// Replaces an error code that cannot be one, and keeps the beginning of it in the details.
pub(crate) fn with_valid_code(mut error: ActionError) -> ActionError {
    if is_key_name(&error.code) {
        return error;
    }
    let given = cut(&error.code, KEPT_CODE_BYTES).to_owned();
    let details = error.details.take();
    error.code = INVALID_ERROR_CODE.into();
    error.with_details(&serde_json::json!({ "code": given, "details": details }))
}

/// How many links to things elsewhere an attempt may report.
const RESOURCES: usize = 1000;

/// The longest address of one, in bytes.
const URL_BYTES: usize = 8 * 1024;

/// How many bytes they may have together: they stand in the record of the attempt's end, which
/// must fit into one message of NATS.
const RESOURCES_BYTES: usize = 192 * 1024;

/// Refuses links that cannot be looked up: they are kept in an index.
pub(crate) fn check_resources(links: &[ResourceLink]) -> Result<(), ActionError> {
    let wrong = |message: String| Err(ActionError::failed("RESOURCE_INVALID", message));
    if links.len() > RESOURCES {
        return wrong(format!(
            "the action reports {} resources; it may report {RESOURCES}",
            links.len()
        ));
    }
    let bytes = links.iter().map(|link| {
        let url = link.url.as_deref().unwrap_or_default();
        link.system.len() + link.kind.len() + link.id.len() + url.len()
    });
    let bytes: usize = bytes.sum();
    if bytes > RESOURCES_BYTES {
        return wrong(format!(
            "the resources that the action reports have {bytes} bytes together; they may have \
             {RESOURCES_BYTES}"
        ));
    }
    let parts = |link: &ResourceLink| {
        [&link.system, &link.kind, &link.id]
            .iter()
            .all(|part| is_short_text(part))
    };
    let address = |link: &ResourceLink| {
        let url = link.url.as_deref().unwrap_or_default();
        url.len() <= URL_BYTES && !url.contains(char::is_control)
    };
    match links.iter().all(|link| parts(link) && address(link)) {
        true => Ok(()),
        false => wrong(format!(
            "the action reports a resource whose system, type or id has more than {TEXT_BYTES} \
             bytes, whose url has more than {URL_BYTES}, or which has control characters"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn links_that_cannot_be_indexed_are_refused() {
        let link = |id: &str, url: Option<&str>| ResourceLink {
            system: "s".into(),
            kind: "k".into(),
            id: id.into(),
            url: url.map(Into::into),
        };
        let long = "x".repeat(9000);
        assert!(check_resources(&[link("1", Some("https://a.example/b"))]).is_ok());
        for bad in [link("a\n", None), link(&long, None), link("1", Some(&long))] {
            let refused = check_resources(&[bad]).expect_err("refused");
            assert_eq!(&*refused.code, "RESOURCE_INVALID");
        }
        assert!(check_resources(&vec![link("1", None); RESOURCES + 1]).is_err());
        // With a system, a type and an id of a byte each, 24 of them reach the limit.
        let url = "x".repeat(8192 - 3);
        let many = |count| vec![link("1", Some(&url)); count];
        assert!(check_resources(&many(RESOURCES_BYTES / 8192)).is_ok());
        let refused = check_resources(&many(RESOURCES_BYTES / 8192 + 1)).expect_err("refused");
        assert!(refused.message.contains("196608"), "{}", refused.message);
    }

    fn named() -> StartRequest {
        StartRequest {
            request_id: Some("order 17".into()),
            correlation_id: Some("c".into()),
            tenant: Some("acme".into()),
            ..StartRequest::default()
        }
    }

    /// Which name is refused.
    fn refused(request: &StartRequest) -> &'static str {
        match check_names(request, false) {
            Err(StartError::NameInvalid { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_name_of_a_request_is_checked() {
        assert!(check_names(&named(), false).is_ok());
        let long = "x".repeat(257);
        for bad in ["", "a\u{1b}[0m", "a\nb", &long] {
            let (mut by_id, mut by_correlation, mut by_tenant) = (named(), named(), named());
            by_id.request_id = Some(bad.into());
            by_correlation.correlation_id = Some(bad.into());
            by_tenant.tenant = Some(bad.into());
            assert_eq!(refused(&by_id), "requestId", "{bad:?}");
            assert_eq!(refused(&by_correlation), "correlationId", "{bad:?}");
            assert_eq!(refused(&by_tenant), "tenantId", "{bad:?}");
            // What a child or a fork inherits is not checked again; its own id is.
            assert!(check_names(&by_id, true).is_err(), "{bad:?}");
            assert!(check_names(&by_correlation, true).is_ok(), "{bad:?}");
            assert!(check_names(&by_tenant, true).is_ok(), "{bad:?}");
        }
        let labelled = |labels| StartRequest { labels, ..named() };
        for (key, value) in [
            ("", "v"),
            ("a b", "v"),
            ("k", "a\n"),
            (&long, "v"),
            ("k", &long),
        ] {
            let labels = BTreeMap::from([(key.into(), value.into())]);
            assert_eq!(refused(&labelled(labels)), "labels", "{key:?}");
        }
        let many = (0..=LABELS).map(|n| (format!("k{n}").into(), "v".into()));
        assert_eq!(refused(&labelled(many.collect())), "labels");
    }

    #[test]
    fn a_code_that_is_none_is_replaced_and_kept() {
        let good = with_valid_code(ActionError::failed("TIMEOUT", "no"));
        assert_eq!(&*good.code, "TIMEOUT");
        for bad in ["", "a b", "x\u{1b}[0m", &"C".repeat(1 << 20)] {
            let error = ActionError::retriable(bad, "no").with_details(&serde_json::json!(7));
            let error = with_valid_code(error);
            assert_eq!(&*error.code, INVALID_ERROR_CODE);
            assert!(error.retriable);
            let details = error.details.expect("details");
            let details: serde_json::Value = serde_json::from_str(details.get()).expect("JSON");
            assert_eq!(details["details"], 7);
            let kept = details["code"].as_str().expect("a text");
            assert!(bad.starts_with(kept) && kept.len() <= KEPT_CODE_BYTES);
        }
    }
}
