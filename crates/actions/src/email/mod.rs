//! `email.send`: sends a message by SMTP.
//!
//! SMTP has no idempotency: if a server takes the message and its answer is lost, the server
//! gets the message again. The message id is derived from the idempotency key, so that mail
//! systems recognise the two as one.

mod message;
mod smtp;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_engine::{Action, ActionError, Context, Reply};

use crate::Options;
use crate::connector::{Account, Marker, account};
use crate::http::client::Client;

/// Sends a message.
#[derive(Clone, Debug)]
pub struct SendEmail {
    server: Option<String>,
    from: Option<String>,
    client: Client,
}

/// What to send.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "to": ["Ada <ada@example.com>"], "subject": "Ready",
    "text": "The report is ready." }))]
pub struct Parameters {
    /// Addresses, each `ada@example.com` or `Ada <ada@example.com>`.
    to: Vec<String>,
    /// Who gets a copy.
    #[serde(default)]
    cc: Vec<String>,
    /// Who gets a copy that the others do not see.
    #[serde(default)]
    bcc: Vec<String>,
    /// Where answers go.
    #[serde(default)]
    reply_to: Option<String>,
    /// Whom it is from, instead of the setting `smtp_from`.
    #[serde(default)]
    from: Option<String>,
    /// The subject.
    subject: String,
    /// The message as plain text; this, `html` or both.
    #[serde(default)]
    text: Option<String>,
    /// The message as HTML.
    #[serde(default)]
    html: Option<String>,
    /// Files that go with it.
    #[serde(default)]
    attachments: Vec<Attachment>,
    /// The name of the secret with the password, instead of `SMTP_PASSWORD`; its user is the
    /// secret of that name with `_USER`.
    #[serde(default)]
    credentials: Option<String>,
}

/// A file that goes with a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Attachment {
    /// What the file is called.
    filename: String,
    /// Its type; `text/plain` or `application/octet-stream` by default.
    #[serde(default)]
    content_type: Option<String>,
    /// Its bytes, in base64.
    #[serde(default)]
    content: Option<String>,
    /// Its text, instead of `content`.
    #[serde(default)]
    text: Option<String>,
}

/// What was sent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(example = json!({ "messageId": "<0123456789abcdef@example.com>",
    "recipients": ["ada@example.com"] }))]
pub struct Output {
    /// The message's id, the same for every attempt.
    message_id: String,
    /// The addresses that the server took it for.
    recipients: Vec<String>,
}

impl SendEmail {
    /// Sends by the mail server that the options name.
    pub fn new(options: &Options) -> Self {
        Self {
            server: options.addresses.smtp.clone(),
            from: options.addresses.smtp_from.clone(),
            client: Client::new(options.http_allowed.clone()),
        }
    }
}

impl Action for SendEmail {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "email.send"
    }

    fn description(&self) -> &str {
        "Sends an email by SMTP."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        let marker = Marker::of(&context);
        let message = message::build(&parameters, self.from.as_deref(), &marker)?;
        let output = Output {
            message_id: message.id.clone(),
            recipients: message.recipients(),
        };
        if marker.made(&context, "email", "message").await?.is_none() {
            let server = smtp::Server::parse(self.server.as_deref())?;
            let account = credentials(&context, parameters.credentials.as_deref()).await?;
            let sent = smtp::send(&self.client, &server, account.as_ref(), &message);
            tokio::select! {
                sent = sent => sent?,
                () = context.stop_asked() => return Err(ActionError::stopped()),
            }
        }
        let links = marker.links("email", "message", &message.id, None);
        Ok(links
            .into_iter()
            .fold(Reply::new(output), Reply::with_resource))
    }
}

/// The sender's credentials: secrets that the node names must exist, the default ones need
/// not.
async fn credentials(
    context: &Context,
    given: Option<&str>,
) -> Result<Option<Account>, ActionError> {
    if given.is_none() && context.secret("SMTP_USER").await?.is_none() {
        return Ok(None);
    }
    let found = account(context, given, "SMTP_PASSWORD", Some("SMTP_USER")).await?;
    if found.user.is_none() {
        let name = given.unwrap_or("SMTP");
        let message = format!(
            "there is no secret '{name}_USER'; set it with `windlass secrets set {name}_USER`"
        );
        return Err(ActionError::failed("SECRET_NOT_FOUND", message));
    }
    Ok(Some(found))
}
