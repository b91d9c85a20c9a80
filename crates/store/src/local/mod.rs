//! Leases, work and wake-ups of one process: tables in memory. The memory store offers them
//! as they are; the embedded store, whose directory one process holds, keeps its sessions on
//! disk beside them. Nothing here survives the process, and every future but a listener's is
//! ready at once.

mod bells;
mod places;
mod pools;
mod queue;
mod sessions;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bells::Bells;
use places::PlaceTable;
pub use pools::PoolTable;
use queue::WorkTable;
use sessions::SessionTable;

/// Milliseconds since some moment; never goes back.
type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How many partitions there are where the store does not say.
const PARTITIONS: u32 = 16;

/// The coordination of workers and engines within one process.
pub struct LocalCoordinator {
    tables: Mutex<Tables>,
    bells: Bells,
}

struct Tables {
    clock: Clock,
    sessions: SessionTable,
    work: WorkTable,
    places: PlaceTable,
    pools: PoolTable,
}

impl Default for LocalCoordinator {
    fn default() -> Self {
        Self::new(SessionTable::new(PARTITIONS))
    }
}

impl fmt::Debug for LocalCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCoordinator").finish_non_exhaustive()
    }
}

impl LocalCoordinator {
    fn new(sessions: SessionTable) -> Self {
        let origin = Instant::now();
        let elapsed = move || u64::try_from(origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        Self {
            tables: Mutex::new(Tables {
                clock: Arc::new(elapsed),
                sessions,
                work: WorkTable::default(),
                places: PlaceTable::default(),
                pools: PoolTable::default(),
            }),
            bells: Bells::default(),
        }
    }

    /// A coordinator whose only partition is held under a lock that outlasts every session:
    /// sessions do not expire while the process lives.
    pub fn under_lock() -> Self {
        Self::new(SessionTable::lasting(1))
    }

    /// Sets the clock by which leases expire from now on.
    pub fn set_clock(&self, clock: impl Fn() -> u64 + Send + Sync + 'static) {
        self.tables().clock = Arc::new(clock);
    }

    /// Sets the number of partitions, at least one; call it before the first session.
    pub fn set_partitions(&self, partitions: u32) {
        self.tables().sessions = SessionTable::new(partitions.max(1));
    }

    /// No method leaves a table half changed, so a panic elsewhere does not spoil it.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables as they are now, without expired sessions and leases.
    fn current(&self) -> (MutexGuard<'_, Tables>, u64) {
        let mut tables = self.tables();
        let now = (tables.clock)();
        let Tables { sessions, work, .. } = &mut *tables;
        sessions.expire(now);
        work.reclaim(now, |session| sessions.is_live(session));
        (tables, now)
    }
}
