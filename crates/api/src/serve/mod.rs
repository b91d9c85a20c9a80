//! The accept loop: connections come in up to a number, each address up to its share, are
//! watched, and end politely. Probes have a few connections of their own, and may have a
//! listener.

mod activity;
mod connection;
mod io;
mod listener;
mod options;
mod seats;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRequestParts;
use http::request::Parts;
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use options::{ServerOptions, TlsFiles};

use activity::Patience;
use connection::Shared;
use listener::{Accepted, Listener};
use seats::Seats;
pub(crate) use seats::{Claimed, Refused, Seated};

use crate::figure::Figure;
use crate::route::{Input, Operation};

/// After an accept that failed, as when files run out, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that listens, and serves once it is run.
pub struct Server {
    main: Option<Listening>,
    probes: Option<Listening>,
    tls: Option<TlsAcceptor>,
    options: ServerOptions,
}

/// An address that is listened on, with its limits on connections.
struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    seats: Arc<Seats>,
}

impl Listening {
    async fn bind(address: SocketAddr, seats: Arc<Seats>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            seats,
        })
    }
}

/// Connections at once of the listener that is there for probes.
const PROBE_CONNECTIONS: usize = 64;

/// Whether all requests under way ended by themselves when the server drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// All of them.
    Finished,
    /// So many connections were cut off at the deadline.
    CutOff(usize),
}

impl Server {
    /// Listens. Clients may connect from here on; they are served once it runs.
    ///
    /// # Errors
    ///
    /// If the address is taken or the certificate cannot be used.
    pub async fn bind(options: ServerOptions) -> std::io::Result<Self> {
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let main = match options.listens {
            true => Some(Listening::bind(options.address, Seats::new(&options)).await?),
            false => None,
        };
        let probes = match options.probe_address {
            None => None,
            Some(address) => {
                let few = ServerOptions {
                    max_connections: PROBE_CONNECTIONS,
                    ..options.clone()
                };
                Some(Listening::bind(address, Seats::new(&few)).await?)
            }
        };
        Ok(Self {
            main,
            probes,
            tls,
            options,
        })
    }

    /// The address that it listens on, if it does.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.main.as_ref().map(|main| main.address)
    }

    /// The address that answers nothing but probes, if there is one.
    #[must_use]
    pub fn probe_addr(&self) -> Option<SocketAddr> {
        self.probes.as_ref().map(|probes| probes.address)
    }

    /// What the metrics page shows of connections.
    pub fn figures(&self) -> impl Fn() -> Vec<Figure> + Send + Sync + 'static {
        let seats = self.main.as_ref().map(|main| Arc::clone(&main.seats));
        move || {
            let Some(seats) = &seats else {
                return Vec::new();
            };
            let (held, refused) = seats.figures();
            vec![
                Figure::gauge(
                    "windlass_http_connections",
                    "Connections that are open.",
                    held,
                ),
                Figure::counter(
                    "windlass_http_connections_refused_total",
                    "Requests that found no free connection slot.",
                    refused,
                ),
            ]
        }
    }

    /// Serves until `shutdown` is cancelled, then drains: takes in no more, answers what is
    /// under way, and cuts off what is left at the deadline.
    pub async fn run(self, router: Router, shutdown: CancellationToken) -> Drained {
        let serving = Serving::new(router, self.options, shutdown);
        // What probes a server from inside a machine has no certificate to check.
        let probing = self.probes.map(|probes| {
            let accept_loop = serving.accept_loop(probes.seats, None, true);
            accept_loop.run(Listener::Tcp(probes.listener))
        });
        let main = self.main.map(|main| {
            let accept_loop = serving.accept_loop(main.seats, self.tls, false);
            accept_loop.run(Listener::Tcp(main.listener))
        });
        match (main, probing) {
            (Some(main), Some(probing)) => drop(tokio::join!(main, probing)),
            (Some(main), None) => main.await,
            (None, Some(probing)) => probing.await,
            (None, None) => serving.stop.drain.cancelled().await,
        }
        serving.drain().await
    }
}

