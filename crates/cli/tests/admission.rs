//! Access control: no byte of a body is read before access is decided, on any route; a server
//! without tokens answers to its own names only; keys and tenants are what the settings say.

use std::io::{Read as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use windlass_test_support::process::{Client, ECHO, ServerProcess, World};

/// An operation of the document that takes a body.
struct Operation {
    method: String,
    path: String,
    scope: String,
    has_body: bool,
}

fn operations(client: &Client) -> Vec<Operation> {
    let document = client.get("/api/openapi.json").expect(200).json();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let mut parts: Vec<&str> = path.split('/').collect();
            for part in &mut parts {
                if part.starts_with('{') {
                    *part = "x";
                }
            }
            operations.push(Operation {
                method: method.to_uppercase(),
                path: parts.join("/"),
                scope: operation["x-scope"].as_str().expect("a scope").to_owned(),
                has_body: operation["x-body-limit"].as_u64() > Some(0),
            });
        }
    }
    assert!(operations.len() > 40, "{}", operations.len());
    operations
}

/// The head alone, by a client that sends the body only when it is asked for (RFC 9110,
/// section 10.1.1): the first status that comes back.
fn first_status(client: &Client, method: &str, path: &str, more: &str) -> u16 {
    let mut stream = client.connect();
    let head = client.head(method, path);
    let request = format!(
        "{head}Content-Type: application/json\r\nExpect: 100-continue\r\n{more}\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.windows(2).any(|two| two == b"\r\n") {
        let read = stream.read(&mut buffer).expect("an answer");
        assert!(read > 0, "{method} {path}: the connection ended");
        answer.extend_from_slice(&buffer[..read]);
    }
    let text = String::from_utf8_lossy(&answer);
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    status.unwrap_or_else(|| panic!("{method} {path}: {text}"))
}

const LENGTHS: [&str; 2] = [
    "Content-Length: 500000\r\n",
    "Transfer-Encoding: chunked\r\n",
];

fn with_tokens(world: &World, more: &[&str], variables: &[(&str, &str)]) -> ServerProcess {
    world.token("first", None, "admin");
    let mut arguments = vec!["--auth-keys", "keys.json"];
    arguments.extend(more);
    let mut all = vec![("WINDLASS_RATE_PER_MINUTE", "0")];
    all.extend(variables);
    world.serve_with(&arguments, &all)
}

#[test]
fn no_route_reads_a_body_before_access_is_decided() {
    let world = World::new();
    let server = with_tokens(&world, &[], &[]);
    let none = server.client();
    let reader = server.client_with(&world.token("reader", None, "workflows:read"));
    let starter = server.client_with(&world.token("starter", None, "workflows:execute"));
    let admin = server.client_with(&world.token("rich", None, "admin"));
    let (mut guarded, mut asked) = (0, 0);
    for operation in operations(&none) {
        let Operation { method, path, .. } = &operation;
        for length in LENGTHS {
            let status = first_status(&none, method, path, length);
            match (operation.scope.as_str(), operation.has_body) {
                // The hook is not known.
                ("public", true) => assert_eq!(status, 404, "{method} {path}"),
                ("public", false) => assert_ne!(status, 100, "{method} {path}"),
                _ => {
                    assert_eq!(status, 401, "{method} {path}");
                    let other = match operation.scope.as_str() {
                        "workflows:read" => &starter,
                        _ => &reader,
                    };
                    let status = first_status(other, method, path, length);
                    assert_eq!(status, 403, "{method} {path}");
                    guarded += 1;
                }
            }
            // A permitted request is asked for its body, so the refusals above are not
            // accidental.
            if operation.has_body && operation.scope != "public" {
                let status = first_status(&admin, method, path, length);
                asked += usize::from(status == 100);
            }
        }
    }
    assert!(guarded > 60 && asked > 10, "{guarded} {asked}");
    server.stop();
}

#[test]
fn a_hook_reads_no_body_without_a_signature_of_these_minutes() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.publish(ECHO);
    let body = json!({ "id": "orders", "workflowId": "echo" });
    let path = client.post("/api/v1/hooks", &body).expect(200).text("path");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs();
    let code = "ab".repeat(32);
    let header = |value: &str| format!("X-Windlass-Signature: {value}\r\n");
    for (signature, status) in [
        (String::new(), 401),
        (header(""), 401),
        (header("t=1"), 401),
        (header(&format!("t={now},v1={}", &code[2..])), 401),
        (header(&format!("t={},v1={code}", now - 400)), 401),
        (header(&format!("t={now},v1={code}")).repeat(2), 401),
        // The signature can be checked only with the body.
        (header(&format!("t={now},v1={code}")), 100),
    ] {
        for length in LENGTHS {
            let more = format!("{signature}{length}");
            assert_eq!(
                first_status(&client, "POST", &path, &more),
                status,
                "{more}"
            );
        }
    }
    for length in LENGTHS {
        let more = format!("{}{length}", header(&format!("t={now},v1={code}")));
        assert_eq!(first_status(&client, "POST", "/hooks/none", &more), 404);
    }
    server.stop();
}

/// Asks under another name; nothing of the body is sent.
fn as_host(client: &Client, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = client.connect();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.unwrap_or_else(|| panic!("{answer}")), answer)
}

