//! Rows that are damaged. A run's row derives from its log: the engine makes it anew from
//! there. A row for which that fails, and any other damaged row, is reported to the observer, once,
//! and holds up nothing else.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use windlass_core::event::Event;
use windlass_core::{RunId, RunStatus};
use windlass_orchestrator::{resource_rows, row, sleep};
use windlass_store::{Damage, Error, ResourceRow, RunRow, TenantFilter, Wait as _};

use crate::Backend;
use crate::engine::Engine;
use crate::engine_event::EngineEvent;
use crate::load::{LoadError, load_run};
use crate::plans::Plans;

/// How often a run whose log grows meanwhile is looked at again.
const LOOKS: usize = 20;

/// How many schedules are looked at together.
const PAGE: usize = 256;

/// How many damaged rows are remembered as reported.
const MOST_TOLD: usize = 10_000;

/// What derives from a run's log: its row, and those of its links.
pub type Derived = (RunRow, Vec<ResourceRow>);

/// The row of a run and those of its links, from its log, and where that ended. A row that is there
/// keeps its partition, in which a process may work on the run.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn derive(store: &dyn Backend, plans: &Plans, run: RunId) -> Result<(u64, Derived), LoadError> {
    let mut resources = Vec::new();
    let loaded = load_run(store, plans, run, |state, transition| {
        let Some(state) = state else { return };
        for event in &transition.events {
            if let Event::AttemptEnded(ended) = event {
                resources.extend(resource_rows(state, ended));
            }
        }
    })?;
    let mut row = row(&loaded.run, sleep(&loaded.run));
    // One that cannot be read says nothing.
    if let Ok(Some(found)) = store.run(run).wait() {
        row.partition = found.partition;
    }
    Ok((loaded.head.sequence, (row, resources)))
}

/// The damage that was reported, by the name of what is damaged.
#[derive(Default)]
pub(crate) struct ReportedDamage(Mutex<HashSet<String>>);

impl ReportedDamage {
    /// Whether it is reported for the first time.
    fn is_new(&self, what: &str) -> bool {
        let mut reported_damage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported_damage.len() < MOST_TOLD && reported_damage.insert(what.to_owned())
    }
}

impl Engine {
    /// Reports to the observer that something stored is damaged, unless it did so before.
    pub(crate) fn tell_damage(&self, what: &str, reason: &str) {
        if self.shared().reported_damage.is_new(what) {
            self.shared()
                .observe(&EngineEvent::Damaged { what, reason });
        }
    }

    /// Makes rows anew that lists left out, and gives those of runs that have not ended.
    pub(crate) async fn repair_damaged_rows(&self) -> Vec<RunRow> {
        self.repair_all(self.store().damaged_rows()).await
    }

    async fn repair_all(&self, damaged_rows: Vec<Damage>) -> Vec<RunRow> {
        let mut repaired = Vec::new();
        for damage in damaged_rows {
            let Some(run) = damage.run else { continue };
            match self.repair(run).await {
                Ok(row) => {
                    let reason = format!("{}; it was made anew from the log", damage.reason);
                    self.tell_damage(&format!("the row of the run {run}"), &reason);
                    repaired.extend(Some(row).filter(|row| !row.status.is_final() && !row.dead));
                }
                Err(error) => self.leave_damaged(run, &damage, &error),
            }
        }
        repaired
    }

    fn leave_damaged(&self, run: RunId, damage: &Damage, error: &LoadError) {
        let reason = format!("{}; it cannot be made anew: {error}", damage.reason);
        self.tell_damage(&format!("the row of the run {run}"), &reason);
    }

    /// Makes a run's row anew. If the log has grown meanwhile, the row may be older than the
    /// one of that append, and is made once more.
    async fn repair(&self, run: RunId) -> Result<RunRow, LoadError> {
        let mut looks = 0;
        loop {
            let engine = self.clone();
            let deriving =
                tokio::task::spawn_blocking(move || derive(&**engine.store(), engine.plans(), run));
            let stopped = |_| Error::Unavailable("the engine has stopped".to_owned());
            let (head, derived) = deriving.await.map_err(stopped)??;
            self.store().replace_rows(vec![derived]).await?;
            looks += 1;
            if looks == LOOKS || self.store().head(run).await?.sequence == head {
                let found = self.store().run(run).await?;
                return found.ok_or(LoadError::NotFound(run));
            }
        }
    }

    /// Repairs the rows that admission came upon, in the background, and lets their runs begin.
    pub(crate) fn repair_beside(&self) {
        let damaged_rows = self.store().damaged_rows();
        if damaged_rows.is_empty() {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move {
            for row in engine.repair_all(damaged_rows).await {
                match row.status {
                    RunStatus::Pending => engine.shared().arrived(row.tenant, row.priority),
                    // A run that cannot be recovered now is found at the next start.
                    _ => drop(engine.recover(row.run).await),
                }
            }
        });
    }

    /// Looks at every schedule once, so that a damaged one is reported even if it is never due.
    pub(crate) async fn look_at_schedules(&self) -> Result<(), Error> {
        let mut after: Option<(Box<str>, Option<Box<str>>)> = None;
        loop {
            let last = after.as_ref().map(|(id, owner)| (&**id, owner.as_deref()));
            let page = self
                .store()
                .schedules(&TenantFilter::Any, last, PAGE)
                .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            let next = (last.id.clone(), last.tenant.clone());
            for schedule in &page {
                if let Some(reason) = &schedule.damage {
                    self.tell_damage(&format!("the schedule '{}'", schedule.id), reason);
                }
            }
            // A damaged name may not work as a cursor.
            if after.as_ref().is_some_and(|after| *after >= next) {
                return Ok(());
            }
            after = Some(next);
        }
    }
}
