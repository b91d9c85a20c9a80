//! Blobs: answers that are stored while they come, and bodies that are sent while they are read.
//! Neither is held in memory as a whole.

use futures_util::StreamExt as _;
use reqwest::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_core::value::StoredFile;
use windlass_engine::{ActionError, Context, file_name};

use super::parameters::Parameters;
use super::{client, decode, invalid};

/// A stored answer, as outputs name it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reference {
    /// `sha256:` and 64 hexadecimal digits.
    digest: String,
    /// How many bytes there are.
    bytes: u64,
    /// The answer's type.
    content_type: Option<String>,
}

impl Reference {
    pub(super) fn of(file: &StoredFile) -> Self {
        Self {
            digest: file_name(&file.digest),
            bytes: file.size,
            content_type: file.content_type.as_deref().map(str::to_owned),
        }
    }
}

/// Stores an answer's body, decompressed.
pub(super) async fn store(
    context: &Context,
    response: Response,
    (encodings, content_type): (&str, Option<&str>),
    limit: Option<u64>,
) -> Result<StoredFile, ActionError> {
    let mut decoder = decode::Stream::new(encodings)?;
    let mut file = context.new_file(limit);
    if decoder.is_plain()
        && let Some(length) = response.content_length()
    {
        file.expect(length)?;
    }
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| client::explain(&error))?;
        for piece in decoder.pieces(&chunk) {
            file.write(&decoder.decode(piece)?).await?;
        }
    }
    file.write(&decoder.finish()?).await?;
    file.finish(content_type).await
}

/// The blob that a request sends, if its parameters name one.
pub(super) async fn sent(
    context: &Context,
    parameters: &Parameters,
) -> Result<Option<StoredFile>, ActionError> {
    let Some(named) = &parameters.body_blob else {
        return Ok(None);
    };
    if parameters.body.is_some() || !parameters.multipart.is_empty() {
        return Err(invalid(
            "a request has one of 'body', 'bodyBlob' and 'multipart'",
        ));
    }
    let name = match named {
        Value::String(name) => Some(name.as_str()),
        named => named.get("digest").and_then(Value::as_str),
    };
    let Some(name) = name else {
        return Err(invalid(
            "'bodyBlob' is a digest ('sha256:…'), or the `blob` of an earlier node's output",
        ));
    };
    let reader = context.file(name).await?;
    Ok(Some(reader.file().clone()))
}

/// A body that is read while it is sent.
pub(super) fn body(context: &Context, file: &StoredFile) -> reqwest::Body {
    reqwest::Body::wrap_stream(context.read_file(file.clone()).pieces())
}
