//! A message as it is sent: addresses, parts and attachments. It knows no server.

use base64::Engine as _;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Attachment as Part, Body, Mailbox, MultiPart, SinglePart};
use windlass_engine::ActionError;

use super::{Attachment, Parameters};
use crate::connector::Marker;

/// Most servers refuse larger messages.
const MAX_BYTES: usize = 25 * 1024 * 1024;

/// A message that can be sent.
pub(super) struct Message {
    /// Its id, in angle brackets.
    pub(super) id: String,
    pub(super) envelope: lettre::address::Envelope,
    pub(super) bytes: Vec<u8>,
}

impl Message {
    /// The addresses that get it.
    pub(super) fn recipients(&self) -> Vec<String> {
        self.envelope.to().iter().map(ToString::to_string).collect()
    }
}

/// Puts a message together.
pub(super) fn build(
    parameters: &Parameters,
    from: Option<&str>,
    marker: &Marker,
) -> Result<Message, ActionError> {
    let Some(from) = parameters.from.as_deref().or(from) else {
        let message = "the message has no sender; set WINDLASS_SMTP_FROM or smtp_from in \
                       windlass.toml, or give 'from'";
        return Err(ActionError::failed("CONNECTOR_NOT_CONFIGURED", message));
    };
    let from = mailbox("from", from)?;
    let id = format!("<{}@{}>", marker.id, from.email.domain());
    let mut builder = lettre::Message::builder()
        .from(from)
        .subject(&parameters.subject)
        .message_id(Some(id.clone()));
    if parameters.to.is_empty() {
        return Err(invalid("'to' names no address"));
    }
    for to in &parameters.to {
        builder = builder.to(mailbox("to", to)?);
    }
    for cc in &parameters.cc {
        builder = builder.cc(mailbox("cc", cc)?);
    }
    for bcc in &parameters.bcc {
        builder = builder.bcc(mailbox("bcc", bcc)?);
    }
    if let Some(reply_to) = &parameters.reply_to {
        builder = builder.reply_to(mailbox("replyTo", reply_to)?);
    }
    let built = match content(parameters)? {
        Content::One(part) => builder.singlepart(part),
        Content::Several(parts) => builder.multipart(parts),
    };
    let built = built.map_err(|error| invalid(&format!("no message can be made: {error}")))?;
    let bytes = built.formatted();
    if bytes.len() > MAX_BYTES {
        let message = format!(
            "the message has {} bytes with its attachments; {MAX_BYTES} can be sent",
            bytes.len()
        );
        return Err(ActionError::failed("EMAIL_TOO_LARGE", message));
    }
    Ok(Message {
        id,
        envelope: built.envelope().clone(),
        bytes,
    })
}

enum Content {
    One(SinglePart),
    Several(MultiPart),
}

fn content(parameters: &Parameters) -> Result<Content, ActionError> {
    let body = match (&parameters.text, &parameters.html) {
        (Some(text), Some(html)) => Content::Several(MultiPart::alternative_plain_html(
            text.clone(),
            html.clone(),
        )),
        (Some(text), None) => Content::One(SinglePart::plain(text.clone())),
        (None, Some(html)) => Content::One(SinglePart::html(html.clone())),
        (None, None) => return Err(invalid("a message needs 'text', 'html' or both")),
    };
    if parameters.attachments.is_empty() {
        return Ok(body);
    }
    let mixed = MultiPart::mixed();
    let mut mixed = match body {
        Content::One(part) => mixed.singlepart(part),
        Content::Several(parts) => mixed.multipart(parts),
    };
    for attachment in &parameters.attachments {
        mixed = mixed.singlepart(attached(attachment)?);
    }
    Ok(Content::Several(mixed))
}

fn attached(attachment: &Attachment) -> Result<SinglePart, ActionError> {
    let name = &attachment.filename;
    let (bytes, kind) = match (&attachment.content, &attachment.text) {
        (Some(content), None) => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(content.trim());
            let wrong = |_| invalid(&format!("the content of '{name}' is not base64"));
            (decoded.map_err(wrong)?, "application/octet-stream")
        }
        (None, Some(text)) => (text.clone().into_bytes(), "text/plain; charset=utf-8"),
        _ => {
            let message = format!("the attachment '{name}' needs one of 'content' and 'text'");
            return Err(invalid(&message));
        }
    };
    let kind = attachment.content_type.as_deref().unwrap_or(kind);
    let kind = ContentType::parse(kind)
        .map_err(|_| invalid(&format!("the type of '{name}' is none: '{kind}'")))?;
    // In base64 whatever it is: bytes that happen to be ASCII may still be control characters.
    let body = Body::new_with_encoding(bytes, ContentTransferEncoding::Base64)
        .map_err(|_| invalid(&format!("the attachment '{name}' cannot be encoded")))?;
    Ok(Part::new(name.clone()).body(body, kind))
}

fn mailbox(field: &str, text: &str) -> Result<Mailbox, ActionError> {
    text.trim().parse().map_err(|error| {
        let message = format!("'{text}' in '{field}' is not an email address: {error}");
        ActionError::failed("EMAIL_ADDRESS_INVALID", message)
    })
}

fn invalid(message: &str) -> ActionError {
    ActionError::failed("PARAMETERS_INVALID", message)
}
