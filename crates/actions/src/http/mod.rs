//! `http.request`: one HTTP request, with a guard against reaching what the definition's
//! author must not reach.

pub(crate) mod client;
pub(crate) mod guard;
mod redirect;
pub(crate) mod response;

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_engine::{Action, ActionError, Context, Reply};

pub use guard::Allowed;

/// One HTTP request.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    client: client::Client,
}

impl HttpRequest {
    /// Requests may also reach these private addresses and names.
    pub fn new(allowed: Allowed) -> Self {
        Self {
            client: client::Client::new(allowed),
        }
    }
}

/// What to ask.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// An absolute http or https address.
    url: String,
    /// GET by default.
    #[serde(default)]
    method: Option<String>,
    /// Header names and values.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Added to the address's query; values become text.
    #[serde(default)]
    query: BTreeMap<String, Value>,
    /// A string is sent as it is; any other value as JSON.
    #[serde(default)]
    body: Option<Value>,
    /// The request's own time; the node's timeout holds as well.
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// Whether redirects are followed, up to ten; they are by default. Secrets do not follow to
    /// another origin.
    #[serde(default)]
    follow_redirects: Option<bool>,
    /// Statuses that count as success instead of 200 to 399.
    #[serde(default)]
    expect_status: Vec<u16>,
}

/// What was answered.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// The HTTP status.
    status: u16,
    /// Header names in lower case; several of one name are joined by commas.
    headers: BTreeMap<String, String>,
    /// Parsed if the answer says that it is JSON, text otherwise; null if it is empty.
    body: Value,
    /// The address that answered, after redirects.
    url: String,
}

impl Action for HttpRequest {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "http.request"
    }

    fn description(&self) -> &str {
        "Makes an HTTP request; 408, 425, 429 and 5xx can be retried."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        let expected = parameters.expect_status.clone();
        let follow = parameters.follow_redirects.unwrap_or(true);
        let time = parameters.timeout_ms.map(Duration::from_millis);
        let request = self.build(&context, parameters)?;
        let exchange = async {
            let response = if follow {
                let names = request.headers().keys().cloned();
                let confined = redirect::Confined::of(&context, names);
                redirect::send(&self.client, &context, &confined, request).await?
            } else {
                let sent = self.client.get()?.execute(request).await;
                sent.map_err(|error| client::explain(&error))?
            };
            response::read(response, &expected).await
        };
        tokio::select! {
            reply = exchange => reply,
            () = elapsed(time) => Err(client::timed_out()),
            () = context.stop_asked() => Err(ActionError::stopped()),
        }
    }
}

impl HttpRequest {
    fn build(
        &self,
        context: &Context,
        parameters: Parameters,
    ) -> Result<reqwest::Request, ActionError> {
        let url = guard::parse(&parameters.url)?;
        self.client
            .allowed()
            .check_literal(&url)
            .map_err(|refused| refused.into_error())?;
        let method = parameters
            .method
            .as_deref()
            .unwrap_or("GET")
            .to_ascii_uppercase();
        let method = reqwest::Method::from_bytes(method.as_bytes())
            .map_err(|_| invalid(format!("'{method}' is not an HTTP method")))?;
        let client = self.client.get()?;
        let mut headers = header_map(&parameters.headers)?;
        if !method.is_safe() && !headers.contains_key("idempotency-key") {
            // The other side can recognise a request that a crash made us send again.
            if let Ok(key) = HeaderValue::from_str(&context.idempotency_key) {
                headers.insert("idempotency-key", key);
            }
        }
        if !headers.contains_key("traceparent")
            && let Some(trace) = context.traceparent()
            && let Ok(trace) = HeaderValue::from_str(&trace)
        {
            headers.insert("traceparent", trace);
        }
        let mut request = client.request(method, url);
        let query: Vec<(String, String)> = parameters
            .query
            .into_iter()
            .map(|(name, value)| (name, text(value)))
            .collect();
        if !query.is_empty() {
            request = request.query(&query);
        }
        request = match parameters.body {
            None => request,
            Some(Value::String(text)) => request.body(text),
            Some(value) => request.json(&value),
        };
        // Last, so that a content type that was given wins over the one of `json`.
        let built = request.headers(headers).build();
        built.map_err(|error| client::explain(&error))
    }
}

/// Ends when a time has passed; without one, never.
async fn elapsed(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

fn header_map(headers: &BTreeMap<String, String>) -> Result<HeaderMap, ActionError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("'{name}' is not a header name")))?;
        let value = HeaderValue::from_str(value).map_err(|_| {
            invalid(format!(
                "the value of header '{name}' has forbidden letters"
            ))
        })?;
        map.insert(header, value);
    }
    Ok(map)
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn invalid(message: String) -> ActionError {
    ActionError::failed("PARAMETERS_INVALID", message)
}
