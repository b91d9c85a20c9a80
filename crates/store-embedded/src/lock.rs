//! The data directory's lock: one process writes, and leaves its name in the lock's file.
//!
//! The lock is the operating system's, on a file of its own, so that it ends with the
//! process however that ends. The file's text is only for people.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use windlass_store::Error;

use crate::error::from_io;
use crate::private;

const FILE: &str = "lock";

/// The process that writes to a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id; 0 if it is not known.
    pub pid: u32,
    /// Its command and subcommand, without options.
    pub command: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            0 => f.write_str("another process"),
            pid => write!(f, "process {pid} ({})", self.command),
        }
    }
}

/// Proof that this process may write. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

/// The answer to asking for the lock.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is ours.
    Ours(Lock),
    /// Another process holds it.
    Theirs(Holder),
}

impl Lock {
    /// Takes the lock if it is free.
    pub(crate) fn take(directory: &Path) -> Result<Taken, Error> {
        let path = directory.join(FILE);
        let mut file = private::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| from_io(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {
                let text = format!("{}\n{}\n", std::process::id(), command());
                file.set_len(0)
                    .and_then(|()| file.write_all(text.as_bytes()))
                    .map_err(|error| from_io(&path, &error))?;
                Ok(Taken::Ours(Self { file }))
            }
            Err(TryLockError::WouldBlock) => Ok(Taken::Theirs(describe(&mut file))),
            Err(TryLockError::Error(error)) => Err(from_io(&path, &error)),
        }
    }

    /// The process that holds the lock now. Asking does not keep another process from taking
    /// it.
    pub(crate) fn holder(directory: &Path) -> Option<Holder> {
        let mut file = File::open(directory.join(FILE)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(describe(&mut file)),
            _ => None,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A stale name would only mislead; if it cannot be removed, the lock is still
        // released.
        let _ = self.file.set_len(0);
    }
}

fn describe(file: &mut File) -> Holder {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.parse().ok());
    Holder {
        pid: pid.filter(|_| read.is_ok()).unwrap_or(0),
        command: lines.next().unwrap_or_default().to_owned(),
    }
}

/// The program and its plain arguments up to the first option: options may carry secrets.
fn command() -> String {
    let mut arguments = std::env::args_os().map(|part| part.to_string_lossy().into_owned());
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    let mut text = name.to_string_lossy().into_owned();
    for argument in arguments.take(2).take_while(|part| !part.starts_with('-')) {
        text.push(' ');
        text.extend(argument.chars().filter(|c| !c.is_control()).take(100));
    }
    text
}
