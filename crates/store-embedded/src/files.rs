//! The thread that writes large values before the commit that refers to them, so that they
//! delay only their own append.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use windlass_store::{Blob, Error};

use crate::blob;
use crate::error::Fault;
use crate::queue::{self, Queue, Reply, Submitted};
use crate::writer::{Job, Outcome, Session};

/// Values to write, and where to go from there.
pub(crate) struct Parcel {
    blobs: Vec<Blob>,
    job: Box<dyn Job>,
    next: Arc<Queue<Box<dyn Job>>>,
}

/// The thread as the store sees it.
pub(crate) struct Files {
    queue: Arc<Queue<Parcel>>,
    thread: Option<JoinHandle<()>>,
}

impl Files {
    /// Starts the thread. If it cannot be started, its queue is closed, which every caller
    /// notices.
    pub(crate) fn start(directory: &Path, durable: bool) -> Self {
        let queue: Arc<Queue<Parcel>> = Arc::new(Queue::new());
        let parcels = Arc::clone(&queue);
        let directory = directory.to_owned();
        let thread = thread::Builder::new()
            .name("windlass-files".into())
            .spawn(move || {
                while let Some(waiting) = parcels.take() {
                    for parcel in waiting {
                        carry(&directory, durable, parcel);
                    }
                }
            });
        if thread.is_err() {
            queue.close();
        }
        Self {
            queue,
            thread: thread.ok(),
        }
    }

    /// Writes the values, then hands the job to the writer.
    pub(crate) fn submit<T>(
        &self,
        blobs: Vec<Blob>,
        next: Arc<Queue<Box<dyn Job>>>,
        job: impl FnOnce(Reply<T>) -> Box<dyn Job>,
    ) -> Submitted<Parcel, T> {
        let parcel = |reply| Parcel {
            blobs,
            job: job(reply),
            next,
        };
        queue::submit(&self.queue, parcel, Some)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn carry(directory: &Path, durable: bool, parcel: Parcel) {
    let written: Result<(), Error> = parcel
        .blobs
        .iter()
        .try_for_each(|blob| blob::write_file(directory, blob, durable));
    match written {
        Ok(()) => parcel.next.push_blocking(parcel.job),
        // The writer must hear of a failed sync: it is the end for everybody.
        Err(error @ Error::Fatal(_)) => parcel.next.push_blocking(Box::new(Broken {
            job: parcel.job,
            error,
        })),
        Err(error) => parcel.job.finish(Outcome::Undone(error)),
    }
}

/// A job whose value could not be synced, on its way to stop the writer.
struct Broken {
    job: Box<dyn Job>,
    error: Error,
}

impl Job for Broken {
    fn execute(&mut self, _: &mut Session<'_>) -> Result<(), Fault> {
        Err(self.error.clone().into())
    }

    fn finish(self: Box<Self>, outcome: Outcome) {
        self.job.finish(outcome);
    }
}
