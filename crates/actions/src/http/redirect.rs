//! Following redirects, up to ten, without taking secrets along to another origin.
//!
//! An origin is scheme, host and port. Where it changes, credentials and every header that a
//! secret was rendered into are dropped for good: they are not restored if a redirect leads
//! back. A body that a secret was rendered into, and an address that shows one, are not sent
//! there at all: the request fails and says why. The next server never learns the previous
//! address (`Referer`).

use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderName, LOCATION,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use reqwest::{Method, Request, Response, StatusCode, Url};
use windlass_core::value::StoredFile;
use windlass_engine::{ActionError, Context};

use super::parameters::Parameters;
use super::{blob, client, guard};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 10;

/// The parts of a request that must not reach another origin.
pub(super) struct Confined {
    /// Headers that a secret was rendered into.
    pub(super) headers: Vec<HeaderName>,
    /// A secret was rendered into the body.
    pub(super) body: bool,
    /// The connection shows a client certificate.
    pub(super) certificate: bool,
}

impl Confined {
    /// Finds the parts of a request that were rendered with a secret.
    pub(super) fn of(
        context: &Context,
        names: impl Iterator<Item = HeaderName>,
        parameters: &Parameters,
    ) -> Self {
        // Names are written as the definition has them, and compared without their case.
        let headers = context.secret_members("/headers");
        let is_secret = |name: &HeaderName| {
            let same = |header: &String| header.eq_ignore_ascii_case(name.as_str());
            headers.iter().any(same)
        };
        Self {
            headers: names.filter(is_secret).collect(),
            body: context.is_secret("/body") || context.is_secret("/multipart"),
            certificate: parameters.tls.is_some(),
        }
    }
}

/// Sends a request, and again to where the answer leads.
pub(super) async fn send(
    client: &client::Client,
    context: &Context,
    confined: &Confined,
    (mut request, mut file): (Request, Option<&StoredFile>),
) -> Result<Response, ActionError> {
    for _ in 0..=MAX_REDIRECTS {
        let again = request.try_clone();
        if let Some(file) = file {
            *request.body_mut() = Some(blob::body(context, file));
        }
        let response = client.get()?.execute(request).await;
        let response = response.map_err(|error| client::explain(&error))?;
        let Some(location) = location(&response) else {
            return Ok(response);
        };
        let target = target(response.url(), &location)?;
        client
            .allowed()
            .check_literal(&target)
            .map_err(|refused| refused.into_error())?;
        let mut next = again.ok_or_else(|| refused("its body cannot be sent twice"))?;
        if adapt(&mut next, response.status()) {
            file = None;
        }
        if target.origin() != next.url().origin() {
            leave(&mut next, context, confined, &target)?;
        }
        *next.url_mut() = target;
        request = next;
    }
    Err(refused("there are more than ten redirects"))
}

/// Where an answer leads, if it is a redirect.
fn location(response: &Response) -> Option<String> {
    let leads_on = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get(LOCATION).filter(|_| leads_on)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

fn target(from: &Url, location: &str) -> Result<Url, ActionError> {
    let joined = from
        .join(location)
        .map_err(|_| refused("it leads to no usable address"))?;
    guard::parse(joined.as_str()).map_err(|_| refused("it leads to no usable address"))
}

/// What becomes of method and body: RFC 9110, section 15.4. Says whether the body is dropped.
fn adapt(request: &mut Request, status: StatusCode) -> bool {
    let becomes_get = match status.as_u16() {
        301 | 302 => *request.method() == Method::POST,
        303 => *request.method() != Method::HEAD && *request.method() != Method::GET,
        _ => false,
    };
    if becomes_get {
        *request.method_mut() = Method::GET;
        *request.body_mut() = None;
        for header in [
            CONTENT_TYPE,
            CONTENT_LENGTH,
            CONTENT_ENCODING,
            TRANSFER_ENCODING,
        ] {
            request.headers_mut().remove(header);
        }
    }
    becomes_get
}

/// Removes what must not reach another origin.
fn leave(
    request: &mut Request,
    context: &Context,
    confined: &Confined,
    target: &Url,
) -> Result<(), ActionError> {
    if confined.body && request.body().is_some() {
        return Err(refused(
            "it leads the body, which holds a secret, to another origin; \
             name the final address in `url`",
        ));
    }
    if confined.certificate {
        return Err(refused(
            "it leads a request with `tls` to another origin; name the final address in `url`",
        ));
    }
    if context.reveals(target.as_str()) {
        return Err(refused(
            "it leads to an address of another origin that holds a secret",
        ));
    }
    let credentials = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];
    for header in credentials.iter().chain(&confined.headers) {
        request.headers_mut().remove(header);
    }
    Ok(())
}

fn refused(why: &str) -> ActionError {
    ActionError::failed(
        "HTTP_REDIRECT",
        format!("the redirect was not followed: {why}"),
    )
}
