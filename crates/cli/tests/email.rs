//! `email.send` on the real binary, against a real mail server.

use std::process::{Child, Command, Stdio};

use crate::mail_server::MailServer;
use serde_json::{Value, json};

const PASSWORD: &str = "smtp-password-1";

struct World {
    folder: tempfile::TempDir,
    url: String,
    certificate: std::path::PathBuf,
    password: &'static str,
}

impl World {
    fn on(server: &MailServer, scheme: &str) -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            url: format!("{scheme}://localhost:{}", server.port),
            certificate: server.certificate.clone(),
            password: PASSWORD,
        }
    }

    fn command(&self) -> Command {
        let mut command = windlass_test_support::process::windlass();
        command
            .current_dir(self.folder.path())
            .env("WINDLASS_SMTP_URL", &self.url)
            .env("WINDLASS_SMTP_FROM", "Windlass <windlass@example.com>")
            .env("WINDLASS_HTTP_ALLOW", "127.0.0.1,localhost")
            .env("SSL_CERT_FILE", &self.certificate);
        if !self.password.is_empty() {
            command
                .env("WINDLASS_SECRET_SMTP_USER", "me")
                .env("WINDLASS_SECRET_SMTP_PASSWORD", self.password);
        }
        command
    }

    fn write(&self, parameters: &Value, policies: &Value) {
        let node = json!({ "id": "send", "actionType": "email.send", "parameters": parameters,
            "policies": policies });
        let definition = json!({ "id": "mail", "nodes": [node] });
        let path = self.folder.path().join("mail.json");
        std::fs::write(path, definition.to_string()).expect("a definition");
    }

    /// Sends, and gives the node; everything that was written is free of the password.
    fn send(&self, parameters: &Value, policies: &Value) -> Value {
        self.write(parameters, policies);
        let output = self
            .command()
            .args(["run", "mail.json", "--json", "--quiet"])
            .output()
            .expect("the binary runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(!text.contains(PASSWORD), "{text}");
        let run: Value = serde_json::from_str(&text).expect("an execution");
        run["nodes"]["send"].clone()
    }

    fn start(&self) -> Child {
        self.command()
            .args(["run", "mail.json", "--json", "--quiet"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts")
    }
}

fn to(address: &str) -> Value {
    json!({ "to": [address], "subject": "Ready", "text": "It is ready." })
}

#[test]
fn a_message_with_all_its_parts_arrives_over_starttls() {
    let server = MailServer::start("starttls");
    let world = World::on(&server, "smtp+starttls");
    let parameters = json!({
        "to": ["Ada <ada@example.com>"], "cc": ["bob@example.com"], "bcc": ["eve@example.com"],
        "replyTo": "answers@example.com", "subject": "Grüße", "text": "plain", "html": "<b>html</b>",
        "attachments": [
            { "filename": "a.txt", "text": "attached" },
            { "filename": "b.bin", "content": "AAEC", "contentType": "application/x-thing" },
        ],
    });
    let node = world.send(&parameters, &json!({}));
    assert_eq!(node["status"], "Succeeded", "{node}");
    let message = server.message();
    assert_eq!(message["tls"], true);
    assert_eq!(message["user"], true);
    assert_eq!(message["from"], "windlass@example.com");
    let everyone = json!(["ada@example.com", "bob@example.com", "eve@example.com"]);
    assert_eq!(message["to"], everyone);
    assert_eq!(node["output"]["recipients"], everyone);
    let content = message["content"].as_str().expect("text");
    let id = node["output"]["messageId"].as_str().expect("an id");
    for part in [
        &format!("Message-ID: {id}"),
        "Reply-To: answers@example.com",
        "text/html",
        "a.txt",
        "application/x-thing",
        "AAEC",
    ] {
        assert!(content.contains(part), "{part} in {content}");
    }
    assert!(!content.contains("eve@example.com"), "{content}");
}

#[test]
fn a_message_arrives_over_tls_and_without_it() {
    for (mode, scheme) in [("tls", "smtps"), ("plain", "smtp")] {
        let server = MailServer::start(mode);
        let mut world = World::on(&server, scheme);
        if mode == "plain" {
            world.password = "";
        }
        let node = world.send(&to("ada@example.com"), &json!({}));
        assert_eq!(node["status"], "Succeeded", "{node}");
        assert_eq!(server.message()["tls"], mode == "tls");
    }
}

#[test]
fn refusals_are_told_apart() {
    let server = MailServer::start("starttls");
    let world = World::on(&server, "smtp+starttls");
    let both = json!({ "to": ["ada@example.com", "refused@example.com"], "subject": "s",
        "text": "t" });
    for (parameters, code, retriable) in [
        (both, "EMAIL_REFUSED", false),
        (to("greylist@example.com"), "EMAIL_DEFERRED", true),
        (to("full@example.com"), "EMAIL_TOO_LARGE", false),
        (to("not an address"), "EMAIL_ADDRESS_INVALID", false),
        (
            json!({ "to": [], "subject": "s", "text": "t" }),
            "PARAMETERS_INVALID",
            false,
        ),
        (
            json!({ "to": ["ada@example.com"], "subject": "s" }),
            "PARAMETERS_INVALID",
            false,
        ),
    ] {
        let node = world.send(&parameters, &json!({}));
        assert_eq!(node["error"]["code"], code, "{node}");
        assert_eq!(node["error"]["retriable"], retriable, "{node}");
    }
    assert!(server.is_quiet(), "nothing was taken");
    let wrong = World {
        password: "smtp-wrong-password",
        ..World::on(&server, "smtp+starttls")
    };
    let node = wrong.send(&to("ada@example.com"), &json!({}));
    assert_eq!(node["error"]["code"], "EMAIL_UNAUTHORIZED", "{node}");
    assert!(!node.to_string().contains("smtp-wrong-password"), "{node}");
}

#[test]
fn a_greylisted_message_is_sent_again_under_its_id() {
    let server = MailServer::start("starttls");
    let world = World::on(&server, "smtp+starttls");
    let retry = json!({ "retry": { "maxAttempts": 3, "baseDelayMs": 1, "jitter": false } });
    let node = world.send(&to("greylist@example.com"), &retry);
    assert_eq!(node["attempts"], 2, "{node}");
    let content = server.message()["content"].to_string();
    assert!(content.contains(node["output"]["messageId"].as_str().expect("an id")));
}

#[test]
fn a_server_that_breaks_off_or_never_answers_is_tried_again() {
    let server = MailServer::start("starttls");
    let world = World::on(&server, "smtp+starttls");
    let node = world.send(&to("gone@example.com"), &json!({}));
    assert_eq!(node["error"]["code"], "EMAIL_CONNECT", "{node}");
    assert_eq!(node["error"]["retriable"], true, "{node}");
    assert!(server.is_quiet());
    let policies = json!({ "timeoutMs": 1500,
        "retry": { "maxAttempts": 2, "baseDelayMs": 1, "jitter": false } });
    let node = world.send(&to("lost@example.com"), &policies);
    assert_eq!(node["error"]["code"], "TIMEOUT", "{node}");
    assert_eq!(node["attempts"], 2, "{node}");
    assert_eq!(message_id(&server.message()), message_id(&server.message()));
}

/// The header of a message that the server took.
fn message_id(message: &Value) -> String {
    let content = message["content"].as_str().expect("text");
    let line = content.lines().find(|line| line.starts_with("Message-ID:"));
    line.expect("an id").to_owned()
}

#[test]
fn no_message_leaves_where_tls_is_not_what_it_should_be() {
    let server = MailServer::start("starttls");
    let stranger = MailServer::start("plain");
    let untrusted = World {
        certificate: stranger.certificate.clone(),
        ..World::on(&server, "smtp+starttls")
    };
    let node = untrusted.send(&to("ada@example.com"), &json!({}));
    assert_eq!(node["error"]["code"], "EMAIL_TLS", "{node}");
    let not_offered = World::on(&stranger, "smtp+starttls");
    let node = not_offered.send(&to("ada@example.com"), &json!({}));
    assert_eq!(node["error"]["code"], "EMAIL_TLS", "{node}");
    assert!(server.is_quiet() && stranger.is_quiet());
}

#[test]
fn a_mail_server_on_a_private_address_must_be_allowed() {
    let server = MailServer::start("plain");
    let world = World::on(&server, "smtp");
    world.write(&to("ada@example.com"), &json!({}));
    let output = world
        .command()
        .env_remove("WINDLASS_HTTP_ALLOW")
        .args(["run", "mail.json", "--json", "--quiet"])
        .output()
        .expect("the binary runs");
    let run: Value = serde_json::from_slice(&output.stdout).expect("an execution");
    let code = &run["nodes"]["send"]["error"]["code"];
    assert_eq!(code, "HTTP_ADDRESS_REFUSED", "{run}");
    assert!(server.is_quiet());
}

#[test]
fn a_message_that_was_taken_before_a_kill_is_sent_again_under_the_same_id() {
    let server = MailServer::start("starttls");
    let world = World::on(&server, "smtp+starttls");
    world.write(&to("lost@example.com"), &json!({ "timeoutMs": 60_000 }));
    let mut child = world.start();
    let first = server.message();
    child.kill().expect("killed");
    child.wait().expect("ended");
    let mut again = world
        .command()
        .args(["resume", "@last", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let second = server.message();
    again.kill().expect("killed");
    again.wait().expect("ended");
    assert_eq!(message_id(&first), message_id(&second));
}
