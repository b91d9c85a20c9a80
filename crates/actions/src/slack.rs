//! `slack.post-message`: posts a message to a channel by Slack's Web API.
//!
//! Slack answers 200 with `ok: false` and an error of its own. A message carries its marker in
//! its metadata, which the channel's history shows, so that a repeated attempt finds it.

use std::time::Duration;

use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_engine::{Action, ActionError, Context, Reply};

use crate::Options;
use crate::connector::{Account, Answer, Marker, Reason, Service, account, earliest_ms};
use crate::http::client::Client;

/// How long Slack has to say where a message is.
const PERMALINK_TIME: Duration = Duration::from_secs(2);

/// Slack cuts longer texts.
const MAX_CHARACTERS: usize = 40_000;

/// Slack refuses more blocks.
const MAX_BLOCKS: usize = 50;

/// How much of a channel's history is looked at for an earlier attempt's message.
const HISTORY_PAGES: usize = 20;
const HISTORY_LIMIT: &str = "200";

/// How much older than its run a message may seem: the marker decides, so it may be a lot.
const SKEW_MS: u64 = 5 * 60 * 1000;

/// What the metadata of our messages is called.
const EVENT_TYPE: &str = "windlass_message";

/// Posts a message.
#[derive(Clone, Debug)]
pub struct PostMessage {
    service: Service,
}

/// What to post.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "channelId": "C0123456789", "message": "3 items in progress." }))]
pub struct Parameters {
    /// The id of a channel, a private channel or a direct message.
    channel_id: String,
    /// The text, in Slack's mrkdwn; with `blocks`, what notifications show.
    message: String,
    /// Blocks of the Block Kit, at most 50.
    #[serde(default)]
    blocks: Option<Vec<Value>>,
    /// The `ts` of a message to reply to.
    #[serde(default)]
    thread_ts: Option<String>,
    /// The name of the secret with the token, instead of `SLACK_TOKEN`.
    #[serde(default)]
    credentials: Option<String>,
}

/// What was posted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(example = json!({ "channel": "C0123456789", "ts": "1700000000.000100",
    "permalink": "https://acme.slack.com/archives/C0123456789/p1700000000000100" }))]
pub struct Output {
    /// The channel's id.
    channel: String,
    /// The message's id in its channel.
    ts: String,
    /// Where to look at it, if Slack says.
    permalink: Option<String>,
}

impl PostMessage {
    /// Posts to the Slack that the options name.
    pub fn new(options: &Options) -> Self {
        let base = options.addresses.slack.clone();
        Self {
            service: Service {
                name: "Slack",
                setting: "WINDLASS_SLACK_BASE_URL",
                base: Some(base.unwrap_or_else(|| "https://slack.com/api".to_owned())),
                client: Client::new(options.http_allowed.clone()),
            },
        }
    }
}

impl Action for PostMessage {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "slack.post-message"
    }

    fn description(&self) -> &str {
        "Posts a message to a Slack channel."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        check(&parameters)?;
        let name = parameters.credentials.as_deref();
        let account = account(&context, name, "SLACK_TOKEN", None).await?;
        let call = Call {
            service: &self.service,
            context: &context,
            account: &account,
            marker: Marker::of(&context),
        };
        let posted = match call.earlier(&parameters).await? {
            Some(posted) => posted,
            None => call.post(&parameters).await?,
        };
        let permalink = call.permalink(&posted).await;
        let id = format!("{}/{}", posted.channel, posted.ts);
        let links = call
            .marker
            .links("slack", "message", &id, permalink.as_deref());
        let output = Output {
            channel: posted.channel,
            ts: posted.ts,
            permalink,
        };
        Ok(links
            .into_iter()
            .fold(Reply::new(output), Reply::with_resource))
    }
}

fn check(parameters: &Parameters) -> Result<(), ActionError> {
    let characters = parameters.message.chars().count();
    let blocks = parameters.blocks.as_ref().map_or(0, Vec::len);
    let too_long = |message: String| Err(ActionError::failed("SLACK_MESSAGE_TOO_LONG", message));
    if characters > MAX_CHARACTERS {
        return too_long(format!(
            "the message has {characters} characters; Slack takes {MAX_CHARACTERS}"
        ));
    }
    if blocks > MAX_BLOCKS {
        return too_long(format!(
            "the message has {blocks} blocks; Slack takes {MAX_BLOCKS}"
        ));
    }
    Ok(())
}

