//! The bytes of a connection, watched: what was read, whether the client reads, and a close
//! that lets the last answer arrive.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::activity::Activity;

/// How long, and for how many bytes, a client that still sends is read from after the last
/// answer. Closing before would make the system throw away the answer on its way.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 16 * 1024 * 1024;

pub(super) struct MonitoredIo<I> {
    inner: I,
    activity: Activity,
    ended: bool,
    shut: bool,
    linger: Option<Pin<Box<Sleep>>>,
    lingered: usize,
}

impl<I> MonitoredIo<I> {
    pub(super) fn new(inner: I, activity: Activity) -> Self {
        Self {
            inner,
            activity,
            ended: false,
            shut: false,
            linger: None,
            lingered: 0,
        }
    }

    fn note_write<T>(&self, result: Poll<T>) -> Poll<T> {
        self.activity.wrote(result.is_pending());
        result
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for MonitoredIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.activity.read();
        } else {
            self.ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MonitoredIo<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.note_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.note_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
            self.shut = true;
        }
        self.poll_linger(context)
    }
}

impl<I: AsyncRead + Unpin> MonitoredIo<I> {
    /// Reads and forgets until the client closes, or it has been long enough.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = [0; 16 * 1024];
        while !self.ended && self.lingered < LINGER_BYTES {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.inner).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.lingered += buffer.filled().len();
                }
                Poll::Ready(_) => self.ended = true,
                Poll::Pending => {
                    let limit = self.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
                    return limit.as_mut().poll(context).map(Ok);
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
