//! Opening a directory whose write-ahead log was lost, once an operator has accepted that.
//!
//! Nothing here happens automatically: what the log held is gone, and restoring a backup may
//! be the better choice. The rest of the log is kept beside it under another name.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use windlass_store::{Damage, Error};

use crate::connect::{self, Layout};
use crate::error::from_io;
use crate::files::sync_directory;
use crate::lock::{Lock, Taken};
use crate::mark::{self, Mark};
use crate::{private, wal};

/// The loss that an operator accepted.
#[derive(Debug)]
pub struct AcceptedLoss {
    /// What the log lacked.
    pub damage: Damage,
    /// Where the rest of the log is kept, if there is any.
    pub kept: Option<PathBuf>,
}

/// Accepts that the write-ahead log of a data directory lost commits, so that it opens with
/// what is left; `None` if nothing is lost, and nothing is changed then. Any other damage is
/// an error.
pub fn accept_loss(directory: &Path) -> Result<Option<AcceptedLoss>, Error> {
    let layout = Layout::of(directory);
    if !layout.database.exists() {
        return Err(connect::missing(directory));
    }
    let _lock = match Lock::take(directory)? {
        Taken::Ours(lock) => lock,
        Taken::Theirs(holder) => {
            let text = format!("the data directory is in use by {holder}");
            return Err(Error::Unavailable(text));
        }
    };
    let damage = match connect::look_at_log(&layout) {
        Ok(_) => return Ok(None),
        Err(Error::Damaged(damage)) => *damage,
        Err(error) => return Err(error),
    };
    let kept = keep(&layout)?;
    if !leads_on(&layout) {
        match fs::remove_file(&layout.log) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(from_io(&layout.log, &error));
            }
            _ => {}
        }
    }
    mark::forget(directory)?;
    sync_directory(directory)?;
    Ok(Some(AcceptedLoss { damage, kept }))
}

/// Whether the commits at the beginning of the log continue what the database file holds. A
/// checkpoint that went further has copied newer pages, which these commits would hide.
fn leads_on(layout: &Layout) -> bool {
    let scan = match wal::scan_to_damage(&layout.log) {
        Ok(scan) if scan.committed > 0 => scan,
        _ => return false,
    };
    match Mark::read(&layout.directory) {
        Some(mark) if !mark.old => Some(mark.log) == scan.log && mark.touched <= scan.committed,
        _ => true,
    }
}

/// Copies the rest of the log to a name of its own.
fn keep(layout: &Layout) -> Result<Option<PathBuf>, Error> {
    if !layout.log.exists() {
        return Ok(None);
    }
    let mut number = 1;
    loop {
        let path = layout
            .directory
            .join(format!("windlass.db-wal.lost{number}"));
        match private::options().write(true).create_new(true).open(&path) {
            Ok(mut copy) => {
                let copied = fs::File::open(&layout.log)
                    .and_then(|mut log| std::io::copy(&mut log, &mut copy))
                    .and_then(|_| copy.sync_all());
                copied.map_err(|error| from_io(&path, &error))?;
                return Ok(Some(path));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(from_io(&path, &error)),
        }
    }
}