/// One attempt's exchanges.
struct Call<'a> {
    service: &'a Service,
    context: &'a Context,
    account: &'a Account,
    marker: Marker,
}

/// A message that is there.
struct Posted {
    channel: String,
    ts: String,
}

/// What Slack answers to every method.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Envelope {
    ok: bool,
    error: Option<String>,
    channel: Option<String>,
    ts: Option<String>,
    permalink: Option<String>,
    messages: Vec<Message>,
    response_metadata: Option<Paging>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    ts: String,
    client_msg_id: Option<String>,
    metadata: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Paging {
    next_cursor: String,
}

impl Call<'_> {
    /// The message of an earlier attempt: in the links, or in the channel itself.
    async fn earlier(&self, parameters: &Parameters) -> Result<Option<Posted>, ActionError> {
        if let Some(id) = self.marker.made(self.context, "slack", "message").await?
            && let Some((channel, ts)) = id.split_once('/')
        {
            return Ok(Some(Posted {
                channel: channel.to_owned(),
                ts: ts.to_owned(),
            }));
        }
        let channel = parameters.channel_id.as_str();
        let seconds = (earliest_ms(self.context, SKEW_MS) / 1000).to_string();
        let mut query = vec![
            ("channel", channel),
            ("oldest", &seconds),
            ("limit", HISTORY_LIMIT),
            ("include_all_metadata", "true"),
        ];
        let method = match &parameters.thread_ts {
            Some(thread) => {
                query.push(("ts", thread));
                "conversations.replies"
            }
            None => "conversations.history",
        };
        let mut cursor = String::new();
        for _ in 0..HISTORY_PAGES {
            let mut query = query.clone();
            if !cursor.is_empty() {
                query.push(("cursor", &cursor));
            }
            let answer = self.ask(method, &query).await?;
            let page = match understand(&answer) {
                Ok(page) => page,
                Err(error) if error.retriable => return Err(error),
                // The token may post but not read, or the channel is wrong, which posting will
                // report.
                Err(_) => return Ok(None),
            };
            if let Some(message) = page.messages.into_iter().find(|one| self.is_ours(one)) {
                return Ok(Some(Posted {
                    channel: channel.to_owned(),
                    ts: message.ts,
                }));
            }
            cursor = page.response_metadata.unwrap_or_default().next_cursor;
            if cursor.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    fn is_ours(&self, message: &Message) -> bool {
        let metadata = message.metadata.as_ref();
        let key = metadata.and_then(|metadata| metadata.pointer("/event_payload/key"));
        let is_marked = key.and_then(Value::as_str) == Some(&self.marker.id)
            || message.client_msg_id.as_ref() == Some(&self.marker.uuid());
        is_marked && !message.ts.is_empty()
    }

    async fn post(&self, parameters: &Parameters) -> Result<Posted, ActionError> {
        let mut body = json!({
            "channel": parameters.channel_id,
            "text": parameters.message,
            "client_msg_id": self.marker.uuid(),
            "metadata": { "event_type": EVENT_TYPE, "event_payload": { "key": self.marker.id } },
        });
        if let Some(blocks) = &parameters.blocks {
            body["blocks"] = json!(blocks);
        }
        if let Some(thread) = &parameters.thread_ts {
            body["thread_ts"] = json!(thread);
        }
        let url = self.service.url("/chat.postMessage")?;
        let request = self.service.request(Method::POST, url)?;
        let request = request.bearer_auth(&self.account.token).json(&body);
        let answer = self.service.exchange(self.context, request).await?;
        let said = understand(&answer)?;
        match said.ts {
            Some(ts) if !ts.is_empty() => Ok(Posted {
                channel: said
                    .channel
                    .unwrap_or_else(|| parameters.channel_id.clone()),
                ts,
            }),
            _ => Err(answer.error("Slack", NOT_UNDERSTOOD)),
        }
    }

    /// The link to a message; if Slack does not give it, nothing fails.
    async fn permalink(&self, posted: &Posted) -> Option<String> {
        let query = [("channel", &*posted.channel), ("message_ts", &*posted.ts)];
        // The message is posted: an attempt that waited too long here would post it again.
        let asked = self.ask("chat.getPermalink", &query);
        let answer = tokio::time::timeout(PERMALINK_TIME, asked).await;
        let answer = answer.ok()?.ok()?;
        understand(&answer).ok()?.permalink
    }

    async fn ask(&self, method: &str, query: &[(&str, &str)]) -> Result<Answer, ActionError> {
        let url = self.service.url(&format!("/{method}"))?;
        let request = self.service.request(Method::GET, url)?.query(query);
        let request = request.bearer_auth(&self.account.token);
        self.service.exchange(self.context, request).await
    }
}

const NOT_UNDERSTOOD: Reason<'_> = Reason::passing(
    "SLACK_ANSWER_INVALID",
    "the answer is not one of Slack's; check the address in WINDLASS_SLACK_BASE_URL",
);

