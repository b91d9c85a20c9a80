//! What a request sends: text, JSON, or the parts of a form.

use base64::Engine as _;
use serde_json::Value;
use windlass_core::Digest;
use windlass_engine::{ActionError, Context};

use super::parameters::{Parameters, Part};
use super::{invalid, text};

/// A body and what it says it is.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) content_type: Option<String>,
}

/// The body of the parameters, if they have one.
pub(super) fn of(context: &Context, parameters: &Parameters) -> Result<Option<Body>, ActionError> {
    match (&parameters.body, parameters.multipart.as_slice()) {
        (None, []) => Ok(None),
        (Some(Value::String(text)), []) => Ok(Some(Body {
            bytes: text.clone().into_bytes(),
            content_type: None,
        })),
        (Some(value), []) => Ok(Some(Body {
            bytes: value.to_string().into_bytes(),
            content_type: Some("application/json".to_owned()),
        })),
        (None, parts) => multipart(context, parts).map(Some),
        (Some(_), _) => Err(invalid("a request has 'body' or 'multipart', not both")),
    }
}

/// RFC 7578. The boundary follows from the idempotency key and the parts, so that a request
/// that is sent again is the same.
fn multipart(context: &Context, parts: &[Part]) -> Result<Body, ActionError> {
    let mut contents = Vec::new();
    let mut seed = context.idempotency_key.clone();
    for part in parts {
        let content = content(part)?;
        seed.push_str(&Digest::of(&content).to_string());
        contents.push(content);
    }
    let boundary = format!(
        "windlass-{}",
        &Digest::of(seed.as_bytes()).to_string()[..32]
    );
    let mut bytes = Vec::new();
    for (part, content) in parts.iter().zip(contents) {
        bytes.extend(format!("--{boundary}\r\n").into_bytes());
        bytes.extend(head(part)?.into_bytes());
        bytes.extend(content);
        bytes.extend(b"\r\n");
    }
    bytes.extend(format!("--{boundary}--\r\n").into_bytes());
    Ok(Body {
        bytes,
        content_type: Some(format!("multipart/form-data; boundary={boundary}")),
    })
}

fn content(part: &Part) -> Result<Vec<u8>, ActionError> {
    match (&part.value, &part.content) {
        (Some(value), None) => Ok(text(value).into_bytes()),
        (None, Some(content)) => base64::engine::general_purpose::STANDARD
            .decode(content.trim())
            .map_err(|_| invalid(format!("the content of part '{}' is not base64", part.name))),
        _ => Err(invalid(format!(
            "the part '{}' needs one of 'value' and 'content'",
            part.name
        ))),
    }
}

fn head(part: &Part) -> Result<String, ActionError> {
    let mut head = format!(
        "Content-Disposition: form-data; name=\"{}\"",
        quoted(&part.name)
    );
    if let Some(filename) = &part.filename {
        head.push_str(&format!("; filename=\"{}\"", quoted(filename)));
    }
    let default = match (&part.content_type, &part.filename, &part.value) {
        (Some(kind), ..) => Some(kind.as_str()),
        (None, Some(_), _) => Some("application/octet-stream"),
        (None, None, Some(value)) if !value.is_string() => Some("application/json"),
        _ => None,
    };
    if let Some(kind) = default {
        if kind.contains(['\r', '\n']) {
            return Err(invalid(format!("the type of part '{}' is none", part.name)));
        }
        head.push_str(&format!("\r\nContent-Type: {kind}"));
    }
    head.push_str("\r\n\r\n");
    Ok(head)
}

/// What browsers do with letters that would end the name.
fn quoted(text: &str) -> String {
    text.replace('\r', "%0D")
        .replace('\n', "%0A")
        .replace('"', "%22")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_end_their_header() {
        assert_eq!(quoted("a\"\r\nb"), "a%22%0D%0Ab");
    }
}
