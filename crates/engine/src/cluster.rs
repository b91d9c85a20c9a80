//! The processes that share a store, as one of them sees them: sessions, partitions and their
//! owners, the depth of the work queue. An engine that has its store to itself is a cluster of
//! one.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use windlass_core::{Millis, RunId};
use windlass_orchestrator::Labels;
use windlass_store::{
    Error, Leases, LiveSession, Partition, Partitions, ProcessInfo, QueueDepth, Role, SessionId,
};

use crate::action::Registry;
use crate::engine::{Engine, Inner};
use crate::options::Options;
use crate::start::{NewRun, StartError};

/// The lease of the process that keeps house.
const HOUSEKEEPING: &str = "housekeeping";

/// The note that says when the store was swept last.
const SWEPT: &str = "swept";

/// How often it does.
const KEEP_HOUSE: Duration = Duration::from_secs(60);

/// The most kinds of work that are listed.
const KINDS: usize = 1_000;

/// A process of the cluster.
#[derive(Clone, Debug)]
pub struct ClusterSession {
    /// Its session; `None` for a process that has the store to itself and needs none.
    pub session: Option<SessionId>,
    /// What the process says of itself.
    pub process: ProcessInfo,
    /// What it holds, in order.
    pub partitions: Vec<Partition>,
    /// Since when it is there.
    pub since: Millis,
    /// When it counts as dead, if it is not heard of before then.
    pub expires: Option<Millis>,
    /// Whether it is the process that answers.
    pub is_self: bool,
}

/// The cluster at a moment.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// The live processes, the oldest session first.
    pub sessions: Vec<ClusterSession>,
    /// How many partitions there are.
    pub partitions: u32,
    /// What the work queue has.
    pub queue: Vec<QueueDepth>,
    /// The age of the oldest change that is not in the tables behind the log, in milliseconds;
    /// 0 where rows are written with the records that they come from.
    pub projector_lag_ms: u64,
}

