//! The state of work for workers outside the process: which workers poll for what, and what no
//! worker polls for.

use windlass_core::Millis;
use windlass_store::{Error, ItemState, WorkKey};

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
        /// Until when its lease is good without another heartbeat, if this process gave it.
        until: Option<Millis>,
    },
    /// A worker had it and was silent for too long: it waits for that worker or another.
    Silent {
        /// The name of the worker that had the attempt.
        worker: Box<str>,
        /// When its lease ran out, if this process gave it.
        since: Option<Millis>,
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
    /// It is not in the queue of the cluster; none polls for it.
    Unqueued(Box<Self>),
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
        key: WorkKey,
        action: &str,
        requires: &[Box<str>],
    ) -> Result<WorkState, Error> {
        let at = self
            .shared()
            .remote
            .open
            .at(key.run, key.instance, self.now());
        // The queue knows of every process; what it has not, the owner may hold back.
        let is_shared = self.shared().owned.is_shared();
        let known = match is_shared {
            true => self.store().known(&[key]).await?.into_iter().next(),
            false => None,
        };
        if let Some((_, item)) = known {
            return self.queued_state(tenant, item, (action, requires)).await;
        }
        let Some(at) = at else {
            return match is_shared {
                true => self.unqueued_state(tenant, action, requires).await,
                false => Ok(WorkState::NotOffered),
            };
        };
        let until = at.until.filter(|until| *until > self.now());
        match (at.worker, until) {
            (worker, _) if at.stop => Ok(WorkState::Stopping(worker)),
            (Some(worker), Some(until)) => {
                let since = at.since;
                Ok(WorkState::With {
                    worker,
                    since,
                    until: Some(until),
                })
            }
            (Some(worker), None) => {
                let waits = self.polled_for(tenant, action, requires).await?;
                Ok(WorkState::Silent {
                    worker,
                    since: Some(at.until.unwrap_or_else(|| self.now())),
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

    /// What an attempt waits for that is in the queue which all processes share.
    async fn queued_state(
        &self,
        tenant: Option<&str>,
        item: ItemState,
        (action, requires): (&str, &[Box<str>]),
    ) -> Result<WorkState, Error> {
        match item {
            ItemState::Leased {
                worker, stop: true, ..
            } => Ok(WorkState::Stopping(Some(worker))),
            ItemState::Leased {
                worker, begun_ms, ..
            } => {
                let begun = i64::try_from(begun_ms).unwrap_or(0);
                Ok(WorkState::With {
                    worker,
                    since: Some(Millis(self.now().0 - begun)),
                    until: None,
                })
            }
            ItemState::Waiting { last: None } => self.polled_for(tenant, action, requires).await,
            ItemState::Waiting {
                last: Some((worker, _)),
            } => Ok(WorkState::Silent {
                worker,
                since: None,
                waits: Box::new(self.polled_for(tenant, action, requires).await?),
            }),
        }
    }

    /// The same for one that is not in the queue: its owner puts it there once it may be handed
    /// out, and keeps one back whose action no worker has declared.
    async fn unqueued_state(
        &self,
        tenant: Option<&str>,
        action: &str,
        requires: &[Box<str>],
    ) -> Result<WorkState, Error> {
        Ok(match self.polled_for(tenant, action, requires).await? {
            WorkState::Polled(_) => WorkState::NotOffered,
            state => WorkState::Unqueued(Box::new(state)),
        })
    }

    /// Which workers poll for an action.
    async fn polled_for(
        &self,
        tenant: Option<&str>,
        action: &str,
        requires: &[Box<str>],
    ) -> Result<WorkState, Error> {
        let polling = self.polling(tenant, action, requires).await?;
        if polling.able > 0 {
            return Ok(WorkState::Polled(polling.able));
        }
        if polling.all > 0 {
            return Ok(WorkState::Lacking);
        }
        let remote = &self.shared().remote;
        let declared = &remote.declared;
        let now = self.now();
        declared
            .knows_now(&**self.store(), tenant, action, now)
            .await?;
        Ok(match declared.find(tenant, action, now) {
            Some(declared) => WorkState::NotPolled(declared.last_seen),
            None => WorkState::Undeclared,
        })
    }
}
