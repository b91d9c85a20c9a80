//! A Slack with one channel.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{ServiceReply, ServiceRequest, StubServer, ok};

pub const TOKEN: &str = "xoxb-slack-token-1";
pub const CHANNEL: &str = "C0000000001";

/// The server, and the messages in its channel.
pub struct Slack {
    pub server: StubServer,
    pub messages: Arc<Mutex<Vec<Value>>>,
}

impl Slack {
    pub fn start() -> Self {
        let messages: Arc<Mutex<Vec<Value>>> = Arc::default();
        let shared = Arc::clone(&messages);
        let server = StubServer::start(move |request| handle(request, &shared));
        Self { server, messages }
    }

    pub fn messages(&self) -> Vec<Value> {
        self.messages.lock().expect("messages").clone()
    }
}

fn refuse(error: &str) -> ServiceReply {
    ok(json!({ "ok": false, "error": error }))
}

fn handle(request: &ServiceRequest, messages: &Mutex<Vec<Value>>) -> ServiceReply {
    if request.header("authorization") != format!("Bearer {TOKEN}") {
        return refuse("invalid_auth");
    }
    let mut messages = messages.lock().expect("messages");
    let method = request.path.rsplit('/').next().unwrap_or_default();
    match method {
        "chat.postMessage" => {
            let mut message = request.json();
            if message["channel"] != CHANNEL {
                return refuse("channel_not_found");
            }
            let ts = format!("1700000000.{:06}", messages.len() + 1);
            message["ts"] = json!(ts);
            messages.push(message.clone());
            ok(json!({ "ok": true, "channel": CHANNEL, "ts": ts, "message": message }))
        }
        "conversations.history" | "conversations.replies" => {
            if request.parameter("channel") != CHANNEL {
                return refuse("channel_not_found");
            }
            // Two to a page, the newest first, so that a test with three turns a page.
            let from: usize = request.parameter("cursor").parse().unwrap_or(0);
            let newest: Vec<&Value> = messages.iter().rev().collect();
            let page: Vec<&Value> = newest.iter().skip(from).take(2).copied().collect();
            let next = if from + 2 < newest.len() {
                (from + 2).to_string()
            } else {
                String::new()
            };
            let mut page = json!(page);
            if request.parameter("include_all_metadata") != "true" {
                for message in page.as_array_mut().into_iter().flatten() {
                    message["metadata"] = Value::Null;
                }
            }
            ok(json!({ "ok": true, "messages": page,
                "response_metadata": { "next_cursor": next } }))
        }
        "chat.getPermalink" => {
            let ts = request.parameter("message_ts");
            let link = format!("https://acme.slack.example/archives/{CHANNEL}/p{ts}");
            ok(json!({ "ok": true, "channel": CHANNEL, "permalink": link }))
        }
        _ => refuse("unknown_method"),
    }
}