impl Engine {
    /// What this engine says of itself to the other processes. Its name is its worker's, and who
    /// writes, so that others see whose records are those of a live process.
    pub(crate) fn process_info(&self) -> ProcessInfo {
        let options = self.options();
        let name = &options.worker_name;
        let works = options.roles.has(Role::Worker);
        ProcessInfo {
            name: format!("{name} {:016x}", self.writer().0).into(),
            host: name.rsplit_once('-').map_or(&**name, |it| it.0).into(),
            roles: options.roles,
            labels: match &options.labels {
                _ if !works => Vec::new(),
                Labels::All => vec!["*".into()],
                Labels::Only(labels) => labels.to_vec(),
            },
            slots: match works {
                true => u32::try_from(options.workers.max(1)).unwrap_or(u32::MAX),
                false => 0,
            },
            actions: called_here(&self.workers().registry, options)
                .into_iter()
                .collect(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// The partition of a new run: its parent's, or by its id.
    pub(crate) async fn partition_for(
        &self,
        run: RunId,
        new: &NewRun,
    ) -> Result<Partition, StartError> {
        let parent = new
            .parent
            .as_ref()
            .filter(|_| self.shared().owned.is_shared());
        let parent = match parent {
            Some(parent) => {
                let row = self.store().run(parent.execution_id).await;
                row.map_err(StartError::Store)?
            }
            None => None,
        };
        let parent = parent.map(|row| row.partition);
        Ok(self.shared().owned.place(run, parent).await)
    }

    /// The cluster as the store knows it now.
    ///
    /// # Errors
    /// The store failed.
    pub async fn cluster(&self) -> Result<ClusterView, Error> {
        let queue = self.store().queue_depth(KINDS).await?;
        let owned = &self.shared().owned;
        if !owned.is_shared() {
            let own = ClusterSession {
                session: None,
                process: self.process_info(),
                partitions: vec![Partition(0)],
                since: self.started(),
                expires: None,
                is_self: true,
            };
            return Ok(ClusterView {
                sessions: vec![own],
                partitions: 1,
                queue,
                projector_lag_ms: 0,
            });
        }
        let projector_lag_ms = match &self.options().projections {
            Some(projections) => projections.projection_lag().await?.age_ms,
            None => 0,
        };
        // Where rows follow a log that is elsewhere, tables are behind it by both.
        let projector_lag_ms = projector_lag_ms.max(self.store().behind_log_ms().await?);
        let (mine, now) = (owned.session(), self.now());
        let live = Leases::sessions(&**self.store()).await?;
        let held = live.iter().flat_map(|it| &it.partitions).map(|it| it.0 + 1);
        let partitions = owned.known_partitions().or(held.max()).unwrap_or(0);
        let session = |live: LiveSession| ClusterSession {
            session: Some(live.session),
            process: live.process,
            partitions: live.partitions,
            since: Millis(now.0.saturating_sub(signed(live.began_ms))),
            expires: Some(now.plus(live.expires_ms)),
            is_self: mine == Some(live.session),
        };
        Ok(ClusterView {
            sessions: live.into_iter().map(session).collect(),
            partitions,
            queue,
            projector_lag_ms,
        })
    }

    /// How many partitions this engine works on now; one if it has its store to itself. Nothing is
    /// asked of the store.
    pub fn partitions_owned(&self) -> usize {
        match self.shared().owned.partitions() {
            Partitions::All => 1,
            Partitions::Only(owned) => owned.len(),
        }
    }

    /// Whether this engine's session is live, as far as it knows. One that has its store to itself
    /// needs none, and is as good as live.
    pub fn session_is_live(&self) -> bool {
        let owned = &self.shared().owned;
        !owned.is_shared() || owned.session().is_some()
    }

    /// Removes the sessions of processes that died. Their partitions and work are free already.
    async fn forget_dead_sessions(&self) -> Result<(), Error> {
        for dead in self.store().expired().await? {
            self.store().forget_session(dead.session).await?;
        }
        Ok(())
    }

    /// Removes what crashes left in the store, if that was not done for as long as the options
    /// say, by any process; gives when it is due next.
    async fn sweep_if_due(&self) -> Result<Millis, Error> {
        let (store, now) = (self.store(), self.now());
        let every = u64::try_from(self.options().sweep_every.as_millis()).unwrap_or(u64::MAX);
        let last = store.note_at(HOUSEKEEPING, SWEPT).await?;
        let last = last.and_then(|note| String::from_utf8(note).ok()?.parse().ok());
        match last.map(|last| Millis(last).plus(every)) {
            Some(due) if due > now => return Ok(due),
            Some(_) => {
                store.sweep().await?;
            }
            // A new store has nothing to sweep yet.
            None => {}
        }
        let note = now.0.to_string().into_bytes();
        store.keep_note(HOUSEKEEPING, SWEPT, note).await?;
        Ok(now.plus(every))
    }
}

/// Removes what dead processes left, now and then, in one process at a time, until the engine is
/// gone.
pub(crate) async fn keep_house(engine: Weak<Inner>) {
    // Asked of the store only when it may be so: others do it too.
    let mut sweep_at = Millis(0);
    loop {
        let Some(engine) = engine.upgrade().map(Engine::of) else {
            return;
        };
        // What cannot be removed now is removed the next time.
        if let Ok(Some(_)) = engine.take_lease(HOUSEKEEPING).await {
            let _ = engine.forget_dead_sessions().await;
            if engine.now() >= sweep_at
                && let Ok(next) = engine.sweep_if_due().await
            {
                sweep_at = next;
            }
        }
        let stop = engine.stop_token();
        let wait = KEEP_HOUSE.min(engine.options().sweep_every);
        drop(engine);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// The actions that this process calls itself.
pub(crate) fn called_here(registry: &Registry, options: &Options) -> BTreeSet<Box<str>> {
    let works = options.roles.has(Role::Worker);
    let names = registry.names().filter(|_| works);
    names.map(Into::into).collect()
}

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}
