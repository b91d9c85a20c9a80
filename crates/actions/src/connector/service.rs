//! A service behind HTTP: its address, and one exchange with it. The address passes the same
//! guard as those of `http.request`; redirects are not followed, because they would take the
//! credentials along.

use std::time::Duration;

use reqwest::Method;
use url::Url;
use windlass_engine::{ActionError, Context};

use super::Answer;
use crate::http::client::{self, Client};
use crate::http::{guard, response};

/// How long one exchange may take; the node's timeout holds as well.
const EXCHANGE_TIME: Duration = Duration::from_secs(60);

/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 10 * 1024 * 1024;

/// A service behind HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// What people call it.
    pub(crate) name: &'static str,
    /// The setting with its address.
    pub(crate) setting: &'static str,
    pub(crate) base: Option<String>,
    pub(crate) client: Client,
}

impl Service {
    /// The service's address with a path below it; a query can be added to it.
    pub(crate) fn url(&self, path: &str) -> Result<Url, ActionError> {
        let Some(base) = &self.base else {
            let message = format!(
                "{} has no address; set {} or {} in windlass.toml",
                self.name,
                self.setting,
                self.setting
                    .trim_start_matches("WINDLASS_")
                    .to_ascii_lowercase()
            );
            return Err(ActionError::failed("CONNECTOR_NOT_CONFIGURED", message));
        };
        let url = guard::parse(&format!("{}{path}", base.trim_end_matches('/')));
        let url = url.map_err(|error| {
            let message = format!("{}: {}", self.setting, error.message);
            ActionError::failed("CONNECTOR_NOT_CONFIGURED", message)
        })?;
        let literal = self.client.allowed().check_literal(&url);
        literal.map_err(guard::Refused::into_error)?;
        Ok(url)
    }

    /// A request to the service.
    pub(crate) fn request(
        &self,
        method: Method,
        url: Url,
    ) -> Result<reqwest::RequestBuilder, ActionError> {
        Ok(self.client.get()?.request(method, url))
    }

    /// Sends a request and reads the whole answer, whatever its status.
    pub(crate) async fn exchange(
        &self,
        context: &Context,
        request: reqwest::RequestBuilder,
    ) -> Result<Answer, ActionError> {
        let request = request.timeout(EXCHANGE_TIME).build();
        let request = request.map_err(|error| client::explain(&error))?;
        let method = request.method().to_string();
        let mut shown = request.url().clone();
        shown.set_query(None);
        let exchange = async {
            let sent = self.client.get()?.execute(request).await;
            let answer = sent.map_err(|error| client::explain(&error))?;
            let status = answer.status().as_u16();
            let retry_after_ms = response::retry_after_ms(answer.headers());
            let body = response::body(answer, MAX_ANSWER_BYTES).await?;
            Ok((status, retry_after_ms, body))
        };
        let answered = tokio::select! {
            answered = exchange => answered,
            () = context.stop_asked() => return Err(ActionError::stopped()),
        };
        let place = |mut error: ActionError| {
            error.message = format!("{}: {method} {shown}: {}", self.name, error.message).into();
            error
        };
        let (status, retry_after_ms, body) = answered.map_err(place)?;
        Ok(Answer {
            method,
            url: shown.into(),
            status,
            retry_after_ms,
            excerpt: Answer::excerpt(context, &body),
            body,
        })
    }
}
