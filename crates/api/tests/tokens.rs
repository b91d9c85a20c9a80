//! Tokens: which are taken, which are refused, what they allow, and how keys change.

use crate::common;

use std::path::Path;
use std::time::Duration;

use crate::common::{Answer, Running, Setup};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER as OTHER;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use rsa::pkcs1::EncodeRsaPrivateKey;
use rsa::traits::PublicKeyParts;
use serde_json::{Value, json};
use windlass_api::Budget;
use windlass_api::auth::{Auth, JwtOptions, KeySource, MAX_TOKEN, Minting, Rotation, mint};
use windlass_api::route::{GateOptions, TokenScope};

const READ: &str = "GET /api/v1/things";

/// A key pair: how it signs, and the JWK that checks it.
struct Pair {
    algorithm: Algorithm,
    id: &'static str,
    signs: EncodingKey,
    jwk: Value,
}

fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn secret(id: &'static str, byte: u8) -> Pair {
    let bytes = [byte; 32];
    Pair {
        algorithm: Algorithm::HS256,
        id,
        signs: EncodingKey::from_secret(&bytes),
        jwk: json!({"kty": "oct", "kid": id, "alg": "HS256", "k": text(&bytes)}),
    }
}

fn rsa(id: &'static str) -> Pair {
    let key = rsa::RsaPrivateKey::new(&mut rand::thread_rng(), 2048).unwrap();
    Pair {
        algorithm: Algorithm::RS256,
        id,
        signs: EncodingKey::from_rsa_der(key.to_pkcs1_der().unwrap().as_bytes()),
        jwk: json!({"kty": "RSA", "kid": id,
            "n": text(&key.n().to_bytes_be()), "e": text(&key.e().to_bytes_be())}),
    }
}

fn curve(id: &'static str) -> Pair {
    let random = SystemRandom::new();
    let signing = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(signing, document.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref();
    Pair {
        algorithm: Algorithm::ES256,
        id,
        signs: EncodingKey::from_ec_der(document.as_ref()),
        jwk: json!({"kty": "EC", "crv": "P-256", "kid": id,
            "x": text(&point[1..33]), "y": text(&point[33..])}),
    }
}

fn edwards(id: &'static str) -> Pair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    Pair {
        algorithm: Algorithm::EdDSA,
        id,
        signs: EncodingKey::from_ed_der(document.as_ref()),
        jwk: json!({"kty": "OKP", "crv": "Ed25519", "kid": id,
            "x": text(pair.public_key().as_ref())}),
    }
}

fn now() -> u64 {
    jsonwebtoken::get_current_timestamp()
}

/// Claims that are good, with changes; a null takes one away.
fn claims(changes: Value) -> Value {
    let mut claims = json!({"sub": "ann", "exp": now() + 600, "scope": "workflows:read",
        "iss": "https://issuer.example", "aud": ["other", "windlass"]});
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

impl Pair {
    fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.to_owned());
        self.sign_with(&serde_json::to_value(header).unwrap(), claims)
    }

    fn good(&self) -> String {
        self.sign(&claims(json!({})))
    }

    /// Signs with a header of the test's own.
    fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!(
            "{}.{}",
            text(header.to_string().as_bytes()),
            text(claims.to_string().as_bytes())
        );
        // By another implementation than the server's.
        let signer = (OTHER.signer_factory)(&self.algorithm, &self.signs).unwrap();
        let signed = signer.try_sign(message.as_bytes()).unwrap();
        format!("{message}.{}", text(&signed))
    }
}

fn write(path: &Path, pairs: &[&Pair]) {
    let keys: Vec<&Value> = pairs.iter().map(|pair| &pair.jwk).collect();
    std::fs::write(path, json!({"keys": keys}).to_string()).unwrap();
}

const AT_ONCE: Rotation = Rotation {
    min_interval: Duration::ZERO,
    max_age: Duration::from_secs(3600),
};

fn options(source: KeySource) -> JwtOptions {
    JwtOptions {
        issuer: Some("https://issuer.example".to_owned()),
        audience: Some("windlass".to_owned()),
        rotation: Some(AT_ONCE),
        ..JwtOptions::new(source)
    }
}

