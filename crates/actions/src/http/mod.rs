//! `http.request`: one HTTP request, or the pages of a list, with a guard against reaching what
//! the definition's author must not reach.

mod auth;
mod blob;
mod body;
pub(crate) mod client;
mod decode;
pub(crate) mod guard;
mod pages;
mod parameters;
mod redirect;
pub(crate) mod response;
mod token;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;
use windlass_core::value::StoredFile;
use windlass_engine::{Action, ActionError, Context, Reply};

pub use guard::Allowed;
use parameters::{Parameters, ResponseType};
use response::Page;

/// One HTTP request.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    client: client::Client,
    tokens: Arc<token::Tokens>,
}

impl HttpRequest {
    /// Requests may also reach these private addresses and names.
    pub fn new(allowed: Allowed) -> Self {
        Self {
            client: client::Client::new(allowed),
            tokens: Arc::default(),
        }
    }
}

/// What was answered.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(example = json!({ "status": 200, "headers": { "content-type": "application/json" },
    "body": { "id": 7 }, "url": "https://api.example.com/orders/7" }))]
pub struct Output {
    /// The HTTP status; of several pages, the last one's.
    status: u16,
    /// Header names in lower case; several of one name are joined by commas.
    headers: BTreeMap<String, String>,
    /// Parsed if the answer says that it is JSON, text otherwise; null if it is empty. Of several
    /// pages, the items of all of them. Not there if it was stored as a blob.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    /// Where the body was stored, with `responseType` `blob`.
    #[serde(skip_serializing_if = "Option::is_none")]
    blob: Option<blob::Reference>,
    /// The address that answered, after redirects.
    url: String,
    /// How many pages were read, where there is `paginate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<usize>,
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
        let time = parameters.timeout_ms.map(Duration::from_millis);
        let exchange = async {
            let call = Call::new(self, &context, &parameters).await?;
            match &parameters.paginate {
                None => {
                    let page = call.page(call.url.clone()).await?;
                    let meta = json!({ "bytes": page.bytes });
                    let file = page.file.clone();
                    let reply = Reply::new(page.output(None)).with_meta(&meta);
                    Ok(match file {
                        Some(file) => reply.with_file(file),
                        None => reply,
                    })
                }
                Some(_) if parameters.response_type == ResponseType::Blob => Err(invalid(
                    "the pages of a list are not stored as a blob: leave out 'paginate' or \
                     'responseType'",
                )),
                Some(paginate) => pages::read(&call, paginate).await,
            }
        };
        tokio::select! {
            reply = exchange => reply.map_err(|error| placed(&parameters, error)),
            () = elapsed(time) => Err(placed(&parameters, client::timed_out(&parameters.url))),
            () = context.stop_asked() => Err(ActionError::stopped()),
        }
    }
}

/// Says which request an error is about, where its message does not.
fn placed(parameters: &Parameters, mut error: ActionError) -> ActionError {
    let rest = error.code.strip_prefix("HTTP_");
    let is_said = rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
    let is_ours = ["HTTP_", "OUTPUT_LIMIT", "BLOB_"];
    if !is_said && is_ours.iter().any(|code| error.code.starts_with(code)) {
        let (method, url) = (parameters.method(), shown(&parameters.url));
        error.message = format!("{method} {url}: {}", error.message).into();
    }
    error
}

/// One attempt: what is the same for all of its requests.
struct Call<'a> {
    client: client::Client,
    tokens: &'a token::Tokens,
    context: &'a Context,
    parameters: &'a Parameters,
    method: reqwest::Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    /// What is sent instead of `body`.
    file: Option<StoredFile>,
}

