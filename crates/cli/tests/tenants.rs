//! Tenants do not meet: whatever one asks for, by whatever route the document has, it gets
//! nothing of another's. And a route asks for the scope that it says it asks for.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_test_support::process::{Client, ECHO, HttpAnswer, ServerProcess, World};

const ALL_SCOPES: &str = "workflows:read,workflows:execute,workflows:manage,workflows:work,admin";

/// Stands in everything that the first tenant has.
const MARK: &str = "mango";

/// A value that is kept apart from the log, for it is large.
fn large(mark: &str) -> String {
    format!("{mark}-{}", "x".repeat(8000))
}

fn definition(id: &str, mark: &str) -> String {
    let nodes = json!([
        { "id": format!("{mark}-say"), "name": format!("{mark} name"), "actionType": "core.echo",
          "parameters": { "said": large(mark) } },
        { "id": format!("{mark}-gate"), "dependsOn": [format!("{mark}-say")],
          "waitForSignal": { "name": "go" } },
    ]);
    json!({ "id": id, "displayName": format!("{mark} display"), "nodes": nodes }).to_string()
}

struct Tenants {
    world: World,
    server: ServerProcess,
    first: Client,
    second: Client,
    /// A run, a job and a value of the first tenant.
    run: String,
    job: String,
    digest: String,
    /// A task that a worker of the first tenant has.
    task: Value,
}

/// Two tenants on one server; the first has a bit of everything.
fn tenants() -> Tenants {
    let world = World::new();
    let tokens = [
        world.token("mango-user", Some("mango-tenant"), ALL_SCOPES),
        world.token("plum-user", Some("plum-tenant"), ALL_SCOPES),
    ];
    let variables = [("WINDLASS_RATE_PER_MINUTE", "0"), ("WINDLASS_LOG", "debug")];
    let server = world.serve_with(&["--auth-keys", "keys.json"], &variables);
    let [first, second] = tokens.map(|token| server.client_with(&token));
    first.publish(&definition("only-first", MARK));
    first.publish(&definition("shared", MARK));
    second.publish(&definition("shared", "plum"));
    let body = json!({ "requestId": "same", "labels": { "fruit": "mango" },
                       "trigger": { "note": "mango-trigger" } });
    let run = first.execute("only-first", &body);
    first.wait_for(&run, "NodeWaiting");
    let job = json!({ "action": "pause", "filter": { "workflow": "none" } });
    let job = first.post("/api/v1/bulk", &job).expect(202).text("id");
    let digest = digest(&first, &run);
    let secret = json!({ "name": "mango-secret", "value": "mango-value" });
    first.post("/api/v1/secrets", &secret).expect(200);
    let schedule = json!({ "id": "only-first", "workflowId": "only-first",
                           "cron": "0 0 1 1 *", "trigger": { "note": "mango-trigger" } });
    first.post("/api/v1/schedules", &schedule).expect(200);
    let hook = json!({ "id": "only-first", "workflowId": "only-first" });
    first.post("/api/v1/hooks", &hook).expect(200);
    let nodes = json!([{ "id": "n", "actionType": "mango.act", "parameters": { "m": "mango" } }]);
    first.publish(&json!({ "id": "worked", "nodes": nodes }).to_string());
    first.execute("worked", &json!({}));
    let poll = json!({ "protocol": 1, "worker": "mango-worker", "waitMs": 30_000,
                       "actions": [{ "actionType": "mango.act", "description": "mango" }] });
    let polled = first.post("/api/v1/workers/poll", &poll).expect(200).json();
    Tenants {
        world,
        server,
        first,
        second,
        run,
        job,
        digest,
        task: polled["tasks"][0].clone(),
    }
}

/// The digest of a value that the run's log refers to.
fn digest(client: &Client, run: &str) -> String {
    let log = client.get(&format!("/api/v1/executions/{run}/log"));
    let log = log.expect(200).json();
    let records = log["records"].as_array().expect("records").clone();
    let texts = records.iter().filter_map(|record| record["bytes"].as_str());
    let texts: Vec<String> = texts.map(decoded).collect();
    // Any word of 64 hexadecimal digits that the server takes for a value of this run.
    for text in texts {
        let words = text.split(|c: char| !c.is_ascii_hexdigit());
        for word in words.filter(|word| word.len() == 64) {
            let path = format!("/api/v1/executions/{run}/values/{word}");
            if client.get(&path).status == 200 {
                return word.to_owned();
            }
        }
    }
    panic!("the run has no value of its own");
}

