//! Every failure has its status, its code and the one shape.

use crate::common::{BODY_LIMIT, Setup, read_answer};
use tokio::io::AsyncWriteExt;
use windlass_api::route::GateOptions;

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn each_failure_has_its_code() {
    let server = Setup::default().start().await;
    let cases = [
        ("GET /nothing", "", "", 404, "ROUTE_NOT_FOUND"),
        ("PUT /api/v1/things", "", "", 405, "METHOD_NOT_ALLOWED"),
        ("GET /api/v1/things/missing", "", "", 404, "THING_NOT_FOUND"),
        ("GET /api/v1/things/panic", "", "", 500, "INTERNAL"),
        ("GET /api/v1/things?limit=x", "", "", 400, "QUERY_INVALID"),
        ("GET /api/v1/things?limt=1", "", "", 400, "QUERY_INVALID"),
        ("GET /api/v1/things/%ff", "", "", 400, "PATH_INVALID"),
        ("POST /api/v1/things/a", JSON, "{", 400, "BODY_MALFORMED"),
        ("POST /api/v1/things/a", JSON, "{}", 400, "BODY_INVALID"),
        ("POST /api/v1/things/a", JSON, "", 400, "BODY_MALFORMED"),
        (
            "POST /api/v1/things/a",
            "",
            "{}",
            415,
            "MEDIA_TYPE_UNSUPPORTED",
        ),
        (
            "POST /api/v1/things/a",
            "Content-Type: text/plain\r\n",
            "{}",
            415,
            "MEDIA_TYPE_UNSUPPORTED",
        ),
    ];
    for (line, headers, body, status, code) in cases {
        let answer = server.ask(line, headers, body).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{line}"
        );
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
    }
    let answer = server.ask("PUT /api/v1/things", "", "").await;
    let allowed = answer.header("allow").expect("Allow");
    assert!(
        allowed.contains("GET") && allowed.contains("DELETE"),
        "{allowed}"
    );
}

#[tokio::test]
async fn what_is_wrong_is_placed() {
    let server = Setup::default().start().await;
    let body = "{\"name\": \"a\", \"sizes\": [1, 999]}";
    let answer = server.ask("POST /api/v1/things/a", JSON, body).await;
    assert_eq!(answer.json()["error"]["details"][0]["pointer"], "/sizes/1");
    let answer = server.ask("POST /api/v1/things/a", JSON, "{\n  x").await;
    let detail = &answer.json()["error"]["details"][0];
    assert_eq!((&detail["line"], &detail["column"]), (&2.into(), &3.into()));
    let answer = server.get("/api/v1/things?limit=x").await;
    assert_eq!(answer.json()["error"]["details"][0]["pointer"], "/limit");
}

