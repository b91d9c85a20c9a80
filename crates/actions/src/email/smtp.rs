//! One message to one mail server. The server's address passes the same guard as those of
//! `http.request`, and the connection is made to the very address that passed it.

use std::error::Error as _;
use std::time::Duration;

use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use serde_json::json;
use url::Url;
use windlass_engine::ActionError;

use super::message::Message;
use crate::connector::Account;
use crate::http::client::{self, Client};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the server may take for each of the steps before the message.
const STEP_TIME: Duration = Duration::from_secs(60);

/// How long it may take to accept a message: RFC 5321, section 4.5.3.2, grants ten minutes, but
/// the attempt has five.
const SEND_TIME: Duration = Duration::from_secs(240);

/// How long its answer to `QUIT` is waited for.
const QUIT_TIME: Duration = Duration::from_secs(1);

/// How the connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    None,
    StartTls,
    Tls,
}

/// A mail server.
#[derive(Debug)]
pub(super) struct Server {
    host: String,
    port: u16,
    security: Security,
}

impl Server {
    /// Reads `smtp://host:25`, `smtp+starttls://host:587` or `smtps://host:465`.
    pub(super) fn parse(address: Option<&str>) -> Result<Self, ActionError> {
        let wrong = |message: String| ActionError::failed("CONNECTOR_NOT_CONFIGURED", message);
        let Some(address) = address else {
            let message = "there is no mail server; set WINDLASS_SMTP_URL or smtp_url in \
                           windlass.toml";
            return Err(wrong(message.to_owned()));
        };
        let url = Url::parse(address).ok();
        let known = url.as_ref().and_then(|url| {
            let (security, port) = match url.scheme() {
                "smtp" => (Security::None, 25),
                "smtp+starttls" => (Security::StartTls, 587),
                "smtps" => (Security::Tls, 465),
                _ => return None,
            };
            let host = url.host_str()?.trim_matches(['[', ']']);
            Some(Self {
                host: host.to_owned(),
                port: url.port().unwrap_or(port),
                security,
            })
        });
        known
            .filter(|server| !server.host.is_empty())
            .ok_or_else(|| {
                wrong(
                    "WINDLASS_SMTP_URL is not the address of a mail server; write smtp://host:25, \
                 smtp+starttls://host:587 or smtps://host:465"
                        .to_owned(),
                )
            })
    }

    fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// What was being done when something went wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Connect,
    StartTls,
    Authenticate,
    Send,
}

/// Hands a message to the server.
pub(super) async fn send(
    client: &Client,
    server: &Server,
    account: Option<&Account>,
    message: &Message,
) -> Result<(), ActionError> {
    // TLS needs a provider; an error means that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let addresses = client::resolve(client.allowed(), &server.host, server.port).await?;
    let is_local = addresses.iter().all(|address| address.ip().is_loopback());
    if account.is_some() && server.security == Security::None && !is_local {
        let message = format!(
            "{}: the password is not sent without TLS; use smtp+starttls:// or smtps://",
            server.place()
        );
        return Err(ActionError::failed("EMAIL_TLS", message));
    }
    let failed = |step| move |error: Error| explain(server, step, &error);
    let tls = match server.security {
        Security::None => None,
        _ => Some(TlsParameters::new_rustls(server.host.clone()).map_err(failed(Step::StartTls))?),
    };
    let hello = ClientId::default();
    let wrapped = tls.clone().filter(|_| server.security == Security::Tls);
    let connecting = AsyncSmtpConnection::connect_tokio1(
        addresses.as_slice(),
        Some(CONNECT_TIMEOUT),
        &hello,
        wrapped,
        None,
    );
    let connected = in_time(server, STEP_TIME, connecting).await?;
    let mut connection = connected.map_err(failed(Step::Connect))?;
    if let Some(tls) = tls.filter(|_| server.security == Security::StartTls) {
        let started = in_time(server, STEP_TIME, connection.starttls(tls, &hello)).await?;
        started.map_err(failed(Step::StartTls))?;
    }
    if let Some(account) = account {
        let user = account.user.clone().unwrap_or_default();
        let credentials = Credentials::new(user, account.token.clone());
        let proving = connection.auth(DEFAULT_MECHANISMS, &credentials);
        let proved = in_time(server, STEP_TIME, proving).await?;
        proved.map_err(failed(Step::Authenticate))?;
    }
    let sending = connection.send(&message.envelope, &message.bytes);
    let sent = in_time(server, SEND_TIME, sending).await?;
    sent.map_err(failed(Step::Send))?;
    // The server's answer to `QUIT` changes nothing, and a server that gives none must not make
    // the attempt fail: the next one would send the message again.
    let _ = tokio::time::timeout(QUIT_TIME, connection.quit()).await;
    Ok(())
}

/// What a step gives, if the server does not take too long for it.
async fn in_time<T>(
    server: &Server,
    time: Duration,
    step: impl Future<Output = T>,
) -> Result<T, ActionError> {
    tokio::time::timeout(time, step).await.map_err(|_| {
        let place = server.place();
        let message = format!(
            "{place}: the server gave no answer within {} s",
            time.as_secs()
        );
        ActionError::retriable("EMAIL_CONNECT", message)
    })
}

/// What a reply means, by its code and enhanced code (RFC 5321, RFC 3463).
fn explain(server: &Server, step: Step, error: &Error) -> ActionError {
    let status = error
        .status()
        .map(|code| code.to_string().parse().unwrap_or(0));
    let said = chain(error);
    let (code, retriable, what) = match (step, status) {
        (Step::Authenticate, Some(530 | 534 | 535 | 538)) => (
            "EMAIL_UNAUTHORIZED",
            false,
            "the server refuses the user or the password",
        ),
        (Step::Authenticate, None) if error.is_client() => (
            "EMAIL_UNAUTHORIZED",
            false,
            "the server offers no way to log in",
        ),
        (_, Some(530)) => ("EMAIL_UNAUTHORIZED", false, "the server asks for a user"),
        (_, Some(552)) => ("EMAIL_TOO_LARGE", false, "the message is too large"),
        (_, Some(554)) if said.contains("5.3.4") => {
            ("EMAIL_TOO_LARGE", false, "the message is too large")
        }
        (_, Some(400..500)) => ("EMAIL_DEFERRED", true, "the server asks to try again later"),
        (_, Some(_)) => ("EMAIL_REFUSED", false, "the server refuses the message"),
        (Step::StartTls, None) if error.is_client() => {
            ("EMAIL_TLS", false, "the server does not offer STARTTLS")
        }
        _ if error.is_tls() || is_certificate(&said) => (
            "EMAIL_TLS",
            false,
            "no protected connection: check the server's certificate",
        ),
        _ if error.is_client() => ("EMAIL_REFUSED", false, "the message cannot be sent there"),
        _ => ("EMAIL_CONNECT", true, "the server cannot be reached"),
    };
    let message = format!("{}: {what}: {said}", server.place());
    let mut failed = ActionError::failed(code, message);
    failed.retriable = retriable;
    failed.with_details(&json!({ "server": server.place(), "status": status, "said": said }))
}

fn is_certificate(said: &str) -> bool {
    said.to_ascii_lowercase().contains("certificate")
}

/// An error and its causes in one sentence.
fn chain(error: &Error) -> String {
    let mut parts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(source) = cause {
        let text = source.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        cause = source.source();
    }
    parts.join(": ")
}
