//! The HTTP client, made when the first request is: most runs make none.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Name, Resolve, Resolving};
use reqwest::redirect;
use windlass_engine::ActionError;

use super::guard::{Allowed, Refused};
use super::parameters::Tls;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    allowed: Arc<Allowed>,
    made: Arc<OnceLock<Option<reqwest::Client>>>,
}

impl Client {
    pub(crate) fn new(allowed: Allowed) -> Self {
        Self {
            allowed: Arc::new(allowed),
            ..Self::default()
        }
    }

    pub(crate) fn allowed(&self) -> &Allowed {
        &self.allowed
    }

    /// A client with certificates of its own; it shares no connection with others.
    pub(crate) fn with_tls(&self, tls: &Tls) -> Result<Self, ActionError> {
        let invalid = |what: &str, error: &dyn std::fmt::Display| {
            let message = format!("tls.{what} cannot be used: {error}");
            ActionError::failed("PARAMETERS_INVALID", message)
        };
        let mut builder = builder(&self.allowed);
        match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                let pem = format!("{key}\n{certificate}\n");
                let identity = reqwest::Identity::from_pem(pem.as_bytes());
                let identity = identity.map_err(|error| invalid("certificate", &error))?;
                builder = builder.identity(identity);
            }
            (None, None) => {}
            _ => {
                return Err(invalid(
                    "certificate",
                    &"certificate and key belong together",
                ));
            }
        }
        if let Some(ca) = &tls.ca {
            let roots = reqwest::Certificate::from_pem_bundle(ca.as_bytes());
            let roots = roots.map_err(|error| invalid("ca", &error))?;
            if roots.is_empty() {
                return Err(invalid("ca", &"it has no certificate in PEM"));
            }
            builder = builder.tls_certs_merge(roots);
        }
        let client = builder.build();
        let client = client.map_err(|error| invalid("certificate", &chain(&error)))?;
        Ok(Self {
            allowed: Arc::clone(&self.allowed),
            made: Arc::new(OnceLock::from(Some(client))),
        })
    }

    /// The client. It follows no redirect by itself; see `redirect`.
    pub(crate) fn get(&self) -> Result<&reqwest::Client, ActionError> {
        let client = self.made.get_or_init(|| build(&self.allowed).ok());
        client
            .as_ref()
            .ok_or_else(|| ActionError::failed("HTTP_CLIENT", "the HTTP client could not be made"))
    }
}

fn build(allowed: &Arc<Allowed>) -> reqwest::Result<reqwest::Client> {
    builder(allowed).build()
}

fn builder(allowed: &Arc<Allowed>) -> reqwest::ClientBuilder {
    // An error means that a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .dns_resolver(GuardedResolver {
            allowed: Arc::clone(allowed),
        })
        // A proxy would make the connections, and the guard would not see their addresses.
        .no_proxy()
        .redirect(redirect::Policy::none())
}

/// Resolves names and drops the addresses that must not be reached; the connection is made to
/// one of the others.
struct GuardedResolver {
    allowed: Arc<Allowed>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            match reachable(&allowed, &host, found) {
                Ok(reachable) => Ok(Box::new(reachable.into_iter()) as Box<_>),
                Err(refused) => Err(Box::new(refused) as Box<_>),
            }
        })
    }
}

/// Those of a host's addresses that may be reached.
fn reachable(
    allowed: &Allowed,
    host: &str,
    found: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, Refused> {
    let any = !found.is_empty();
    let may = |address: &SocketAddr| allowed.name(host) || allowed.address(address.ip());
    let reachable: Vec<SocketAddr> = found.into_iter().filter(may).collect();
    if any && reachable.is_empty() {
        return Err(allowed.refuse(host));
    }
    Ok(reachable)
}

/// The addresses of a host that may be reached, for connections that are not HTTP.
#[cfg(feature = "email")]
pub(crate) async fn resolve(
    allowed: &Allowed,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, ActionError> {
    let unknown = |reason: &dyn std::fmt::Display| {
        let message = format!("the address of '{host}' cannot be found: {reason}");
        ActionError::retriable("EMAIL_CONNECT", message)
    };
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found.map_err(|error| unknown(&error))?.collect();
    if found.is_empty() {
        return Err(unknown(&"it has none"));
    }
    reachable(allowed, host, found).map_err(Refused::into_error)
}

/// What went wrong, as an error that says whether trying again makes sense.
pub(crate) fn explain(error: &reqwest::Error) -> ActionError {
    let mut cause = error.source();
    while let Some(source) = cause {
        if let Some(refused) = source.downcast_ref::<Refused>() {
            return refused.clone().into_error();
        }
        cause = source.source();
    }
    let server = error
        .url()
        .map_or_else(|| "the server".to_owned(), host_and_port);
    let causes = causes(error);
    if error.is_timeout() {
        let message = format!("no answer from {server}: {causes}");
        ActionError::retriable("HTTP_TIMEOUT", message)
    } else if error.is_connect() {
        let message = format!("cannot connect to {server}: {causes}");
        ActionError::retriable("HTTP_CONNECT", message)
    } else if error.is_builder() {
        ActionError::failed("PARAMETERS_INVALID", chain(error))
    } else {
        let message = format!("the exchange with {server} failed: {causes}");
        ActionError::retriable("HTTP_FAILED", message)
    }
}

/// The request took longer than it may.
pub(crate) fn timed_out(url: &str) -> ActionError {
    let url = reqwest::Url::parse(url).ok();
    let server = url.map_or_else(|| "the server".to_owned(), |url| host_and_port(&url));
    let message = format!("no answer from {server} in the time that `timeoutMs` gives");
    ActionError::retriable("HTTP_TIMEOUT", message)
}

/// The server of an address.
fn host_and_port(url: &reqwest::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// An error and its causes in one sentence, without the address, which may hold secrets.
fn chain(error: &reqwest::Error) -> String {
    match causes(error).as_str() {
        "" => "the request failed".to_owned(),
        causes => format!("the request failed: {causes}"),
    }
}

/// What led to an error, from the nearest cause to the first. The client's own layers name only
/// themselves (`client error (Connect)`, `tcp connect error`), and are left out where more is known.
fn causes(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(source) = cause {
        let text = source.to_string();
        if parts.last() != Some(&text) {
            parts.push(text);
        }
        cause = source.source();
    }
    let is_layer =
        |part: &String| part.starts_with("client error (") || part == "tcp connect error";
    if let Some(first) = parts.iter().position(|part| !is_layer(part)) {
        parts.drain(..first);
    }
    parts.join(": ")
}
