//! What clients share: connections and memory for bodies. One that takes all it can keeps
//! neither another nor a probe from being served.

use std::time::Duration;

use crate::common::{Answer, LONG, Running, Setup, read_answer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use windlass_api::route::GateOptions;
use windlass_api::{BodyOptions, SpoolOptions};

const THINGS: &[u8] = b"GET /api/v1/things HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SLOW: &[u8] = b"GET /api/v1/slow HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LIVE: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SHORT: Duration = Duration::from_millis(300);
const KIB: usize = 1024;

async fn few_connections() -> Running {
    let setup = Setup::default().server(|options| {
        options.max_connections = 8;
        options.probe_connections = 4;
    });
    setup.start().await
}

/// Opens connections from an address until one is not kept, and asks on each for something
/// that takes long.
async fn hold_all(server: &Running, number: u8) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..24 {
        let mut stream = server.connect_from(number).await;
        let _ = stream.write_all(SLOW).await;
        held.push(stream);
    }
    held
}

#[tokio::test]
async fn one_address_that_holds_all_it_can_keeps_no_other_out() {
    let server = few_connections().await;
    let held = hold_all(&server, 2).await;
    for _ in 0..3 {
        let answer = server.send_from(3, THINGS).await.unwrap();
        assert_eq!(answer.status, 200, "another address");
    }
    // Several addresses together hold all seats, and probes are still answered.
    let more = [hold_all(&server, 3).await, hold_all(&server, 4).await];
    for number in [5, 6, 7] {
        let answer = server.send_from(number, LIVE).await.expect("a probe");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("connection"), Some("close"));
    }
    let answer = server.send_from(5, THINGS).await.expect("an answer");
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (503, "CONNECTIONS_EXHAUSTED")
    );
    assert!(answer.header("retry-after").is_some());
    drop((held, more));
    server.release.cancel();
    assert_eq!(server.send_from(5, THINGS).await.unwrap().status, 200);
}

/// Silent connections do not keep the reserve for long, and each address only a part of it.
#[tokio::test]
async fn silent_connections_leave_probes_their_place() {
    let server = few_connections().await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(server.connect_from(2).await);
    }
    for number in [3, 4] {
        let answer = server.send_from(number, LIVE).await.expect("a probe");
        assert_eq!(answer.status, 200);
    }
    drop(silent);
}

#[tokio::test]
async fn streams_of_one_connection_count_as_connections_do() {
    let server = few_connections().await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = |number: u8| {
        let builder = reqwest::Client::builder().no_proxy().timeout(LONG);
        let address = std::net::IpAddr::from([127, 0, 0, number]);
        builder
            .http2_prior_knowledge()
            .local_address(address)
            .build()
            .unwrap()
    };
    let greedy = client(2);
    let url = format!("http://{}/api/v1", server.address);
    let first = greedy.get(format!("{url}/things")).send().await.unwrap();
    assert_eq!(first.status(), 200);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let asking = greedy.get(format!("{url}/slow")).send();
        asked.spawn(async move { asking.await.unwrap().status().as_u16() });
    }
    // Six of eight may be one address's; the others are refused, and do not wait.
    for _ in 0..14 {
        assert_eq!(asked.join_next().await.unwrap().unwrap(), 503);
    }
    let other = client(3).get(format!("{url}/things")).send().await.unwrap();
    assert_eq!(other.status(), 200);
    let probe = greedy.get(format!("http://{}/health/live", server.address));
    assert_eq!(probe.send().await.unwrap().status(), 200);
    server.release.cancel();
    let mut served = 0;
    while let Some(status) = asked.join_next().await {
        served += usize::from(status.unwrap() == 200);
    }
    // One less if the answer before was still being sent.
    assert!((5..=6).contains(&served), "{served}");
}

#[tokio::test]
async fn probes_have_a_listener_of_their_own() {
    let setup = Setup::default().server(|options| {
        options.max_connections = 1;
        options.probe_address = Some("127.0.0.1:0".parse().unwrap());
    });
    let server = setup.start().await;
    let held = hold_all(&server, 2).await;
    let address = server.probe_address.unwrap();
    for (path, status) in [
        ("/health/live", 200),
        ("/health/ready", 200),
        ("/metrics", 200),
        ("/api/v1/things", 404),
        ("/api/docs", 404),
        ("/hooks/x", 404),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_answer(&mut stream).await.unwrap();
        assert_eq!(answer.status, status, "{path}");
    }
    drop(held);
    server.release.cancel();
    server.stop().await;
}

fn small_memory(folder: Option<&tempfile::TempDir>) -> GateOptions {
    GateOptions {
        bodies: BodyOptions {
            memory: 4 * 1024 * 1024,
            spool: folder.map(|folder| SpoolOptions {
                folder: folder.path().to_owned(),
                after: 256 * 1024,
                bytes: 32 * 1024 * 1024,
            }),
        },
        ..GateOptions::default()
    }
}

fn head(more: &str) -> String {
    format!(
        "POST /api/v1/measure HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/json\r\n{more}\r\n"
    )
}

fn whole(bytes: usize) -> Vec<u8> {
    let mut request = head(&format!("Content-Length: {bytes}\r\n")).into_bytes();
    request.extend(vec![b'1'; bytes]);
    request
}

/// A body in chunks, without its end.
fn unfinished(bytes: usize) -> Vec<u8> {
    let mut request = head("Transfer-Encoding: chunked\r\n").into_bytes();
    request.extend(format!("{bytes:x}\r\n").into_bytes());
    request.extend(vec![b'1'; bytes]);
    request.extend(b"\r\n");
    request
}

#[track_caller]
fn is_exhausted(answer: &Answer) {
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (503, "BODY_MEMORY_EXHAUSTED")
    );
    assert!(answer.header("retry-after").is_some());
}