#[test]
fn a_server_without_tokens_answers_to_its_own_names_only() {
    let world = World::new();
    let allowed = [
        "--allow-host",
        "windlass.example",
        "--allow-host",
        "*.inner",
    ];
    let server = world.serve_with(&allowed, &[]);
    let client = server.client();
    for Operation { method, path, .. } in operations(&client) {
        let (status, answer) = as_host(&client, &method, &path, "evil.example");
        assert_eq!(status, 403, "{method} {path}");
        assert!(answer.contains("HOST_NOT_ALLOWED"), "{answer}");
        assert!(answer.contains("--allow-host"), "{answer}");
    }
    for host in ["localhost", server.address(), "windlass.example", "a.inner"] {
        let (status, _) = as_host(&client, "GET", "/api/v1/workflows", host);
        assert_eq!(status, 200, "{host}");
    }
    // With tokens the host name does not matter.
    let guarded = World::new();
    let server = with_tokens(&guarded, &[], &[]);
    let (status, _) = as_host(&server.client(), "GET", "/health/live", "any.example");
    assert_eq!(status, 200);
}

#[test]
fn probes_have_an_address_of_their_own() {
    let world = World::new();
    let server = world.serve_with(&["--probe-listen", "127.0.0.1:0"], &[]);
    let probes = Client::new(server.probes().expect("an address"), None);
    probes.get("/health/live").expect(200);
    probes.get("/health/ready").expect(200);
    let metrics = probes.get("/metrics").expect(200);
    let metrics = String::from_utf8(metrics.body).expect("text");
    for name in [
        "windlass_http_connections ",
        "windlass_http_connections_refused_total ",
        "windlass_http_body_memory_bytes ",
        "windlass_http_body_spool_bytes ",
        "windlass_http_bodies_refused_total ",
    ] {
        assert!(metrics.contains(&format!("\n{name}")), "{name}: {metrics}");
    }
    probes
        .get("/api/v1/workflows")
        .refused(404, "ROUTE_NOT_FOUND");
    server.stop();
}

#[test]
fn a_large_body_goes_through_the_spool_and_leaves_nothing() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let mut definition: Value = serde_json::from_str(ECHO).expect("JSON");
    definition["vars"]["large"] = "x".repeat(3 * 1024 * 1024).into();
    client.publish(&definition.to_string());
    let spool = world.path().join(".windlass/spool");
    assert_eq!(std::fs::read_dir(&spool).expect("a folder").count(), 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&spool).expect("a folder").permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
    }
    let metrics = client.get("/metrics").expect(200);
    let metrics = String::from_utf8(metrics.body).expect("text");
    assert!(
        metrics.contains("\nwindlass_http_body_memory_bytes 0\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("\nwindlass_http_body_spool_bytes 0\n"),
        "{metrics}"
    );
    server.stop();
}

#[test]
fn a_budget_that_the_largest_body_does_not_fit_is_refused() {
    let world = World::new();
    for name in ["WINDLASS_BODY_MEMORY", "WINDLASS_BODY_SPOOL"] {
        let mut command = world.command(&["serve", "--listen", "127.0.0.1:0"]);
        let ended = command.env(name, "1000").output().expect("it runs");
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{text}");
        assert!(text.contains("SETTING_INVALID"), "{text}");
        assert!(text.contains("limit_definition_bytes"), "{text}");
    }
}

#[test]
fn tokens_without_a_tenant_are_refused_where_one_is_required() {
    let world = World::new();
    let server = with_tokens(&world, &["--auth-require-tenant"], &[]);
    let none = world.token("ann", None, "admin");
    let acme = world.token("ann", Some("acme"), "workflows:read");
    let answer = server.client_with(&none).get("/api/v1/workflows");
    let body = answer.refused(401, "UNAUTHENTICATED");
    assert!(body.to_string().contains("tenant_id"), "{body}");
    server
        .client_with(&acme)
        .get("/api/v1/workflows")
        .expect(200);
    server.stop();
}

#[test]
fn keys_that_cannot_be_read_are_shown_by_ready_and_doctor() {
    let world = World::new();
    let server = with_tokens(&world, &[], &[]);
    let token = world.token("ann", None, "admin");
    let keys = world.path().join("keys.json");
    std::fs::write(&keys, r#"{"keys": []}"#).expect("a file");
    // Readiness looks again by itself, at most every two seconds.
    let shown = (0..100).any(|_| {
        let ready = server.client().get("/health/ready").expect(200);
        let seen = ready.json()["warnings"][0]["pointer"] == "/auth_keys";
        if !seen {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        seen
    });
    assert!(shown, "the keys are not mentioned");
    server
        .client_with(&token)
        .get("/api/v1/workflows")
        .expect(200);
    let url = format!("http://{}", server.address());
    let doctor = world.run(&["doctor", "--server", &url, "--token", &token]);
    assert!(
        doctor.stdout.contains("keys of tokens"),
        "{}",
        doctor.stdout
    );
    assert!(server.log().contains("keys of tokens cannot be read"));
    let metrics = server.client().get("/metrics").expect(200);
    let metrics = String::from_utf8(metrics.body).expect("text");
    assert!(
        metrics.contains("\nwindlass_auth_keys_failures_total "),
        "{metrics}"
    );
    server.stop();
    let mut command = world.command(&["doctor"]);
    let ended = command.env("WINDLASS_AUTH_KEYS", "keys.json").output();
    let text = String::from_utf8(ended.expect("it runs").stdout).expect("text");
    assert!(text.contains("no key of use"), "{text}");
}
