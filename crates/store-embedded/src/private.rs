//! Files and directories that only their owner can open: other users of the machine must not
//! read a data directory, which also holds secrets.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Options to open a file; a file that they create is readable by its owner only.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a file, or empties it.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Makes a directory and those above it that are missing.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Makes a data directory, and those above it, which are not its own, with the usual rights.
pub(crate) fn create_data_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    create_directory(path)
}

/// Takes the rights of group and others away from a data directory that has them: one that was
/// made by hand, or by a version that did not care. A directory with anything else in it, such
/// as a project's own, keeps its rights, and only the files in it that are the store's lose
/// theirs. What cannot be changed is found by `windlass doctor`.
pub(crate) fn tighten_data_directory(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut is_ours = true;
    for entry in entries.flatten() {
        match entry.file_name().to_str() {
            Some(name) if is_own(name) => drop(tighten(&entry.path())),
            _ => is_ours = false,
        }
    }
    if is_ours {
        drop(tighten(directory));
    }
}

/// Whether a name in a data directory is one of Windlass's own.
fn is_own(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "lock",
        "blobs",
        "checkpoints",
        "control",
        "control.sock",
        "secrets.key",
        "spool",
    ];
    name.starts_with("windlass.") || NAMES.contains(&name)
}

#[cfg(unix)]
fn tighten(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = fs::symlink_metadata(path)?;
    let mode = metadata.permissions().mode();
    if metadata.is_symlink() || mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700))
}

#[cfg(not(unix))]
fn tighten(_: &Path) -> io::Result<()> {
    Ok(())
}
