//! Opening a data directory: making it, checking it, and the connections' settings.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use windlass_store::{Error, crash};

use crate::acknowledged::{self, LogVerdict};
use crate::error::{Fault, damaged_file, from_io, from_sqlite};
use crate::files::{sync_directory, sync_failed};
use crate::journal::Journal;
use crate::mark::{self, Mark};
use crate::migrate;
use crate::private;
use crate::reader_gate::ReaderGate;
use crate::wal::{self, PAGE, Scan};
use crate::writer::Handle;

/// The database's file name, which is also how damage in it is named.
pub(crate) const DATABASE: &str = "windlass.db";
const DATABASE_LOG: &str = "windlass.db-wal";

/// "Wndl", at a fixed place in the file's header.
pub(crate) const APPLICATION_ID: u32 = 0x576e_646c;
/// Counts changes of `schema.sql`.
pub(crate) const SCHEMA_VERSION: u32 = 8;

/// A log longer than this is copied into the database by the writer as its first work, so
/// that opening it the next time reads little. Reading need not wait for it.
const CHECKPOINT_FRAMES_AT_OPEN: u64 = 1024;

/// Prepared statements a connection keeps; there are fewer than this.
const STATEMENTS: usize = 128;

/// The files of a data directory.
pub(crate) struct Layout {
    pub(crate) directory: PathBuf,
    pub(crate) database: PathBuf,
    pub(crate) log: PathBuf,
}

impl Layout {
    pub(crate) fn of(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            database: directory.join(DATABASE),
            log: directory.join(DATABASE_LOG),
        }
    }
}

/// Makes the directory if it is missing and `create` is set.
pub(crate) fn prepare_directory(directory: &Path, create: bool) -> Result<(), Error> {
    match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Error::Unavailable(format!(
            "{} is not a directory",
            directory.display()
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if !create {
                return Err(missing(directory));
            }
            private::create_data_directory(directory).map_err(|error| from_io(directory, &error))
        }
        Err(error) => Err(from_io(directory, &error)),
    }
}

/// There is no data directory of ours.
pub(crate) fn missing(directory: &Path) -> Error {
    Error::NotFound(format!("no data directory at {}", directory.display()))
}

/// Makes an empty database under another name and renames it: it is there whole, or not.
pub(crate) fn create_database(layout: &Layout, durable: bool) -> Result<(), Error> {
    if layout.log.exists() {
        let reason = "there is a write-ahead log but no database".into();
        return Err(damaged_file(DATABASE, 0, reason));
    }
    if Mark::read(&layout.directory).is_some_and(|mark| mark.frames > 0) {
        let reason = format!("there is no database, but {} tells of one", mark::NAME);
        return Err(damaged_file(DATABASE, 0, reason));
    }
    let temporary = layout.directory.join("windlass.db.new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(from_io(&temporary, &error));
        }
        _ => {}
    }
    // SQLite gives the log the rights that the database has.
    private::create(&temporary).map_err(|error| from_io(&temporary, &error))?;
    write_schema(&temporary).map_err(|error| from_sqlite(&error))?;
    if durable {
        File::open(&temporary)
            .and_then(|file| file.sync_all())
            .map_err(|error| sync_failed(&temporary, &error))?;
    }
    crash::point("before-create");
    fs::rename(&temporary, &layout.database).map_err(|error| from_io(&layout.database, &error))?;
    crash::point("after-create");
    if durable {
        sync_directory(&layout.directory)?;
    }
    Ok(())
}

fn write_schema(path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = {PAGE};
         PRAGMA auto_vacuum = INCREMENTAL;
         PRAGMA locking_mode = EXCLUSIVE;
         PRAGMA synchronous = OFF;
         PRAGMA journal_mode = WAL;
         BEGIN;
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA_VERSION};
         {}
         COMMIT;",
        include_str!("schema.sql")
    ))?;
    connection.close().map_err(|(_, error)| error)
}

