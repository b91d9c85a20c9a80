//! The accept loop: connections come in up to a number, are watched, and end politely.

mod activity;
mod connection;
mod io;
mod options;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRequestParts;
use http::request::Parts;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use options::{ServerOptions, TlsFiles};

use activity::Patience;
use connection::Shared;

use crate::route::{Input, Operation};

/// After an accept that failed, as when files run out, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that listens, and serves once it is run.
pub struct Server {
    listener: TcpListener,
    local_addr: SocketAddr,
    tls: Option<TlsAcceptor>,
    options: ServerOptions,
}

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
        let listener = TcpListener::bind(options.address).await?;
        let local_addr = listener.local_addr()?;
        Ok(Self {
            listener,
            local_addr,
            tls,
            options,
        })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `shutdown` is cancelled, then drains: takes in no more, answers what is
    /// under way, and cuts off what is left at the deadline.
    pub async fn run(self, router: Router, shutdown: CancellationToken) -> Drained {
        let stop = Stop {
            drain: shutdown,
            now: CancellationToken::new(),
        };
        let tasks = TaskTracker::new();
        let shared = Arc::new(Shared {
            router,
            builder: connection::builder(&self.options),
            tls: self.tls,
            patience: Patience::new(&self.options),
            stop: stop.clone(),
        });
        let room = Arc::new(Semaphore::new(self.options.max_connections));
        let intake = Intake {
            room,
            tasks: tasks.clone(),
            shared,
        };
        intake.run(self.listener).await;
        tasks.close();
        drain(&tasks, &stop, self.options.drain_timeout).await
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Server")
            .field("local_addr", &self.local_addr)
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

struct Intake {
    room: Arc<Semaphore>,
    tasks: TaskTracker,
    shared: Arc<Shared>,
}

impl Intake {
    async fn run(self, listener: TcpListener) {
        let drain = self.shared.stop.drain.clone();
        loop {
            let permit = tokio::select! {
                biased;
                () = drain.cancelled() => break,
                permit = Arc::clone(&self.room).acquire_owned() => permit,
            };
            let permit = permit.expect("the semaphore is never closed");
            tokio::select! {
                biased;
                () = drain.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.spawn(stream, peer, permit),
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                },
            }
        }
        self.take_rest(listener);
    }

    fn spawn(&self, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            connection::serve(shared, stream, peer).await;
            drop(permit);
        });
    }

    /// Connections that wait in the backlog would be reset when the listener closes; they
    /// came before the end, and are served. Asked of the system itself, since the runtime
    /// may not have heard of them yet.
    fn take_rest(&self, listener: TcpListener) {
        let Ok(listener) = listener.into_std() else {
            return;
        };
        while let Ok(permit) = Arc::clone(&self.room).try_acquire_owned()
            && let Ok((stream, peer)) = listener.accept()
        {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                self.spawn(stream, peer, permit);
            }
        }
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
