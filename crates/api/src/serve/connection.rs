//! One connection, from its handshake to its close.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, Request, Version, header};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::activity::{Activity, Patience, UnderWay};
use super::io::MonitoredIo;
use super::listener::Accepted;
use super::options::ServerOptions;
use super::seats::{Claimed, Refused, Seat, Seated, is_probe};
use super::{Draining, Stop};
use crate::code;
use crate::extract::{Local, Peer};
use crate::fair::Share;

/// Room for the head of a request on the connection: more than `HeadLimits`, so that what
/// is just too large is answered in words.
const HEAD_BYTES: usize = 128 * 1024;
const HEAD_COUNT: usize = 256;

/// What an HTTP/2 client may send before anything of it is read: that is in memory, and in no
/// budget.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// How often a quiet HTTP/2 client is asked whether it lives, and how long it may take.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a connection without a request gets to make one when the server drains: what
/// came just before the end is answered.
const LAST_CALL: Duration = Duration::from_millis(500);

/// How long a connection that was asked to close gets to do so.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// What all connections share.
pub(super) struct Shared {
    pub(super) router: Router,
    pub(super) builder: auto::Builder<TokioExecutor>,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) patience: Patience,
    pub(super) stop: Stop,
    /// Whether nothing but probes is answered.
    pub(super) probes_only: bool,
}

/// What a connection's requests need of it.
#[derive(Clone)]
struct Connected {
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
    place: Arc<Seat>,
    activity: Activity,
}

pub(super) fn builder(options: &ServerOptions) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // It would also end connections that rest between requests; `Activity` tells both
        // apart.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_COUNT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.max_streams)
        .max_header_list_size(HEAD_BYTES as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Serves the connection until it ends.
pub(super) async fn serve(shared: Arc<Shared>, accepted: Accepted, place: Arc<Seat>) {
    let patience = match place.is_seated() {
        true => shared.patience,
        false => shared.patience.brief(),
    };
    let connected = Connected {
        peer: accepted.peer(),
        local: accepted.local(),
        place,
        activity: Activity::new(patience),
    };
    let stream = match accepted {
        Accepted::Socket(stream) => return speak(&shared, stream, connected).await,
        Accepted::Tcp(stream, _) => stream,
    };
    // Answers are small and written whole; waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    match &shared.tls {
        None => speak(&shared, stream, connected).await,
        // Apart, because what TLS keeps would else be room in the task of every connection.
        Some(tls) => Box::pin(speak_tls(&shared, tls, stream, connected)).await,
    }
}

async fn speak_tls(
    shared: &Arc<Shared>,
    tls: &TlsAcceptor,
    stream: TcpStream,
    connected: Connected,
) {
    let stream = tokio::select! {
        stream = tls.accept(stream) => stream,
        () = connected.activity.expired() => return,
        () = shared.stop.now.cancelled() => return,
    };
    if let Ok(stream) = stream {
        speak(shared, stream, connected).await;
    }
}

async fn speak<I>(shared: &Arc<Shared>, stream: I, connected: Connected)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = connected.activity.clone();
    let io = TokioIo::new(MonitoredIo::new(stream, activity.clone()));
    let service = service_fn(move |request| answer(shared, &connected, request));
    let mut connection = pin!(shared.builder.serve_connection(io, service));
    tokio::select! {
        _ = connection.as_mut() => {}
        () = activity.expired() => {
            // An idle client gets a notice that the connection closes; one that is too slow does
            // not.
            if activity.is_idle() {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
            }
        }
        () = last_call(shared, &activity) => {
            connection.as_mut().graceful_shutdown();
            finish(shared, &activity, connection).await;
        }
    }
}

/// Requests under way take their time, up to the server's.
async fn finish<T>(shared: &Shared, activity: &Activity, connection: impl Future<Output = T>) {
    tokio::select! {
        _ = connection => {}
        () = activity.expired() => {}
        () = shared.stop.now.cancelled() => {}
    }
}

/// Waits until the server drains and the connection has made its first request, or has had
/// the time to.
async fn last_call(shared: &Shared, activity: &Activity) {
    shared.stop.drain.cancelled().await;
    let _ = tokio::time::timeout(LAST_CALL, activity.opened()).await;
}

fn answer(
    shared: &Arc<Shared>,
    connected: &Connected,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Counted>, Infallible>> + use<> {
    let http2 = request.version() == Version::HTTP_2;
    let under_way = connected.activity.request(http2);
    let mut request = request.map(Body::new);
    let extensions = request.extensions_mut();
    extensions.insert(Peer(connected.peer));
    extensions.insert(Local(connected.local));
    extensions.insert(Draining(shared.stop.drain.clone()));
    let (shared, connected) = (Arc::clone(shared), connected.clone());
    async move {
        let seat = admit(&shared, &connected, &mut request).await;
        let mut response = shared.router.clone().oneshot(request).await?;
        // An answer may be out before the connection has heard of the end; and one that was
        // let in for a probe makes room for the next.
        let last = shared.stop.drain.is_cancelled() || !connected.place.is_seated();
        if last && !http2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if http2 {
            under_way.waits(true);
        }
        let held = (seat, response.extensions_mut().remove::<Claimed>());
        Ok(response.map(|inner| Counted {
            inner,
            under_way,
            http2,
            rest: Bytes::new(),
            _held: held,
        }))
    }
}

/// Finds the request its place, or marks it as refused; what it holds besides the connection's
/// own place comes back.
async fn admit(
    shared: &Shared,
    connected: &Connected,
    request: &mut Request<Body>,
) -> Option<Share> {
    if is_probe(request.method(), request.uri().path()) {
        return None;
    }
    if shared.probes_only {
        let refusal = code::ROUTE_NOT_FOUND.error("only probes are answered on this address");
        request.extensions_mut().insert(Refused(refusal));
        return None;
    }
    let was_seated = connected.place.is_seated();
    let http2 = request.version() == Version::HTTP_2;
    let several = http2 && connected.activity.is_shared();
    match connected.place.admit(several).await {
        Ok(seat) => {
            if !was_seated {
                connected.activity.set_patience(shared.patience);
            }
            request.extensions_mut().insert(Seated {
                place: Arc::clone(&connected.place),
                several,
            });
            seat
        }
        Err(refusal) => {
            request.extensions_mut().insert(Refused(refusal));
            None
        }
    }
}

/// How much of an answer is handed to an HTTP/2 stream at once: the client must take this much
/// in the write timeout.
const PIECE: usize = 16 * 1024;

/// A body whose request is under way until it is dropped.
struct Counted {
    inner: Body,
    under_way: UnderWay,
    http2: bool,
    /// What is left of a part.
    rest: Bytes,
    /// What it takes of connections until it ends.
    _held: (Option<Share>, Option<Claimed>),
}

impl Counted {
    /// The next piece of an answer over HTTP/2. It is asked for when the client has room.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.http2 {
            return Pin::new(&mut self.inner).poll_frame(context);
        }
        self.under_way.waits(false);
        let polled = self.poll_piece(context);
        self.under_way.waits(polled.is_ready());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(inner.lower().saturating_add(rest));
        hint
    }
}
