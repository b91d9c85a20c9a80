//! What stands in the page before its scripts run.

use http::StatusCode;

use super::html::Text;
use crate::error::ApiError;

/// A title and HTML.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) status: StatusCode,
    pub(super) title: String,
    body: Text,
}

impl Content {
    pub(super) fn new(title: impl AsRef<str>, body: Text) -> Self {
        Self {
            status: StatusCode::OK,
            title: format!("{} · Windlass", title.as_ref()),
            body,
        }
    }

    pub(super) fn body(&self) -> &str {
        self.body.as_str()
    }

    /// Adds an answer of the API, as JSON, which the view would otherwise ask for.
    pub(super) fn answer(&mut self, name: &'static str, json: &str) {
        self.body.answer(name, json);
    }

    /// The page without data: the caller has shown no token yet.
    pub(super) fn shell(title: &str) -> Self {
        let mut body = Text::default();
        body.markup("<noscript><p>This server asks for a token. Without JavaScript, use ")
            .markup("<code>windlass runs --server URL --token TOKEN</code>.</p></noscript>");
        Self::new(title, body)
    }

    /// A view that has nothing to read before its scripts run.
    pub(super) fn pointer(title: &str, command: &str) -> Self {
        let mut body = Text::default();
        body.markup("<h1>").text(title).markup("</h1>");
        body.markup("<noscript><p>This view needs JavaScript. In a terminal: <code>")
            .text(command)
            .markup("</code></p></noscript>");
        Self::new(title, body)
    }

    /// What is shown instead of a view that failed.
    pub(super) fn failed(title: &str, error: &ApiError) -> Self {
        let mut body = Text::default();
        body.markup("<h1>").text(title).markup("</h1>");
        body.markup("<p class=\"error\" role=\"alert\"><strong>")
            .text(error.code())
            .markup("</strong> ")
            .text(error.message())
            .markup("</p><p><a href=\"/\">All runs</a></p>");
        Self {
            status: error.status(),
            ..Self::new(title, body)
        }
    }
}
