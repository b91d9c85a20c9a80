//! The proxy does to connections what its names say: fault tests rest on it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use windlass_test_support::postgres::Proxy;

/// A server that sends back what it gets, behind a proxy, and a connection to it.
fn echoing() -> (Proxy, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound port").to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = stream.try_clone().expect("a copy");
            let mut writer = stream;
            thread::spawn(move || std::io::copy(&mut reader, &mut writer));
        }
    });
    let proxy = Proxy::to(&address);
    let client = TcpStream::connect(proxy.address()).expect("it listens");
    (proxy, client)
}

fn said(client: &mut TcpStream, text: &[u8]) -> Vec<u8> {
    client.write_all(text).expect("it is sent");
    let mut buffer = vec![0; text.len()];
    client.read_exact(&mut buffer).expect("it comes back");
    buffer
}

#[test]
fn a_connection_is_cut_in_the_middle_of_a_message() {
    let (proxy, mut client) = echoing();
    assert_eq!(said(&mut client, b"whole"), b"whole");
    // Six go there, three of them come back.
    proxy.close_after(9);
    client.write_all(b"broken").expect("it is sent");
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert_eq!(got, b"bro");
    assert_eq!(proxy.cuts(), 1);
    let mut next = TcpStream::connect(proxy.address()).expect("it listens");
    assert_eq!(said(&mut next, b"the next is whole"), b"the next is whole");
}

#[test]
fn what_was_stalled_passes_afterwards() {
    let (proxy, mut client) = echoing();
    proxy.stall(true);
    client.write_all(b"later").expect("it is sent");
    client
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a time");
    let mut buffer = [0; 5];
    assert!(client.read(&mut buffer).is_err(), "nothing passes");
    proxy.stall(false);
    client.set_read_timeout(None).expect("no time");
    client.read_exact(&mut buffer).expect("it comes back");
    assert_eq!(&buffer, b"later");
}

#[test]
fn a_dropped_answer_ends_its_connection() {
    let (proxy, mut client) = echoing();
    proxy.drop_answers(true);
    client.write_all(b"lost").expect("it is sent");
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert_eq!((got.len(), proxy.dropped()), (0, 1));
}
