//! The other process's end: asks, and hears the answers.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use windlass_store_embedded::Holder;

use super::place;
use super::protocol::{Answer, Asked, Request, VERSION, read_line, write_line};
use crate::exit::{Exit, Failure};

/// How long the holder may take to say that it is there.
const PING_TIME: Duration = Duration::from_secs(2);

/// A way to the process that holds the data directory.
pub(crate) struct Client {
    path: std::path::PathBuf,
    holder: Holder,
}

/// A connection with a request on its way.
pub(crate) struct Conversation {
    input: BufReader<OwnedReadHalf>,
    _out: OwnedWriteHalf,
}

/// What came back.
pub(crate) enum Heard {
    Answer(Answer),
    /// The holder is gone, or stopped listening.
    Gone,
}

impl Client {
    /// Finds the holder's socket and asks whether it listens; `None` if it does not.
    pub(crate) async fn find(directory: &Path, holder: Holder) -> Option<Self> {
        let path = place::find(directory)?;
        let client = Self { path, holder };
        let pong = tokio::time::timeout(PING_TIME, client.ask(Request::Ping, &[])).await;
        match pong {
            Ok(Ok(Heard::Answer(Answer::Pong { .. }))) => Some(client),
            _ => None,
        }
    }

    /// The process that holds the data directory.
    pub(crate) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Asks, and hears the first answer; a refusal is a failure.
    pub(crate) async fn ask(&self, request: Request, bodies: &[&[u8]]) -> Result<Heard, Failure> {
        let mut conversation = match self.begin(request, bodies).await {
            Ok(conversation) => conversation,
            Err(error) if is_gone(&error) => return Ok(Heard::Gone),
            Err(error) => return Err(self.failed(&error)),
        };
        self.hear(&mut conversation).await
    }

    /// Asks; the answers are heard one by one.
    pub(crate) async fn begin(
        &self,
        request: Request,
        bodies: &[&[u8]],
    ) -> io::Result<Conversation> {
        let stream = UnixStream::connect(&self.path).await?;
        let (input, mut out) = stream.into_split();
        let asked = Asked {
            v: VERSION,
            request,
        };
        write_line(&mut out, &asked).await?;
        for body in bodies {
            out.write_all(body).await?;
        }
        Ok(Conversation {
            input: BufReader::new(input),
            _out: out,
        })
    }

    /// The next answer; a refusal is a failure.
    pub(crate) async fn hear(&self, conversation: &mut Conversation) -> Result<Heard, Failure> {
        match read_line(&mut conversation.input).await {
            Ok(Some(Answer::Refused(refused))) => Err(refused.into()),
            Ok(Some(answer)) => Ok(Heard::Answer(answer)),
            Ok(None) => Ok(Heard::Gone),
            Err(error) if is_gone(&error) => Ok(Heard::Gone),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The failure of a conversation in which something else was said than expected.
    pub(crate) fn unexpected(&self) -> Failure {
        let message = format!("{} gave an unexpected answer", self.holder);
        Failure::new(Exit::Conflict, "DATA_DIR_IN_USE", message)
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let message = format!("cannot talk to {}: {error}", self.holder);
        Failure::new(Exit::Conflict, "DATA_DIR_IN_USE", message)
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionRefused | ConnectionReset | NotFound | UnexpectedEof
    )
}
