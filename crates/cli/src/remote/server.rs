//! The connection: one client, kept alive between requests, and a small runtime of its own. The
//! server is at an address, or it is the process that holds a data directory, at its socket.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use reqwest::Response;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use tokio::runtime::Runtime;
use url::{Host, Url};
use windlass_store_embedded::Holder;

use super::failures;
use super::question::Question;
use crate::exit::{Exit, Failure};

/// How long a connection may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How long a connection rests before another is made: less than servers allow.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// A question that comes too soon is asked again after a wait of at most this.
const SHORT_WAIT: Duration = Duration::from_secs(5);

/// How often that is done.
const SHORT_WAITS: usize = 5;

/// A server to ask. Cloning is cheap; nothing is connected before the first question.
#[derive(Clone)]
pub(crate) struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    base: Url,
    /// For people.
    address: String,
    token: Option<HeaderValue>,
    socket: Option<Socket>,
    link: OnceLock<Link>,
    /// What the server last refused, for which the storage contract has no words.
    refusal: Mutex<Option<Failure>>,
}

/// The socket of a data directory, and the process that holds it.
struct Socket {
    path: PathBuf,
    holder: Holder,
}

struct Link {
    client: reqwest::Client,
    /// Taken when it is dropped, which must not wait.
    runtime: Option<Runtime>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.inner.address).finish()
    }
}

/// The address of a server as people write it; `http` where no scheme is named.
pub(crate) fn address(text: &str) -> Option<Url> {
    let text = text.trim();
    let url = match text.contains("://") {
        true => Url::parse(text),
        false => Url::parse(&format!("http://{text}")),
    };
    let url = url.ok()?;
    let usable = matches!(url.scheme(), "http" | "https")
        && url.host().is_some()
        && url.username().is_empty()
        && url.password().is_none();
    usable.then_some(url)
}

impl Server {
    /// A server at an address.
    ///
    /// # Errors
    /// The address or the token cannot be one.
    pub(crate) fn new(text: &str, token: Option<&str>) -> Result<Self, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, "SETTING_INVALID", message);
        let mut base = address(text)
            .ok_or_else(|| usage(format!("server is '{text}', and must be an http(s) URL")))?;
        base.set_query(None);
        base.set_fragment(None);
        let token = token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| usage("token has characters that no token has".to_owned()))?;
            value.set_sensitive(true);
            Ok::<_, Failure>(value)
        });
        let address = base.as_str().trim_end_matches('/').to_owned();
        Ok(Self::with(base, address, token.transpose()?, None))
    }

    /// The process that holds a data directory, which listens on this socket.
    pub(crate) fn on_socket(path: &Path, holder: Holder) -> Self {
        let base = Url::parse("http://localhost").expect("this is a URL");
        let (path, address) = (path.to_owned(), holder.to_string());
        Self::with(base, address, None, Some(Socket { path, holder }))
    }

    fn with(
        base: Url,
        address: String,
        token: Option<HeaderValue>,
        socket: Option<Socket>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                base,
                address,
                token,
                socket,
                link: OnceLock::new(),
                refusal: Mutex::new(None),
            }),
        }
    }

    /// Its address, or the process that it is, for people.
    pub(crate) fn address(&self) -> &str {
        &self.inner.address
    }

    /// The process, if it is the one that holds a data directory here.
    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.inner.socket.as_ref().map(|socket| &socket.holder)
    }

    /// Whether a question failed because the process that holds the data directory ends, or has
    /// ended: the next one is to be looked for, and asked. A server at an address comes back.
    pub(crate) fn is_gone(&self, failure: &Failure) -> bool {
        let codes = ["SERVER_UNREACHABLE", "ENGINE_STOPPED"];
        self.holder().is_some() && codes.contains(&&*failure.code)
    }

    /// The URL of something under `/api/v1`.
    pub(super) fn url(&self, parts: &[&str]) -> Url {
        let mut url = self.inner.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "v1"]).extend(parts);
        }
        url
    }

    /// The URL of something that is not under `/api/v1`.
    pub(super) fn place(&self, parts: &[&str]) -> Url {
        let mut url = self.inner.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// Whether it is asked with a token.
    pub(crate) fn has_token(&self) -> bool {
        self.inner.token.is_some()
    }

    /// Looks at something.
    pub(super) fn get(&self, url: Url) -> Result<Vec<u8>, Failure> {
        self.ask(Question::get(url))
    }

    /// Asks, and waits for the whole answer. A question that came too soon was not looked
    /// at, and is asked again after a short wait.
    pub(super) fn ask(&self, question: Question) -> Result<Vec<u8>, Failure> {
        let server = self.clone();
        self.wait(async move {
            let mut waits = 0;
            loop {
                let answer = server.send(question.clone()).await?;
                match too_soon(&answer) {
                    Some(rest) if rest <= SHORT_WAIT && waits < SHORT_WAITS => {
                        waits += 1;
                        let seconds = rest.as_secs().max(1);
                        crate::output::say(&format!("rate limited, retrying in {seconds} s"));
                        tokio::time::sleep(rest).await;
                    }
                    _ => return server.whole(answer).await,
                }
            }
        })
    }

    /// Sends a question; the answer's head has come.
    pub(super) async fn send(&self, question: Question) -> Result<Response, Failure> {
        let link = self.link()?;
        let mut request = link
            .client
            .request(question.method, question.url)
            .header(ACCEPT, question.accept);
        if let Some(token) = &self.inner.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        if let Some(body) = question.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        if let Some(position) = question.last_event {
            request = request.header("last-event-id", position.to_string());
        }
        // The end of a process on this machine is noticed without a clock.
        if let Some(time) = question.time.filter(|_| self.holder().is_none()) {
            request = request.timeout(time);
        }
        let sent = request.send().await;
        sent.map_err(|error| failures::unreachable(self.address(), &error))
    }

    /// The whole of an answer; a refusal is a failure.
    pub(super) async fn whole(&self, answer: Response) -> Result<Vec<u8>, Failure> {
        let (status, wait) = (answer.status(), retry_after(&answer));
        let body = answer.bytes().await;
        let body = body.map_err(|error| failures::unreachable(self.address(), &error))?;
        match status.is_success() {
            true => Ok(body.into()),
            false => Err(failures::refused(self.address(), status, wait, &body)),
        }
    }

    /// Waits for something on the runtime of the connection, wherever the caller is.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let (done, waiting) = mpsc::sync_channel(1);
        self.runtime()?.spawn(async move {
            // The thread that called `wait` receives it.
            let _ = done.send(work.await);
        });
        let gone = || Failure::new(Exit::Storage, "RUNTIME_FAILED", "the connection has ended");
        waiting.recv().map_err(|_| gone())?
    }

    /// Runs something on the runtime of the connection.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        Ok(self.runtime()?.block_on(work))
    }

    fn runtime(&self) -> Result<&Runtime, Failure> {
        let runtime = self.link()?.runtime.as_ref();
        Ok(runtime.expect("it is taken only when the link is dropped"))
    }

    fn link(&self) -> Result<&Link, Failure> {
        if let Some(link) = self.inner.link.get() {
            return Ok(link);
        }
        let failed =
            |error: &dyn fmt::Display| Failure::new(Exit::Storage, "RUNTIME_FAILED", error);
        let link = Link {
            client: client(&self.inner).map_err(|error| failed(&error))?,
            runtime: Some(runtime().map_err(|error| failed(&error))?),
        };
        Ok(self.inner.link.get_or_init(|| link))
    }

    /// Keeps the server's refusal, so that `explain` can report it.
    pub(super) fn remember(&self, failure: Failure) {
        *self.refusal() = Some(failure);
    }

    /// What the server itself said, where the store could only say that it cannot be read.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        match &*failure.code {
            "STORE_UNAVAILABLE" => self.refusal().take().unwrap_or(failure),
            _ => failure,
        }
    }

    fn refusal(&self) -> MutexGuard<'_, Option<Failure>> {
        let refusal = self.inner.refusal.lock();
        refusal.unwrap_or_else(PoisonError::into_inner)
    }
}

