//! Servers that mean harm, or are broken: what they do to `http.request` and the connectors
//! stays within bounds, and has a clear code.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::one_node::{Ran, Setup};
use serde_json::{Value, json};
use windlass_test_support::services::slack::{self, Slack};
use windlass_test_support::services::{ServiceReply, StubServer, ok};

async fn request(parameters: Value) -> Ran {
    Setup::new(&[]).run("http.request", parameters).await
}

/// A server that writes the beginning of an answer, then the same bytes until the client goes.
fn endless(beginning: &'static str, again: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || write_on(&stream, beginning, again));
        }
    });
    url
}

fn write_on(mut stream: &TcpStream, beginning: &str, again: &[u8]) {
    let _ = stream.read(&mut [0; 4096]);
    let mut written = stream.write_all(beginning.as_bytes());
    while written.is_ok() {
        written = stream.write_all(again);
    }
}

#[tokio::test]
async fn answers_without_an_end_end() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (beginning, again, code) in [
        (ok, &b"x-header: of an endless head\r\n"[..], "HTTP_FAILED"),
        ("HTTP/1.1 200 OK\r\nx: ", &[b'a'; 4096], "HTTP_FAILED"),
        (chunked, b"8\r\nendless!\r\n", "OUTPUT_LIMIT"),
        (chunked, b"1;extension=of-a-chunk\r\na\r\n", "HTTP_FAILED"),
        ("\0nonsense\r\n\r\n", b"", "HTTP_FAILED"),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"x",
            "HTTP_FAILED",
        ),
    ] {
        let ran = request(json!({ "url": endless(beginning, again) })).await;
        assert_eq!(ran.error().0, code, "{beginning}: {}", ran.node);
        let message = ran.node["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("GET http://127.0.0.1:"), "{message}");
    }
    let blob = json!({ "url": endless(chunked, b"8\r\nendless!\r\n"), "responseType": "blob",
        "maxBytes": 100_000 });
    assert_eq!(request(blob).await.error(), ("BLOB_LIMIT", false));
}

#[tokio::test]
async fn what_a_request_must_not_say_is_refused() {
    let server = StubServer::start(|_| ok(json!({})));
    for wrong in [
        json!({ "headers": { "X-A": "a\r\nX-Evil: 1" } }),
        json!({ "headers": { "X-A\r\nX-Evil": "1" } }),
        json!({ "headers": { "Content-Length": "1" }, "method": "POST", "body": "longer" }),
        json!({ "headers": { "transfer-encoding": "chunked" }, "method": "POST", "body": "x" }),
        json!({ "method": "GET / HTTP/1.1\r\nX-Evil: 1" }),
        json!({ "method": "connect" }),
        json!({ "auth": { "bearer": "a\r\nX-Evil: 1" } }),
        json!({ "timeoutMs": 0 }),
    ] {
        let mut parameters = wrong.clone();
        parameters["url"] = json!(server.url);
        let ran = request(parameters).await;
        assert_eq!(
            ran.error(),
            ("PARAMETERS_INVALID", false),
            "{wrong}: {}",
            ran.node
        );
    }
    assert!(server.seen("").is_empty());
}

#[tokio::test]
async fn a_name_and_password_in_an_address_are_not_recorded() {
    let server = StubServer::start(|request| match request.path.as_str() {
        "/" => {
            let host = request.header("host").to_owned();
            let to = format!("http://ada:hunter22@{host}/end");
            ServiceReply::Bytes(302, vec![("location", to)], Vec::new())
        }
        _ => ok(json!({})),
    });
    let ran = request(json!({ "url": server.url })).await;
    let url = format!("{}/end", server.url);
    assert_eq!(ran.node["output"]["url"], json!(url), "{}", ran.node);
    assert!(!ran.recorded.contains("hunter22"), "{}", ran.recorded);
}

#[tokio::test]
async fn pages_of_items_that_lead_to_themselves_end() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = StubServer::start(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        let page = json!({ "cursor": "again", "items": [{ "id": "1", "name": "a" }] });
        let board = json!({ "id": "1", "columns": [], "items_page": page });
        ok(json!({ "data": { "boards": [board], "next_items_page": page } }))
    });
    let mut setup = Setup::new(&[("MONDAY_TOKEN", "monday-token-1")]);
    setup.options.addresses.monday = Some(server.url.clone());
    let ran = setup.run("monday.get-items", json!({ "boardId": 1 })).await;
    assert_eq!(ran.error(), ("MONDAY_ANSWER_INVALID", true), "{}", ran.node);
    assert!(asked.load(Ordering::SeqCst) < 5);
    let enough = json!({ "boardId": 1, "limit": 1 });
    let ran = setup.run("monday.get-items", enough).await;
    assert_eq!(ran.node["output"]["items"][0]["id"], "1", "{}", ran.node);
}