/// Base64, as text where it is text.
fn decoded(text: &str) -> String {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(value)
        .collect();
    let mut bytes = Vec::new();
    for group in digits.chunks(4) {
        let bits = group
            .iter()
            .fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - group.len()));
        bytes.extend(&bits.to_be_bytes()[1..group.len()]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An operation of the document.
struct Operation {
    method: String,
    path: String,
    scope: String,
    has_body: bool,
}

/// The page's addresses. A server with tokens answers each with the same frame, without data.
const PAGE: [&str; 6] = [
    "/",
    "/editor",
    "/operations",
    "/runs/{id}",
    "/workflows",
    "/workflows/{id}",
];

fn operations(client: &Client) -> Vec<Operation> {
    let document = client.get("/api/openapi.json").expect(200).json();
    let paths = document["paths"].as_object().expect("paths");
    let mut found = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            found.push(Operation {
                method: method.to_ascii_uppercase(),
                path: path.clone(),
                scope: operation["x-scope"].as_str().expect("a scope").to_owned(),
                has_body: operation.get("requestBody").is_some(),
            });
        }
    }
    assert!(found.len() > 40, "the document has only {}", found.len());
    found
}

impl Operation {
    /// The path with another tenant's ids in it.
    fn filled(&self, tenants: &Tenants) -> String {
        let id = match self.path.split('/').nth(3) {
            Some("executions") => tenants.run.as_str(),
            Some("workflows" | "schedules" | "hooks") => "only-first",
            Some("bulk") => tenants.job.as_str(),
            _ => "none",
        };
        let path = self
            .path
            .replace("{id}", id)
            .replace("{digest}", &tenants.digest)
            .replace("{name}", "mango-secret")
            .replace("{token}", "none")
            .replace("{taskId}", tenants.task["taskId"].as_str().expect("a task"));
        let path = path
            .replace("{path}", "mango-say")
            .replace("{*path}", "mango-say");
        assert!(
            !path.contains('{'),
            "a part of {path} is not known to this test"
        );
        match (self.method.as_str(), self.path.as_str()) {
            ("GET", "/api/v1/workflows/{id}/diff") => format!("{path}?from=1&to=1"),
            ("DELETE", "/api/v1/secrets") => format!("{path}?name=mango-secret"),
            ("DELETE", "/api/v1/dead-letters") => format!("{path}?executionId={}", tenants.run),
            _ => path,
        }
    }

    /// A body that fits.
    fn body(&self, tenants: &Tenants) -> Value {
        let lease = &tenants.task["lease"];
        match self.path.rsplit('/').next().unwrap_or_default() {
            "execute" => json!({ "requestId": "same" }),
            "signal" => json!({ "name": "go" }),
            "poll" => json!({ "protocol": 1, "worker": "plum",
                              "actions": [{ "actionType": "plum.act" }] }),
            "heartbeat" | "complete" => json!({ "lease": lease }),
            "fail" => json!({ "lease": lease, "code": "X", "message": "x" }),
            "skip" if self.path.contains("{taskId}") => json!({ "lease": lease }),
            "set-result" => json!({ "node": "mango-gate", "output": 1 }),
            "skip" => json!({ "node": "mango-gate" }),
            "fork" => json!({ "from": ["mango-gate"] }),
            "bulk" => json!({ "action": "cancel", "filter": {} }),
            "pools" => json!({ "name": "plum", "slots": 1 }),
            "{name}" if self.path.contains("/pools/") => json!({ "slots": 1 }),
            "secrets" => json!({ "name": "plum", "value": "plum" }),
            "dead-letters" => json!({ "executionId": [tenants.run] }),
            "hooks" => json!({ "id": "plums", "workflowId": "shared" }),
            "schedules" => json!({ "id": "plums", "workflowId": "shared", "cron": "0 0 1 1 *" }),
            "plan" => serde_json::from_str(&definition("only-first", "plum")).expect("JSON"),
            "import" | "workflows" | "validate" | "simulate" | "executions" => {
                serde_json::from_str(&definition("plums", "plum")).expect("JSON")
            }
            _ => json!({}),
        }
    }

    fn ask(&self, client: &Client, tenants: &Tenants) -> HttpAnswer {
        let body = self.has_body.then(|| self.body(tenants).to_string());
        let headers = [("Content-Type", "application/json")];
        let headers = if self.has_body { &headers[..] } else { &[] };
        client.send(
            &self.method,
            &self.filled(tenants),
            headers,
            body.as_ref().map(String::as_bytes),
        )
    }
}

