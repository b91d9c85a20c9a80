//! TLS by certificate files.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::TlsAcceptor;

use super::options::TlsFiles;

/// Reads the files and makes of them what answers handshakes.
pub(super) fn acceptor(files: &TlsFiles) -> io::Result<TlsAcceptor> {
    let certificates = CertificateDer::pem_file_iter(&files.certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, pem::Error>>)
        .map_err(|error| wrong(&files.certificates, &error))?;
    if certificates.is_empty() {
        return Err(wrong(&files.certificates, &"there is no certificate in it"));
    }
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| wrong(&files.key, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn wrong(file: &Path, error: &dyn fmt::Display) -> io::Error {
    let message = format!("{}: {error}", file.display());
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