async fn start(options: JwtOptions) -> Running {
    let setup = Setup {
        auth: Some(Auth::jwt(options).await.unwrap()),
        gate: GateOptions {
            token_rate: Budget::OFF,
            read_rate: Budget::OFF,
            ..GateOptions::default()
        },
        ..Setup::default()
    };
    setup.start().await
}

async fn ask(server: &Running, line: &str, token: &str) -> Answer {
    let header = format!("Authorization: Bearer {token}\r\n");
    server.ask(line, &header, "").await
}

#[tokio::test]
async fn each_algorithm_is_taken_with_its_own_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let pairs = [secret("s", 1), rsa("r"), curve("c"), edwards("e")];
    write(&file, &pairs.each_ref());
    let server = start(options(KeySource::File(file))).await;
    for pair in &pairs {
        let answer = ask(&server, READ, &pair.good()).await;
        assert_eq!(answer.status, 200, "{:?}: {answer:?}", pair.algorithm);
        assert_eq!(answer.json()["items"][0], "ann:10");
        // The same signature under the id of every other key.
        for other in &pairs {
            let header = json!({"alg": pair.algorithm, "kid": other.id});
            let answer = ask(&server, READ, &pair.sign_with(&header, &claims(json!({})))).await;
            let expected = if other.id == pair.id { 200 } else { 401 };
            assert_eq!(answer.status, expected, "{} as {}", pair.id, other.id);
        }
    }
    // The public key of RSA, taken for a secret.
    let (_, public, others) = (&pairs[0], &pairs[1], &pairs[2..]);
    let modulus = URL_SAFE_NO_PAD
        .decode(public.jwk["n"].as_str().unwrap())
        .unwrap();
    for bytes in [modulus, public.jwk.to_string().into_bytes()] {
        let confused = Pair {
            algorithm: Algorithm::HS256,
            id: "r",
            signs: EncodingKey::from_secret(&bytes),
            jwk: Value::Null,
        };
        assert_eq!(ask(&server, READ, &confused.good()).await.status, 401);
    }
    assert_eq!(others.len(), 2);
}

#[tokio::test]
async fn bad_tokens_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let (pair, stranger) = (secret("s", 1), secret("s", 2));
    write(&file, &[&pair]);
    let server = start(options(KeySource::File(file))).await;
    let good = pair.good();
    assert_eq!(ask(&server, READ, &good).await.status, 200);
    let (head, rest) = good.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let none = text(b"{\"alg\":\"none\",\"kid\":\"s\"}");
    let richer = text(claims(json!({"scope": "admin"})).to_string().as_bytes());
    let with = |changes: Value| pair.sign(&claims(changes));
    let headed = |header: Value| pair.sign_with(&header, &claims(json!({})));
    let own_key = json!({"alg": "HS256", "kid": "s", "jwk": stranger.jwk});
    let fetched = json!({"alg": "HS256", "kid": "x", "jku": "http://127.0.0.1:1/keys",
        "x5u": "http://127.0.0.1:1/cert"});
    let refused = [
        ("empty", String::new()),
        ("no JWT", "abc".to_owned()),
        ("two parts", format!("{head}.{payload}")),
        ("four parts", format!("{good}.x")),
        ("none", format!("{none}.{payload}.")),
        (
            "none with a signature",
            format!("{none}.{payload}.{signature}"),
        ),
        ("no signature", format!("{head}.{payload}.")),
        ("another payload", format!("{head}.{richer}.{signature}")),
        ("another secret", stranger.good()),
        (
            "its own key",
            stranger.sign_with(&own_key, &claims(json!({}))),
        ),
        ("its own address of keys", headed(fetched)),
        ("None", headed(json!({"alg": "None", "kid": "s"}))),
        ("HS512", headed(json!({"alg": "HS512", "kid": "s"}))),
        (
            "RS256 by a secret",
            headed(json!({"alg": "RS256", "kid": "s"})),
        ),
        (
            "unknown key",
            headed(json!({"alg": "HS256", "kid": "other"})),
        ),
        ("no algorithm", headed(json!({"kid": "s"}))),
        ("expired", with(json!({"exp": now() - 100}))),
        ("without exp", with(json!({"exp": null}))),
        ("exp as text", with(json!({"exp": "never"}))),
        ("not yet", with(json!({"nbf": now() + 100}))),
        (
            "other issuer",
            with(json!({"iss": "https://other.example"})),
        ),
        ("no issuer", with(json!({"iss": null}))),
        (
            "several issuers",
            with(json!({"iss": ["https://other.example", "https://issuer.example"]})),
        ),
        ("other audience", with(json!({"aud": "other"}))),
        ("no audience", with(json!({"aud": null}))),
        ("empty tenant", with(json!({"tenant_id": ""}))),
        ("tenant of another type", with(json!({"tenant_id": 7}))),
        ("oversized", with(json!({"x": "x".repeat(MAX_TOKEN)}))),
    ];
    for (name, token) in refused {
        let answer = ask(&server, READ, &token).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (401, "UNAUTHENTICATED"),
            "{name}"
        );
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer"), "{name}");
    }
    for header in [
        String::new(),
        format!("Authorization: {good}\r\n"),
        format!("Authorization: Basic {good}\r\n"),
        format!("Authorization: Bearer {good}\r\nAuthorization: Bearer {good}\r\n"),
        format!("X-Authorization: Bearer {good}\r\n"),
    ] {
        let answer = server.ask(READ, &header, "").await;
        assert_eq!(answer.code(), "UNAUTHENTICATED", "{header}");
    }
    // Not in the address, and headers that name keys are not looked at.
    let answer = server
        .get(&format!("/api/v1/things?access_token={good}"))
        .await;
    assert_eq!(answer.status, 401);
    let named = json!({"alg": "HS256", "kid": "s", "jku": "http://127.0.0.1:1/keys"});
    assert_eq!(ask(&server, READ, &headed(named)).await.status, 200);
}