#[tokio::test]
async fn a_message_is_posted_once_though_slack_does_not_say_where_it_is() {
    let slack = Slack::start();
    for _ in 0..3 {
        slack.server.fail("getPermalink", ServiceReply::Hang);
        // The app may not read the channel, so a second attempt would not find the first.
        let refused = ok(json!({ "ok": false, "error": "missing_scope" }));
        slack.server.fail("conversations.history", refused);
    }
    let mut setup = Setup::new(&[("SLACK_TOKEN", slack::TOKEN)]);
    setup.options.addresses.slack = Some(format!("{}/api", slack.server.url));
    setup.policies =
        json!({ "timeoutMs": 30_000, "retry": { "maxAttempts": 3, "baseDelayMs": 1 } });
    let parameters = json!({ "channelId": slack::CHANNEL, "message": "hello" });
    let ran = setup.run("slack.post-message", parameters).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
    assert_eq!(ran.node["output"]["permalink"], Value::Null);
    assert_eq!(slack.messages().len(), 1);
}

/// A mail server that answers everything but `silent`, and keeps what it was told.
fn mail_server(silent: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let told = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&told);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = Arc::clone(&shared);
            std::thread::spawn(move || converse(&stream, silent, &told));
        }
    });
    (url, told)
}

fn converse(mut stream: &TcpStream, silent: &str, told: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    stream.write_all(b"220 here\r\n").ok()?;
    let mut in_data = false;
    loop {
        let line = lines.next()?.ok()?;
        told.lock().unwrap().push(line.clone());
        if in_data && line != "." {
            continue;
        }
        if !silent.is_empty() && line.starts_with(silent) {
            // Until the client has gone.
            while lines.next()?.is_ok() {}
        }
        in_data = line == "DATA";
        let answer = if in_data {
            "354 go on\r\n"
        } else {
            "250 done\r\n"
        };
        stream.write_all(answer.as_bytes()).ok()?;
    }
}

async fn send(url: &str, parameters: Value) -> Ran {
    let mut setup = Setup::new(&[]);
    setup.options.addresses.smtp = Some(url.to_owned());
    setup.options.addresses.smtp_from = Some("me@example.com".to_owned());
    setup.policies =
        json!({ "timeoutMs": 30_000, "retry": { "maxAttempts": 3, "baseDelayMs": 1 } });
    setup.run("email.send", parameters).await
}

#[tokio::test]
async fn mail_is_sent_once_though_the_server_does_not_say_goodbye() {
    let (url, told) = mail_server("QUIT");
    let parameters = json!({ "to": ["ada@example.com"], "subject": "a", "text": "b" });
    let ran = send(&url, parameters).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
    let told = told.lock().unwrap();
    assert_eq!(told.iter().filter(|line| *line == "DATA").count(), 1);
}

#[tokio::test]
async fn no_parameter_of_a_message_becomes_a_header_or_a_command() {
    let (url, told) = mail_server("");
    let evil = "x\r\nBcc: evil@example.com\r\n.\r\nRCPT TO:<evil@example.com>";
    let good = json!({ "to": ["ada@example.com"], "subject": evil, "text": evil,
        "attachments": [{ "filename": evil, "text": evil }] });
    let ran = send(&url, good).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
    let lines = told.lock().unwrap().clone();
    let starts = |part: &str| lines.iter().filter(|line| line.starts_with(part)).count();
    assert_eq!(starts("RCPT TO:<ada@example.com>"), 1, "{lines:#?}");
    assert_eq!(starts("DATA"), 1);
    assert_eq!(starts(".") - starts(".."), 1, "one end: {lines:#?}");
    let head = lines.iter().skip_while(|line| *line != "DATA");
    let head: Vec<&String> = head.take_while(|line| !line.is_empty()).collect();
    assert!(
        !head.iter().any(|line| line.starts_with("Bcc")),
        "{head:#?}"
    );
    assert_eq!(starts("Bcc: "), 1, "only in the text: {lines:#?}");
    for field in ["from", "replyTo"] {
        let wrong = json!({ "to": ["ada@example.com"], "subject": "a", "text": "b",
            field: format!("ada@example.com\r\nBcc: evil@example.com") });
        let ran = send(&url, wrong).await;
        assert_eq!(
            ran.error(),
            ("EMAIL_ADDRESS_INVALID", false),
            "{}",
            ran.node
        );
    }
    for to in [
        "A\r\nBcc: e@e.e <a@e.e>",
        "a@e.e\r\nRCPT TO:<b@e.e>",
        "a@e.e, b@e.e",
    ] {
        let wrong = json!({ "to": [to], "subject": "a", "text": "b" });
        let ran = send(&url, wrong).await;
        assert_eq!(
            ran.error(),
            ("EMAIL_ADDRESS_INVALID", false),
            "{}",
            ran.node
        );
    }
}
