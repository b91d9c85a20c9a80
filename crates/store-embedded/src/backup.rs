//! Backup of a live store into one file, and restoring it.
//!
//! The file begins with a magic line, then holds entries, the database first: the name's
//! length (2 bytes) and the name, the content's length (8 bytes, all little-endian), the
//! content, and its SHA-256. An entry with an empty name ends it; its content is the SHA-256
//! of all the entries' digests, so that a cut, reordered or damaged file is recognised.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use sha2::{Digest as _, Sha256};
use windlass_core::Digest;
use windlass_store::{Blobs as _, Error, Wait as _, crash};

use crate::connect::{self, DATABASE, Layout};
use crate::error::{Fault, from_io};
use crate::files::{sync_directory, sync_failed};
use crate::wal::{PAGE, Scan};
use crate::{EmbeddedStore, blob, codec, private};

const MAGIC: &[u8; 16] = b"windlass-backup1";

/// The length of the content of the entry that ends it.
const END: u64 = 32;

/// Pages copied between reports of progress.
const STEP: i32 = 1024;

/// Called with the bytes done and the bytes in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

impl EmbeddedStore {
    /// Writes everything that is stored now into one new file, while other callers go on
    /// writing. After an error, or a crash, there is no such file or one that [`restore`]
    /// refuses.
    pub fn backup(&self, file: &Path, progress: Progress<'_>) -> Result<(), Error> {
        let target = private::options()
            .write(true)
            .create_new(true)
            .open(file)
            .map_err(|error| from_io(file, &error))?;
        let snapshot = beside(file, "snapshot");
        let _kept = self.keep_files();
        let result = self.write_backup(file, target, &snapshot, progress);
        let _ = fs::remove_file(&snapshot);
        if result.is_err() {
            let _ = fs::remove_file(file);
        }
        result
    }

    /// A large value, also if its run was forgotten since the backup began.
    fn large_value(&self, digest: &Digest) -> Result<Vec<u8>, Error> {
        if let Some(value) = self.blob(digest).wait()? {
            return Ok(value);
        }
        let left = blob::read_file(self.directory(), digest)?;
        let sound = left.filter(|bytes| Digest::of(bytes) == *digest);
        sound.ok_or_else(|| {
            let text = "a run was forgotten by another process while it was copied; try again";
            Error::Unavailable(text.into())
        })
    }

    fn write_backup(
        &self,
        path: &Path,
        target: File,
        snapshot: &Path,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let (bytes, large) = self
            .readers()
            .read_long(|connection| copy_database(connection, snapshot, progress))
            .map_err(Fault::into_error)?;
        let total = 2 * bytes + large.iter().map(|(_, length)| length).sum::<u64>();
        let mut done = 2 * bytes;
        let failed = |error: io::Error| from_io(path, &error);
        let mut out = Container::new(BufWriter::new(target)).map_err(failed)?;
        let mut database = File::open(snapshot).map_err(|error| from_io(snapshot, &error))?;
        let length = database
            .metadata()
            .map_err(|error| from_io(snapshot, &error))?
            .len();
        out.entry(DATABASE, length, &mut database).map_err(failed)?;
        crash::point("in-backup");
        progress(done, total);
        for (digest, length) in large {
            let value = self.large_value(&digest)?;
            let name = entry_name(&digest);
            out.entry(&name, value.len() as u64, &mut &value[..])
                .map_err(failed)?;
            done += length;
            progress(done, total);
        }
        crash::point("before-backup-end");
        let file = out.end().map_err(failed)?;
        crash::point("after-backup-end");
        file.sync_all().map_err(|error| sync_failed(path, &error))?;
        sync_directory(parent(path))
    }
}

