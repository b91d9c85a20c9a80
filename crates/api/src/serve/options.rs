//! How the server listens, and its timeouts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How the server listens.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether the address is listened on; if not, probes alone are answered, where they have
    /// an address.
    pub listens: bool,
    /// Certificate and key, for TLS.
    pub tls: Option<TlsFiles>,
    /// Where probes are answered besides, on connections of their own.
    pub probe_address: Option<SocketAddr>,
    /// Connections at once; a request on more waits a while until one ends.
    pub max_connections: usize,
    /// How many of them one address, or one token's client, may hold while no other holds any,
    /// in percent.
    pub connection_share: u8,
    /// Connections besides that are kept for probes.
    pub probe_connections: usize,
    /// Requests at once on one HTTP/2 connection.
    pub max_streams: u32,
    /// How long the head of a request may take, on a new connection with the TLS handshake
    /// before it.
    pub header_timeout: Duration,
    /// How long a connection may rest between two requests.
    pub idle_timeout: Duration,
    /// How long a client may leave what was written to it unread.
    pub write_timeout: Duration,
    /// How long requests under way get to finish when the server drains.
    pub drain_timeout: Duration,
}

impl ServerOptions {
    /// The default options for an address.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            listens: true,
            tls: None,
            probe_address: None,
            max_connections: 10_000,
            connection_share: 75,
            probe_connections: 16,
            max_streams: 128,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
        }
    }

    /// The default options for a socket, whose clients are all of one user.
    #[must_use]
    pub fn for_socket() -> Self {
        Self {
            // A process that watches a run holds two.
            max_connections: 512,
            connection_share: 100,
            ..Self::new(SocketAddr::from(([127, 0, 0, 1], 0)))
        }
    }
}

/// The files of a certificate, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The chain of certificates, the server's own first.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
}
