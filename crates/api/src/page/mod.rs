//! The web page: its files, and the first HTML of each of its addresses. Where no token is
//! required, that HTML has the data in it, so that it can be read without JavaScript.
//!
//! It knows nothing that the API does not tell; scripts ask the API for everything else.

mod assets;
mod content;
mod html;
mod join;
mod views;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use schemars::JsonSchema;
use serde::Deserialize;
use windlass_graph::PackOptions;
use windlass_service::{Failure, RunQueries};

use crate::app::{App, Caller};
use crate::code;
use crate::error::ApiError;
use crate::extract::Path;
use crate::front::Shaped;
use crate::route::{Access, Operation, Output, Rate, Routes};
use assets::Bundle;
use content::Content;

/// Nothing from elsewhere, nothing written into the page, no page around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Adds the addresses of the page. Where tokens are required the page is public and empty: a
/// browser has no token when it opens an address.
pub(crate) fn add(routes: &mut Routes<App>) {
    let access = match routes.asks_for_tokens() {
        true => Access::public(),
        false => Access::read().rate(Rate::Free),
    };
    let about = "The page";
    routes
        .add(Method::GET, "/", access, &[], about, runs)
        .add(Method::GET, "/runs/{id}", access, &[], about, run)
        .add(Method::GET, "/workflows", access, &[], about, workflows)
        .add(Method::GET, "/workflows/{id}", access, &[], about, workflow)
        .add(Method::GET, "/operations", access, &[], about, operations)
        .add(Method::GET, "/editor", access, &[], about, editor)
        .add(
            Method::GET,
            "/assets/{*path}",
            Access::public(),
            &[code::ROUTE_NOT_FOUND],
            "A file of the page",
            asset,
        );
}

/// A part of the path.
#[derive(Debug, Deserialize, JsonSchema)]
struct Id {
    /// The id of the run or the workflow.
    id: String,
}

async fn runs(State(app): State<App>, caller: Caller, query: RawQuery) -> Result<Html, ApiError> {
    let query = query.0.unwrap_or_default();
    let view = move |queries: &RunQueries| views::runs(queries, &query);
    let content = read(&app, &caller, "Runs", view).await;
    Ok(Html::of(&content.unwrap_or_else(|instead| instead)))
}

async fn run(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<Id>,
    query: RawQuery,
) -> Result<Html, ApiError> {
    let query = query.0.unwrap_or_default();
    let mut keys = form_urlencoded::parse(query.as_bytes()).map(|(key, _)| key);
    let is_now = !keys.any(|key| key == "at" || key == "open");
    let runs = app.clone();
    let view = move |queries: &RunQueries| views::run(queries, runs.progress(), &path.id, is_now);
    let content = match read(&app, &caller, "Run", view).await {
        Err(instead) => instead,
        Ok((content, None)) => content,
        Ok((mut content, Some(drawable))) => {
            let text = app.layouts().text(drawable, PackOptions::default()).await;
            // The view asks for a layout that failed, and says why.
            if let Some(text) = text.ok().as_deref().and_then(|it| str::from_utf8(it).ok()) {
                content.answer("layout", text);
            }
            content
        }
    };
    Ok(Html::of(&content))
}

async fn workflows(State(app): State<App>, caller: Caller) -> Result<Html, ApiError> {
    let content = read(&app, &caller, "Workflows", views::workflows).await;
    Ok(Html::of(&content.unwrap_or_else(|instead| instead)))
}

async fn workflow(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<Id>,
) -> Result<Html, ApiError> {
    let view = move |queries: &RunQueries| views::workflow(queries, &path.id);
    let content = read(&app, &caller, "Workflow", view).await;
    Ok(Html::of(&content.unwrap_or_else(|instead| instead)))
}

async fn operations() -> Result<Html, ApiError> {
    let content = Content::pointer("Operations", "windlass doctor");
    Ok(Html::of(&content))
}

async fn editor() -> Result<Html, ApiError> {
    let content = Content::pointer("Editor", "windlass validate FILE");
    Ok(Html::of(&content))
}

/// What the caller may see; otherwise, what the page has instead.
async fn read<T: Send + 'static>(
    app: &App,
    caller: &Caller,
    title: &str,
    view: impl FnOnce(&RunQueries) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Content> {
    if caller.principal.is_anonymous() {
        return Err(Content::shell(title));
    }
    app.read(caller, view).await.map_err(|error| {
        error.log(caller.correlation.as_str());
        Content::failed(title, &error)
    })
}

async fn asset(
    Path(path): Path<AssetPath>,
    headers: HeaderMap,
) -> Result<assets::Answer, ApiError> {
    let found = Bundle::get().find(&path.path, &headers);
    found.ok_or_else(|| code::ROUTE_NOT_FOUND.error("the page has no such file; load it again"))
}

/// A file in the path.
#[derive(Debug, Deserialize, JsonSchema)]
struct AssetPath {
    /// The file, such as `app.js`; before it, the digest of all files may stand.
    path: String,
}

/// A page of HTML.
#[derive(Debug)]
struct Html {
    status: StatusCode,
    text: String,
}

impl Html {
    fn of(content: &Content) -> Self {
        Self {
            status: content.status,
            text: Bundle::get().index(content),
        }
    }
}

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, html);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        secure(headers);
        response.extensions_mut().insert(Shaped);
        response
    }
}

impl Output for Html {
    fn describe(operation: &mut Operation<'_>) {
        operation.answer::<String>(200, "text/html", "The page");
        operation.answer::<String>(404, "text/html", "The page, which says what is missing");
        operation.answer::<String>(503, "text/html", "The page, which says what failed");
    }
}

/// What the browser must not do with the page.
fn secure(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
