//! The connectors on the real binary: the examples that use them run as written against servers
//! that speak the services' wire format, and what a killed process made is found again.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use windlass_test_support::services::confluence::{self, Confluence};
use windlass_test_support::services::monday::{self, Monday};
use windlass_test_support::services::slack::{self, Slack};
use windlass_test_support::services::{ServiceReply, StubServer, ok};

struct World {
    folder: tempfile::TempDir,
    slack: Slack,
    monday: Monday,
    confluence: Confluence,
}

impl World {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            slack: Slack::start(),
            monday: Monday::start(),
            confluence: Confluence::start(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = windlass_test_support::process::windlass();
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env(
                "WINDLASS_SLACK_BASE_URL",
                format!("{}/api", self.slack.server.url),
            )
            .env(
                "WINDLASS_MONDAY_BASE_URL",
                format!("{}/v2", self.monday.server.url),
            )
            .env("WINDLASS_CONFLUENCE_BASE_URL", self.confluence.address())
            .env("WINDLASS_HTTP_ALLOW", "127.0.0.1")
            .env("WINDLASS_SECRET_SLACK_TOKEN", slack::TOKEN)
            .env("WINDLASS_SECRET_MONDAY_TOKEN", monday::TOKEN)
            .env("WINDLASS_SECRET_CONFLUENCE_TOKEN", confluence::TOKEN)
            .env("WINDLASS_SECRET_ORDERS", "orders-secret-1");
        command
    }

    /// Runs to the end, and gives the execution; nothing in it or on disk shows a token.
    #[track_caller]
    fn execution(&self, arguments: &[&str], code: i32) -> Value {
        let output = self.command(arguments).args(["--json", "--quiet"]).output();
        let output = output.expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        let text = String::from_utf8(output.stdout).expect("text");
        for token in [slack::TOKEN, monday::TOKEN, confluence::TOKEN] {
            assert!(!text.contains(token), "{text}");
            assert!(!self.is_stored(token), "{token}");
        }
        serde_json::from_str(&text).expect("an execution")
    }

    fn is_stored(&self, text: &str) -> bool {
        let folder = self.folder.path().join(".windlass");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .filter_map(|file| std::fs::read(file.path()).ok())
            .any(|bytes| {
                bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            })
    }

    #[track_caller]
    fn example(&self, name: &str, trigger: &Value) -> Value {
        let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        self.execution(&["run", &path, "--trigger", &trigger.to_string()], 0)
    }
}

#[test]
fn the_status_report_runs_as_written() {
    let world = World::new();
    world.monday.put("1", "Apollo", "In Progress", "me");
    world.monday.put("2", "Gemini", "Done", "me");
    world.monday.put("3", "Mercury", "In Progress", "me");
    let trigger = json!({ "boardId": "123", "channelId": slack::CHANNEL });
    let run = world.example("status-report.json", &trigger);
    assert_eq!(run["status"], "Succeeded");
    let messages = world.slack.messages();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["text"], "Found 2 items in progress.");
    assert_eq!(
        run["nodes"]["post-to-slack"]["output"]["channel"],
        slack::CHANNEL
    );
}

#[test]
fn onboarding_makes_a_page_for_an_approved_project() {
    let world = World::new();
    world.monday.put("456", "Apollo", "Approved", "me");
    let trigger = json!({ "boardId": 123, "itemId": "456", "channelId": slack::CHANNEL });
    let run = world.example("onboarding.json", &trigger);
    assert_eq!(
        run["nodes"]["create-confluence-page"]["status"], "Succeeded",
        "{run}"
    );
    assert_eq!(run["nodes"]["notify-not-approved"]["status"], "Skipped");
    assert_eq!(run["nodes"]["notify-error"]["status"], "Skipped");
    assert_eq!(
        world.confluence.pages()[0]["title"],
        "Apollo - Project Brief"
    );
    assert!(world.slack.messages().is_empty());
}

#[test]
fn onboarding_says_so_where_a_project_is_not_approved() {
    let world = World::new();
    world.monday.put("456", "Apollo", "Draft", "me");
    let trigger = json!({ "boardId": 123, "itemId": 456, "channelId": slack::CHANNEL });
    let run = world.example("onboarding.json", &trigger);
    assert_eq!(run["nodes"]["create-confluence-page"]["status"], "Skipped");
    assert_eq!(
        world.slack.messages()[0]["text"],
        "Project 'Apollo' is not 'Approved'."
    );
    assert!(world.confluence.pages().is_empty());
}

#[test]
fn onboarding_takes_its_failure_route() {
    let world = World::new();
    let refused = json!({ "error_code": "UserUnauthorizedException", "error_message": "no" });
    let refused = ServiceReply::Json(200, Vec::new(), refused);
    world.monday.server.fail("items_page", refused);
    let trigger = json!({ "boardId": 123, "itemId": 456, "channelId": slack::CHANNEL });
    let run = world.example("onboarding.json", &trigger);
    assert_eq!(
        run["nodes"]["get-project-item"]["error"]["code"],
        "MONDAY_FORBIDDEN"
    );
    assert_eq!(run["nodes"]["get-project-item"]["handled"], true);
    let text = &world.slack.messages()[0]["text"];
    assert_eq!(text, "Onboarding failed at get-project-item.");
}

