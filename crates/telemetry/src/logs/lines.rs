//! The thread that writes lines. A thread that logs puts its line into a bounded queue and goes
//! on; if the queue is full because the reader is slow, the line is dropped and counted.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::metrics::Counter;

/// Lines that wait: some megabytes at most, and seconds of a busy server.
const QUEUE: usize = 8192;

/// How long an orderly shutdown waits for the reader.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

enum Item {
    Line(Vec<u8>),
    /// Answered when everything before is written.
    Flush(SyncSender<()>),
}

/// Where lines are put.
#[derive(Clone)]
pub(crate) struct Lines {
    queue: SyncSender<Item>,
    dropped: Counter,
}

impl Lines {
    /// Starts the thread; it ends when the last clone is gone.
    pub(crate) fn start(sink: Box<dyn Write + Send>, dropped: Counter) -> io::Result<Self> {
        let (queue, items) = sync_channel(QUEUE);
        thread::Builder::new()
            .name("windlass-log".into())
            .spawn(move || write_all(&items, sink))?;
        Ok(Self { queue, dropped })
    }

    /// Returns when every queued line is written, or the reader does not read in time.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        let mut flush = Item::Flush(done);
        // The queue may be full for a moment; a reader that stalls longer is not waited for.
        for _ in 0..20 {
            match self.queue.try_send(flush) {
                Ok(()) => {
                    let _ = written.recv_timeout(FLUSH_TIMEOUT);
                    return;
                }
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(again)) => {
                    flush = again;
                    thread::sleep(FLUSH_TIMEOUT / 20);
                }
            }
        }
    }
}

fn write_all(items: &Receiver<Item>, mut sink: Box<dyn Write + Send>) {
    while let Ok(item) = items.recv() {
        match item {
            // There is nowhere left to say that a line could not be written.
            Item::Line(line) => {
                let _ = sink.write_all(&line);
            }
            Item::Flush(done) => {
                let _ = sink.flush();
                let _ = done.send(());
            }
        }
    }
    let _ = sink.flush();
}

impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Item::Line(line.to_vec())).is_err() {
            self.dropped.inc();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Condvar, Mutex};

    use super::*;

    /// A sink that takes nothing until it is opened.
    #[derive(Default)]
    struct Gate {
        state: Mutex<State>,
        opened: Condvar,
    }

    #[derive(Default)]
    struct State {
        open: bool,
        written: u64,
    }

    struct Sink(Arc<Gate>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let state = self.0.state.lock().unwrap();
            let closed = |state: &mut State| !state.open;
            let mut state = self.0.opened.wait_while(state, closed).unwrap();
            state.written += 1;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_does_not_read_delays_no_writer() {
        let gate = Arc::<Gate>::default();
        let dropped = Counter::default();
        let sink = Box::new(Sink(Arc::clone(&gate)));
        let lines = Lines::start(sink, dropped.clone()).unwrap();
        let said = QUEUE as u64 + 100;
        for _ in 0..said {
            (&lines).write_all(b"line\n").unwrap();
        }
        // One line may be with the thread.
        assert!(dropped.get() >= 99, "{}", dropped.get());
        gate.state.lock().unwrap().open = true;
        gate.opened.notify_all();
        lines.flush();
        let written = gate.state.lock().unwrap().written;
        assert_eq!(written + dropped.get(), said);
    }
}
