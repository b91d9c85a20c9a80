//! `http.request` beyond one plain exchange: credentials, pages, forms, compression, limits and
//! certificates, against servers on loopback.

use crate::tls;

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::one_node::{Ran, Setup};
use serde_json::{Value, json};
use windlass_test_support::services::{ServiceReply, ServiceRequest, StubServer, ok};

async fn request(parameters: Value) -> Ran {
    Setup::new(&[("SECRET", "s3cret-value-1")])
        .run("http.request", parameters)
        .await
}

#[tokio::test]
async fn basic_and_bearer_credentials_are_sent_and_not_recorded() {
    let server = StubServer::start(|request| {
        let shown = request.header("authorization").to_owned();
        ok(json!({ "authorization": shown }))
    });
    for (auth, sent) in [
        (
            json!({ "basic": { "user": "me", "password": "{{ secrets.SECRET }}" } }),
            "Basic bWU6czNjcmV0LXZhbHVlLTE=",
        ),
        (
            json!({ "bearer": "{{ secrets.SECRET }}" }),
            "Bearer s3cret-value-1",
        ),
    ] {
        let ran = request(json!({ "url": server.url, "auth": auth })).await;
        assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
        let seen = server.seen("/");
        assert_eq!(seen.last().unwrap().header("authorization"), sent);
        // The server even says it back.
        assert!(!ran.recorded.contains("s3cret-value-1"), "{}", ran.recorded);
        assert!(
            !ran.recorded.contains("bWU6czNjcmV0LXZhbHVlLTE"),
            "{}",
            ran.recorded
        );
    }
}

/// Gives tokens `token-1`, `token-2`, …, and takes only the last one.
fn guarded() -> StubServer {
    let given = AtomicUsize::new(0);
    StubServer::start(move |request: &ServiceRequest| {
        if request.path == "/token" {
            let body = String::from_utf8_lossy(&request.body).into_owned();
            if request.header("authorization") != "Basic aWQ6czNjcmV0LXZhbHVlLTE=" {
                return ServiceReply::Json(401, Vec::new(), json!({ "error": "invalid_client" }));
            }
            assert_eq!(body, "grant_type=client_credentials&scope=read");
            let number = given.fetch_add(1, Ordering::SeqCst) + 1;
            let token = format!("token-number-{number}");
            return ok(json!({ "access_token": token, "expires_in": 3600 }));
        }
        let last = format!("Bearer token-number-{}", given.load(Ordering::SeqCst));
        if request.header("authorization") == last {
            ok(json!({ "said": request.header("authorization") }))
        } else {
            ServiceReply::Json(401, Vec::new(), json!({}))
        }
    })
}

fn oauth2(server: &StubServer) -> Value {
    json!({ "url": format!("{}/data", server.url), "auth": { "oauth2": {
        "tokenUrl": format!("{}/token", server.url), "clientId": "id",
        "clientSecret": "{{ secrets.SECRET }}", "scope": "read" } } })
}

#[tokio::test]
async fn a_token_of_client_credentials_is_not_recorded() {
    let server = guarded();
    let ran = request(oauth2(&server)).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
    assert!(!ran.recorded.contains("token-number-1"), "{}", ran.recorded);
    assert!(!ran.recorded.contains("s3cret-value-1"));
}

#[tokio::test]
async fn a_token_is_kept_until_it_is_not_taken_any_more() {
    let server = guarded();
    let setup = Setup::new(&[("SECRET", "s3cret-value-1")]);
    let nodes = setup.run_chain("http.request", oauth2(&server)).await;
    assert_eq!(nodes["a"]["status"], "Succeeded", "{nodes}");
    assert_eq!(nodes["b"]["status"], "Succeeded", "{nodes}");
    assert_eq!(server.seen("/token").len(), 1);
    server.fail("/data", ServiceReply::Json(401, Vec::new(), json!({})));
    let nodes = setup.run_chain("http.request", oauth2(&server)).await;
    assert_eq!(nodes["b"]["status"], "Succeeded", "{nodes}");
    assert_eq!(server.seen("/token").len(), 3);
}

