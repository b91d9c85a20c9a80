//! Where the socket is. Paths of sockets are short (108 bytes on Linux), so that a deep
//! data directory gets one in the directory for temporary files, named in a small file.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use windlass_core::Digest;

const SOCKET: &str = "control.sock";
const POINTER: &str = "control";

/// The longest path of a socket, less the NUL that ends it.
const LONGEST: usize = 107;

/// Where a holder listens. Whatever stood there is a dead holder's, and removed.
pub(super) fn prepare(directory: &Path) -> io::Result<PathBuf> {
    let directory = directory.canonicalize()?;
    let near = directory.join(SOCKET);
    let pointer = directory.join(POINTER);
    remove(&near)?;
    if near.as_os_str().len() <= LONGEST {
        remove(&pointer)?;
        return Ok(near);
    }
    let far = elsewhere(&directory)?;
    remove(&far)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&pointer)?;
    file.write_all(far.as_os_str().as_encoded_bytes())?;
    Ok(far)
}

/// Where the holder of a data directory listens, if it does.
pub(super) fn find(directory: &Path) -> Option<PathBuf> {
    let directory = directory.canonicalize().ok()?;
    let near = directory.join(SOCKET);
    if near.exists() {
        return Some(near);
    }
    let text = fs::read_to_string(directory.join(POINTER)).ok()?;
    let far = PathBuf::from(text);
    // Only the path that derives from the directory is trusted.
    (far == elsewhere(&directory).ok()? && far.exists()).then_some(far)
}

/// A directory that only this user can enter, and a name that follows from the data
/// directory's.
fn elsewhere(directory: &Path) -> io::Result<PathBuf> {
    let digest = Digest::of(directory.as_os_str().as_encoded_bytes()).to_string();
    let folder = std::env::temp_dir().join(format!("windlass-{}", &digest[..16]));
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let path = folder.join(SOCKET);
    if path.as_os_str().len() > LONGEST {
        let message = "the path of the socket would be too long";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
