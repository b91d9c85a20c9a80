//! Copies everything from one store to another: definitions, logs with their values, unfinished
//! runs, schedules, hooks, secrets, dead letters, claims, notes and the audit log.
//!
//! Records are appended again byte by byte, under their writers and numbers, so the chain of
//! checksums of each run must come out the same: that is how the copy is checked. The target is
//! marked until it is complete, and every step can be repeated, so a migration that was interrupted
//! goes on when it is started again.

mod check;
mod rows;
mod runs;

use windlass_core::Digest;
use windlass_store::{Backend, Error, TenantFilter, Transfer};

pub use check::fingerprint;

/// A store that can be moved.
pub trait Movable: Backend + Transfer {}

impl<S: Backend + Transfer> Movable for S {}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Runs.
    pub runs: u64,
    /// Records of runs.
    pub records: u64,
    /// Versions of definitions.
    pub definitions: u64,
    /// Schedules.
    pub schedules: u64,
    /// Hooks.
    pub hooks: u64,
    /// Secrets.
    pub secrets: u64,
    /// Pools.
    pub pools: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Entries of the audit log.
    pub audit: u64,
    /// Claims that no run of the source holds in its first record.
    pub claims: u64,
}

/// A migration that is complete.
#[derive(Clone, Copy, Debug)]
pub struct Migrated {
    /// What was copied now; what an interrupted migration had copied is not in it.
    pub copied: Copied,
    /// The digest over both stores, which are the same.
    pub digest: Digest,
}

/// Why a migration did not complete.
#[derive(Debug)]
pub enum MigrationError {
    /// A store failed.
    Store(Error),
    /// The target is not empty.
    NotEmpty(String),
    /// A process serves the source or the target.
    Served(String),
    /// Another migration into the target was interrupted.
    Other(String),
    /// The copy is not the same as the source.
    Differs(String),
}

impl From<Error> for MigrationError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Hears how far the copy is.
pub type Progress<'a> = &'a mut dyn FnMut(&Copied);

/// Copies everything. `name` says where the source is: only the same migration goes on.
///
/// # Errors
/// See [`MigrationError`]. What was copied until then stays, and the target stays marked.
pub async fn migrate(
    source: &dyn Movable,
    target: &dyn Movable,
    name: &str,
    progress: Progress<'_>,
) -> Result<Migrated, MigrationError> {
    begin(source, target, name).await?;
    let mut copied = Copied::default();
    rows::definitions(source, target, &mut copied).await?;
    runs::copy(source, target, &mut copied, progress).await?;
    rows::rest(source, target, &mut copied).await?;
    windlass_store::crash::point("migrate-verify");
    not_served(source, "source").await?;
    let (from, to) = (fingerprint(source).await?, fingerprint(target).await?);
    if from != to {
        return Err(MigrationError::Differs(format!(
            "the source has the digest {from}, the copy {to}"
        )));
    }
    target.end_migration().await?;
    Ok(Migrated {
        copied,
        digest: from,
    })
}

/// Marks the target, if this migration may go on there.
async fn begin(
    source: &dyn Movable,
    target: &dyn Movable,
    name: &str,
) -> Result<(), MigrationError> {
    if let Some(mark) = source.migration().await? {
        return Err(MigrationError::Other(mark));
    }
    not_served(source, "source").await?;
    not_served(target, "target").await?;
    match target.migration().await? {
        Some(mark) if mark == name => Ok(()),
        Some(mark) => Err(MigrationError::Other(mark)),
        None => {
            if let Some(what) = first_content(target).await? {
                return Err(MigrationError::NotEmpty(what));
            }
            Ok(target.begin_migration(name).await?)
        }
    }
}

async fn not_served(store: &dyn Movable, which: &str) -> Result<(), MigrationError> {
    let sessions = windlass_store::Leases::sessions(store).await?;
    match sessions.first() {
        None => Ok(()),
        Some(session) => Err(MigrationError::Served(format!(
            "the {which} is served by {}",
            session.process.name
        ))),
    }
}

/// Something that a store holds, if it is not empty.
async fn first_content(store: &dyn Movable) -> Result<Option<String>, Error> {
    let any = TenantFilter::Any;
    if let Some(run) = store.logged_runs(None, 1).await?.first() {
        return Ok(Some(format!("run {run}")));
    }
    if let Some(row) = store.workflows(&any).await?.first() {
        return Ok(Some(format!("workflow '{}'", row.workflow)));
    }
    let there = [
        (store.schedules(&any, None, 1).await?.len(), "a schedule"),
        (store.hooks(&any, None, 1).await?.len(), "a hook"),
        (store.secrets(&any, None, 1).await?.len(), "a secret"),
        (store.pools(&any, None, 1).await?.len(), "a pool"),
        (
            store.dead_letters(&any, None, 1).await?.len(),
            "a dead letter",
        ),
        (store.audit(&any, None, 1).await?.len(), "an audit log"),
        (store.claims(None, 1).await?.len(), "a request id"),
    ];
    let first = there.into_iter().find(|(count, _)| *count > 0);
    Ok(first.map(|(_, what)| what.to_owned()))
}
