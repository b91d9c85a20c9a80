//! A TCP proxy on loopback whose connections a test cuts: at once, or when the next answer comes
//! from the server, which then never reaches the client.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Passes bytes between clients and a server.
pub struct Proxy {
    address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Answers are dropped, and the connection that gets one is cut.
    drops_answers: AtomicBool,
    /// New connections are closed at once.
    refuses: AtomicBool,
    dropped: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
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

    /// How many answers were dropped.
    pub fn dropped(&self) -> usize {
        self.state.dropped.load(Ordering::SeqCst)
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        let mut open = self
            .state
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
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
        let copy = stream.try_clone();
        let mut open = state.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.extend(copy);
    }
    thread::spawn(move || carry(client, upstream, || true));
    let state = Arc::clone(state);
    thread::spawn(move || {
        carry(upstream_copy, client_copy, || {
            let drops = state.drops_answers.load(Ordering::SeqCst);
            if drops {
                state.dropped.fetch_add(1, Ordering::SeqCst);
            }
            !drops
        });
    });
}

/// Carries bytes one way for as long as they may pass.
fn carry(mut from: TcpStream, mut to: TcpStream, may_pass: impl Fn() -> bool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || !may_pass() || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