/// Restores a backup into a directory that is missing or empty. Afterwards the directory is
/// complete and verified, or unchanged.
pub fn restore(file: &Path, directory: &Path) -> Result<(), Error> {
    match fs::read_dir(directory) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                let text = format!("{} is not empty", directory.display());
                return Err(Error::Unavailable(text));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(from_io(directory, &error)),
    }
    let temporary = beside(directory, "restore");
    private::create_data_directory(&temporary).map_err(|error| from_io(&temporary, &error))?;
    let restored = unpack(file, &temporary).and_then(|()| {
        connect::check_header(&Layout::of(&temporary), Scan::default())?;
        crash::point("before-restore");
        fs::rename(&temporary, directory).map_err(|error| from_io(directory, &error))
    });
    if let Err(error) = restored {
        let _ = fs::remove_dir_all(&temporary);
        return Err(error);
    }
    sync_directory(parent(directory))
}

/// Copies the database as of now into a new file; returns its size and the large values
/// that it refers to, with their lengths.
fn copy_database(
    connection: &Connection,
    snapshot: &Path,
    progress: Progress<'_>,
) -> Result<(u64, Vec<(Digest, u64)>), Fault> {
    // While this snapshot is held, writes of other connections do not restart the copy.
    let transaction = connection.unchecked_transaction()?;
    let large = large_values(&transaction)?;
    let made = private::create(snapshot).map_err(|error| from_io(snapshot, &error));
    drop(made?);
    let mut copy = Connection::open(snapshot)?;
    copy.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;")?;
    let backup = Backup::new(&transaction, &mut copy)?;
    let values: u64 = large.iter().map(|(_, length)| length).sum();
    loop {
        match backup.step(STEP)? {
            StepResult::Done => break,
            StepResult::More => {}
            _ => return Err(Error::Unavailable("the database is busy".into()).into()),
        }
        let state = backup.progress();
        let pages = |count: i32| u64::try_from(count).unwrap_or(0) * PAGE as u64;
        let (left, all) = (pages(state.remaining), pages(state.pagecount));
        progress(all - left.min(all), 2 * all + values);
    }
    drop(backup);
    let pages: i64 = copy.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    copy.close().map_err(|(_, error)| error)?;
    let bytes = u64::try_from(pages).unwrap_or(0) * PAGE as u64;
    Ok((bytes, large))
}