#[tokio::test]
async fn tokens_with_any_crit_or_from_the_future_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let pair = secret("s", 1);
    write(&file, &[&pair]);
    let server = start(options(KeySource::File(file))).await;
    let with = |changes: Value| pair.sign(&claims(changes));
    let headed = |header: Value| pair.sign_with(&header, &claims(json!({})));
    let refused = [
        (
            "crit",
            headed(json!({"alg": "HS256", "kid": "s", "crit": ["x"], "x": 1})),
        ),
        (
            "empty crit",
            headed(json!({"alg": "HS256", "kid": "s", "crit": []})),
        ),
        (
            "crit without a value",
            headed(json!({"alg": "HS256", "kid": "s", "crit": null})),
        ),
        (
            "crit as text",
            headed(json!({"alg": "HS256", "kid": "s", "crit": "exp"})),
        ),
        (
            "crit of what is known",
            headed(json!({"alg": "HS256", "kid": "s", "crit": ["alg"]})),
        ),
        (
            "crit in capitals",
            headed(json!({"alg": "HS256", "kid": "s", "Crit": ["x"]})),
        ),
        ("issued in the future", with(json!({"iat": now() + 100}))),
        ("issued as text", with(json!({"iat": "today"}))),
        ("not yet, as text", with(json!({"nbf": "tomorrow"}))),
    ];
    for (name, token) in refused {
        let answer = ask(&server, READ, &token).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (401, "UNAUTHENTICATED"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn clocks_may_differ_by_the_leeway() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let pair = secret("s", 1);
    write(&file, &[&pair]);
    let server = start(options(KeySource::File(file))).await;
    for name in ["iat", "nbf"] {
        let soon = pair.sign(&claims(json!({ name: now() + 5 })));
        assert_eq!(ask(&server, READ, &soon).await.status, 200, "{name}");
    }
}

#[tokio::test]
async fn a_tenant_can_be_required() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let pair = secret("s", 1);
    write(&file, &[&pair]);
    let required = JwtOptions {
        require_tenant: true,
        ..options(KeySource::File(file))
    };
    let server = start(required).await;
    for (changes, status) in [
        (json!({"tenant_id": "acme"}), 200),
        (json!({}), 401),
        (json!({"tenant_id": ""}), 401),
        (json!({"scope": "admin"}), 401),
    ] {
        let token = pair.sign(&claims(changes.clone()));
        let answer = ask(&server, READ, &token).await;
        assert_eq!(answer.status, status, "{changes}");
    }
    let null = claims(json!({}))
        .to_string()
        .replacen('{', "{\"tenant_id\":null,", 1);
    let null: Value = serde_json::from_str(&null).unwrap();
    assert_eq!(ask(&server, READ, &pair.sign(&null)).await.status, 401);
}

