//! Accounts of several tenants on one server: a tenant's nodes use its own secrets and its own
//! tokens, whatever they name, and never the operator's or another tenant's.

use serde_json::{Value, json};
use windlass_test_support::process::{Client, ServerProcess, World};
use windlass_test_support::services::slack::{self, Slack};
use windlass_test_support::services::{ServiceReply, ServiceRequest, StubServer, ok};

const SCOPES: &str = "workflows:read,workflows:execute,workflows:manage,admin";

/// A server that two tenants use.
fn two_tenants(world: &World, variables: &[(&str, &str)]) -> (ServerProcess, [Client; 2]) {
    let tokens = ["first", "second"].map(|tenant| world.token("t", Some(tenant), SCOPES));
    let mut all = vec![
        ("WINDLASS_RATE_PER_MINUTE", "0"),
        ("WINDLASS_HTTP_ALLOW", "127.0.0.1"),
    ];
    all.extend(variables);
    let server = world.serve_with(&["--auth-keys", "keys.json"], &all);
    let clients = tokens.map(|token| server.client_with(&token));
    (server, clients)
}

fn set(client: &Client, name: &str, value: &str) {
    let body = json!({ "name": name, "value": value });
    client.post("/api/v1/secrets", &body).expect(200);
}

/// Runs one node with these parameters, and gives it.
fn node(client: &Client, action: &str, parameters: &Value) -> Value {
    let nodes = json!([{ "id": "n", "actionType": action, "parameters": parameters }]);
    client.publish(&json!({ "id": "one", "nodes": nodes }).to_string());
    let run = client.execute("one", &json!({}));
    client.ended(&run)["nodes"]["n"].clone()
}

#[test]
fn a_connector_uses_the_accounts_of_its_own_tenant_alone() {
    let (world, slack) = (World::new(), Slack::start());
    let base = format!("{}/api", slack.server.url);
    let variables = [
        ("WINDLASS_SLACK_BASE_URL", &*base),
        // The operator's, for runs without a tenant.
        ("WINDLASS_SECRET_SLACK_TOKEN", slack::TOKEN),
        ("WINDLASS_SECRET_SALES", slack::TOKEN),
    ];
    let (server, [first, second]) = two_tenants(&world, &variables);
    let mut message = json!({ "channelId": slack::CHANNEL, "message": "Hello" });
    set(&first, "SLACK_TOKEN", slack::TOKEN);
    set(&first, "SALES", slack::TOKEN);
    let posted = node(&first, "slack.post-message", &message);
    assert_eq!(posted["status"], "Succeeded", "{posted}");
    let before = slack.server.seen("").len();
    // Neither the first tenant's nor the operator's, by default or by name.
    for credentials in [
        None,
        Some("SALES"),
        Some("first/SALES"),
        Some("first\nSALES"),
    ] {
        if let Some(name) = credentials {
            message["credentials"] = json!(name);
        }
        let refused = node(&second, "slack.post-message", &message);
        let code = refused["error"]["code"].as_str().unwrap_or_default();
        let is_refused = matches!(code, "SECRET_NOT_FOUND" | "PARAMETERS_INVALID");
        assert!(is_refused, "{credentials:?}: {refused}");
    }
    assert_eq!(slack.server.seen("").len(), before, "no request was sent");
    set(&second, "SALES", "xoxb-of-the-second");
    message["credentials"] = json!("SALES");
    let own = node(&second, "slack.post-message", &message);
    assert_eq!(own["error"]["code"], "SLACK_UNAUTHORIZED", "{own}");
    let sent = slack.server.seen("").split_off(before);
    let is_own =
        |request: &ServiceRequest| request.header("authorization") == "Bearer xoxb-of-the-second";
    assert!(!sent.is_empty() && sent.iter().all(is_own), "{sent:?}");
    server.stop();
}

/// Gives each asker a token of its own, and takes them all.
fn token_server() -> StubServer {
    let mut given = 0;
    StubServer::start(move |request| {
        if request.path != "/token" {
            return ok(json!({}));
        }
        given += 1;
        let token = format!("token-number-{given}");
        ok(json!({ "access_token": token, "expires_in": 3600 }))
    })
}

#[test]
fn a_token_is_kept_for_the_tenant_that_asked_for_it() {
    let (world, service) = (World::new(), token_server());
    let (server, [first, second]) = two_tenants(&world, &[]);
    let request = json!({ "url": format!("{}/data", service.url), "auth": { "oauth2": {
        "tokenUrl": format!("{}/token", service.url), "clientId": "id",
        "clientSecret": "{{ secrets.SECRET }}" } } });
    // The same client, by the same secret: the tokens are apart all the same.
    for tenant in [&first, &second, &first, &second] {
        set(tenant, "SECRET", "s3cret-value-1");
        let asked = node(tenant, "http.request", &request);
        assert_eq!(asked["status"], "Succeeded", "{asked}");
    }
    let tokens: Vec<String> = service
        .seen("/data")
        .iter()
        .map(|request| request.header("authorization").to_owned())
        .collect();
    let [one, two] = ["Bearer token-number-1", "Bearer token-number-2"];
    assert_eq!(tokens, [one, two, one, two]);
    assert_eq!(service.seen("/token").len(), 2);
    // One without the secret gets none of them.
    second.delete("/api/v1/secrets/SECRET").expect(200);
    let asked = node(&second, "http.request", &request);
    assert_eq!(asked["error"]["code"], "SECRET_NOT_FOUND", "{asked}");
    // Another secret is another client, though its name is the same.
    set(&second, "SECRET", "s3cret-value-2");
    service.fail("/token", ServiceReply::Json(401, Vec::new(), json!({})));
    let asked = node(&second, "http.request", &request);
    assert_eq!(asked["error"]["code"], "HTTP_TOKEN", "{asked}");
    server.stop();
}
