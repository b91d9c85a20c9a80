//! A TCP proxy on loopback that does to connections what networks do: cuts them, at once or after
//! a number of bytes, lets nothing through for a while, delays everything, refuses new ones, or
//! drops the next answer of the server, which then never reaches the client.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a stalled connection looks whether it may go on.
const LOOK: Duration = Duration::from_millis(5);

/// No connection is to be cut after a number of bytes.
const NEVER: i64 = i64::MAX;

/// Passes bytes between clients and a server.
pub struct Proxy {
    address: String,
    state: Arc<State>,
}

struct State {
    /// Answers are dropped, and the connection that gets one is cut.
    drops_answers: AtomicBool,
    /// New connections are closed at once.
    refuses: AtomicBool,
    /// Nothing passes, and connections stay open.
    stalls: AtomicBool,
    /// How long each piece waits before it passes.
    delay_ms: AtomicU64,
    /// After so many more bytes, in both directions together, the connection that carries the last
    /// of them is cut in the middle of what it carries.
    bytes_left: AtomicI64,
    dropped: AtomicUsize,
    /// How many connections were cut, by whichever means.
    cuts: AtomicUsize,
    /// The clients' ends of the connections that are open, by number.
    open: Mutex<BTreeMap<u64, TcpStream>>,
    next: AtomicU64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            drops_answers: AtomicBool::default(),
            refuses: AtomicBool::default(),
            stalls: AtomicBool::default(),
            delay_ms: AtomicU64::default(),
            bytes_left: AtomicI64::new(NEVER),
            dropped: AtomicUsize::default(),
            cuts: AtomicUsize::default(),
            open: Mutex::default(),
            next: AtomicU64::default(),
        }
    }
}

impl Proxy {
    /// Passes connections on to this address.
    ///
    /// # Panics
    /// If no port is free.
    pub fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound port").to_string();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let server = server.to_owned();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.refuses.load(Ordering::SeqCst) {
                    continue;
                }
                if let Ok(upstream) = TcpStream::connect(&server) {
                    pass(client, upstream, &shared);
                }
            }
        });
        Self { address, state }
    }

    /// Where clients connect.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether answers of the server are dropped, with the connection that they are for.
    pub fn drop_answers(&self, drop: bool) {
        self.state.drops_answers.store(drop, Ordering::SeqCst);
    }

    /// Whether new connections are refused.
    pub fn refuse(&self, refuse: bool) {
        self.state.refuses.store(refuse, Ordering::SeqCst);
    }

    /// Whether nothing passes for now, neither way; what was sent passes afterwards.
    pub fn stall(&self, stall: bool) {
        self.state.stalls.store(stall, Ordering::SeqCst);
    }

    /// How long each piece waits before it passes.
    pub fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).expect("a short time");
        self.state.delay_ms.store(millis, Ordering::SeqCst);
    }

    /// Cuts one connection after so many more bytes of all, in the middle of a message.
    pub fn close_after(&self, bytes: u32) {
        self.state.bytes_left.store(bytes.into(), Ordering::SeqCst);
    }

    /// How many answers were dropped.
    pub fn dropped(&self) -> usize {
        self.state.dropped.load(Ordering::SeqCst)
    }

    /// How many connections were cut here, in any way.
    pub fn cuts(&self) -> usize {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        let open = std::mem::take(&mut *self.state.open());
        for stream in open.into_values() {
            let _ = stream.shutdown(Shutdown::Both);
            self.state.cuts.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl State {
    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a piece may pass; how many of its bytes do before the connection is cut.
    fn admit(&self, count: usize, is_answer: bool) -> usize {
        let delay = self.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            thread::sleep(Duration::from_millis(delay));
        }
        while self.stalls.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
        }
        if is_answer && self.drops_answers.load(Ordering::SeqCst) {
            self.dropped.fetch_add(1, Ordering::SeqCst);
            return 0;
        }
        let count = count as i64;
        let take = |left| (left != NEVER).then(|| if left <= count { NEVER } else { left - count });
        let order = Ordering::SeqCst;
        match self.bytes_left.fetch_update(order, order, take) {
            Ok(left) => left.min(count).unsigned_abs() as usize,
            Err(_) => count.unsigned_abs() as usize,
        }
    }
}

/// Serves one connection with two threads, one a direction.
fn pass(client: TcpStream, upstream: TcpStream, state: &Arc<State>) {
    let (Ok(client_copy), Ok(upstream_copy)) = (client.try_clone(), upstream.try_clone()) else {
        return;
    };
    for stream in [&client, &upstream] {
        let _ = stream.set_nodelay(true);
    }
    // One end is enough: the thread that carries from it ends the other.
    let number = state.next.fetch_add(1, Ordering::SeqCst);
    if let Ok(copy) = client.try_clone() {
        state.open().insert(number, copy);
    }
    let shared = Arc::clone(state);
    thread::spawn(move || {
        carry(client, upstream, &shared, false);
        shared.open().remove(&number);
    });
    let shared = Arc::clone(state);
    thread::spawn(move || carry(upstream_copy, client_copy, &shared, true));
}

/// Carries bytes one way for as long as they may pass.
fn carry(mut from: TcpStream, mut to: TcpStream, state: &State, is_answer: bool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            break;
        }
        let passing = state.admit(count, is_answer);
        if to.write_all(&buffer[..passing]).is_err() {
            break;
        }
        if passing < count {
            state.cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