#[tokio::test]
async fn a_token_that_is_refused_says_so() {
    let server = guarded();
    let mut parameters = oauth2(&server);
    parameters["auth"]["oauth2"]["clientId"] = json!("other");
    let ran = request(parameters.clone()).await;
    assert_eq!(ran.error(), ("HTTP_TOKEN", false), "{}", ran.node);
    assert_eq!(ran.node["error"]["details"]["status"], 401);
    server.fail("/token", ServiceReply::Json(503, Vec::new(), json!({})));
    let ran = request(parameters).await;
    assert_eq!(ran.error(), ("HTTP_TOKEN", true), "{}", ran.node);
}

#[tokio::test]
async fn pages_follow_the_link_header() {
    let server = StubServer::start(|request| {
        let page: u32 = request.parameter("page").parse().unwrap_or(1);
        let links = if page < 3 {
            format!(
                "</list?page=1>; rel=\"first\", </list?page={}>; rel=\"next\"",
                page + 1
            )
        } else {
            "</list?page=1>; rel=\"first\"".to_owned()
        };
        ServiceReply::Json(
            200,
            vec![("link", links)],
            json!([page * 10, page * 10 + 1]),
        )
    });
    let url = format!("{}/list", server.url);
    let ran = request(json!({ "url": url, "paginate": {} })).await;
    let output = &ran.node["output"];
    assert_eq!(
        output["body"],
        json!([10, 11, 20, 21, 30, 31]),
        "{}",
        ran.node
    );
    assert_eq!(output["pages"], 3);
    let ran = request(json!({ "url": url, "paginate": { "maxPages": 2 } })).await;
    assert_eq!(ran.error(), ("HTTP_PAGINATION", false), "{}", ran.node);
    let ran = request(json!({ "url": url, "paginate": {}, "maxBytes": 20 })).await;
    assert_eq!(ran.error(), ("OUTPUT_LIMIT", false), "{}", ran.node);
}

#[tokio::test]
async fn pages_follow_a_cursor_by_expression() {
    let server = StubServer::start(|request| {
        assert_eq!(request.parameter("size"), "2");
        let body = match request.parameter("after") {
            "" => json!({ "data": { "items": ["a", "b"] }, "next": "x y" }),
            "x y" => json!({ "data": { "items": ["c"] }, "next": null }),
            other => panic!("{other}"),
        };
        ok(body)
    });
    let parameters = json!({ "url": server.url, "query": { "size": 2 }, "paginate": {
        "cursor": "body.next", "parameter": "after", "items": "body.data.items" } });
    let ran = request(parameters.clone()).await;
    assert_eq!(
        ran.node["output"]["body"],
        json!(["a", "b", "c"]),
        "{}",
        ran.node
    );
    let mut wrong = parameters;
    wrong["paginate"]["cursor"] = json!("body.next +");
    let ran = request(wrong).await;
    assert_eq!(ran.error(), ("PARAMETERS_INVALID", false), "{}", ran.node);
}

#[tokio::test]
async fn pages_neither_go_round_nor_leave_their_origin() {
    let round = StubServer::start(|_| ok(json!({ "next": "/" })));
    let parameters = json!({ "url": round.url, "paginate": { "cursor": "body.next" } });
    let ran = request(parameters).await;
    assert_eq!(ran.error(), ("HTTP_PAGINATION", false), "{}", ran.node);
    let other = StubServer::start(|_| ok(json!({})));
    let away = other.url.clone();
    let server = StubServer::start(move |_| ok(json!({ "next": away })));
    let parameters = json!({ "url": server.url, "auth": { "bearer": "{{ secrets.SECRET }}" },
        "paginate": { "cursor": "body.next" } });
    let ran = request(parameters).await;
    assert_eq!(ran.error(), ("HTTP_PAGINATION", false), "{}", ran.node);
    assert!(other.seen("").is_empty());
}