/// Whether the server has said something, which is a refusal, as the body is not at its end.
async fn is_refused(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    tokio::time::timeout(SHORT, stream.peek(&mut byte))
        .await
        .is_ok()
}

#[tokio::test]
async fn bodies_that_do_not_end_hold_one_clients_share_and_no_more() {
    let setup = Setup {
        gate: small_memory(None),
        ..Setup::default()
    };
    let server = setup.start().await;
    let mut held = Vec::new();
    let mut refused = loop {
        let mut stream = server.connect_from(2).await;
        let _ = stream.write_all(&unfinished(500 * KIB)).await;
        if is_refused(&mut stream).await {
            break stream;
        }
        held.push(stream);
        assert!(held.len() < 8, "past the budget");
    };
    is_exhausted(&read_answer(&mut refused).await.unwrap());
    assert!(!held.is_empty());
    let answer = server.send_from(3, whole(500 * KIB)).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json(), 500 * KIB);
    // What is not finished gives back what it holds.
    drop(held);
    let given_back = async {
        while server.body_bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, given_back).await.unwrap();
}

#[tokio::test]
async fn slow_bodies_end_and_give_back_their_memory() {
    let setup = Setup {
        gate: GateOptions {
            body_timeout: SHORT,
            ..small_memory(None)
        },
        ..Setup::default()
    };
    let server = setup.start().await;
    for _ in 0..10 {
        let answer = server.send_from(2, unfinished(1000 * KIB)).await.unwrap();
        assert_eq!(answer.code(), "REQUEST_TIMEOUT");
    }
    let answer = server.send_from(2, whole(1000 * KIB)).await.unwrap();
    assert_eq!(answer.status, 200);
}

/// Eleven bodies of a megabyte on their way, with four megabytes for all.
#[tokio::test]
async fn large_bodies_wait_on_disk_and_leave_nothing_there() {
    let folder = tempfile::tempdir().unwrap();
    windlass_api::prepare_spool(folder.path()).unwrap();
    let setup = Setup {
        gate: small_memory(Some(&folder)),
        ..Setup::default()
    };
    let server = setup.start().await;
    let mut held = Vec::new();
    for number in 2..13 {
        let mut stream = server.connect_from(number).await;
        stream.write_all(&unfinished(600 * KIB)).await.unwrap();
        held.push(stream);
    }
    let answer = server.send_from(20, whole(1000 * KIB)).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    for stream in &mut held {
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        let answer = read_answer(stream).await.unwrap();
        assert_eq!((answer.status, answer.json()), (200, (600 * KIB).into()));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path()).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
    }
}

/// The budget is held for as long as the handler works, and not only while the body arrives.
#[tokio::test]
async fn a_handler_at_work_holds_what_its_body_takes() {
    let setup = Setup {
        gate: small_memory(None),
        ..Setup::default()
    };
    let server = setup.start().await;
    let yaml = |bytes: usize| {
        let request = String::from_utf8(whole(bytes)).unwrap();
        request.replace("application/json", "application/yaml")
    };
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect_from(2).await;
        stream.write_all(yaml(900 * KIB).as_bytes()).await.unwrap();
        held.push(stream);
    }
    let arrived = async {
        while server.body_bytes() < 1800 * KIB {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, arrived).await.unwrap();
    is_exhausted(&server.send_from(2, whole(900 * KIB)).await.unwrap());
    server.release.cancel();
    for stream in &mut held {
        assert_eq!(read_answer(stream).await.unwrap().status, 200);
    }
    assert_eq!(
        server.send_from(2, whole(900 * KIB)).await.unwrap().status,
        200
    );
}

/// Without tokens only names that no page can take are answered, on every route.
#[tokio::test]
async fn a_foreign_host_is_refused_everywhere() {
    let setup = Setup {
        gate: GateOptions {
            allow_hosts: vec!["windlass.example".to_owned()],
            ..GateOptions::default()
        },
        ..Setup::default()
    };
    let server = setup.start().await;
    for path in [
        "/api/v1/things",
        "/api/docs",
        "/api/openapi.json",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/hooks/x",
        "/nothing",
    ] {
        for host in [
            "Host: evil.example\r\n",
            "Host: evil.example:7400\r\n",
            "Host: localhost\r\nHost: localhost\r\n",
            "Host: \r\n",
            "",
        ] {
            let request = format!("GET {path} HTTP/1.1\r\n{host}\r\n");
            let answer = server.send(request).await;
            assert_eq!(answer.status, 403, "{path} {host}");
            assert_eq!(answer.code(), "HOST_NOT_ALLOWED");
            let hint = answer.json()["error"]["hint"].to_string();
            assert!(hint.contains("--allow-host"), "{hint}");
        }
        let answer = server.send(format!("GET {path} HTTP/1.0\r\n\r\n")).await;
        assert_eq!(answer.code(), "HOST_NOT_ALLOWED");
        for host in ["localhost", "127.0.0.1:1", "[::1]", "windlass.example"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_ne!(server.send(request).await.status, 403, "{path} {host}");
        }
    }
    let absolute = "GET http://evil.example/api/v1/things HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(server.send(absolute).await.code(), "HOST_NOT_ALLOWED");
}

#[tokio::test]
async fn a_foreign_authority_is_refused_on_http2() {
    let server = Setup::default().start().await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(LONG)
        .http2_prior_knowledge()
        .resolve("evil.example", server.address)
        .resolve("localhost", server.address)
        .build()
        .unwrap();
    for (host, status) in [("evil.example", 403), ("localhost", 200)] {
        let url = format!("http://{host}:{}/api/v1/things", server.address.port());
        assert_eq!(client.get(url).send().await.unwrap().status(), status);
    }
}