/// Nothing of the first tenant is in an answer, but what was asked with.
#[track_caller]
fn is_clean(what: &str, answer: &HttpAnswer) {
    let text = format!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
    let text = text.replace("mango-say", "").replace("mango-gate", "");
    let text = text.replace("mango-secret", "");
    assert!(!text.contains(MARK), "{what}: {text}");
}

#[test]
fn another_tenants_ids_are_unknown_on_every_route() {
    let tenants = tenants();
    let before = tenants
        .first
        .get(&format!("/api/v1/executions/{}", tenants.run))
        .expect(200)
        .json();
    for operation in operations(&tenants.first) {
        let what = format!("{} {}", operation.method, operation.path);
        let answer = operation.ask(&tenants.second, &tenants);
        is_clean(&what, &answer);
        let expected: &[u16] = match operation.path.as_str() {
            // These routes copy or repair the rows of all tenants, and need an admin of all
            // tenants.
            "/api/v1/backup" | "/api/v1/rebuild" | "/api/v1/secret-key/rotate" => &[403],
            // What a first version would do: nothing, for the second has no such workflow.
            "/api/v1/workflows/{id}/plan" => &[200],
            "/api/v1/dead-letters" if operation.method != "GET" => &[404],
            "/api/v1/secrets" if operation.method == "DELETE" => &[404],
            "/assets/{path}" => &[404],
            // A pool of this name, of the second's own.
            "/api/v1/pools/{name}" if operation.method != "GET" => &[200, 201, 404],
            path if PAGE.contains(&path) => &[200],
            path if ["{id}", "{name}", "{token}", "{taskId}"]
                .iter()
                .any(|it| path.contains(it)) =>
            {
                &[404]
            }
            _ => &[200, 201, 202],
        };
        assert!(expected.contains(&answer.status), "{what}: {answer:?}");
        if operation.path.ends_with("/plan") {
            assert_eq!(answer.json()["runs"], json!([]), "{what}");
        }
    }
    let stream = tenants.second.send(
        "GET",
        &format!("/api/v1/executions/{}/events", tenants.run),
        &[("Accept", "text/event-stream")],
        None,
    );
    is_clean("events", &stream);
    stream.refused(404, "RUN_NOT_FOUND");
    // And nothing of it was done.
    let after = tenants
        .first
        .get(&format!("/api/v1/executions/{}", tenants.run))
        .expect(200)
        .json();
    assert_eq!(after, before);
    tenants
        .first
        .get("/api/v1/workflows/only-first")
        .expect(200);
    let schedule = tenants.first.get("/api/v1/schedules/only-first");
    assert_eq!(schedule.expect(200).json()["enabled"], true);
    tenants.server.stop();
}