#[tokio::test]
async fn errors_name_method_address_status_and_body() {
    let server = StubServer::start(|_| ServiceReply::Bytes(409, Vec::new(), b"busy".to_vec()));
    let url = format!("{}/orders?x=1", server.url);
    let ran = request(json!({ "url": url, "method": "put", "body": {} })).await;
    assert_eq!(ran.error(), ("HTTP_409", false), "{}", ran.node);
    let shown = format!("{}/orders?x=[redacted]", server.url);
    let expected = json!({ "method": "PUT", "url": shown, "status": 409, "body": "busy" });
    assert_eq!(ran.node["error"]["details"], expected);
    let message = &ran.node["error"]["message"];
    assert_eq!(message, &json!(format!("PUT {shown} → 409: busy")));
    let ran = request(json!({ "url": url, "retryStatus": [409] })).await;
    assert_eq!(ran.error(), ("HTTP_409", true), "{}", ran.node);
    let ran = request(json!({ "url": url, "expectStatus": [409] })).await;
    assert_eq!(ran.node["output"]["body"], "busy", "{}", ran.node);
    let closed = StubServer::start(|_| ServiceReply::Close);
    let ran = request(json!({ "url": closed.url })).await;
    assert_eq!(ran.error(), ("HTTP_FAILED", true), "{}", ran.node);
    let message = ran.node["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("GET {}", closed.url)),
        "{message}"
    );
}

