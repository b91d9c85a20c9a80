//! The connectors, called through an engine on the in-memory store, against servers on loopback
//! that speak the services' wire format.

use crate::one_node::Setup;
use serde_json::{Value, json};
use windlass_test_support::services::confluence::{self, Confluence};
use windlass_test_support::services::monday::{self, Monday};
use windlass_test_support::services::slack::{self, Slack};
use windlass_test_support::services::{ServiceReply, StubServer, ok};

fn on_slack(server: &Slack) -> Setup {
    let mut setup = Setup::new(&[("SLACK_TOKEN", slack::TOKEN)]);
    setup.options.addresses.slack = Some(format!("{}/api", server.server.url));
    setup
}

fn on_monday(server: &Monday) -> Setup {
    let mut setup = Setup::new(&[("MONDAY_TOKEN", monday::TOKEN)]);
    setup.options.addresses.monday = Some(format!("{}/v2", server.server.url));
    setup
}

fn on_confluence(server: &Confluence) -> Setup {
    let mut setup = Setup::new(&[("CONFLUENCE_TOKEN", confluence::TOKEN)]);
    setup.options.addresses.confluence = Some(server.address());
    setup
}

/// A policy that retries at once.
fn retry() -> Value {
    json!({ "timeoutMs": 2000, "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } })
}

fn message() -> Value {
    json!({ "channelId": slack::CHANNEL, "message": "hello" })
}

#[tokio::test]
async fn slack_posts_a_message_once_and_keeps_its_token() {
    let slack = Slack::start();
    let setup = on_slack(&slack);
    let parameters = json!({ "channelId": slack::CHANNEL, "message": "hello",
        "blocks": [{ "type": "divider" }], "threadTs": "1.2" });
    let ran = setup.run("slack.post-message", parameters).await;
    let output = &ran.node["output"];
    assert_eq!(output["channel"], slack::CHANNEL, "{}", ran.node);
    assert_eq!(output["ts"], "1700000000.000001");
    assert!(
        output["permalink"]
            .as_str()
            .unwrap()
            .starts_with("https://acme.slack.example/")
    );
    let posted = &slack.messages()[0];
    assert_eq!(posted["text"], "hello");
    assert_eq!(posted["thread_ts"], "1.2");
    assert_eq!(posted["blocks"][0]["type"], "divider");
    assert!(!ran.recorded.contains(slack::TOKEN), "{}", ran.recorded);
    let kinds: Vec<&str> = ran.resources.iter().map(|link| &*link.kind).collect();
    assert_eq!(kinds, ["message", "message-key"]);
}

#[tokio::test]
async fn slack_errors_are_told_apart() {
    let slack = Slack::start();
    let setup = on_slack(&slack);
    let refuse = |error: &str| ok(json!({ "ok": false, "error": error }));
    let status =
        |status: u16| ServiceReply::Bytes(status, Vec::new(), b"<html>oops</html>".to_vec());
    for (reply, code, retriable) in [
        (
            refuse("channel_not_found"),
            "SLACK_CHANNEL_NOT_FOUND",
            false,
        ),
        (refuse("not_in_channel"), "SLACK_NOT_IN_CHANNEL", false),
        (refuse("msg_too_long"), "SLACK_MESSAGE_TOO_LONG", false),
        (refuse("missing_scope"), "SLACK_FORBIDDEN", false),
        (refuse("internal_error"), "SLACK_UNAVAILABLE", true),
        (status(503), "SLACK_UNAVAILABLE", true),
        (status(200), "SLACK_ANSWER_INVALID", true),
        (status(302), "SLACK_REFUSED", false),
        (ServiceReply::Close, "HTTP_FAILED", true),
        (
            ServiceReply::Bytes(200, Vec::new(), vec![b' '; 10 * 1024 * 1024 + 1]),
            "OUTPUT_LIMIT",
            false,
        ),
    ] {
        slack.server.fail("chat.postMessage", reply);
        let ran = setup.run("slack.post-message", message()).await;
        assert_eq!(ran.error(), (code, retriable), "{}", ran.node);
        assert!(
            ran.node["error"]["message"]
                .as_str()
                .unwrap()
                .contains("Slack: ")
        );
        assert!(!ran.recorded.contains(slack::TOKEN));
    }
    let wrong = Setup {
        options: setup.options.clone(),
        ..Setup::new(&[("SLACK_TOKEN", "xoxb-wrong"), ("OTHER", slack::TOKEN)])
    };
    let ran = wrong.run("slack.post-message", message()).await;
    assert_eq!(ran.error(), ("SLACK_UNAUTHORIZED", false), "{}", ran.node);
    let mut other = message();
    other["credentials"] = json!("OTHER");
    let ran = wrong.run("slack.post-message", other.clone()).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
    other["credentials"] = json!("NONE");
    let ran = wrong.run("slack.post-message", other).await;
    assert_eq!(ran.error(), ("SECRET_NOT_FOUND", false));
    assert!(
        ran.node["error"]["message"]
            .as_str()
            .unwrap()
            .contains("secrets set NONE")
    );
    for too_much in [
        json!({ "channelId": slack::CHANNEL, "message": "x".repeat(40_001) }),
        json!({ "channelId": slack::CHANNEL, "message": "", "blocks": vec![json!({}); 51] }),
    ] {
        let ran = setup.run("slack.post-message", too_much).await;
        assert_eq!(ran.error(), ("SLACK_MESSAGE_TOO_LONG", false));
    }
}

#[tokio::test]
async fn slack_is_asked_again_when_it_says_and_not_before() {
    let slack = Slack::start();
    let mut setup = on_slack(&slack);
    let body = json!({ "ok": false, "error": "ratelimited" });
    let later = vec![("retry-after", "7".to_owned())];
    slack.server.fail(
        "chat.postMessage",
        ServiceReply::Json(429, later, body.clone()),
    );
    let ran = setup.run("slack.post-message", message()).await;
    assert_eq!(ran.error(), ("SLACK_RATE_LIMITED", true));
    assert!(ran.recorded.contains("SLACK_RATE_LIMITED"));
    setup.policies = retry();
    let later = vec![("retry-after", "1".to_owned())];
    slack
        .server
        .fail("chat.postMessage", ServiceReply::Json(429, later, body));
    let ran = setup.run("slack.post-message", message()).await;
    assert_eq!(ran.node["attempts"], 2, "{}", ran.node);
    assert_eq!(slack.messages().len(), 1);
    // The policy's own delay is a millisecond; the recorded time of the retry is Slack's.
    let number = |name: &str| -> u64 {
        let (_, rest) = ran.recorded.split_once(name).unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    let wait = number("\"due\":") - number("\"ended\":");
    assert!((1000..2000).contains(&wait), "{wait} in {}", ran.recorded);
}

#[tokio::test]
async fn a_message_whose_answer_was_lost_is_found_again() {
    let slack = Slack::start();
    let mut setup = on_slack(&slack);
    setup.policies = json!({ "timeoutMs": 300,
        "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } });
    // Other messages, so that ours is not on the first page.
    for _ in 0..3 {
        setup.run("slack.post-message", message()).await;
    }
    let lost = slack.server.swallow();
    let again = slack.server.clone();
    std::thread::spawn(move || {
        lost.recv().unwrap();
        again.answer_again();
    });
    let ran = setup.run("slack.post-message", message()).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
    assert_eq!(ran.node["attempts"], 2);
    assert_eq!(slack.messages().len(), 4);
    assert_eq!(ran.node["output"]["ts"], "1700000000.000004");
}

#[tokio::test]
async fn half_an_answer_is_a_timeout_and_nothing_is_made_twice() {
    let monday = Monday::start();
    let mut setup = on_monday(&monday);
    setup.policies = json!({ "timeoutMs": 300,
        "retry": { "maxAttempts": 2, "baseDelayMs": 1, "jitter": false } });
    monday.server.fail("items_page", ServiceReply::HalfWay);
    let ran = setup
        .run("monday.get-items", json!({ "boardId": 123 }))
        .await;
    assert_eq!(ran.node["attempts"], 2, "{}", ran.node);
    assert_eq!(ran.node["output"]["items"], json!([]));
}

#[tokio::test]
async fn monday_reads_items_by_title_to_the_last_page() {
    let monday = Monday::start();
    for (id, name, status) in [
        ("1", "Apollo", "In Progress"),
        ("2", "Gemini", "Done"),
        ("3", "Mercury", "In Progress"),
        ("4", "Vostok", "Done"),
        ("5", "Soyuz", "In Progress"),
    ] {
        monday.put(id, name, status, "me");
    }
    let setup = on_monday(&monday);
    let rule = json!({ "column": "Status", "operator": "eq", "value": "In Progress" });
    let parameters = json!({ "boardId": "123", "filter": { "rules": [rule] } });
    let ran = setup.run("monday.get-items", parameters.clone()).await;
    let items = ran.node["output"]["items"].as_array().unwrap();
    let names: Vec<&Value> = items.iter().map(|item| &item["Name"]).collect();
    assert_eq!(names, ["Apollo", "Mercury", "Soyuz"], "{}", ran.node);
    assert_eq!(items[0]["id"], "1");
    assert_eq!(items[0]["Status"], "In Progress");
    assert_eq!(items[0]["Group"], "Group Title");
    assert!(!ran.recorded.contains(monday::TOKEN));
    let mut few = parameters;
    few["limit"] = json!(2);
    let ran = setup.run("monday.get-items", few).await;
    assert_eq!(ran.node["output"]["items"].as_array().unwrap().len(), 2);
    let rule = json!({ "column": "Item ID", "operator": "eq", "value": "4" });
    let parameters = json!({ "boardId": "123", "filter": { "rules": [rule] } });
    let ran = setup.run("monday.get-items", parameters).await;
    assert_eq!(
        ran.node["output"]["items"][0]["Name"], "Vostok",
        "{}",
        ran.node
    );
    let rule = json!({ "column": "Name", "operator": "eq", "value": "Soyuz" });
    let parameters = json!({ "boardId": "123", "filter": { "rules": [rule] } });
    let ran = setup.run("monday.get-items", parameters).await;
    assert_eq!(ran.node["output"]["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn monday_errors_are_told_apart() {
    let monday = Monday::start();
    let setup = on_monday(&monday);
    let ran = setup
        .run("monday.get-items", json!({ "boardId": "999" }))
        .await;
    assert_eq!(
        ran.error(),
        ("MONDAY_BOARD_NOT_FOUND", false),
        "{}",
        ran.node
    );
    let rule = json!({ "column": "Colour", "value": "red" });
    let unknown = json!({ "boardId": "123", "filter": { "rules": [rule] } });
    let ran = setup.run("monday.get-items", unknown).await;
    assert_eq!(
        ran.error(),
        ("MONDAY_COLUMN_NOT_FOUND", false),
        "{}",
        ran.node
    );
    let budget = json!({ "data": {}, "errors": [{ "message": "Complexity budget exhausted",
        "extensions": { "code": "COMPLEXITY_BUDGET_EXHAUSTED", "retry_in_seconds": 9 } }] });
    monday.server.fail("items_page", ok(budget));
    let ran = setup
        .run("monday.get-items", json!({ "boardId": "123" }))
        .await;
    assert_eq!(ran.error(), ("MONDAY_RATE_LIMITED", true), "{}", ran.node);
    monday.server.fail(
        "items_page",
        ServiceReply::Bytes(200, Vec::new(), b"<html>".to_vec()),
    );
    let ran = setup
        .run("monday.get-items", json!({ "boardId": "123" }))
        .await;
    assert_eq!(ran.error(), ("MONDAY_ANSWER_INVALID", true), "{}", ran.node);
    let wrong = Setup {
        options: setup.options.clone(),
        ..Setup::new(&[("MONDAY_TOKEN", "monday-wrong")])
    };
    let ran = wrong
        .run("monday.get-items", json!({ "boardId": "123" }))
        .await;
    assert_eq!(ran.error(), ("MONDAY_UNAUTHORIZED", false), "{}", ran.node);
    assert!(!ran.recorded.contains("monday-wrong"));
    for (parameters, code) in [
        (
            json!({ "boardId": "9", "name": "x" }),
            "MONDAY_BOARD_NOT_FOUND",
        ),
        (
            json!({ "boardId": "123", "name": "x".repeat(256) }),
            "MONDAY_TOO_LARGE",
        ),
        (
            json!({ "boardId": "123", "name": "x", "columns": { "Status": "Nonsense" } }),
            "MONDAY_COLUMN_VALUE",
        ),
    ] {
        let ran = setup.run("monday.create-item", parameters).await;
        assert_eq!(ran.error(), (code, false), "{}", ran.node);
    }
    assert_eq!(monday.items().len(), 0);
}

#[tokio::test]
async fn monday_makes_an_item_for_each_run_and_one_for_each_node() {
    for monday in [Monday::start(), Monday::with_marker_column()] {
        monday.put("1", "Apollo", "Done", "me");
        let mut setup = on_monday(&monday);
        setup.policies = json!({ "timeoutMs": 300,
            "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } });
        let parameters = json!({ "boardId": "123", "name": "Apollo",
            "columns": { "Status": "Approved" } });
        let ran = setup.run("monday.create-item", parameters.clone()).await;
        assert_eq!(ran.node["output"]["name"], "Apollo", "{}", ran.node);
        let lost = monday.server.swallow();
        let again = monday.server.clone();
        std::thread::spawn(move || {
            lost.recv().unwrap();
            again.answer_again();
        });
        let ran = setup.run("monday.create-item", parameters).await;
        assert_eq!(ran.node["attempts"], 2, "{}", ran.node);
        // The item that was there, and one of each run.
        let items = monday.items();
        assert_eq!(items.len(), 3, "{items:?}");
        assert_eq!(ran.node["output"]["id"], items[2]["id"]);
        let status = items[2]["column_values"].as_array().unwrap();
        let status = status.iter().find(|value| value["id"] == "status");
        assert_eq!(status.unwrap()["text"], "Approved");
    }
}

#[tokio::test]
async fn nodes_that_make_items_of_one_name_at_once_make_one_each() {
    for monday in [Monday::start(), Monday::with_marker_column()] {
        let setup = on_monday(&monday);
        let node = |number: usize| {
            json!({ "id": format!("n{number}"), "actionType": "monday.create-item",
                "parameters": { "boardId": "123", "name": "Apollo" } })
        };
        let nodes: Vec<Value> = (0..8).map(node).collect();
        let ran = setup.run_nodes(json!(nodes)).await;
        let ids = ran.node.as_object().unwrap().values();
        let ids: std::collections::BTreeSet<&str> = ids
            .map(|node| node["output"]["id"].as_str().unwrap())
            .collect();
        assert_eq!((ids.len(), monday.items().len()), (8, 8), "{}", ran.node);
    }
}

#[tokio::test]
async fn another_account_has_its_own_user() {
    let confluence = Confluence::start();
    let mut setup = on_confluence(&confluence);
    setup.secrets.clear();
    setup
        .secrets
        .insert("OTHER".to_owned(), format!("{}\n", confluence::TOKEN));
    setup
        .secrets
        .insert("OTHER_USER".to_owned(), "me".to_owned());
    let mut parameters = page();
    parameters["credentials"] = json!("OTHER");
    let ran = setup.run("confluence.create-page", parameters).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
    let sent = confluence.server.seen("/pages");
    assert!(sent[0].header("authorization").starts_with("Basic "));
}

fn page() -> Value {
    json!({ "space": "PROJECTS", "title": "Apollo - Project Brief", "body": "<p>Brief</p>" })
}

#[tokio::test]
async fn confluence_makes_a_page_and_says_where() {
    let confluence = Confluence::start();
    let mut setup = on_confluence(&confluence);
    let ran = setup.run("confluence.create-page", page()).await;
    let expected = json!({ "id": "98319",
        "url": "https://acme.atlassian.example/wiki/spaces/PROJECTS/pages/98319" });
    assert_eq!(ran.node["output"], expected, "{}", ran.node);
    let made = &confluence.pages()[0];
    assert!(
        made["body"]["storage"]["value"]
            .as_str()
            .unwrap()
            .starts_with("<p>Brief</p>")
    );
    setup
        .secrets
        .insert("CONFLUENCE_USER".to_owned(), "me".to_owned());
    let mut other = page();
    other["title"] = json!("Another");
    other["parentId"] = json!(98319);
    let ran = setup.run("confluence.create-page", other).await;
    assert_eq!(ran.node["status"], "Succeeded", "{}", ran.node);
    assert_eq!(confluence.pages()[1]["parentId"], "98319");
    assert!(!ran.recorded.contains(confluence::TOKEN));
}

#[tokio::test]
async fn confluence_errors_are_told_apart() {
    let confluence = Confluence::start();
    let setup = on_confluence(&confluence);
    confluence.put("Apollo - Project Brief");
    let ran = setup.run("confluence.create-page", page()).await;
    assert_eq!(
        ran.error(),
        ("CONFLUENCE_PAGE_EXISTS", false),
        "{}",
        ran.node
    );
    let at = |name: &str, value: Value| {
        let mut page = page();
        page["title"] = json!("New");
        page[name] = value;
        page
    };
    for (parameters, code) in [
        (at("space", json!("NONE")), "CONFLUENCE_SPACE_NOT_FOUND"),
        (at("title", json!("x".repeat(256))), "CONFLUENCE_TOO_LARGE"),
        (
            at("body", json!("x".repeat(5 * 1024 * 1024 + 1))),
            "CONFLUENCE_TOO_LARGE",
        ),
    ] {
        let ran = setup.run("confluence.create-page", parameters).await;
        assert_eq!(ran.error(), (code, false), "{}", ran.node["error"]["code"]);
    }
    let says = |status: u16, title: &str| {
        ServiceReply::Json(
            status,
            Vec::new(),
            json!({ "errors": [{ "title": title }] }),
        )
    };
    for (reply, code, retriable) in [
        (says(409, "Version conflict"), "CONFLUENCE_CONFLICT", true),
        (says(403, "Not permitted"), "CONFLUENCE_FORBIDDEN", false),
        (says(429, "Slow"), "CONFLUENCE_RATE_LIMITED", true),
        (says(503, "Down"), "CONFLUENCE_UNAVAILABLE", true),
        (says(400, "Bad parent"), "CONFLUENCE_REFUSED", false),
        (
            ServiceReply::Bytes(200, Vec::new(), b"no".to_vec()),
            "CONFLUENCE_ANSWER_INVALID",
            true,
        ),
    ] {
        // The body of what makes a page has the word; the questions before it do not.
        confluence.server.fail("representation", reply);
        let ran = setup
            .run("confluence.create-page", at("title", json!("New")))
            .await;
        assert_eq!(ran.error(), (code, retriable), "{}", ran.node);
    }
    let wrong = Setup {
        options: setup.options.clone(),
        ..Setup::new(&[("CONFLUENCE_TOKEN", "confluence-wrong")])
    };
    let ran = wrong.run("confluence.create-page", page()).await;
    assert_eq!(
        ran.error(),
        ("CONFLUENCE_UNAUTHORIZED", false),
        "{}",
        ran.node
    );
    let nowhere = Setup::new(&[("CONFLUENCE_TOKEN", "t")]);
    let ran = nowhere.run("confluence.create-page", page()).await;
    assert_eq!(
        ran.error(),
        ("CONNECTOR_NOT_CONFIGURED", false),
        "{}",
        ran.node
    );
    assert_eq!(confluence.pages().len(), 1);
}

#[tokio::test]
async fn a_page_whose_answer_was_lost_is_found_again() {
    for confluence in [Confluence::start(), Confluence::without_bodies_in_lists()] {
        let mut setup = on_confluence(&confluence);
        setup.policies = json!({ "timeoutMs": 300,
            "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } });
        let lost = confluence.server.swallow();
        let again = confluence.server.clone();
        std::thread::spawn(move || {
            lost.recv().unwrap();
            again.answer_again();
        });
        let ran = setup.run("confluence.create-page", page()).await;
        assert_eq!(ran.node["attempts"], 2, "{}", ran.node);
        assert_eq!(ran.node["output"]["id"], "98319");
        assert_eq!(confluence.pages().len(), 1);
        // Another run's page of the same title is in the way, though it is equally new.
        setup.policies = json!({});
        let ran = setup.run("confluence.create-page", page()).await;
        assert_eq!(
            ran.error(),
            ("CONFLUENCE_PAGE_EXISTS", false),
            "{}",
            ran.node
        );
    }
}

#[tokio::test]
async fn connectors_reach_private_addresses_only_where_they_may() {
    let slack = Slack::start();
    let mut setup = on_slack(&slack);
    setup.options.http_allowed = windlass_actions::Allowed::public();
    let ran = setup.run("slack.post-message", message()).await;
    assert_eq!(ran.error(), ("HTTP_ADDRESS_REFUSED", false), "{}", ran.node);
    assert!(slack.server.seen("").is_empty());
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect() {
    let (slack, monday, confluence) = (Slack::start(), Monday::start(), Confluence::start());
    let token_server = StubServer::start(|_| ok(json!({})));
    let other = StubServer::start(|_| ok(json!({ "ok": true, "access_token": "stolen" })));
    let oauth2 = json!({ "url": format!("{}/data", token_server.url), "auth": { "oauth2": {
        "tokenUrl": format!("{}/token", token_server.url), "clientId": "id",
        "clientSecret": "s3cret-value-1" } } });
    let mut plain = Setup::new(&[]);
    plain.options.http_allowed = windlass_actions::Allowed::parse(["127.0.0.1"]).unwrap();
    for status in [301, 302, 303, 307, 308] {
        for (server, setup, action, parameters) in [
            (
                &slack.server,
                on_slack(&slack),
                "slack.post-message",
                message(),
            ),
            (
                &monday.server,
                on_monday(&monday),
                "monday.get-items",
                json!({ "boardId": "123" }),
            ),
            (
                &monday.server,
                on_monday(&monday),
                "monday.create-item",
                json!({ "boardId": "123", "name": "x" }),
            ),
            (
                &confluence.server,
                on_confluence(&confluence),
                "confluence.create-page",
                page(),
            ),
        ] {
            let away = vec![("location", format!("{}/elsewhere", other.url))];
            for _ in 0..2 {
                server.fail("", ServiceReply::Json(status, away.clone(), json!({})));
            }
            let ran = setup.run(action, parameters).await;
            assert_eq!(ran.node["status"], "Failed", "{action}: {}", ran.node);
        }
        let away = vec![("location", format!("{}/token", other.url))];
        token_server.fail("/token", ServiceReply::Json(status, away, json!({})));
        let ran = plain.run("http.request", oauth2.clone()).await;
        assert_eq!(ran.error(), ("HTTP_TOKEN", false), "{}", ran.node);
    }
    assert!(other.seen("").is_empty(), "{:?}", other.seen(""));
    assert!(token_server.seen("/data").is_empty());
}
