//! Limits on connections: each address and each client of a token has a share of them, and
//! a few are kept for probes.
//!
//! | place | connections there | may ask for |
//! | --- | --- | --- |
//! | seat | found room within the share of their address | everything |
//! | reserve | found none, and have not asked yet | probes; for anything else they must wait |
//! | waiting | asked for something else | nothing until there is a seat |
//!
//! Each has a bound that is shared fairly between addresses. A new connection always finds a
//! place in the reserve: the oldest of the address that has the most there makes room, so that
//! no flood keeps a probe out. A further request on an HTTP/2
//! connection takes a seat of its own, as it would on a connection of its own.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderValue, Method, header};
use tokio_util::sync::CancellationToken;

use super::options::ServerOptions;
use crate::code;
use crate::error::ApiError;
use crate::fair::{self, Fair, Share};
use crate::limit::BucketKey;

/// The routes that are answered while other clients hold all seats.
const PROBES: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

/// How long a request waits for a seat.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many of those that wait one address may have, in percent.
const WAITING_SHARE: u8 = 50;

/// Connections that wait for a seat, however few seats there are.
const LEAST_WAITING: u64 = 16;

/// Whether this is asked by what watches the server.
pub(super) fn is_probe(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && PROBES.contains(&path)
}

/// All places of a listener.
#[derive(Debug)]
pub(super) struct Seats {
    seats: Arc<Fair>,
    reserve: Arc<Reserve>,
    waiting: Arc<Fair>,
    clients: Arc<Fair>,
    refused: AtomicU64,
}

impl Seats {
    pub(super) fn new(options: &ServerOptions) -> Arc<Self> {
        let total = options.max_connections as u64;
        let share = options.connection_share;
        Arc::new(Self {
            seats: Fair::new(total, share),
            reserve: Arc::new(Reserve::new(options.probe_connections)),
            waiting: Fair::new((total / 4).max(LEAST_WAITING), WAITING_SHARE),
            clients: Fair::new(total, share),
            refused: AtomicU64::new(0),
        })
    }

    fn full(&self) -> ApiError {
        self.refused.fetch_add(1, Ordering::Relaxed);
        full()
    }

    /// The place of a new connection; those of a socket share one.
    pub(super) fn enter(self: &Arc<Self>, peer: Option<SocketAddr>) -> Arc<Seat> {
        let address = peer.map_or([0; 16], |peer| fair::address(peer.ip()));
        let (held, seated) = match self.seats.take(address, 1) {
            Some(seat) => (Held::Share(seat), true),
            None => (Held::Spot(Reserve::enter(&self.reserve, address)), false),
        };
        let gone = match &held {
            Held::Spot(spot) => spot.gone.clone(),
            Held::Share(_) => CancellationToken::new(),
        };
        Arc::new(Seat {
            all: Arc::clone(self),
            address,
            seated: AtomicBool::new(seated),
            gone,
            held: tokio::sync::Mutex::new(Some(held)),
            owner: Mutex::default(),
        })
    }

    /// Connections that are held, and requests that found no seat.
    pub(super) fn figures(&self) -> (u64, u64) {
        let held = self.seats.held() + self.waiting.held() + self.reserve.spots().len() as u64;
        (held, self.refused.load(Ordering::Relaxed))
    }
}

/// What a connection holds.
#[derive(Debug)]
enum Held {
    /// A seat, or the right to wait for one.
    Share(#[allow(dead_code, reason = "it is held")] Share),
    Spot(Spot),
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    all: Arc<Seats>,
    address: BucketKey,
    seated: AtomicBool,
    /// Cancelled when the connection has to go, to make room in the reserve.
    gone: CancellationToken,
    held: tokio::sync::Mutex<Option<Held>>,
    /// Whose token was last used on the connection; it counts for that client's share.
    owner: Mutex<Option<(BucketKey, Share)>>,
}

impl Seat {
    /// Waits until the connection has to make room.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    pub(super) fn is_seated(&self) -> bool {
        self.seated.load(Ordering::Acquire)
    }