#[tokio::test]
async fn compressed_answers_are_bounded() {
    let server = StubServer::start(|request| {
        assert!(request.header("accept-encoding").contains("gzip"));
        let size = if request.path == "/bomb" { 11 << 20 } else { 3 };
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&vec![b'7'; size]).unwrap();
        let headers = vec![
            ("content-encoding", "gzip".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        ServiceReply::Bytes(200, headers, encoder.finish().unwrap())
    });
    let ran = request(json!({ "url": server.url })).await;
    assert_eq!(ran.node["output"]["body"], 777, "{}", ran.node);
    let ran = request(json!({ "url": format!("{}/bomb", server.url) })).await;
    assert_eq!(ran.error(), ("OUTPUT_LIMIT", false), "{}", ran.node);
}

#[tokio::test]
async fn forms_have_parts_and_answers_may_be_bytes() {
    let server =
        StubServer::start(|request| ServiceReply::Bytes(200, Vec::new(), request.body.clone()));
    let ran = request(
        json!({ "url": server.url, "method": "POST", "responseType": "text",
        "multipart": [
            { "name": "meta", "value": { "a": 1 } },
            { "name": "say", "value": "hello" },
            { "name": "file", "content": "aGk=", "filename": "a\"b.txt",
              "contentType": "text/plain" },
        ] }),
    )
    .await;
    let body = ran.node["output"]["body"].as_str().unwrap().to_owned();
    for part in [
        "name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"a\":1}\r\n",
        "name=\"say\"\r\n\r\nhello\r\n",
        "filename=\"a%22b.txt\"\r\nContent-Type: text/plain\r\n\r\nhi\r\n",
    ] {
        assert!(body.contains(part), "{body}");
    }
    let seen = server.seen("");
    let kind = seen[0].header("content-type");
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    assert!(body.ends_with(&format!("--{boundary}--\r\n")));
    let bytes = StubServer::start(|_| ServiceReply::Bytes(200, Vec::new(), vec![0, 255]));
    let ran = request(json!({ "url": bytes.url, "responseType": "base64" })).await;
    assert_eq!(ran.node["output"]["body"], "AP8=");
    let ran = request(json!({ "url": bytes.url, "responseType": "json" })).await;
    assert_eq!(ran.error(), ("HTTP_ANSWER_INVALID", true), "{}", ran.node);
    let both = json!({ "url": bytes.url, "body": "x", "multipart": [{ "name": "a", "value": 1 }] });
    assert_eq!(request(both).await.error(), ("PARAMETERS_INVALID", false));
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_the_server_asks_for_it() {
    let world = tls::TlsServer::start();
    let url = format!("https://localhost:{}/", world.port);
    let mut setup = Setup::new(&[("KEY", &world.client_key)]);
    setup.options.http_allowed = windlass_actions::Allowed::parse(["localhost"]).unwrap();
    let parameters = json!({ "url": url, "tls": { "ca": world.ca,
        "certificate": world.client_certificate, "key": "{{ secrets.KEY }}" } });
    let ran = setup.run("http.request", parameters).await;
    assert_eq!(ran.node["output"]["body"], "welcome", "{}", ran.node);
    assert!(!ran.recorded.contains("PRIVATE KEY"), "{}", ran.recorded);
    let without = json!({ "url": url, "tls": { "ca": world.ca } });
    let ran = setup.run("http.request", without).await;
    assert_eq!(ran.node["status"], "Failed", "{}", ran.node);
    let stranger = json!({ "url": url });
    let ran = setup.run("http.request", stranger).await;
    assert_eq!(ran.error(), ("HTTP_CONNECT", true), "{}", ran.node);
    let half = json!({ "url": url, "tls": { "certificate": world.client_certificate } });
    let ran = setup.run("http.request", half).await;
    assert_eq!(ran.error(), ("PARAMETERS_INVALID", false), "{}", ran.node);
}

#[tokio::test]
async fn errors_have_one_form_and_cut_no_secret_in_half() {
    let server = StubServer::start(|request| {
        let token = request.header("authorization").replace("Bearer ", "");
        let body = format!("{{\"error\": \"{}\"}}{token}", "x".repeat(180));
        ServiceReply::Bytes(404, Vec::new(), body.into_bytes())
    });
    let url = format!("{}/pages", server.url);
    let ran = request(json!({ "url": url })).await;
    let body = format!("{{\"error\": \"{}\"}}", "x".repeat(180));
    let message = format!("GET {url} → 404: {body}");
    assert_eq!(ran.node["error"]["message"], json!(message), "{}", ran.node);
    // The token begins before the 200th letter and ends after it.
    let auth = json!({ "bearer": "{{ secrets.SECRET }}" });
    let ran = request(json!({ "url": format!("{url}?key=k&on"), "auth": auth })).await;
    let message = ran.node["error"]["message"].as_str().unwrap();
    let expected = format!("GET {url}?key=[redacted]&on → 404: {body}");
    assert!(message.starts_with(&expected), "{message}");
    assert!(!ran.recorded.contains("s3cr"), "{}", ran.recorded);
    for status in [410, 999] {
        let empty = StubServer::start(move |_| ServiceReply::Bytes(status, Vec::new(), Vec::new()));
        let ran = request(json!({ "url": empty.url })).await;
        let message = format!("GET {}/ → {status}", empty.url);
        assert_eq!(ran.node["error"]["message"], json!(message));
    }
}

#[tokio::test]
async fn a_status_counts_whatever_the_body_is() {
    let server = StubServer::start(|request| match request.path.as_str() {
        "/huge" => ServiceReply::Bytes(503, Vec::new(), vec![b'x'; 11 << 20]),
        "/odd" => {
            let odd = vec![("content-encoding", "br".to_owned())];
            ServiceReply::Bytes(503, odd, b"?".to_vec())
        }
        _ => {
            let short = vec![("content-length", "1000".to_owned())];
            ServiceReply::Bytes(503, short, b"half".to_vec())
        }
    });
    for path in ["huge", "odd", "cut"] {
        let ran = request(json!({ "url": format!("{}/{path}", server.url) })).await;
        assert_eq!(ran.error(), ("HTTP_503", true), "{path}: {}", ran.node);
        assert_eq!(ran.node["error"]["details"]["status"], 503);
    }
}

#[tokio::test]
async fn connection_errors_name_host_and_port() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let ran = request(json!({ "url": format!("http://{address}/pages?key=abc") })).await;
    assert_eq!(ran.error(), ("HTTP_CONNECT", true), "{}", ran.node);
    let message = ran.node["error"]["message"].as_str().unwrap();
    let expected =
        format!("GET http://{address}/pages?key=[redacted]: cannot connect to {address}: ");
    let cause = message.strip_prefix(&expected).expect(message);
    assert!(cause.starts_with("Connection refused"), "{message}");
    let silent = StubServer::start(|_| ServiceReply::Hang);
    let ran = request(json!({ "url": silent.url, "timeoutMs": 50 })).await;
    assert_eq!(ran.error(), ("HTTP_TIMEOUT", true), "{}", ran.node);
    let message = ran.node["error"]["message"].as_str().unwrap();
    let server = silent.url.trim_start_matches("http://");
    let expected = format!("GET {}/: no answer from {server}", silent.url);
    assert!(message.starts_with(&expected), "{message}");
}
