//! The OpenAPI document and the page that reads it, which needs no network.

use std::sync::{Arc, LazyLock};

use axum::Extension;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Method, header};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::answer::RawJson;
use crate::error::ApiError;
use crate::route::{Access, Document, Input, Operation, Output, Routes};

impl Input for Extension<Arc<Document>> {
    fn describe(_: &mut Operation<'_>) {}
}

/// An OpenAPI document.
#[derive(Debug, Serialize, JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) struct OpenApi {
    openapi: String,
}

pub(crate) fn add<S: Clone + Send + Sync + 'static>(routes: &mut Routes<S>) {
    routes
        .add(
            Method::GET,
            "/api/openapi.json",
            Access::public(),
            &[],
            "This document",
            document,
        )
        .add(
            Method::GET,
            "/api/docs",
            Access::public(),
            &[],
            "A page that shows this document",
            page,
        );
}

async fn document(
    Extension(document): Extension<Arc<Document>>,
) -> Result<RawJson<OpenApi>, ApiError> {
    if let Some(text) = document.known() {
        return Ok(RawJson::new(text));
    }
    match tokio::task::spawn_blocking(move || document.text()).await {
        Ok(text) => Ok(RawJson::new(text)),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn page() -> Result<Page, ApiError> {
    Ok(Page)
}

/// The page. Script and style stand in it, and its policy allows exactly these, by digest.
struct Page;

const PAGE: &str = include_str!("docs.html");

static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        digest("style"),
        digest("script"),
    );
    HeaderValue::from_str(&policy).expect("names and Base64 are a header's value")
});

/// The digest of the text of the page's one element of this name; Content Security Policy
/// Level 3, section 2.3.1.
fn digest(element: &str) -> String {
    let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
    let text = PAGE
        .split_once(&begin)
        .and_then(|(_, rest)| rest.split_once(&end))
        .map_or("", |(text, _)| text);
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let mut response = PAGE.into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        );
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
        response
    }
}

impl Output for Page {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<String>(200, "text/html", "The page");
    }
}
