//! The parameters of `http.request`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// What to ask.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "url": "https://api.example.com/orders", "method": "POST",
    "auth": { "bearer": "{{ secrets.ORDERS_TOKEN }}" }, "body": { "sku": "a1" } }))]
pub struct Parameters {
    /// An absolute http or https address.
    pub(super) url: String,
    /// GET by default.
    #[serde(default)]
    method: Option<String>,
    /// Header names and values.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Added to the address's query; values become text.
    #[serde(default)]
    pub(super) query: BTreeMap<String, Value>,
    /// A string is sent as it is; any other value as JSON.
    #[serde(default)]
    pub(super) body: Option<Value>,
    /// A blob that an earlier node of the run stored, instead of `body`: its digest, or the
    /// `blob` of that node's output. It is sent as it is read.
    #[serde(default)]
    pub(super) body_blob: Option<Value>,
    /// The parts of a `multipart/form-data` body, instead of `body`.
    #[serde(default)]
    pub(super) multipart: Vec<Part>,
    /// How the request proves whom it comes from.
    #[serde(default)]
    pub(super) auth: Option<Auth>,
    /// A client certificate, and a certificate authority to trust besides the system's.
    #[serde(default)]
    pub(super) tls: Option<Tls>,
    /// The request's own time; the node's timeout holds as well.
    #[serde(default)]
    pub(super) timeout_ms: Option<u64>,
    /// Whether redirects are followed, up to ten; they are by default. Secrets do not follow to
    /// another origin.
    #[serde(default)]
    pub(super) follow_redirects: Option<bool>,
    /// Statuses that count as success instead of 200 to 399.
    #[serde(default)]
    pub(super) expect_status: Vec<u16>,
    /// Statuses that can be retried instead of 408, 425, 429 and 5xx but 501.
    #[serde(default)]
    pub(super) retry_status: Option<Vec<u16>>,
    /// The largest answer in bytes, decompressed and of all pages together; at most and by
    /// default what an output may have (`limit_output_bytes`), or a blob (`limit_blob_bytes`).
    #[serde(default)]
    pub(super) max_bytes: Option<u64>,
    /// What the body becomes: by the answer's type (`auto`), `json`, `text`, `base64`, or a
    /// `blob` that is stored beside the output.
    #[serde(default)]
    pub(super) response_type: ResponseType,
    /// Reads all pages of a list.
    #[serde(default)]
    pub(super) paginate: Option<Paginate>,
}

impl Parameters {
    pub(super) fn method(&self) -> String {
        let method = self.method.as_deref().unwrap_or("GET");
        method.to_ascii_uppercase()
    }
}

/// One part of a `multipart/form-data` body.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Part {
    /// The field's name.
    pub(super) name: String,
    /// Its value: a string as it is, any other value as JSON.
    #[serde(default)]
    pub(super) value: Option<Value>,
    /// Its bytes in base64, instead of `value`.
    #[serde(default)]
    pub(super) content: Option<String>,
    /// Makes it a file of this name.
    #[serde(default)]
    pub(super) filename: Option<String>,
    /// Its type.
    #[serde(default)]
    pub(super) content_type: Option<String>,
}

/// How a request proves whom it comes from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Auth {
    /// A name and a password.
    Basic {
        /// The name.
        user: String,
        /// The password.
        #[serde(default)]
        password: String,
    },
    /// A token.
    Bearer(String),
    /// OAuth 2.0 client credentials; the token is kept until it expires.
    Oauth2(Oauth2),
}

/// OAuth 2.0 client credentials (RFC 6749, section 4.4).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Oauth2 {
    /// Where tokens are given.
    pub(super) token_url: String,
    /// The client's id.
    pub(super) client_id: String,
    /// The client's secret.
    pub(super) client_secret: String,
    /// What the token is for, separated by spaces.
    #[serde(default)]
    pub(super) scope: Option<String>,
    /// For whom the token is, where the server asks for it.
    #[serde(default)]
    pub(super) audience: Option<String>,
    /// Sends id and secret in the body instead of the header.
    #[serde(default)]
    pub(super) in_body: bool,
}

/// Certificates, in PEM.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Tls {
    /// The client's certificate chain.
    #[serde(default)]
    pub(super) certificate: Option<String>,
    /// Its private key.
    #[serde(default)]
    pub(super) key: Option<String>,
    /// A certificate authority to trust besides the system's.
    #[serde(default)]
    pub(super) ca: Option<String>,
}

/// What the body becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ResponseType {
    /// JSON if the answer says so, else text.
    #[default]
    Auto,
    /// JSON; an answer that is none fails.
    Json,
    /// Text.
    Text,
    /// Bytes in base64.
    Base64,
    /// Bytes that are stored while they come, as a blob.
    Blob,
}

/// How the pages of a list follow each other. Expressions see `body`, `headers` and `status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Paginate {
    /// An expression for what leads to the next page, e.g. `body.next_cursor`; null or empty on
    /// the last. Without it the header `Link` with `rel="next"` leads on.
    #[serde(default)]
    pub(super) cursor: Option<String>,
    /// The query parameter that takes the cursor; without it the cursor is the next address.
    #[serde(default)]
    pub(super) parameter: Option<String>,
    /// An expression for a page's items, e.g. `body.items`; by default the body itself.
    #[serde(default)]
    pub(super) items: Option<String>,
    /// How many pages at most; 100 by default. More fail the node.
    #[serde(default)]
    pub(super) max_pages: Option<usize>,
}