/// Checks the database's first bytes, so that a foreign, newer or cut file is named as such
/// and left untouched. Only the holder of the lock may call this: closing the file drops
/// the locks that other connections of this process have on it.
pub(crate) fn check_header(layout: &Layout, scan: Scan) -> Result<(), Error> {
    let path = &layout.database;
    let mut header = [0; 100];
    let mut file = File::open(path).map_err(|error| from_io(path, &error))?;
    let length = file
        .metadata()
        .map_err(|error| from_io(path, &error))?
        .len();
    if length < PAGE as u64 {
        let reason = format!("the file ends after {length} bytes");
        return Err(damaged_file(DATABASE, length, reason));
    }
    file.read_exact(&mut header)
        .map_err(|error| from_io(path, &error))?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if header[..16] != *b"SQLite format 3\0" {
        let reason = "the file does not begin like a database".into();
        return Err(damaged_file(DATABASE, 0, reason));
    }
    check_identity(word(68), word(60))?;
    if usize::from(u16::from_be_bytes([header[16], header[17]])) != PAGE {
        let reason = "the page size is not ours".into();
        return Err(damaged_file(DATABASE, 16, reason));
    }
    // While the log holds commits, a crash in the middle of copying it is repaired from it.
    let expected = u64::from(word(28)) * PAGE as u64;
    if scan.committed == 0 && (length % PAGE as u64 != 0 || length < expected) {
        let reason = format!("the file ends after {length} bytes, not {expected}");
        return Err(damaged_file(DATABASE, length, reason));
    }
    Ok(())
}

fn check_identity(application: u32, version: u32) -> Result<(), Error> {
    if application != APPLICATION_ID {
        let reason = "the database is not one of Windlass".into();
        return Err(damaged_file(DATABASE, 68, reason));
    }
    if version > SCHEMA_VERSION {
        return Err(Error::TooNew(format!(
            "{DATABASE} has schema version {version}; this program knows {SCHEMA_VERSION}"
        )));
    }
    Ok(())
}

/// Reads the log and holds it against what was acknowledged. Only the holder of the lock may
/// call this.
pub(crate) fn check_log(layout: &Layout) -> Result<Scan, Error> {
    let scan = wal::scan(&layout.log)?;
    if verdict(layout, &scan)? == LogVerdict::Superseded {
        mark::forget(&layout.directory)?;
    }
    Ok(scan)
}

/// The same for a process that only reads, and changes nothing.
pub(crate) fn look_at_log(layout: &Layout) -> Result<Scan, Error> {
    let scan = wal::scan(&layout.log)?;
    verdict(layout, &scan)?;
    Ok(scan)
}

fn verdict(layout: &Layout, scan: &Scan) -> Result<LogVerdict, Error> {
    let mark = Mark::read(&layout.directory);
    let name = wal::name(&layout.log);
    acknowledged::check(scan, mark.as_ref(), &name, &layout.database)
}

/// Opens the writing connection and starts the writer on it.
pub(crate) fn start_writer(
    layout: &Layout,
    scan: Scan,
    gate: Arc<ReaderGate>,
    durable: bool,
) -> Result<Handle, Error> {
    let opened = open_writer(layout, scan, gate, durable);
    let (connection, journal) = opened.map_err(Fault::into_error)?;
    let checkpoint = scan.committed > CHECKPOINT_FRAMES_AT_OPEN;
    Handle::start(connection, journal, checkpoint)
}

/// Brings an older database to the present schema, for a store that only reads. Only the
/// holder of the lock may call this.
pub(crate) fn migrate_only(layout: &Layout) -> Result<(), Error> {
    let scan = check_log(layout)?;
    check_header(layout, scan)?;
    let opened = open_writer(layout, scan, Arc::default(), true).map_err(Fault::into_error)?;
    drop(opened);
    Ok(())
}

fn open_writer(
    layout: &Layout,
    scan: Scan,
    gate: Arc<ReaderGate>,
    durable: bool,
) -> Result<(Connection, Journal), Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&layout.database, flags)?;
    settings(&connection)?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {};
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA cache_size = -4096;",
        if durable { "FULL" } else { "OFF" }
    ))?;
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Error::Unavailable(format!("the journal's mode is {mode}, not wal")).into());
    }
    check_versions(&connection)?;
    migrate::migrate(&connection)?;
    let journal = Journal::watch(&mut connection, &layout.log, &scan, gate, durable)?;
    Ok((connection, journal))
}

/// Opens a reading connection.
pub(crate) fn open_reader(database: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    settings(&connection)?;
    Ok(connection)
}

/// The settings of every connection.
fn settings(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_timeout(Duration::from_secs(5))?;
    // Closing leaves the log as long as it is: the next process continues in it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;")
}

/// Checks what the log may say newer than the file's header.
pub(crate) fn check_versions(connection: &Connection) -> Result<(), Fault> {
    let number = |name: &str| {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
    };
    let application = u32::try_from(number("application_id")?).unwrap_or(0);
    let version = migrate::version(connection)?;
    Ok(check_identity(application, version)?)
}
