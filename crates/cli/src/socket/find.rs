//! Finding the process that holds a data directory, and whether it can be asked.
//!
//! The request is written by hand: a process of another version may answer, which speaks
//! something else than HTTP on its socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use windlass_store_embedded::Holder;

use super::{PROTOCOL, place};
use crate::access;
use crate::exit::{Exit, Failure};
use crate::remote::Server;

/// How long the holder may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(2);

/// No answer to this question is longer.
const ANSWER_BYTES: u64 = 16 * 1024;

const QUESTION: &str = "GET /holder HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[derive(Deserialize)]
struct Hello {
    protocol: u32,
}

/// The holder of a data directory as a server; nothing, if it does not listen.
///
/// # Errors
/// It is of a version that cannot be asked.
pub(crate) fn find(directory: &Path, holder: &Holder) -> Result<Option<Server>, Failure> {
    let Some(path) = place::find(directory) else {
        return Ok(None);
    };
    let asking = async { tokio::time::timeout(PATIENCE, ask(&path)).await };
    let Ok(Ok(answer)) = access::runtime()?.block_on(asking) else {
        return Ok(None);
    };
    match read(&answer) {
        Answer::None => Ok(None),
        Answer::Hello(Hello { protocol }) if protocol == PROTOCOL => {
            Ok(Some(Server::on_socket(&path, holder.clone())))
        }
        Answer::Hello(_) | Answer::Foreign => {
            let message = format!("{holder} holds the data directory and is of another version");
            Err(Failure::new(Exit::Conflict, "CONTROL_VERSION", message)
                .hint("use the same version for both, or wait until it has ended"))
        }
    }
}

async fn ask(path: &Path) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path).await?;
    stream.write_all(QUESTION.as_bytes()).await?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_BYTES).read_to_end(&mut answer).await;
    // A holder that did not read the whole request closes the connection after its answer.
    match read {
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

enum Answer {
    Hello(Hello),
    /// The holder ends, and lets no process in.
    None,
    Foreign,
}

fn read(answer: &[u8]) -> Answer {
    if answer.is_empty() || answer.starts_with(b"HTTP/1.1 503 ") {
        return Answer::None;
    }
    let text = String::from_utf8_lossy(answer);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_or(Answer::Foreign, Answer::Hello)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_asked(answer: &str) -> Option<bool> {
        match read(answer.as_bytes()) {
            Answer::Hello(hello) => Some(hello.protocol == PROTOCOL),
            Answer::Foreign => Some(false),
            Answer::None => None,
        }
    }

    #[test]
    fn only_a_holder_of_this_version_is_asked() {
        let ours = format!("HTTP/1.1 200 OK\r\nx: y\r\n\r\n{{\"protocol\":{PROTOCOL},\"x\":1}}");
        assert_eq!(is_asked(&ours), Some(true));
        let newer = "HTTP/1.1 200 OK\r\n\r\n{\"protocol\":99}";
        let old = "{\"answer\":\"refused\",\"code\":\"CONTROL_UNREADABLE\",\"v\":1}\n";
        for foreign in [newer, old, "HTTP/1.1 404 Not Found\r\n\r\n{}", "SSH-2.0 x"] {
            assert_eq!(is_asked(foreign), Some(false), "{foreign}");
        }
        for gone in ["", "HTTP/1.1 503 Service Unavailable\r\n\r\n{}"] {
            assert_eq!(is_asked(gone), None, "{gone}");
        }
    }
}
