//! Certificates, keys and tokens that a test makes for its server and its client.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa};

/// A folder of files that ends with the test.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

/// Writes an authority's certificate, and makes of it the lines that let a server use TLS under
/// this name.
pub(crate) fn tls(files: &Files, host: &str) -> (PathBuf, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = rcgen::KeyPair::generate().unwrap();
    let authority = CertifiedIssuer::self_signed(params, own).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let certificate = files.write("server.pem", &certificate.pem());
    let key = files.write("server.key", &key.serialize_pem());
    let lines = format!(
        "tls {{\n cert_file: \"{}\"\n key_file: \"{}\"\n}}",
        certificate.display(),
        key.display()
    );
    (files.write("authority.pem", &authority.pem()), lines)
}

/// A token that `by` signs: what is claimed of `about`.
fn token(by: &KeyPair, about: &KeyPair, claims: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ed25519-nkey"}"#);
    let (issuer, subject) = (by.public_key(), about.public_key());
    let body = format!(
        r#"{{"jti":"{subject}","iat":1700000000,"iss":"{issuer}","sub":"{subject}","name":"test","nats":{claims}}}"#
    );
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(body));
    let signature = URL_SAFE_NO_PAD.encode(by.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

/// An operator with one account for programs: what a server with it is told, and what makes
/// credentials of its users.
pub(crate) struct Operator {
    account: KeyPair,
    pub(crate) lines: String,
}

impl Operator {
    pub(crate) fn new() -> Self {
        let (operator, system) = (KeyPair::new_operator(), KeyPair::new_account());
        let account = KeyPair::new_account();
        let own = token(&operator, &operator, r#"{"type":"operator","version":2}"#);
        let limits = r#""subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1"#;
        let of_account = |account: &KeyPair, more: &str| {
            let claims = format!(r#"{{"limits":{{{limits}{more}}},"type":"account","version":2}}"#);
            token(&operator, account, &claims)
        };
        let storage = r#","mem_storage":-1,"disk_storage":-1,"streams":-1,"consumer":-1"#;
        let lines = format!(
            "operator: {own}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n {}: \
             {}\n {}: {}\n}}",
            system.public_key(),
            system.public_key(),
            of_account(&system, ""),
            account.public_key(),
            of_account(&account, storage),
        );
        Self { account, lines }
    }

    /// The credentials file of a new user; `expired` since long ago or good for ever.
    pub(crate) fn credentials(&self, expired: bool) -> String {
        let user = KeyPair::new_user();
        let claims =
            r#"{"pub":{},"sub":{},"subs":-1,"data":-1,"payload":-1,"type":"user","version":2}"#;
        let claims = match expired {
            // The claim stands beside `nats`, whose text comes last.
            true => format!(r#"{claims},"exp":1700000001"#),
            false => claims.to_owned(),
        };
        let token = token(&self.account, &user, &claims);
        let seed = user.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }
}

/// A file that is not there.
pub(crate) fn missing(files: &Files) -> PathBuf {
    let path: &Path = &files.path("missing");
    path.to_owned()
}