#[test]
fn lists_cursors_filters_and_ids_of_one_tenant_give_another_nothing() {
    let tenants = tenants();
    for _ in 0..4 {
        tenants
            .first
            .execute("shared", &json!({ "labels": { "fruit": "mango" } }));
    }
    let own = tenants
        .second
        .execute("shared", &json!({ "requestId": "same" }));
    assert_ne!(own, tenants.run);
    // What waits for the workers of a tenant is no business of a token without one.
    tenants.first.execute("worked", &json!({}));
    tenants.first.until("/api/v1/cluster", |_, shown| {
        shown["queue"].to_string().contains("mango")
    });
    let none = tenants.world.token("none", None, "workflows:read");
    for client in [&tenants.second, &tenants.server.client_with(&none)] {
        let shown = client.get("/api/v1/cluster").expect(200).json();
        assert_eq!(shown["queue"], json!([]), "{shown}");
    }
    for path in ["executions", "workflows", "audit"] {
        let page = tenants
            .first
            .get(&format!("/api/v1/{path}?limit=1"))
            .expect(200);
        let cursor = page.text("next");
        let page = tenants
            .second
            .get(&format!("/api/v1/{path}?limit=100&cursor={cursor}"));
        is_clean(path, &page);
    }
    for query in [
        "workflow=only-first".to_owned(),
        "label=fruit%3Dmango".to_owned(),
        format!("prefix={}", &tenants.run[..8]),
        format!("prefix={}", tenants.run),
    ] {
        let page = tenants.second.get(&format!("/api/v1/executions?{query}"));
        is_clean(&query, &page);
        let items = page.expect(200).json()["items"].clone();
        let ids: Vec<&Value> = items.as_array().expect("items").iter().collect();
        assert!(
            ids.iter().all(|item| item["executionId"] == own.as_str()),
            "{query}: {ids:?}"
        );
    }
    let parent = tenants
        .second
        .get(&format!("/api/v1/executions?parent={}", tenants.run));
    parent.refused(404, "RUN_NOT_FOUND");
    // The same id is two workflows.
    let shown = tenants.second.get("/api/v1/workflows/shared").expect(200);
    is_clean("shared", &shown);
    assert!(String::from_utf8_lossy(&shown.body).contains("plum display"));
    // A tenant cannot read another tenant's value by its digest, even under a run of its own.
    let value = tenants.second.get(&format!(
        "/api/v1/executions/{own}/values/{}",
        tenants.digest
    ));
    value.refused(404, "VALUE_NOT_FOUND");
    tenants
        .second
        .delete("/api/v1/workflows/shared")
        .expect(200);
    tenants.first.execute("shared", &json!({}));
    let body = json!({ "tenantId": "mango-tenant" });
    let other = tenants
        .second
        .post("/api/v1/workflows/only-first/execute", &body);
    other.refused(403, "TENANT_MISMATCH");
    let guest = tenants
        .world
        .token("guest", None, "workflows:read,workflows:execute");
    let guest = tenants.server.client_with(&guest);
    assert_eq!(
        guest.get("/api/v1/executions").expect(200).json()["items"],
        json!([])
    );
    guest
        .get(&format!("/api/v1/executions/{}", tenants.run))
        .refused(404, "RUN_NOT_FOUND");
    tenants.server.stop();
}

#[test]
fn a_prefix_is_that_of_ones_own_runs_however_many_others_have() {
    let tenants = tenants();
    let keys: Vec<String> = (0..120).map(|number| format!("r{number}")).collect();
    for key in &keys {
        tenants
            .first
            .execute("shared", &json!({ "requestId": key }));
    }
    let own = tenants.second.execute("shared", &json!({}));
    // The first digits are those of the time, which all of them share.
    for prefix in [&own[..2], &own[..4], &own[..24], &own] {
        let page = tenants
            .second
            .get(&format!("/api/v1/executions?prefix={prefix}"));
        let items = page.expect(200).json()["items"].clone();
        let found = items.as_array().expect("items").iter();
        let found: Vec<&Value> = found.map(|item| &item["executionId"]).collect();
        assert!(found.contains(&&json!(own)), "{prefix}: {found:?}");
    }
    for prefix in ["zz", "0123456789abcdef0123456789abcdef0"] {
        let page = tenants
            .second
            .get(&format!("/api/v1/executions?prefix={prefix}"));
        assert_eq!(page.expect(200).json()["items"], json!([]));
    }
    tenants.server.stop();
}

#[test]
fn logs_and_metrics_have_no_values_of_anybody() {
    let tenants = tenants();
    let path = format!("/api/v1/executions/{}/signal", tenants.run);
    tenants
        .first
        .post(&path, &json!({ "name": "go", "payload": "mango-payload" }))
        .expect(200);
    tenants.first.ended(&tenants.run);
    let metrics = tenants.server.client().get("/metrics").expect(200);
    is_clean("metrics", &metrics);
    let text = String::from_utf8_lossy(&metrics.body);
    assert!(text.contains("workflowId=\"(tenants)\""), "{text}");
    assert!(
        !text.contains("shared") && !text.contains("only-first"),
        "{text}"
    );
    let log = tenants.server.log();
    assert!(log.contains(&tenants.run), "the log is about the run");
    for line in log.lines() {
        for value in [
            "mango-trigger",
            "mango-payload",
            "mango-xxxx",
            "mango display",
        ] {
            assert!(!line.contains(value), "{line}");
        }
    }
    tenants.server.stop();
}

