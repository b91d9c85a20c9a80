//! Answers that are written while the client reads them, so that a large one is never in memory
//! as a whole.
//!
//! The writer runs on a blocking thread. What it writes goes through a short channel into the
//! response's body; a client that stops reading holds the writer up until the connection's
//! write timeout ends both. An answer that fits into one part has a `Content-Length`, and its
//! failure a status. A failure after that breaks the connection off: the client must not take
//! half an answer for a whole one.

use std::io::{self, Write};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windlass_service::Failure;

use crate::error::ApiError;

/// The bytes of one part.
const PART: usize = 256 * 1024;

/// Parts that wait for the client.
const WAITING: usize = 2;

/// The body that `write` writes on a blocking thread.
///
/// # Errors
/// The writer failed within the first part.
pub(crate) async fn body(
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure> + Send + 'static,
) -> Result<Body, ApiError> {
    let (sender, mut parts) = mpsc::channel(WAITING);
    let writer = tokio::task::spawn_blocking(move || {
        let mut out = Parts {
            sender,
            part: Vec::new(),
        };
        write(&mut out)?;
        // If the client has gone, nothing is left to do.
        let _ = out.send();
        Ok(())
    });
    let first = parts.recv().await.unwrap_or_default();
    let Some(second) = parts.recv().await else {
        finished(writer).await?;
        return Ok(Body::from(first));
    };
    let begun = stream::iter([Ok(first), Ok(second)]);
    let rest = stream::poll_fn(move |context| parts.poll_recv(context)).map(Ok);
    let end = stream::once(async move {
        let ended = finished(writer).await;
        ended.map(|()| Bytes::new()).map_err(|failure| {
            tracing::warn!(code = failure.code(), "an answer broke off");
            io::Error::other(failure.message)
        })
    });
    Ok(Body::from_stream(begun.chain(rest).chain(end)))
}

async fn finished(writer: JoinHandle<Result<(), Failure>>) -> Result<(), Failure> {
    match writer.await {
        Ok(written) => written,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Cuts what is written into parts.
struct Parts {
    sender: mpsc::Sender<Bytes>,
    part: Vec<u8>,
}

impl Parts {
    fn send(&mut self) -> io::Result<()> {
        let part = std::mem::take(&mut self.part);
        self.sender
            .blocking_send(part.into())
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART - self.part.len());
        self.part.extend_from_slice(&bytes[..taken]);
        if self.part.len() == PART {
            self.send()?;
        }
        Ok(taken)
    }

    /// Parts are sent when they are full, and the last one at the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use windlass_service::FailureKind;

    use super::*;

    fn failure() -> Failure {
        Failure::new(FailureKind::OutputFailed, "the disk failed")
    }

    #[tokio::test]
    async fn a_small_answer_has_a_length_and_its_failure_a_status() {
        let whole = body(|out| {
            out.write_all(b"{}").expect("taken");
            Ok(())
        });
        let whole = whole.await;
        let whole = whole.expect("an answer");
        assert_eq!(whole.size_hint().exact(), Some(2));
        let failed = body(|out| {
            out.write_all(b"{\"half").expect("taken");
            Err(failure())
        });
        assert!(failed.await.is_err());
    }

    #[tokio::test]
    async fn a_large_answer_is_written_no_faster_than_it_is_read() {
        const ALL: usize = 64 * PART;
        let written = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written);
        let answer = body(move |out| {
            for _ in 0..ALL / 1024 {
                out.write_all(&[b'x'; 1024]).expect("taken");
                count.fetch_add(1024, Ordering::SeqCst);
            }
            Ok(())
        });
        let mut answer = answer.await.expect("an answer");
        let mut read = 0;
        while let Some(frame) = answer.frame().await {
            read += frame.expect("a part").into_data().expect("data").len();
            let ahead = written.load(Ordering::SeqCst).saturating_sub(read);
            // The two that were waited for, those in the channel, and the one in the making.
            assert!(ahead <= (WAITING + 4) * PART, "{ahead} bytes ahead");
        }
        assert_eq!(read, ALL);
    }

    #[tokio::test]
    async fn a_failure_after_the_first_part_breaks_the_answer_off() {
        let answer = body(|out| {
            out.write_all(&vec![b'x'; 3 * PART]).expect("taken");
            Err(failure())
        });
        let answer = answer.await.expect("begun");
        assert!(answer.collect().await.is_err());
    }

    #[tokio::test]
    async fn the_writer_ends_when_the_client_goes() {
        let (told, ended) = tokio::sync::oneshot::channel();
        let answer = body(move |out| {
            let all = out.write_all(&vec![b'x'; 64 * PART]);
            told.send(all.map_err(|error| error.kind())).ok();
            Ok(())
        });
        drop(answer.await.expect("begun"));
        assert_eq!(ended.await, Ok(Err(io::ErrorKind::BrokenPipe)));
    }
}