/// A server on a Unix socket: the same accept loop for processes of this machine. Who may
/// connect is decided by the permissions of the socket's file.
#[derive(Debug)]
pub struct SocketServer {
    listener: UnixListener,
    options: ServerOptions,
}

impl SocketServer {
    /// A server on a socket that is bound already; of the options, those of addresses, TLS and
    /// probes do not apply.
    #[must_use]
    pub fn new(listener: UnixListener, options: ServerOptions) -> Self {
        Self { listener, options }
    }

    /// As [`Server::run`].
    pub async fn run(self, router: Router, shutdown: CancellationToken) -> Drained {
        let seats = Seats::new(&self.options);
        let serving = Serving::new(router, self.options, shutdown);
        let accept_loop = serving.accept_loop(seats, None, false);
        accept_loop.run(Listener::Socket(self.listener)).await;
        serving.drain().await
    }
}

/// What the listeners of a server share while it runs.
struct Serving {
    router: Router,
    options: ServerOptions,
    stop: Stop,
    tasks: TaskTracker,
}

impl Serving {
    fn new(router: Router, options: ServerOptions, shutdown: CancellationToken) -> Self {
        let stop = Stop {
            drain: shutdown,
            now: CancellationToken::new(),
        };
        Self {
            router,
            options,
            stop,
            tasks: TaskTracker::new(),
        }
    }

    fn accept_loop(
        &self,
        seats: Arc<Seats>,
        tls: Option<TlsAcceptor>,
        probes_only: bool,
    ) -> AcceptLoop {
        let shared = Arc::new(Shared {
            router: self.router.clone(),
            builder: connection::builder(&self.options),
            tls,
            patience: Patience::new(&self.options),
            stop: self.stop.clone(),
            probes_only,
        });
        AcceptLoop {
            seats,
            tasks: self.tasks.clone(),
            shared,
        }
    }

    async fn drain(self) -> Drained {
        self.tasks.close();
        drain(&self.tasks, &self.stop, self.options.drain_timeout).await
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Server")
            .field("local_addr", &self.local_addr())
            .finish_non_exhaustive()
    }
}

/// When connections are to end.
#[derive(Clone)]
struct Stop {
    /// As soon as they can.
    drain: CancellationToken,
    /// At once.
    now: CancellationToken,
}

/// Tells that the server drains; an extractor.
#[derive(Debug, Clone)]
pub struct Draining(CancellationToken);

impl Draining {
    /// Waits until it does.
    pub async fn begun(&self) {
        self.0.cancelled().await;
    }

    /// Whether it does.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl<S: Sync> FromRequestParts<S> for Draining {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // A router that is tried without a server never drains.
        let found = parts.extensions.get::<Self>().cloned();
        Ok(found.unwrap_or_else(|| Self(CancellationToken::new())))
    }
}

impl Input for Draining {
    fn describe(_: &mut Operation<'_>) {}
}

struct AcceptLoop {
    seats: Arc<Seats>,
    tasks: TaskTracker,
    shared: Arc<Shared>,
}

impl AcceptLoop {
    /// Accepts all the time: a connection that finds no seat must not keep those behind it
    /// waiting that would find one.
    async fn run(self, listener: Listener) {
        let drain = self.shared.stop.drain.clone();
        loop {
            tokio::select! {
                biased;
                () = drain.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => self.take(accepted),
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                },
            }
        }
        // Connections that wait in the backlog would be reset when the listener closes; they
        // came before the end, and are served.
        listener.rest().for_each(|accepted| self.take(accepted));
    }

    fn take(&self, accepted: Accepted) {
        let place = self.seats.enter(accepted.peer());
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            tokio::select! {
                () = connection::serve(shared, accepted, Arc::clone(&place)) => {}
                () = place.gone() => {}
            }
        });
    }
}

async fn drain(tasks: &TaskTracker, stop: &Stop, deadline: Duration) -> Drained {
    if tokio::time::timeout(deadline, tasks.wait()).await.is_ok() {
        return Drained::Finished;
    }
    let left = tasks.len();
    stop.now.cancel();
    tasks.wait().await;
    Drained::CutOff(left)
}