#[test]
fn every_route_needs_the_scope_that_it_names() {
    let tenants = tenants();
    let tokens: Vec<(&str, Client)> = ALL_SCOPES
        .split(',')
        .map(|scope| {
            (
                scope,
                tenants.world.token("limited", Some("mango-tenant"), scope),
            )
        })
        .map(|(scope, token)| (scope, tenants.server.client_with(&token)))
        .collect();
    let stranger = tenants.server.client();
    let mut public = BTreeSet::new();
    for operation in operations(&stranger) {
        let what = format!("{} {}", operation.method, operation.path);
        let ask = |client: &Client| {
            client.send(&operation.method, &operation.filled(&tenants), &[], None)
        };
        let answer = ask(&stranger);
        if operation.scope == "public" {
            // A hook that is not known is refused before its body is looked at.
            let unknown = operation.has_body || operation.path.starts_with("/assets/");
            let expected = if unknown { 404 } else { 200 };
            assert_eq!(answer.status, expected, "{what}");
            public.insert(operation.path);
            continue;
        }
        assert!(
            answer.header("www-authenticate").is_some(),
            "{what}: {answer:?}"
        );
        answer.refused(401, "UNAUTHENTICATED");
        for (scope, client) in &tokens {
            if *scope == operation.scope || *scope == "admin" {
                continue;
            }
            ask(client).refused(403, "FORBIDDEN");
        }
        ask(&tenants.server.client_with("not.a.token")).refused(401, "UNAUTHENTICATED");
    }
    let mut expected = vec![
        "/assets/{path}",
        "/api/docs",
        "/api/openapi.json",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/hooks/{token}",
    ];
    expected.extend(PAGE);
    let expected: BTreeSet<String> = expected.into_iter().map(str::to_owned).collect();
    assert_eq!(public, expected);
    tenants.server.stop();
}

#[test]
fn tokens_and_workflows_have_budgets() {
    let world = World::new();
    let (a, b) = (
        world.token("a", Some("one"), ALL_SCOPES),
        world.token("b", Some("two"), ALL_SCOPES),
    );
    let variables = [
        ("WINDLASS_RATE_PER_MINUTE", "1"),
        ("WINDLASS_RATE_BURST", "6"),
        ("WINDLASS_READ_RATE_PER_MINUTE", "1"),
        ("WINDLASS_READ_RATE_BURST", "2"),
        ("WINDLASS_WORKFLOW_RATE_PER_MINUTE", "1"),
        ("WINDLASS_WORKFLOW_RATE_BURST", "2"),
    ];
    let server = world.serve_with(&["--auth-keys", "keys.json"], &variables);
    let client = server.client_with(&a);
    let remaining = |answer: &HttpAnswer| -> u32 {
        assert_eq!(
            answer.header("x-ratelimit-limit").map(str::is_empty),
            Some(false)
        );
        let left = answer
            .header("x-ratelimit-remaining")
            .expect("what is left");
        left.parse().expect("a number")
    };
    let first = client
        .post_text("/api/v1/workflows", definition("w", "plain"))
        .expect(201);
    assert_eq!(remaining(&first), 5);
    let execute = "/api/v1/workflows/w/execute";
    for left in [1, 0] {
        let started = client.post(execute, &json!({})).expect(202);
        assert_eq!(remaining(&started), left);
    }
    let refused = client.post(execute, &json!({}));
    let wait: u32 = refused
        .header("retry-after")
        .and_then(|it| it.parse().ok())
        .expect("a time");
    assert!(wait > 0);
    refused.refused(429, "RATE_LIMITED");
    // Reads have a budget of their own.
    client.get("/api/v1/workflows").expect(200);
    client.get("/api/v1/workflows").expect(200);
    let refused = client.get("/api/v1/workflows");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(remaining(&refused), 0);
    refused.refused(429, "RATE_LIMITED");
    // Others have budgets of their own, and probes none.
    server.client_with(&b).get("/api/v1/workflows").expect(200);
    server.client().get("/health/ready").expect(200);
    server.stop();
}

/// A suggestion names a workflow, which takes the right to read workflows.
#[test]
fn an_unknown_workflow_is_suggested_only_to_those_who_may_read() {
    let world = World::new();
    let all = world.token("ann", None, ALL_SCOPES);
    let starts = world.token("bob", None, "workflows:execute");
    let server = world.serve_with(&["--auth-keys", "keys.json"], &[]);
    server.client_with(&all).publish(ECHO);
    let refused = |token: &str| {
        let client = server.client_with(token);
        let answer = client.post("/api/v1/workflows/ecoh/execute", &json!({}));
        answer.refused(404, "WORKFLOW_NOT_FOUND").to_string()
    };
    let suggested = refused(&all);
    assert!(suggested.contains("did you mean 'echo'?"), "{suggested}");
    let plain = refused(&starts);
    assert!(!plain.contains("echo"), "{plain}");
    server.stop();
}