/// Kills the process when the service has made the thing and has not answered, and recovers the run
/// in another.
#[track_caller]
fn killed_after_making(
    world: &World,
    server: &StubServer,
    action: &str,
    parameters: &Value,
) -> Value {
    let node = json!({ "id": "make", "actionType": action, "parameters": parameters });
    let definition = json!({ "id": "make", "nodes": [node] });
    let path = world.folder.path().join("make.json");
    std::fs::write(path, definition.to_string()).expect("a definition");
    let made = server.swallow();
    let mut child = world
        .command(&["run", "make.json", "--quiet"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary starts");
    made.recv().expect("it was made");
    child.kill().expect("killed");
    child.wait().expect("ended");
    server.answer_again();
    let run = world.execution(&["resume", "@last"], 0);
    assert_eq!(run["nodes"]["make"]["status"], "Succeeded", "{run}");
    assert_eq!(run["nodes"]["make"]["attempts"], 1, "{run}");
    run["nodes"]["make"]["output"].clone()
}

#[test]
fn a_message_that_a_killed_process_posted_is_found_again() {
    let world = World::new();
    let parameters = json!({ "channelId": slack::CHANNEL, "message": "hello" });
    let server = &world.slack.server;
    let output = killed_after_making(&world, server, "slack.post-message", &parameters);
    let messages = world.slack.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(output["ts"], messages[0]["ts"]);
}

#[test]
fn an_item_that_a_killed_process_made_is_found_again() {
    for monday in [Monday::start(), Monday::with_marker_column()] {
        let world = World {
            monday,
            ..World::new()
        };
        world.monday.put("7", "Apollo", "Done", "me");
        let parameters = json!({ "boardId": "123", "name": "Apollo",
            "columns": { "Status": "Approved" } });
        let server = &world.monday.server;
        let output = killed_after_making(&world, server, "monday.create-item", &parameters);
        let items = world.monday.items();
        assert_eq!(items.len(), 2, "{items:?}");
        assert_eq!(output["id"], items[1]["id"]);
    }
}

#[test]
fn a_page_that_a_killed_process_made_is_found_again() {
    let world = World::new();
    let parameters = json!({ "space": "PROJECTS", "title": "Apollo - Project Brief" });
    let server = &world.confluence.server;
    let output = killed_after_making(&world, server, "confluence.create-page", &parameters);
    assert_eq!(world.confluence.pages().len(), 1);
    assert_eq!(output["id"], "98319");
}

#[test]
fn actions_show_an_example_of_each_connector() {
    let world = World::new();
    for name in [
        "slack.post-message",
        "monday.get-items",
        "monday.create-item",
        "confluence.create-page",
        "email.send",
        "http.request",
    ] {
        let output = world.command(&["actions", name]).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("example"), "{text}");
        let output = world.command(&["actions", name, "--json"]).output();
        let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
        let action: Value = serde_json::from_str(&text).expect("JSON");
        assert!(action["parameters"]["examples"][0].is_object(), "{action}");
        assert!(action["output"]["examples"][0].is_object(), "{action}");
    }
}

#[test]
fn every_connector_shows_its_parameters_and_its_output() {
    let world = World::new();
    let named: [(&str, &[&str], &[&str]); 6] = [
        (
            "slack.post-message",
            &["channelId", "message", "blocks", "threadTs"],
            &["channel", "ts", "permalink"],
        ),
        (
            "monday.get-items",
            &["boardId", "filter", "limit"],
            &["items"],
        ),
        (
            "monday.create-item",
            &["boardId", "groupId", "name", "columns"],
            &["id"],
        ),
        (
            "confluence.create-page",
            &["space", "title", "body", "parentId"],
            &["id", "url"],
        ),
        (
            "email.send",
            &[
                "to",
                "cc",
                "bcc",
                "replyTo",
                "subject",
                "text",
                "html",
                "attachments",
            ],
            &["messageId"],
        ),
        (
            "http.request",
            &[
                "url",
                "auth",
                "paginate",
                "retryStatus",
                "expectStatus",
                "maxBytes",
                "responseType",
                "bodyBlob",
                "multipart",
                "tls",
            ],
            &["status", "headers", "body", "blob"],
        ),
    ];
    for (action, parameters, output) in named {
        let shown = world.command(&["actions", action]).output();
        let shown = String::from_utf8(shown.expect("it runs").stdout).expect("text");
        assert!(!shown.contains("\\n"), "{shown}");
        assert!(shown.contains("example of parameters"), "{shown}");
        let (before, after) = shown.split_once("\noutput\n").expect("both");
        let has = |part: &str, name: &str| {
            let named = part
                .lines()
                .filter_map(|line| line.split_whitespace().next());
            named.into_iter().any(|word| word == name)
        };
        assert!(parameters.iter().all(|name| has(before, name)), "{shown}");
        assert!(output.iter().all(|name| has(after, name)), "{shown}");
        assert!(after.contains("example of output"), "{shown}");
    }
}

/// The nodes and definitions that docs/connectors.md shows, each as a definition.
fn documented() -> Vec<Value> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/connectors.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks = page.split("```json\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("```").expect("its end").0);
    let shown = blocks.map(|block| serde_json::from_str::<Value>(block).expect("JSON"));
    let made = shown.filter_map(|mut shown| {
        if shown["nodes"].is_array() {
            return Some(shown);
        }
        let id = shown["actionType"].as_str()?.replace('.', "-");
        let mut nodes = Vec::new();
        if shown.to_string().contains("context.data['report']") {
            nodes.push(json!({ "id": "report", "actionType": "core.echo",
                               "parameters": { "csv": "a,b" } }));
            shown["dependsOn"] = json!(["report"]);
        }
        nodes.push(shown);
        Some(json!({ "id": id, "nodes": nodes }))
    });
    made.collect()
}

#[test]
fn the_examples_of_the_documentation_run() {
    let world = World {
        monday: Monday::with(json!([
            { "id": "name", "title": "Name", "type": "name" },
            { "id": "status", "title": "Status", "type": "status" },
            { "id": "due", "title": "Due", "type": "date" },
            { "id": "owner", "title": "Owner", "type": "people" },
        ])),
        ..World::new()
    };
    let files = StubServer::start(|request| match (&*request.method, &*request.path) {
        ("POST", "/token") => ok(json!({ "access_token": "granted", "expires_in": 60 })),
        ("GET", "/orders") if request.parameter("after") == "2" => ok(json!({ "orders": [3] })),
        ("GET", "/orders") => ok(json!({ "orders": [1, 2], "next": "2" })),
        ("GET", _) => ServiceReply::Bytes(200, Vec::new(), vec![7; 100_000]),
        _ => ok(json!({})),
    });
    // Other places, and nothing else, than the page has.
    let mut all = serde_json::to_string(&documented()).expect("text");
    for (shown, here) in [
        ("\"C0123456789\"", format!("{:?}", slack::CHANNEL)),
        ("1234567890", monday::BOARD.to_owned()),
        ("https://api.example.com", files.url.clone()),
        ("https://login.example.com", files.url.clone()),
        ("https://files.example.com", files.url.clone()),
        ("https://archive.example.com", files.url.clone()),
    ] {
        assert!(all.contains(shown), "{shown}");
        all = all.replace(shown, &here);
    }
    let all: Vec<Value> = serde_json::from_str(&all).expect("JSON");
    for definition in &all {
        let name = format!("{}.json", definition["id"].as_str().expect("an id"));
        let path = world.folder.path().join(&name);
        std::fs::write(path, definition.to_string()).expect("a definition");
        let checked = world.command(&["validate", &name]).output();
        let checked = checked.expect("it runs");
        let problems = String::from_utf8_lossy(&checked.stderr);
        assert!(
            checked.status.success() && problems.ends_with("1 file checked, no problems\n"),
            "{name}: {problems}"
        );
    }
    let run = |id: &str, trigger: &Value| {
        let file = format!("{id}.json");
        let shown = world.execution(&["run", &file, "--trigger", &trigger.to_string()], 0);
        assert_eq!(shown["status"], "Succeeded", "{shown}");
        shown
    };
    world.monday.put("1", "Apollo", "In Progress", "me");
    let fetched = run("monday-get-items", &json!({ "boardId": monday::BOARD }));
    assert_eq!(
        fetched["nodes"]["fetch"]["output"]["items"][0]["Name"],
        "Apollo"
    );
    run("monday-create-item", &json!({}));
    let asked = world.monday.server.seen("create_item(")[0].json();
    let values = asked["variables"]["values"].as_str().expect("a text");
    let values: Value = serde_json::from_str(values).expect("JSON");
    assert_eq!(values["status"]["label"], "Approved", "{values}");
    assert_eq!(values["due"]["date"], "2026-01-31", "{values}");
    assert_eq!(
        values["owner"]["personsAndTeams"][0]["id"], 4_012_689,
        "{values}"
    );
    run("slack-post-message", &json!({}));
    assert_eq!(world.slack.messages()[0]["text"], "3 items in progress.");
    run("confluence-create-page", &json!({}));
    assert_eq!(world.confluence.pages()[0]["parentId"], "98319");
    let orders = run("http-request", &json!({}));
    assert_eq!(
        orders["nodes"]["orders"]["output"]["body"],
        json!([1, 2, 3])
    );
    run("copy", &json!({}));
    let put = files.seen("/export.tar").pop().expect("it was sent");
    assert_eq!((&*put.method, put.body.len()), ("PUT", 100_000));
    let has_mail = all.iter().any(|it| it["id"] == "email-send");
    assert!(
        has_mail,
        "its example is checked; tests of mail send messages"
    );
}