#[tokio::test]
async fn problem_details_where_they_are_asked_for() {
    let server = Setup::default().start().await;
    let accept = "Accept: application/problem+json\r\nX-Correlation-Id: mine\r\n";
    let answer = server
        .ask("GET /api/v1/things/missing?x=1", accept, "")
        .await;
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    let problem = answer.json();
    assert_eq!(problem["status"], 404);
    assert_eq!(problem["title"], "No such thing");
    assert_eq!(problem["detail"], "there is no such thing");
    assert_eq!(problem["instance"], "/api/v1/things/missing");
    assert_eq!(problem["code"], "THING_NOT_FOUND");
    assert_eq!(problem["correlationId"], "mine");
    assert!(
        problem["type"]
            .as_str()
            .unwrap()
            .contains("THING_NOT_FOUND")
    );
    // Successful answers are unaffected.
    let answer = server.ask("GET /api/v1/things/a", accept, "").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_correlation_id_is_taken_over_or_made() {
    let server = Setup::default().start().await;
    let longest = "x".repeat(256);
    for kept in ["abc-1", "~!{}", "order 17", longest.as_str()] {
        let header = format!("X-Correlation-Id: {kept}\r\n");
        let answer = server.ask("GET /api/v1/things", &header, "").await;
        assert_eq!(answer.header("x-correlation-id"), Some(kept));
    }
    let too_long = "x".repeat(257);
    let mut seen = std::collections::BTreeSet::new();
    for replaced in ["", "ä", too_long.as_str()] {
        let header = format!("X-Correlation-Id: {replaced}\r\n");
        let answer = server.ask("GET /nothing", &header, "").await;
        let id = answer.header("x-correlation-id").unwrap().to_owned();
        assert_eq!(id.len(), 32, "{replaced}");
        assert!(seen.insert(id));
    }
}

#[tokio::test]
async fn headers_of_safety_are_everywhere() {
    let server = Setup::default().start().await;
    for path in [
        "/api/v1/things",
        "/nothing",
        "/api/docs",
        "/api/openapi.json",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let answer = server.get("/api/v1/things").await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn only_configured_origins_may_ask() {
    let setup = Setup {
        gate: GateOptions {
            origins: vec!["https://a.example".to_owned()],
            ..GateOptions::default()
        },
        ..Setup::default()
    };
    let server = setup.start().await;
    let ask = async |origin: &str| {
        let headers = format!("Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n");
        server.ask("OPTIONS /api/v1/things/a", &headers, "").await
    };
    let allowed = ask("https://a.example").await;
    let origin = allowed.header("access-control-allow-origin");
    assert_eq!(origin, Some("https://a.example"));
    let other = ask("https://b.example").await;
    assert_eq!(other.header("access-control-allow-origin"), None);
}

fn body_of(size: u64) -> String {
    let frame = "{\"name\":\"\"}".len() as u64;
    format!("{{\"name\":\"{}\"}}", "x".repeat((size - frame) as usize))
}

#[tokio::test]
async fn a_body_at_the_limit_works_and_one_byte_more_does_not() {
    let server = Setup::default().start().await;
    let line = "POST /api/v1/things/a";
    let answer = server.ask(line, JSON, &body_of(BODY_LIMIT)).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.header("location"), Some("/api/v1/things/a"));
    let answer = server.ask(line, JSON, &body_of(BODY_LIMIT + 1)).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (413, "BODY_TOO_LARGE")
    );
    // Not a byte of it needs to come.
    let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: 1001\r\n\r\n");
    assert_eq!(server.send(head).await.code(), "BODY_TOO_LARGE");
    // A route without a body takes none.
    let answer = server.ask("GET /api/v1/things", JSON, "{}").await;
    assert_eq!(answer.code(), "BODY_TOO_LARGE");
}

#[tokio::test]
async fn a_body_without_a_length_is_cut_at_the_limit() {
    let server = Setup::default().start().await;
    let chunked = |body: &str| {
        let length = body.len();
        format!(
            "POST /api/v1/things/a HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n\
             {length:x}\r\n{body}\r\n0\r\n\r\n"
        )
    };
    let answer = server.send(chunked(&body_of(BODY_LIMIT))).await;
    assert_eq!(answer.status, 202);
    let answer = server.send(chunked(&body_of(BODY_LIMIT + 1))).await;
    assert_eq!(answer.code(), "BODY_TOO_LARGE");
}

/// The answer arrives although the client is still sending a body that the server does not
/// read.
#[tokio::test]
async fn a_refused_body_does_not_tear_its_answer_away() {
    let server = Setup::default().start().await;
    let size = 4 * 1024 * 1024;
    let mut stream = server.connect().await;
    let head = format!(
        "POST /api/v1/things/a HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {size}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; size]).await.unwrap();
    let answer = read_answer(&mut stream).await.expect("an answer");
    assert_eq!(answer.code(), "BODY_TOO_LARGE");
}

#[tokio::test]
async fn heads_are_bounded() {
    let server = Setup::default().start().await;
    let path = "x".repeat(8 * 1024);
    let answer = server.get(&format!("/{path}")).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (414, "URI_TOO_LONG")
    );
    let large = format!("X-Large: {}\r\n", "x".repeat(33 * 1024));
    let answer = server.ask("GET /api/v1/things", &large, "").await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (431, "HEADERS_TOO_LARGE")
    );
    let many: String = (0..101).map(|index| format!("X-{index}: x\r\n")).collect();
    let answer = server.ask("GET /api/v1/things", &many, "").await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (431, "HEADERS_TOO_LARGE")
    );
    // Far past the limits the connection itself refuses, without a body.
    let huge = format!("X-Huge: {}\r\n", "x".repeat(1024 * 1024));
    let answer = server.ask("GET /api/v1/things", &huge, "").await;
    assert_eq!(answer.status, 431);
}