    /// Lets a request in that is no probe: gives what it holds besides the connection's seat,
    /// if it is one of several at once.
    pub(super) async fn admit(&self, several: bool) -> Result<Option<Share>, ApiError> {
        if !self.is_seated() {
            self.find_seat().await?;
        }
        match several {
            false => Ok(None),
            true => {
                let seat = self.all.seats.take(self.address, 1);
                seat.map(Some).ok_or_else(|| self.all.full())
            }
        }
    }

    async fn find_seat(&self) -> Result<(), ApiError> {
        let mut held = self.held.lock().await;
        if self.is_seated() {
            return Ok(());
        }
        let waiting = self.all.waiting.take(self.address, 1);
        let waiting = waiting.ok_or_else(|| self.all.full())?;
        // What waits is not in the reserve, and does not have to make room there.
        *held = Some(Held::Share(waiting));
        let seat = self.all.seats.wait(self.address, 1, PATIENCE).await;
        *held = Some(Held::Share(seat.ok_or_else(|| self.all.full())?));
        self.seated.store(true, Ordering::Release);
        Ok(())
    }

    fn claim(&self, client: BucketKey, several: bool) -> Result<Option<Share>, ApiError> {
        let take = || {
            self.all
                .clients
                .take(client, 1)
                .ok_or_else(|| self.all.full())
        };
        if several {
            return take().map(Some);
        }
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.as_ref().is_none_or(|(known, _)| *known != client) {
            *owner = None;
            *owner = Some((client, take()?));
        }
        Ok(None)
    }
}

/// The few connections that are there for probes.
#[derive(Debug)]
struct Reserve {
    most: usize,
    /// Oldest first.
    spots: Mutex<VecDeque<(u64, BucketKey, CancellationToken)>>,
    last: AtomicU64,
}

/// A connection's spot in the reserve, until it is dropped.
#[derive(Debug)]
struct Spot {
    number: u64,
    gone: CancellationToken,
    reserve: Arc<Reserve>,
}

impl Reserve {
    fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            spots: Mutex::default(),
            last: AtomicU64::new(0),
        }
    }

    fn spots(&self) -> MutexGuard<'_, VecDeque<(u64, BucketKey, CancellationToken)>> {
        self.spots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, address: BucketKey) -> Spot {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let gone = CancellationToken::new();
        let mut spots = self.spots();
        spots.push_back((number, address, gone.clone()));
        if spots.len() > self.most {
            let count = |key: &BucketKey| spots.iter().filter(|(_, other, _)| other == key).count();
            let most = spots.iter().map(|(_, key, _)| count(key)).max();
            let oldest = spots
                .iter()
                .position(|(_, key, _)| Some(count(key)) == most);
            let victim = oldest.and_then(|at| spots.remove(at));
            if let Some((_, _, gone)) = victim {
                gone.cancel();
            }
        }
        Spot {
            number,
            gone,
            reserve: Arc::clone(self),
        }
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        self.reserve
            .spots()
            .retain(|(number, _, _)| *number != self.number);
    }
}

/// A request on a connection, for the guard, which learns whose it is.
#[derive(Debug, Clone)]
pub(crate) struct Seated {
    pub(super) place: Arc<Seat>,
    /// Whether other requests are under way on the connection.
    pub(super) several: bool,
}

impl Seated {
    /// Counts the request for a client; what comes back is held until the answer has ended.
    pub(crate) fn claim(&self, client: BucketKey) -> Result<Claimed, ApiError> {
        let share = self.place.claim(client, self.several)?;
        Ok(Claimed(share.map(Arc::new)))
    }
}