/// Keys that are old at once, so that each request must read them first.
const NEVER_OLD: Rotation = Rotation {
    min_interval: Duration::ZERO,
    max_age: Duration::ZERO,
};

fn strict(source: KeySource, grace: Duration) -> JwtOptions {
    JwtOptions {
        rotation: Some(NEVER_OLD),
        grace,
        ..options(source)
    }
}

#[tokio::test]
async fn a_key_that_was_taken_away_fails_the_first_request_that_finds_keys_old() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let (old, new) = (secret("old", 1), secret("new", 2));
    write(&file, &[&old, &new]);
    let source = KeySource::File(file.clone());
    let server = start(strict(source, Duration::from_secs(3600))).await;
    assert_eq!(ask(&server, READ, &old.good()).await.status, 200);
    write(&file, &[&new]);
    assert_eq!(ask(&server, READ, &old.good()).await.status, 401);
    // Another key under the same name.
    write(&file, &[&secret("new", 3)]);
    assert_eq!(ask(&server, READ, &new.good()).await.status, 401);
}

/// Both kinds of source are read often enough for a key to end within 30 s.
#[test]
fn keys_are_never_older_than_half_a_minute() {
    for source in ["keys.json", "https://issuer.example/keys"] {
        let rotation = Rotation::of(&KeySource::parse(source));
        // And five seconds for fetching.
        assert!(rotation.max_age <= Duration::from_secs(25), "{source}");
        assert!(rotation.min_interval <= rotation.max_age);
    }
}

#[tokio::test]
async fn keys_that_cannot_be_read_are_told_and_end_after_their_grace() {
    let folder = tempfile::tempdir().unwrap();
    for broken in ["{", "{\"keys\": []}", ""] {
        for (grace, status) in [(Duration::from_secs(3600), 200), (Duration::ZERO, 401)] {
            let file = folder.path().join("keys.json");
            let pair = secret("s", 1);
            write(&file, &[&pair]);
            let auth = Auth::jwt(strict(KeySource::File(file.clone()), grace));
            let auth = auth.await.unwrap();
            let setup = Setup {
                auth: Some(auth.clone()),
                ..Setup::default()
            };
            let server = setup.start().await;
            assert_eq!(server.get("/health/ready").await.status, 200);
            match broken {
                "" => std::fs::remove_file(&file).unwrap(),
                text => std::fs::write(&file, text).unwrap(),
            }
            assert_eq!(ask(&server, READ, &pair.good()).await.status, status);
            let ready = server.get("/health/ready").await;
            let text = String::from_utf8(ready.body.clone()).unwrap();
            assert!(text.contains("/auth_keys"), "{text}");
            assert!(
                !text.contains("keys.json"),
                "the place is for the log: {text}"
            );
            assert_eq!(ready.status, if status == 200 { 200 } else { 503 });
            let figures = auth.figures();
            let mut failures = figures.iter();
            let failures = failures.find(|it| it.name == "windlass_auth_keys_failures_total");
            assert!(failures.is_some_and(|it| it.value > 0), "{figures:?}");
            // Readiness recovers once the key file is there again.
            write(&file, &[&pair]);
            assert_eq!(ask(&server, READ, &pair.good()).await.status, 200);
            let ready = server.get("/health/ready").await;
            assert_eq!(ready.json(), json!({"status": "ready"}));
        }
    }
}