/// What an answer says, or why it is no success.
fn understand(answer: &Answer) -> Result<Envelope, ActionError> {
    let envelope: Option<Envelope> = answer.json();
    let said = envelope.as_ref().and_then(|said| said.error.as_deref());
    if let Some(error) = said {
        let message = explanation(error);
        let reason = Reason {
            message: &message,
            ..reason(error)
        };
        return Err(answer.error("Slack", reason));
    }
    match envelope {
        Some(envelope) if answer.is_success() && envelope.ok => Ok(envelope),
        _ => Err(answer.error("Slack", by_status(answer))),
    }
}

fn by_status(answer: &Answer) -> Reason<'static> {
    match answer.status {
        429 => Reason::passing(
            "SLACK_RATE_LIMITED",
            "too many requests; wait and try again",
        ),
        401 | 403 => reason("invalid_auth"),
        _ if answer.is_passing() => {
            Reason::passing("SLACK_UNAVAILABLE", "Slack cannot answer at the moment")
        }
        200..300 => NOT_UNDERSTOOD,
        _ => Reason::permanent("SLACK_REFUSED", "the request was refused"),
    }
}

/// What one of Slack's errors means here, by its documentation of `chat.postMessage`.
fn reason(error: &str) -> Reason<'static> {
    match error {
        "ratelimited" | "rate_limited" | "message_limit_exceeded" => {
            Reason::passing("SLACK_RATE_LIMITED", "")
        }
        "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "team_added_to_org" => Reason::passing("SLACK_UNAVAILABLE", ""),
        "not_authed"
        | "invalid_auth"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "not_allowed_token_type" => Reason::permanent("SLACK_UNAUTHORIZED", ""),
        "missing_scope" | "no_permission" | "access_denied" | "ekm_access_denied"
        | "restricted_action" | "accesslimited" => Reason::permanent("SLACK_FORBIDDEN", ""),
        "channel_not_found" => Reason::permanent("SLACK_CHANNEL_NOT_FOUND", ""),
        "not_in_channel" => Reason::permanent("SLACK_NOT_IN_CHANNEL", ""),
        "is_archived" => Reason::permanent("SLACK_CHANNEL_ARCHIVED", ""),
        "msg_too_long" | "msg_blocks_too_long" | "too_many_attachments" => {
            Reason::permanent("SLACK_MESSAGE_TOO_LONG", "")
        }
        _ => Reason::permanent("SLACK_REFUSED", ""),
    }
}

/// Slack's own name of the error, and what to do about it.
fn explanation(error: &str) -> String {
    let remedy = match reason(error).code {
        "SLACK_RATE_LIMITED" => "too many requests; wait and try again",
        "SLACK_UNAVAILABLE" => "Slack cannot answer at the moment",
        "SLACK_UNAUTHORIZED" => "the token is not valid; set SLACK_TOKEN to a bot token",
        "SLACK_FORBIDDEN" => "the token lacks a permission; add the scope chat:write",
        "SLACK_CHANNEL_NOT_FOUND" => "there is no such channel, or the bot cannot see it",
        "SLACK_NOT_IN_CHANNEL" => "invite the bot to the channel",
        "SLACK_CHANNEL_ARCHIVED" => "the channel is archived; choose another",
        "SLACK_MESSAGE_TOO_LONG" => "the message is too long; shorten it",
        _ => "the request was refused",
    };
    format!("{error}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_as_slack_documents_them() {
        for (error, code, retriable) in [
            ("ratelimited", "SLACK_RATE_LIMITED", true),
            ("internal_error", "SLACK_UNAVAILABLE", true),
            ("invalid_auth", "SLACK_UNAUTHORIZED", false),
            ("missing_scope", "SLACK_FORBIDDEN", false),
            ("channel_not_found", "SLACK_CHANNEL_NOT_FOUND", false),
            ("msg_too_long", "SLACK_MESSAGE_TOO_LONG", false),
            ("something_new", "SLACK_REFUSED", false),
        ] {
            let reason = reason(error);
            assert_eq!((reason.code, reason.retriable), (code, retriable));
        }
    }
}