impl<'a> Call<'a> {
    async fn new(
        action: &'a HttpRequest,
        context: &'a Context,
        parameters: &'a Parameters,
    ) -> Result<Self, ActionError> {
        let mut url = guard::parse(&parameters.url)?;
        if !parameters.query.is_empty() {
            let mut pairs = url.query_pairs_mut();
            for (name, value) in &parameters.query {
                pairs.append_pair(name, &text(value));
            }
        }
        let method = parameters.method();
        let method = reqwest::Method::from_bytes(method.as_bytes())
            .map_err(|_| invalid(format!("'{method}' is not an HTTP method")))?;
        if method == reqwest::Method::CONNECT {
            return Err(invalid("CONNECT makes a tunnel, not a request"));
        }
        if parameters.timeout_ms == Some(0) {
            return Err(invalid("'timeoutMs' is at least 1"));
        }
        let mut headers = header_map(&parameters.headers)?;
        let body = body::of(context, parameters)?;
        let file = blob::sent(context, parameters).await?;
        if let Some(file) = &file {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(file.size));
        }
        let kind = body.as_ref().and_then(|body| body.content_type.as_deref());
        let kind = kind.or_else(|| file.as_ref()?.content_type.as_deref());
        if let Some(kind) = kind {
            let kind = HeaderValue::from_str(kind).ok();
            kind.map(|kind| headers.entry(CONTENT_TYPE).or_insert(kind));
        }
        if !method.is_safe() && !headers.contains_key("idempotency-key") {
            // The server can recognise a request that is sent again after a crash.
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
        headers
            .entry(ACCEPT_ENCODING)
            .or_insert(HeaderValue::from_static("gzip, deflate"));
        let client = match &parameters.tls {
            None => action.client.clone(),
            Some(tls) => action.client.with_tls(tls)?,
        };
        Ok(Self {
            client,
            tokens: &action.tokens,
            context,
            parameters,
            method,
            url,
            headers,
            body: body.map(|body| body.bytes),
            file,
        })
    }

    /// Asks for one page, and once more with a new token if the server refuses the cached one.
    async fn page(&self, url: Url) -> Result<Page, ActionError> {
        self.client
            .allowed()
            .check_literal(&url)
            .map_err(guard::Refused::into_error)?;
        let proof = auth::proof(self).await?;
        let response = self.send(&url, proof.as_ref()).await?;
        let stale = proof.as_ref().and_then(|proof| proof.cached.as_ref());
        let response = match stale {
            Some(key) if response.status().as_u16() == 401 => {
                self.tokens.forget(key);
                let proof = auth::proof(self).await?;
                self.send(&url, proof.as_ref()).await?
            }
            _ => response,
        };
        response::read(response, &self.method, (self.context, self.parameters)).await
    }

    async fn send(
        &self,
        url: &Url,
        proof: Option<&auth::Proof>,
    ) -> Result<reqwest::Response, ActionError> {
        let client = self.client.get()?;
        let mut headers = self.headers.clone();
        if let Some(proof) = proof {
            headers.insert(AUTHORIZATION, proof.header.clone());
        }
        let mut request = client.request(self.method.clone(), url.clone());
        if let Some(body) = &self.body {
            request = request.body(body.clone());
        }
        let request = request.headers(headers).build();
        let mut request = request.map_err(|error| client::explain(&error))?;
        let file = self.file.as_ref();
        if self.parameters.follow_redirects.unwrap_or(true) {
            let names = request.headers().keys().cloned();
            let confined = redirect::Confined::of(self.context, names, self.parameters);
            redirect::send(&self.client, self.context, &confined, (request, file)).await
        } else {
            *request.body_mut() = file
                .map(|file| blob::body(self.context, file))
                .or(request.body_mut().take());
            let sent = client.execute(request).await;
            sent.map_err(|error| client::explain(&error))
        }
    }
}

/// An address for display: without the name and password that it may hold, and without the
/// values of its query, which may be keys.
fn shown(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else {
        return address.to_owned();
    };
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.set_fragment(None);
    let Some(query) = url.query() else {
        return url.into();
    };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() => format!("{name}=[redacted]"),
        _ => pair.to_owned(),
    };
    let query: Vec<String> = query.split('&').map(hide).collect();
    url.set_query(None);
    format!("{url}?{}", query.join("&"))
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
        if ["content-length", "transfer-encoding"]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
        {
            return Err(invalid(format!(
                "the header '{name}' follows from the body; leave it out"
            )));
        }
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

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn invalid(message: impl Into<String>) -> ActionError {
    ActionError::failed("PARAMETERS_INVALID", message.into())
}