/// Reads a stream of events to its end.
async fn watched(server: &Running, token: &str, begun: impl FnOnce()) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = server.connect().await;
    let request =
        format!("GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = String::new();
    let mut buffer = [0; 1024];
    let mut begun = Some(begun);
    while !seen.ends_with("0\r\n\r\n") {
        let reading = tokio::time::timeout(common::LONG, stream.read(&mut buffer)).await;
        let count = reading.expect("the stream ends").unwrap();
        assert!(count > 0, "it broke off: {seen}");
        seen.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        if seen.contains("event: first")
            && let Some(begun) = begun.take()
        {
            begun();
        }
    }
    seen
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let pair = secret("s", 1);
    write(&file, &[&pair]);
    let server = start(options(KeySource::File(file))).await;
    let token = pair.sign(&claims(json!({"exp": now() + 2})));
    let seen = watched(&server, &token, || {}).await;
    assert!(seen.contains("event: expired\n"), "{seen}");
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let (pair, other) = (secret("s", 1), secret("s", 2));
    write(&file, &[&pair]);
    let options = JwtOptions {
        rotation: Some(Rotation {
            min_interval: Duration::ZERO,
            max_age: Duration::from_millis(50),
        }),
        ..options(KeySource::File(file.clone()))
    };
    let server = start(options).await;
    let replace = || write(&file, &[&other]);
    let seen = watched(&server, &pair.good(), replace).await;
    assert!(seen.contains("event: expired\n"), "{seen}");
}

#[tokio::test]
async fn a_token_of_the_largest_size_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let pair = secret("s", 1);
    write(&file, &[&pair]);
    let server = start(options(KeySource::File(file))).await;
    // Base64 skips one length in four.
    let sized = |padding: usize| pair.sign(&claims(json!({"x": "x".repeat(padding)})));
    let largest = (0..MAX_TOKEN)
        .rev()
        .map(sized)
        .find(|token| token.len() <= MAX_TOKEN)
        .unwrap();
    assert!(largest.len() > MAX_TOKEN - 3, "{}", largest.len());
    assert_eq!(ask(&server, READ, &largest).await.status, 200);
}

#[tokio::test]
async fn a_scope_is_needed_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let pair = secret("s", 1);
    write(&file, &[&pair]);
    let server = start(options(KeySource::File(file))).await;
    let routes = [
        ("GET /api/v1/things", "workflows:read"),
        ("DELETE /api/v1/things/a", "workflows:manage"),
        ("DELETE /api/v1/things", "admin"),
    ];
    for (line, needed) in routes {
        for held in [
            "",
            "workflows:read",
            "workflows:execute",
            "workflows:manage",
            "admin",
        ] {
            let listed = pair.sign(&claims(json!({"scope": null, "scp": [held, "else"]})));
            let spaced = pair.sign(&claims(json!({"scope": format!("else {held}")})));
            for token in [listed, spaced] {
                let answer = ask(&server, line, &token).await;
                if held == needed || held == "admin" {
                    assert!(answer.status < 300, "{line} with {held}");
                } else {
                    assert_eq!(answer.status, 403, "{line} with {held}");
                    assert_eq!(answer.code(), "FORBIDDEN");
                    let message = answer.json()["error"]["message"].to_string();
                    assert!(message.contains(needed), "{message}");
                }
            }
        }
    }
    for path in ["/api/docs", "/api/openapi.json"] {
        assert_eq!(server.get(path).await.status, 200);
    }
}

#[tokio::test]
async fn keys_of_a_file_rotate() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let (old, new) = (secret("old", 1), secret("new", 2));
    write(&file, &[&old]);
    let server = start(options(KeySource::File(file.clone()))).await;
    assert_eq!(ask(&server, READ, &old.good()).await.status, 200);
    assert_eq!(ask(&server, READ, &new.good()).await.status, 401);
    // A file that cannot be read changes nothing.
    std::fs::write(&file, "{").unwrap();
    assert_eq!(ask(&server, READ, &new.good()).await.status, 401);
    assert_eq!(ask(&server, READ, &old.good()).await.status, 200);
    write(&file, &[&new]);
    assert_eq!(ask(&server, READ, &new.good()).await.status, 200);
    assert_eq!(ask(&server, READ, &old.good()).await.status, 401);
}

