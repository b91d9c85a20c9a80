//! A server on loopback that asks for a client certificate.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// The server, and what a client needs.
pub(crate) struct TlsServer {
    pub(crate) port: u16,
    pub(crate) ca: String,
    pub(crate) client_certificate: String,
    pub(crate) client_key: String,
}

impl TlsServer {
    pub(crate) fn start() -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let ca = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            (params.signed_by(&key, &issuer).unwrap(), key)
        };
        let (server, server_key) = signed("localhost");
        let (client, client_key) = signed("client.test");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(ca.der().to_vec())).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![CertificateDer::from(server.der().to_vec())], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = Arc::new(config);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                std::thread::spawn(move || welcome(connection, stream));
            }
        });
        Self {
            port,
            ca: ca.pem(),
            client_certificate: client.pem(),
            client_key: client_key.serialize_pem(),
        }
    }
}

/// Answers one request; a client without a certificate ends it.
fn welcome(connection: ServerConnection, stream: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
    }
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nwelcome";
    stream.get_mut().write_all(answer).ok()?;
    stream.get_mut().flush().ok()
}
