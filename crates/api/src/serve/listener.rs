//! Where connections come from: an address, or a socket in the file system. It must not know
//! what is said on them.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

pub(super) enum Listener {
    Tcp(TcpListener),
    Socket(UnixListener),
}

/// A connection that was accepted.
pub(super) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Socket(UnixStream),
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Accepted::Tcp(stream, peer))
            }
            Self::Socket(listener) => Ok(Accepted::Socket(listener.accept().await?.0)),
        }
    }

    /// What waits in the backlog; then the listener closes. Asked of the system itself, since
    /// the runtime may not have heard of them yet.
    pub(super) fn rest(self) -> Box<dyn Iterator<Item = Accepted> + Send> {
        match self {
            Self::Tcp(listener) => {
                let listener = listener.into_std().ok();
                Box::new(std::iter::from_fn(move || {
                    let (stream, peer) = listener.as_ref()?.accept().ok()?;
                    stream.set_nonblocking(true).ok()?;
                    Some(Accepted::Tcp(TcpStream::from_std(stream).ok()?, peer))
                }))
            }
            Self::Socket(listener) => {
                let listener = listener.into_std().ok();
                Box::new(std::iter::from_fn(move || {
                    let (stream, _) = listener.as_ref()?.accept().ok()?;
                    stream.set_nonblocking(true).ok()?;
                    Some(Accepted::Socket(UnixStream::from_std(stream).ok()?))
                }))
            }
        }
    }
}

impl Accepted {
    /// The address of the other end; a socket has none.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(_, peer) => Some(*peer),
            Self::Socket(_) => None,
        }
    }

    /// The address of this end.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream, _) => stream.local_addr().ok(),
            Self::Socket(_) => None,
        }
    }
}
