//! The thread that writes files before the commit that refers to them, so that large values
//! and checkpoints delay only themselves; and how such a file is written.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use windlass_store::{Error, crash};

use crate::error::{Fault, from_io};
use crate::private;
use crate::queue::{self, Queue, Reply, Submitted};
use crate::space::Space;
use crate::writer::{Outcome, Session, WriteJob};

/// Where files are written before they get their names: one directory, so that files which a
/// kill left are found without searching all values.
const UNFINISHED: &str = "blobs/new";

/// Work on files: given the data directory, and whether to sync.
pub(crate) type FileWork = Box<dyn FnOnce(&Path, bool) -> Result<(), Error> + Send>;

/// Work on files, and the job that follows it.
pub(crate) struct FileJob {
    work: FileWork,
    then: Option<Onward>,
}

/// A job, and the writer's queue.
struct Onward {
    job: Box<dyn WriteJob>,
    next: Arc<Queue<Box<dyn WriteJob>>>,
}

/// The thread as the store sees it.
pub(crate) struct Files {
    queue: Arc<Queue<FileJob>>,
    thread: Option<JoinHandle<()>>,
}

impl Files {
    /// Starts the thread. If it cannot be started, its queue is closed, which every caller
    /// notices.
    pub(crate) fn start(directory: &Path, durable: bool, space: Option<Arc<Space>>) -> Self {
        let queue: Arc<Queue<FileJob>> = Arc::new(Queue::new());
        let file_jobs = Arc::clone(&queue);
        let directory = directory.to_owned();
        let thread = thread::Builder::new()
            .name("windlass-files".into())
            .spawn(move || {
                while let Some(waiting) = file_jobs.take() {
                    for file_job in waiting {
                        execute(&directory, durable, file_job, space.as_deref());
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

    /// Does the file work, then hands the job to the writer.
    pub(crate) fn submit<T>(
        &self,
        work: FileWork,
        next: Arc<Queue<Box<dyn WriteJob>>>,
        job: impl FnOnce(Reply<T>) -> Box<dyn WriteJob>,
    ) -> Submitted<FileJob, T> {
        let file_job = |reply| FileJob {
            work,
            then: Some(Onward {
                job: job(reply),
                next,
            }),
        };
        queue::submit(&self.queue, file_job, Some)
    }

    /// Does file work for which no caller waits; if the queue is full, the work is dropped.
    pub(crate) fn later(&self, work: FileWork) {
        let file_job = |_: Reply<()>| FileJob { work, then: None };
        drop(queue::submit(&self.queue, file_job, Some));
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

fn execute(directory: &Path, durable: bool, file_job: FileJob, space: Option<&Space>) {
    let done = (file_job.work)(directory, durable);
    if let (Some(space), Err(Error::Full(_))) = (space, &done) {
        space.refused_file();
    }
    let Some(Onward { job, next }) = file_job.then else {
        return;
    };
    match done {
        Ok(()) => next.push_blocking(job),
        // The writer must learn of a failed sync: the store accepts nothing after it.
        Err(error @ Error::Fatal(_)) => next.push_blocking(Box::new(Broken { job, error })),
        Err(error) => job.finish(Outcome::Undone(error)),
    }
}

/// A job whose value could not be synced, on its way to stop the writer.
struct Broken {
    job: Box<dyn WriteJob>,
    error: Error,
}

impl WriteJob for Broken {
    fn execute(&mut self, _: &mut Session<'_>) -> Result<(), Fault> {
        Err(self.error.clone().into())
    }

    fn finish(self: Box<Self>, outcome: Outcome) {
        self.job.finish(outcome);
    }
}

/// Writes a file so that after a crash it is there whole, or as it was before. The
/// directories between the data directory and it are made if they are missing.
pub(crate) fn write(
    directory: &Path,
    path: &Path,
    parts: &[&[u8]],
    durable: bool,
    [after_write, after_rename]: [&'static str; 2],
) -> Result<(), Error> {
    let Some(parent) = path.parent() else {
        return Err(Error::Unavailable("a file has no directory".into()));
    };
    if !parent.is_dir() {
        private::create_directory(parent).map_err(|error| from_io(parent, &error))?;
        if durable {
            let above = parent.ancestors().skip(1);
            for made in above.take_while(|above| above.starts_with(directory)) {
                sync_directory(made)?;
            }
        }
    }
    let temporary = unfinished(directory)?;
    let written = write_synced(&temporary, parts, durable)
        .inspect(|()| crash::point(after_write))
        .and_then(|()| fs::rename(&temporary, path).map_err(|error| from_io(path, &error)));
    crash::point(after_rename);
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    if durable {
        sync_directory(parent)
    } else {
        Ok(())
    }
}

/// A place for a file that is not whole yet.
fn unfinished(directory: &Path) -> Result<PathBuf, Error> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = directory.join(UNFINISHED);
    if !folder.is_dir() {
        private::create_directory(&folder).map_err(|error| from_io(&folder, &error))?;
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(folder.join(format!("{}.{count}", std::process::id())))
}

/// Takes a file away from its name at once, to be removed later with
/// [`remove_unfinished`]; a file that is not there is no error.
pub(crate) fn move_away(directory: &Path, path: &Path) -> Result<Option<PathBuf>, Error> {
    let moved = unfinished(directory)?;
    match fs::rename(path, &moved) {
        Ok(()) => Ok(Some(moved)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(from_io(path, &error)),
    }
}

/// Removes the files that a kill left unfinished. Only the holder of the lock may, because
/// another process may be writing its own. A file that cannot be removed does no harm, and is
/// tried again next time.
pub(crate) fn remove_unfinished(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory.join(UNFINISHED)) else {
        return;
    };
    for entry in entries.flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

fn write_synced(path: &Path, parts: &[&[u8]], durable: bool) -> Result<(), Error> {
    let mut file = private::create(path).map_err(|error| from_io(path, &error))?;
    for part in parts {
        file.write_all(part)
            .map_err(|error| from_io(path, &error))?;
    }
    if durable {
        file.sync_all().map_err(|error| sync_failed(path, &error))?;
    }
    Ok(())
}

/// Whether a file of so many bytes can be written.
pub(crate) fn try_room(directory: &Path, bytes: u64) -> io::Result<()> {
    let path = directory.join("windlass.space");
    let tried = private::create(&path).and_then(|mut file| {
        io::copy(&mut io::repeat(1).take(bytes), &mut file)?;
        // Some file systems say only now that there is no space.
        file.sync_data()
    });
    let removed = std::fs::remove_file(&path);
    tried.and(removed)
}

/// Reads at a place, in one call where the system has it.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset);
    #[cfg(not(unix))]
    {
        let mut file = file;
        io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
        file.read_exact(bytes)
    }
}

/// Writes at a place, in one call where the system has it.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(not(unix))]
    {
        let mut file = file;
        io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = File::open(path).map_err(|error| from_io(path, &error))?;
    directory
        .sync_all()
        .map_err(|error| sync_failed(path, &error))
}

pub(crate) fn sync_failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Fatal(format!("a sync of {} failed: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kill_left_unfinished_is_removed_and_nothing_else() {
        let root = tempfile::tempdir().expect("a directory");
        let points = ["after-blob-write", "after-blob-rename"];
        let whole = root.path().join("blobs/ab/cd");
        write(root.path(), &whole, &[b"whole"], false, points).expect("it is written");
        // As a kill between the writing and the renaming leaves it.
        let place = unfinished(root.path()).expect("a place");
        write_synced(&place, &[b"ha"], false).expect("half of it is written");
        remove_unfinished(root.path());
        assert!(!place.exists());
        assert_eq!(fs::read(&whole).expect("it is there"), b"whole");
    }
}
