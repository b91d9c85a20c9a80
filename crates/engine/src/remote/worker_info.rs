//! The state of work for workers outside the process: which workers poll for what, and what no
//! worker polls for.

use windlass_core::Millis;
use windlass_core::RunId;
use windlass_core::run::Instance;
use windlass_store::Error;

use super::declared::{Declarations, DeclaredAction};
use super::pollers::WorkerInfo;
use crate::Backend;
use crate::engine::Engine;

/// What an attempt of an action that this process lacks waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// A worker has it, since then.
    With(Box<str>, Option<Millis>),
    /// So many workers poll for the action and have what the node requires.
    Polled(usize),
    /// No worker polls for the action; one did last then.
    NotPolled(Millis),
    /// Workers poll for the action, and none has these labels.
    Lacking,
    /// No worker has declared the action.
    Undeclared,
}

/// The action types that workers of a tenant have declared, by name, as a store has them.
///
/// # Errors
/// The store failed.
pub async fn declared_actions(
    store: &dyn Backend,
    tenant: Option<&str>,
    now: Millis,
) -> Result<Vec<DeclaredAction>, Error> {
    Declarations::default().list(store, tenant, now).await
}

impl Engine {
    /// Whether this process calls an action itself.
    pub fn calls(&self, action: &str) -> bool {
        self.workers().registry.contains(action)
    }

    /// The action types that workers of a tenant have declared, by name.
    ///
    /// # Errors
    /// The store failed.
    pub async fn declared_actions(
        &self,
        tenant: Option<&str>,
    ) -> Result<Vec<DeclaredAction>, Error> {
        let declared = &self.shared().remote.declared;
        declared.list(&**self.store(), tenant, self.now()).await
    }

    /// The workers of a tenant: those that poll, and those that have tasks.
    pub fn work_pollers(&self, tenant: Option<&str>) -> Vec<WorkerInfo> {
        let remote = &self.shared().remote;
        remote
            .pollers
            .list(tenant, &remote.open.tasks_by_worker(), self.now())
    }

    /// What an attempt waits for that a worker outside this process does.
    ///
    /// # Errors
    /// The store failed.
    pub async fn work_state(
        &self,
        tenant: Option<&str>,
        (run, node): (RunId, Instance),
        action: &str,
        requires: &[Box<str>],
    ) -> Result<WorkState, Error> {
        let remote = &self.shared().remote;
        if let Some((worker, since)) = remote.open.hand_at(run, node) {
            return Ok(WorkState::With(worker, since));
        }
        let pollers = self.work_pollers(tenant);
        let polls = |it: &&WorkerInfo| it.actions.iter().any(|own| **own == *action);
        let can = |it: &&WorkerInfo| requires.iter().all(|label| it.labels.contains(label));
        let (all, able) = (
            pollers.iter().filter(polls).count(),
            pollers.iter().filter(polls).filter(can).count(),
        );
        if able > 0 {
            return Ok(WorkState::Polled(able));
        }
        if all > 0 {
            return Ok(WorkState::Lacking);
        }
        let declared = &remote.declared;
        let now = self.now();
        declared.knows(&**self.store(), tenant, action, now).await?;
        Ok(match declared.find(tenant, action, now) {
            Some(declared) => WorkState::NotPolled(declared.last_seen),
            None => WorkState::Undeclared,
        })
    }
}
