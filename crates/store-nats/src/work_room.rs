//! How much of the work queue's stream is taken, as far as a process knows. Hand-outs, renewals and
//! removals write rows too, and the server refuses every row at the stream's limit: pushes stop
//! before it, so that what is in the queue can always be worked on.

use std::collections::VecDeque;
use std::time::Instant;

use windlass_store::Error;

use crate::error::unavailable;
use crate::layout::WORK_BYTES;
use crate::store::Inner;
use crate::table::GONE;

/// Where pushes stop.
const MOST_PUSHED: u64 = WORK_BYTES as u64 / 4 * 3;

/// Bytes of rows in the stream.
#[derive(Debug, Default)]
pub(crate) struct WorkRoom {
    items: usize,
    /// Of rows that say that an item is gone, until the server removes them.
    gone: VecDeque<(Instant, usize)>,
    all_gone: usize,
}

impl WorkRoom {
    pub(crate) fn came(&mut self, bytes: usize) {
        self.items += bytes;
    }

    pub(crate) fn left(&mut self, bytes: usize) {
        self.items = self.items.saturating_sub(bytes);
    }

    pub(crate) fn gone(&mut self, bytes: usize) {
        self.gone.push_back((Instant::now(), bytes));
        self.all_gone += bytes;
    }

    /// About so many bytes are taken: a row that says that an item is gone may have been replaced.
    fn taken(&mut self) -> usize {
        while let Some((since, bytes)) = self.gone.front()
            && since.elapsed() > GONE
        {
            self.all_gone -= bytes;
            self.gone.pop_front();
        }
        self.items + self.all_gone
    }
}

impl Inner {
    /// How many bytes may be pushed, of the so many that a caller has.
    pub(crate) async fn room_for(&self, bytes: u64) -> Result<u64, Error> {
        let known = self.items.rows().room().taken() as u64;
        if known + bytes <= MOST_PUSHED {
            return Ok(bytes);
        }
        // The count may be too high, and is when the copy is new.
        let info = self.work.stream.get_info().await;
        let info = info.map_err(|error| unavailable("the work queue does not answer", &error))?;
        Ok(MOST_PUSHED.saturating_sub(info.state.bytes))
    }
}

/// Of a push that the queue has no room for.
pub(crate) fn full() -> Error {
    Error::Full(format!(
        "the work queue holds {} MiB: it takes no more until workers have done some of it",
        MOST_PUSHED >> 20
    ))
}
