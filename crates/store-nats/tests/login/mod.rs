//! How the program shows a server who it is, and checks who the server is: real servers, each
//! refusing what is wrong by name.

mod files;

use std::path::Path;

use crate::common::settings_on;
use files::{Files, Operator, missing, tls};
use windlass_store::Head;
use windlass_store::conformance::{must_append, record, run_id};
use windlass_store_nats::{Login, NatsStore, OpenError, Settings};
use windlass_test_support::nats::OwnServer;

/// It opens and takes a record.
#[track_caller]
fn works(settings: &Settings) {
    let store = NatsStore::open(settings).unwrap();
    must_append(&store, record(run_id(1), Head::NONE, 1, b"logged in"));
}

/// It is refused for good, with these words.
#[track_caller]
fn refused(settings: &Settings, words: &[&str]) {
    match NatsStore::open(settings) {
        Err(OpenError::Refused(error)) => {
            let text = error.to_string();
            for word in words {
                assert!(text.contains(word), "'{word}' is missing in: {text}");
            }
        }
        other => panic!("it must be refused, not {other:?}"),
    }
}

/// The server's URL with a user in it.
fn as_user(server: &OwnServer, user: &str) -> String {
    server
        .url()
        .replacen("nats://", &format!("nats://{user}@"), 1)
}

#[test]
fn a_user_and_password_in_the_url_log_in_and_wrong_ones_are_refused() {
    let server =
        OwnServer::with("authorization { users: [ { user: \"ann\", password: \"s@cret/1\" } ] }");
    works(&settings_on(&as_user(&server, "ann:s%40cret%2F1")));
    let wrong = settings_on(&as_user(&server, "ann:wrong"));
    refused(&wrong, &["'ann'", "password", "nats_url"]);
    let without = settings_on(&server.url());
    refused(&without, &["asks for a login", "nats_creds", "nats_nkey"]);
}

#[test]
fn a_server_without_jetstream_is_refused_with_what_to_do() {
    let server = OwnServer::with("jetstream: disabled");
    refused(
        &settings_on(&server.url()),
        &["JetStream is off", "jetstream {}"],
    );
}

#[test]
fn a_token_in_the_url_logs_in_and_a_wrong_one_is_refused() {
    let server = OwnServer::with("authorization { token: \"t0ken\" }");
    works(&settings_on(&as_user(&server, "t0ken")));
    let wrong = settings_on(&as_user(&server, "other"));
    refused(&wrong, &["the token", "nats_url"]);
}

#[test]
fn the_seed_of_an_nkey_logs_in_and_another_is_refused() {
    let files = Files::new();
    let (own, other) = (nkeys::KeyPair::new_user(), nkeys::KeyPair::new_user());
    let users = format!(
        "authorization {{ users: [ {{ nkey: {} }} ] }}",
        own.public_key()
    );
    let server = OwnServer::with(&users);
    let with = |file: &Path| settings_on(&server.url()).login(Login::NkeyFile(file.into()));
    let file = files.write("own", &format!("{}\n", own.seed().unwrap()));
    works(&with(&file));
    let file = files.write("other", &other.seed().unwrap());
    refused(&with(&file), &["nats_nkey", &file.display().to_string()]);
    let file = files.write("none", "not a seed");
    refused(&with(&file), &["nats_nkey", &file.display().to_string()]);
    refused(&with(&missing(&files)), &["nats_nkey", "missing"]);
}

#[test]
fn a_credentials_file_logs_in_and_one_of_another_account_is_refused() {
    let files = Files::new();
    let operator = Operator::new();
    let server = OwnServer::with(&operator.lines);
    let with = |file: &Path| settings_on(&server.url()).login(Login::Credentials(file.into()));
    let file = files.write("own.creds", &operator.credentials(false));
    works(&with(&file));
    for (name, text) in [
        ("expired.creds", operator.credentials(true)),
        ("other.creds", Operator::new().credentials(false)),
    ] {
        let file = files.write(name, &text);
        refused(&with(&file), &["nats_creds", name]);
    }
    let file = files.write("none.creds", "nothing of the kind");
    refused(&with(&file), &["nats_creds", "none.creds"]);
}

#[test]
fn tls_checks_the_authority_and_the_name_of_the_server() {
    let (files, others) = (Files::new(), Files::new());
    let (authority, lines) = tls(&files, "127.0.0.1");
    let server = OwnServer::with(&lines);
    let plain = settings_on(&server.url());
    works(&plain.clone().root_certificates(&authority));
    // The system does not know the test's authority.
    refused(&plain, &["certificate", "nats_ca"]);
    let (other, lines) = tls(&others, "elsewhere.example");
    refused(&plain.clone().root_certificates(&other), &["certificate"]);
    let named_otherwise = OwnServer::with(&lines);
    let otherwise = settings_on(&named_otherwise.url()).root_certificates(&other);
    refused(&otherwise, &["certificate", "name"]);
    let none = files.write("none.pem", "no certificate");
    refused(&plain.clone().root_certificates(&none), &["nats_ca"]);
}

/// A server without TLS is not spoken to if an authority is named: a password would travel in
/// plain sight.
#[test]
fn a_server_without_tls_is_refused_if_an_authority_is_named() {
    let files = Files::new();
    let (authority, _) = tls(&files, "127.0.0.1");
    let server = OwnServer::start();
    let settings = settings_on(&server.url()).root_certificates(&authority);
    refused(&settings, &["TLS", "nats_ca"]);
}

#[test]
fn of_several_servers_one_that_answers_is_enough() {
    let mut down = OwnServer::start();
    down.kill();
    let server = OwnServer::start();
    works(&settings_on(&format!("{},{}", down.url(), server.url())));
    let away = NatsStore::open(&settings_on(&down.url())).unwrap_err();
    assert!(matches!(away, OpenError::Away(_)), "{away:?}");
}
