//! TLS to the database: which certificates each `sslmode` takes. In front of the real server
//! stands one that ends TLS with a certificate of the test's own authority.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use windlass_store::Head;
use windlass_store::conformance::{must_append, record, run_id};
use windlass_store_postgres::{OpenError, PostgresStore, Settings};
use windlass_test_support::postgres::server;

/// A server with TLS: its port, and the file with its authority's certificate.
struct Encrypted {
    port: u16,
    authority: PathBuf,
    _runtime: Runtime,
}

/// The certificate names this host.
fn start(host: &str) -> Encrypted {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], secret)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, acceptor.clone()));
        }
    });
    let file =
        std::env::temp_dir().join(format!("windlass-authority-{}-{port}", std::process::id()));
    std::fs::write(&file, authority.pem()).unwrap();
    Encrypted {
        port,
        authority: file,
        _runtime: runtime,
    }
}

/// Answers the request for TLS, ends TLS, and passes the rest on.
async fn serve(mut client: TcpStream, acceptor: TlsAcceptor) -> std::io::Result<()> {
    let mut request = [0; 8];
    client.read_exact(&mut request).await?;
    assert_eq!(
        request,
        [0, 0, 0, 8, 4, 210, 22, 47],
        "it asks for TLS first"
    );
    client.write_all(b"S").await?;
    let mut client = acceptor.accept(client).await?;
    let mut upstream = TcpStream::connect(server().address()).await?;
    copy_bidirectional(&mut client, &mut upstream).await?;
    Ok(())
}

impl Encrypted {
    fn open(&self, host: &str, mode: &str, authority: bool) -> Result<PostgresStore, OpenError> {
        let url = server().at(&format!("{host}:{}", self.port));
        let settings = Settings::parse(&format!("{url}&sslmode={mode}"))
            .unwrap()
            .pool(1);
        PostgresStore::open(&match authority {
            true => settings.root_certificates(&self.authority),
            false => settings,
        })
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.authority);
    }
}

#[test]
fn a_store_works_over_tls_and_checks_what_it_is_told_to() {
    let there = start("localhost");
    for mode in ["prefer", "require"] {
        there.open("127.0.0.1", mode, false).unwrap();
    }
    let store = there.open("localhost", "verify-full", true).unwrap();
    must_append(&store, record(run_id(1), Head::NONE, 1, b"encrypted"));
    let refused = |host, mode, authority| match there.open(host, mode, authority) {
        Err(OpenError::Refused(error)) => error.to_string(),
        other => panic!("{mode} must refuse: {other:?}"),
    };
    let text = refused("127.0.0.1", "verify-full", true);
    assert!(
        text.contains("certificate") && text.contains("sslrootcert"),
        "{text}"
    );
    there.open("127.0.0.1", "verify-ca", true).unwrap();
    // The system does not know the test's authority.
    refused("localhost", "verify-full", false);
    refused("127.0.0.1", "verify-ca", false);
    let other = start("localhost");
    let text = match Settings::parse(&format!(
        "{}&sslmode=verify-ca",
        server().at(&format!("localhost:{}", there.port))
    ))
    .map(|settings| PostgresStore::open(&settings.root_certificates(&other.authority)))
    .unwrap()
    {
        Err(OpenError::Refused(error)) => error.to_string(),
        taken => panic!("another authority must be refused: {taken:?}"),
    };
    assert!(text.contains("certificate"), "{text}");
}
