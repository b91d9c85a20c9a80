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
    /// A worker has it.
    With {
        /// The name of the worker that has the attempt.
        worker: Box<str>,
        /// Since when workers have it.
        since: Option<Millis>,
        /// Until when its lease is good without another heartbeat.
        until: Millis,
    },
    /// A worker had it and was silent for too long: it waits for that worker or another.
    Silent {
        /// The name of the worker that had the attempt.
        worker: Box<str>,
        /// When its lease ran out.
        since: Millis,
        /// What it waits for.
        waits: Box<Self>,
    },
    /// It was asked to stop, and a worker has it, or may have it.
    Stopping(Option<Box<str>>),
    /// A process before this one may have handed it out: it is held back for a while, for the
    /// worker that may have it.
    Held {
        /// Until then.
        until: Millis,
        /// What it waits for then.
        waits: Box<Self>,
    },
    /// It is not offered to workers.
    NotOffered,
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
        let at = self.shared().remote.open.at(run, node, self.now());
        let Some(at) = at else {
            return Ok(WorkState::NotOffered);
        };
        let until = at.until.filter(|until| *until > self.now());
        match (at.worker, until) {
            (worker, _) if at.stop => Ok(WorkState::Stopping(worker)),
            (Some(worker), Some(until)) => {
                let since = at.since;
                Ok(WorkState::With {
                    worker,
                    since,
                    until,
                })
            }
            (Some(worker), None) => {
                let waits = self.polled_for(tenant, action, requires).await?;
                Ok(WorkState::Silent {
                    worker,
                    since: at.until.unwrap_or_else(|| self.now()),
                    waits: Box::new(waits),
                })
            }
            (None, Some(until)) if !at.queued => {
                let waits = self.polled_for(tenant, action, requires).await?;
                let waits = Box::new(waits);
                Ok(WorkState::Held { until, waits })
            }
            (None, _) => self.polled_for(tenant, action, requires).await,
        }
    }

    /// Which workers poll for an action.
    async fn polled_for(
        &self,
        tenant: Option<&str>,
        action: &str,
        requires: &[Box<str>],
    ) -> Result<WorkState, Error> {
        let remote = &self.shared().remote;
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