fn large_values(connection: &Connection) -> Result<Vec<(Digest, u64)>, Fault> {
    let mut statement = connection
        .prepare("SELECT digest, length FROM blob WHERE bytes IS NULL ORDER BY number")?;
    let rows = statement.query_map([], |row| {
        Ok((codec::digest(row, 0)?, codec::unsigned(row.get(1)?)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The writing side of the format.
struct Container<W> {
    out: W,
    digests: Sha256,
}

impl Container<BufWriter<File>> {
    fn new(mut out: BufWriter<File>) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self {
            out,
            digests: Sha256::new(),
        })
    }

    fn entry(&mut self, name: &str, length: u64, content: &mut impl Read) -> io::Result<()> {
        self.header(name, length)?;
        let mut hasher = Sha256::new();
        let mut copied = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = content.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            self.out.write_all(&buffer[..count])?;
            copied += count as u64;
        }
        if copied != length {
            return Err(io::Error::other(format!("{name} changed its length")));
        }
        let digest: [u8; 32] = hasher.finalize().into();
        self.digests.update(name.as_bytes());
        self.digests.update(digest);
        self.out.write_all(&digest)
    }

    fn header(&mut self, name: &str, length: u64) -> io::Result<()> {
        let name_length = u16::try_from(name.len()).map_err(io::Error::other)?;
        self.out.write_all(&name_length.to_le_bytes())?;
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&length.to_le_bytes())
    }

    fn end(mut self) -> io::Result<File> {
        self.header("", END)?;
        let digest: [u8; 32] = self.digests.finalize().into();
        self.out.write_all(&digest)?;
        self.out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}

/// Reads a backup into a directory, checking everything.
fn unpack(file: &Path, directory: &Path) -> Result<(), Error> {
    let source = File::open(file).map_err(|error| from_io(file, &error))?;
    let mut source = BufReader::new(source);
    let cut = |error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => refused(file, "it is cut off"),
        _ => from_io(file, &error),
    };
    let mut magic = [0; MAGIC.len()];
    source.read_exact(&mut magic).map_err(cut)?;
    if magic != *MAGIC {
        return Err(refused(file, "it is not a backup"));
    }
    let mut digests = Sha256::new();
    let mut count = 0u64;
    loop {
        let (name, length) = read_header(&mut source).map_err(cut)?;
        if name.is_empty() {
            if length != END {
                return Err(refused(file, "it does not end where it says"));
            }
            break;
        }
        let path = entry_path(directory, &name, count == 0)
            .ok_or_else(|| refused(file, "it holds a file that does not belong in one"))?;
        let digest = unpack_entry(&mut source, &path, length, cut)?;
        if digest != read_digest(&mut source).map_err(cut)? {
            return Err(refused(
                file,
                &format!("{name} does not match its checksum"),
            ));
        }
        digests.update(name.as_bytes());
        digests.update(digest);
        count += 1;
    }
    let expected: [u8; 32] = digests.finalize().into();
    if expected != read_digest(&mut source).map_err(cut)? {
        return Err(refused(
            file,
            "the list of its parts does not match its checksum",
        ));
    }
    if count == 0 || source.read(&mut [0]).map_err(cut)? != 0 {
        return Err(refused(file, "it does not end where it says"));
    }
    sync_directory(directory)
}

fn read_header(source: &mut impl Read) -> io::Result<(String, u64)> {
    let mut length = [0; 2];
    source.read_exact(&mut length)?;
    let mut name = vec![0; usize::from(u16::from_le_bytes(length))];
    source.read_exact(&mut name)?;
    let mut length = [0; 8];
    source.read_exact(&mut length)?;
    let name = String::from_utf8_lossy(&name).into_owned();
    Ok((name, u64::from_le_bytes(length)))
}

fn read_digest(source: &mut impl Read) -> io::Result<[u8; 32]> {
    let mut digest = [0; 32];
    source.read_exact(&mut digest)?;
    Ok(digest)
}

fn unpack_entry(
    source: &mut impl Read,
    path: &Path,
    length: u64,
    cut: impl Fn(io::Error) -> Error,
) -> Result<[u8; 32], Error> {
    let failed = |error: io::Error| from_io(path, &error);
    private::create_directory(parent(path)).map_err(failed)?;
    let mut out = private::create(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut left = length;
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let part = usize::try_from(left.min(buffer.len() as u64)).unwrap_or(buffer.len());
        source.read_exact(&mut buffer[..part]).map_err(&cut)?;
        hasher.update(&buffer[..part]);
        out.write_all(&buffer[..part]).map_err(failed)?;
        left -= part as u64;
    }
    out.sync_all().map_err(|error| sync_failed(path, &error))?;
    sync_directory(parent(path))?;
    Ok(hasher.finalize().into())
}

fn entry_name(digest: &Digest) -> String {
    let name = digest.to_string();
    format!("{}/{}/{}", blob::DIRECTORY, &name[..2], &name[2..])
}

/// Where an entry goes; `None` for a name that a backup never holds, which might lead
/// out of the directory.
fn entry_path(directory: &Path, name: &str, first: bool) -> Option<PathBuf> {
    if first {
        return (name == DATABASE).then(|| directory.join(DATABASE));
    }
    let plain = name.strip_prefix(blob::DIRECTORY)?.replace('/', "");
    let digest: Digest = plain.parse().ok()?;
    (entry_name(&digest) == name).then(|| blob::file(directory, &digest))
}

fn refused(file: &Path, reason: &str) -> Error {
    Error::Unavailable(format!("{} cannot be restored: {reason}", file.display()))
}

/// A hidden name next to a path, on the same file system.
fn beside(path: &Path, purpose: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    parent(path).join(format!(".{name}.{purpose}-{}", std::process::id()))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