fn client(server: &Inner) -> reqwest::Result<reqwest::Client> {
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIME)
        .pool_idle_timeout(IDLE_TIME)
        // The token is for this server only: it must not be sent to another address.
        .redirect(reqwest::redirect::Policy::none());
    // Without TLS the certificates of the system are not read, which takes longer than a request.
    let builder = match server.base.scheme() {
        "https" => builder,
        _ => builder.tls_certs_only([]),
    };
    match &server.socket {
        Some(socket) => builder
            .unix_socket(socket.path.as_path())
            .no_proxy()
            .build(),
        None if is_here(&server.base) => builder.no_proxy().build(),
        None => builder.build(),
    }
}

/// Whether the server is on this machine, where no proxy leads.
fn is_here(base: &Url) -> bool {
    match base.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
}

/// How long to wait before asking again, if the server says so.
fn retry_after(answer: &Response) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

fn too_soon(answer: &Response) -> Option<Duration> {
    let is_limited = answer.status() == reqwest::StatusCode::TOO_MANY_REQUESTS;
    retry_after(answer).filter(|_| is_limited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_with_or_without_a_scheme() {
        let server = |text: &str| Server::new(text, None).map(|it| it.address().to_owned());
        assert_eq!(
            server("127.0.0.1:7400").ok().as_deref(),
            Some("http://127.0.0.1:7400")
        );
        assert_eq!(
            server("localhost:7400").ok().as_deref(),
            Some("http://localhost:7400")
        );
        assert_eq!(
            server("https://a.example/w/?x").ok().as_deref(),
            Some("https://a.example/w")
        );
        for wrong in ["ftp://a.example", "http://", "http://user:word@a.example"] {
            let failure = Server::new(wrong, None).expect_err(wrong);
            assert_eq!(
                (failure.exit, &*failure.code),
                (Exit::Usage, "SETTING_INVALID")
            );
        }
    }

    #[test]
    fn parts_of_paths_are_kept_apart() {
        let server = Server::new("http://a.example/w/", None).expect("a server");
        let url = server.url(&["workflows", "a/b c", "versions"]);
        assert_eq!(
            url.as_str(),
            "http://a.example/w/api/v1/workflows/a%2Fb%20c/versions"
        );
    }
}