#[tokio::test]
async fn keys_of_an_address_rotate_and_stay_while_it_is_away() {
    use std::sync::{Arc, Mutex};
    let (old, new) = (secret("old", 1), curve("new"));
    let answer = Arc::new(Mutex::new((200, json!({"keys": [old.jwk]}).to_string())));
    let shown = Arc::clone(&answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback(move || {
        let (status, text) = shown.lock().unwrap().clone();
        async move { (http::StatusCode::from_u16(status).unwrap(), text) }
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let source = KeySource::parse(&format!("http://{address}/keys"));
    let server = start(options(source)).await;
    assert_eq!(ask(&server, READ, &old.good()).await.status, 200);
    for (status, text) in [(500, ""), (200, "{}"), (302, "")] {
        *answer.lock().unwrap() = (status, text.to_owned());
        assert_eq!(ask(&server, READ, &new.good()).await.status, 401);
        assert_eq!(ask(&server, READ, &old.good()).await.status, 200);
    }
    *answer.lock().unwrap() = (200, json!({"keys": [new.jwk]}).to_string());
    assert_eq!(ask(&server, READ, &new.good()).await.status, 200);
    assert_eq!(ask(&server, READ, &old.good()).await.status, 401);
}

#[tokio::test]
async fn a_minted_token_works() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dev/keys.json");
    let minting = Minting {
        subject: "dev".to_owned(),
        tenant: Some("acme".to_owned()),
        scopes: vec![TokenScope::Read],
        lifetime: Duration::from_secs(60),
        issuer: Some("https://issuer.example".to_owned()),
        audience: Some("windlass".to_owned()),
    };
    let token = mint(&file, &minting).unwrap();
    let made = std::fs::read(&file).unwrap();
    let server = start(options(KeySource::File(file.clone()))).await;
    let answer = ask(&server, READ, &token).await;
    assert_eq!(answer.json()["items"][0], "dev:10");
    assert_eq!(
        ask(&server, "DELETE /api/v1/things", &token).await.status,
        403
    );
    // A second one is signed with the same key.
    let again = mint(&file, &minting).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), made);
    assert_eq!(ask(&server, READ, &again).await.status, 200);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
    let public = folder.path().join("public.json");
    write(&public, &[&edwards("e")]);
    assert!(mint(&public, &minting).is_err());
}

#[tokio::test]
async fn a_token_has_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let pair = secret("s", 1);
    write(&file, &[&pair]);
    let gate = GateOptions {
        token_rate: Budget::per_minute(1, 3),
        read_rate: Budget::per_minute(1, 2),
        workflow_rate: Budget::per_minute(1, 1),
        ..GateOptions::default()
    };
    let setup = Setup {
        auth: Some(Auth::jwt(options(KeySource::File(file))).await.unwrap()),
        gate,
        ..Setup::default()
    };
    let server = setup.start().await;
    let token = pair.good();
    for remaining in ["1", "0"] {
        let answer = ask(&server, READ, &token).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(remaining));
    }
    let answer = ask(&server, READ, &token).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (429, "RATE_LIMITED")
    );
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    // Reading uses up nothing of what the token may change.
    let changed = server
        .ask(
            "POST /api/v1/things/r",
            &format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"),
            "{\"name\":\"x\"}",
        )
        .await;
    assert_ne!(changed.status, 429);
    // Another token has its own; one that is refused has none and uses up none.
    let other = pair.sign(&claims(json!({"sub": "bob", "scope": "workflows:execute"})));
    let make = async |id: &str| {
        let headers =
            format!("Authorization: Bearer {other}\r\nContent-Type: application/json\r\n");
        let line = format!("POST /api/v1/things/{id}");
        server.ask(&line, &headers, "{\"name\":\"x\"}").await
    };
    assert_eq!(make("w").await.status, 202);
    let answer = make("w").await;
    assert_eq!(answer.status, 429, "a workflow has its own rate");
    assert_eq!(answer.header("x-ratelimit-limit"), Some("1"));
    assert_eq!(
        ask(&server, READ, "x").await.header("x-ratelimit-limit"),
        None
    );
}