/// What a request holds of its client's share; travels with the answer.
#[derive(Debug, Clone)]
pub(crate) struct Claimed(#[allow(dead_code, reason = "it is held")] Option<Arc<Share>>);

/// Why a request is refused before it is looked at; travels with the request.
#[derive(Debug, Clone)]
pub(crate) struct Refused(pub(crate) ApiError);

fn full() -> ApiError {
    code::CONNECTIONS_EXHAUSTED
        .error("too many connections or requests are under way, of this client or of all")
        .hint("close some, or raise `max_connections` or `connection_share`")
        .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(connections: usize) -> Arc<Seats> {
        let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        options.max_connections = connections;
        options.probe_connections = 4;
        Seats::new(&options)
    }

    fn peer(number: u8) -> Option<SocketAddr> {
        Some(SocketAddr::from(([127, 0, 0, number], 1)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_leaves_seats_to_others() {
        let seats = seats(8);
        let held: Vec<_> = (0..9).map(|_| seats.enter(peer(1))).collect();
        assert_eq!(held.iter().filter(|place| place.is_seated()).count(), 6);
        let other = seats.enter(peer(2));
        assert!(other.is_seated());
        let error = held[7].admit(false).await.unwrap_err();
        assert_eq!(error.code(), "CONNECTIONS_EXHAUSTED");
        drop(other);
        drop(held);
        assert_eq!(seats.figures(), (0, 1));
    }

    #[test]
    fn the_reserve_takes_every_connection_and_the_greediest_address_makes_room() {
        let reserve = Arc::new(Reserve::new(4));
        let enter = |number| Reserve::enter(&reserve, [number; 16]);
        let flood: Vec<_> = (0..20).map(|_| enter(1)).collect();
        let left = |spots: &[Spot]| spots.iter().filter(|it| !it.gone.is_cancelled()).count();
        assert_eq!(left(&flood), 4);
        let probes = [enter(2), enter(3), enter(4)];
        assert_eq!((left(&flood), left(&probes)), (1, 3));
        let more: Vec<_> = (0..20).map(|_| enter(1)).collect();
        assert_eq!((left(&more), left(&probes)), (1, 3));
        drop((flood, probes, more));
        assert!(reserve.spots().is_empty());
    }

    #[tokio::test]
    async fn a_connection_that_waits_is_seated_when_a_seat_is_free() {
        let seats = seats(1);
        let (first, second) = (seats.enter(peer(1)), seats.enter(peer(1)));
        assert!(first.is_seated() && !second.is_seated());
        let waiting = tokio::spawn(async move {
            second.admit(false).await.unwrap();
            second.is_seated()
        });
        while seats.waiting.held() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(
            seats.reserve.spots().is_empty(),
            "a connection that waits is not there"
        );
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(seats.figures().0, 0);
    }

    #[tokio::test]
    async fn streams_and_tokens_have_shares() {
        let seats = seats(8);
        let place = seats.enter(peer(1));
        let mut streams = Vec::new();
        while let Ok(stream) = place.admit(true).await {
            streams.push(stream);
        }
        assert_eq!(streams.len(), 5, "with the connection itself six of eight");
        drop(streams);
        let one = |number| Seated {
            place: seats.enter(peer(number)),
            several: false,
        };
        let (mut places, mut claims) = (Vec::new(), 0);
        for number in 2..9 {
            let seated = one(number);
            claims += usize::from(seated.claim([1; 16]).is_ok());
            assert!(
                seated.claim([1; 16]).is_ok() || claims == 6,
                "once is enough"
            );
            places.push(seated);
        }
        assert_eq!(claims, 6, "one token from many addresses");
        assert!(places[6].claim([2; 16]).is_ok(), "another token");
        drop(places);
        assert_eq!(seats.clients.held(), 0);
    }

    #[test]
    fn probes_are_few() {
        assert!(is_probe(&Method::GET, "/health/live"));
        assert!(is_probe(&Method::HEAD, "/metrics"));
        assert!(!is_probe(&Method::POST, "/health/live"));
        assert!(!is_probe(&Method::GET, "/health/live/"));
        assert!(!is_probe(&Method::GET, "/api/v1/limits"));
    }
}
