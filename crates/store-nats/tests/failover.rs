//! The client connects again by itself, perhaps to another server of the cluster, which may be one
//! that was not upgraded.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::settings_on;
use windlass_store::conformance::{append_one, must_append, record, row, run_id};
use windlass_store::{Append, AppendError, Error, Head, Log as _, Queries as _, Wait as _};
use windlass_store_nats::NatsStore;
use windlass_test_support::nats::server;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that says of itself that it is older than it is, once the test wants it.
#[derive(Default)]
struct Disguise {
    is_old: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Disguise {
    /// Lets new connections meet the one or the other, and ends those that there are.
    fn fail_over(&self, is_old: bool) {
        self.is_old.store(is_old, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn pass(&self, client: &TcpStream, upstream: TcpStream) -> std::io::Result<()> {
        let (mut to_client, mut from_client) = (client.try_clone()?, client.try_clone()?);
        let mut to_server = upstream.try_clone()?;
        let mut answers = BufReader::new(upstream);
        let mut greeting = String::new();
        answers.read_line(&mut greeting)?;
        if self.is_old.load(Ordering::SeqCst) {
            let (before, rest) = greeting.split_once("\"version\":\"").unwrap();
            let (_, after) = rest.split_once('"').unwrap();
            greeting = format!("{before}\"version\":\"2.10.29\"{after}");
        }
        self.open.lock().unwrap().push(client.try_clone()?);
        to_client.write_all(greeting.as_bytes())?;
        thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Both);
        });
        thread::spawn(move || {
            let _ = std::io::copy(&mut answers, &mut to_client);
            let _ = to_client.shutdown(Shutdown::Both);
        });
        Ok(())
    }
}

fn disguised() -> (Arc<Disguise>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let disguise = Arc::<Disguise>::default();
    let shared = Arc::clone(&disguise);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let upstream = TcpStream::connect(server().url().trim_start_matches("nats://"));
            let _ = shared.pass(&client, upstream.expect("the server"));
        }
    });
    (disguise, url)
}

/// Asks until the connection is there again.
#[track_caller]
fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not come");
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_named(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("nats-server 2.10.29") && text.contains("is too old: 2.14 or newer")
}

#[test]
fn a_server_that_is_too_old_is_named_after_a_failover_too() {
    let (disguise, url) = disguised();
    let store = NatsStore::open(&settings_on(&url)).unwrap();
    let first = Append {
        row: Some(row(run_id(1))),
        ..record(run_id(1), Head::NONE, 1, b"started")
    };
    let head = must_append(&store, first);
    disguise.fail_over(true);
    until(|| store.health().wait().err().filter(is_named));
    let next = record(run_id(1), head, 2, b"next");
    // Records have a connection of their own.
    until(|| match append_one(&store, next.clone()) {
        Err(AppendError::Failed(error)) => Some(error).filter(is_named),
        Err(AppendError::Unknown { .. }) => None,
        answer => panic!("it must be refused, not {answer:?}"),
    });
    disguise.fail_over(false);
    until(|| {
        let head = store.head(run_id(1)).wait().ok()?;
        append_one(&store, record(run_id(1), head, 3, b"more")).ok()
    });
    until(|| store.health().wait().ok());
}
