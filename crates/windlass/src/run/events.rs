//! What happens to a run, as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{BoxStream, Stream, StreamExt as _, unfold};
pub use windlass_engine::history::PublicEvent as RunEvent;
use windlass_engine::{RunEventStream, StreamItem};

use super::{ReadError, RunHandle};

/// The events of a run: those there are, then those that come, until it has ended.
#[must_use = "a stream does nothing unless it is read"]
pub struct Events(BoxStream<'static, Result<Arc<RunEvent>, ReadError>>);

impl Events {
    /// The next event; nothing once the run has ended and all of it was given.
    pub async fn next(&mut self) -> Option<Result<Arc<RunEvent>, ReadError>> {
        self.0.next().await
    }
}

impl Stream for Events {
    type Item = Result<Arc<RunEvent>, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

struct Reader {
    handle: RunHandle,
    stream: Option<RunEventStream>,
    position: u64,
}

impl RunHandle {
    /// The run's events from its beginning, as they become durable.
    pub fn events(&self) -> Events {
        self.events_after(0)
    }

    /// The run's events after a position, which is where another reader has stopped.
    pub fn events_after(&self, position: u64) -> Events {
        let reader = Reader {
            handle: self.clone(),
            stream: None,
            position,
        };
        Events(unfold(Some(reader), next).boxed())
    }
}

async fn next(
    reader: Option<Reader>,
) -> Option<(Result<Arc<RunEvent>, ReadError>, Option<Reader>)> {
    let mut reader = reader?;
    loop {
        let (engine, run) = (reader.handle.engine.inner(), reader.handle.run);
        let position = reader.position;
        let stream = reader
            .stream
            .get_or_insert_with(|| engine.event_stream(run, position));
        match stream.next().await {
            StreamItem::Event(event) => {
                reader.position = event.position;
                return Some((Ok(event), Some(reader)));
            }
            // The events that were dropped are read from the log.
            StreamItem::Lagged => reader.stream = None,
            StreamItem::Ended => return None,
            StreamItem::Failed(reason) => {
                return Some((Err(ReadError::Unreadable(reason)), None));
            }
        }
    }
}
