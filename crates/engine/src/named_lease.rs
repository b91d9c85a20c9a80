//! Leases by name: what one process does for all (schedules, retention, a job over many runs).
//! A lease ends with the session of its holder, which stops by its own clock before that. Two
//! processes may act for a moment all the same, so what they write is fenced by itself: the
//! request id of a firing is its time, a job's command to a run has a key.

use std::sync::Arc;

use windlass_store::{Bell, Error, Role, SessionId};

use crate::engine::Engine;
use crate::ownership::ring;

/// A lease that this process holds.
pub struct NamedLease {
    engine: Engine,
    /// None where the process has its store to itself.
    session: Option<SessionId>,
    name: Box<str>,
}

impl std::fmt::Debug for NamedLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NamedLease({})", self.name)
    }
}

impl NamedLease {
    /// Whether the process may go on: the session is live by its own clock, and it does not
    /// leave.
    pub fn holds(&self) -> bool {
        let shared = self.engine.shared();
        match self.session {
            None => !self.engine.is_stopping(),
            Some(session) => {
                shared.leaving.get().is_none() && shared.owned.session() == Some(session)
            }
        }
    }

    /// Gives the lease up, so that another process can take it at once.
    pub async fn give(self) {
        if let Some(session) = self.session {
            // Without an answer it ends with the session.
            let _ = self.engine.store().give_named(session, &self.name).await;
        }
    }
}

impl Engine {
    /// Takes the lease of this name, or finds that this process has it; none if another process
    /// does, or if this one leaves.
    ///
    /// # Errors
    /// The store failed, or this process has no session now.
    pub async fn take_lease(&self, name: &str) -> Result<Option<NamedLease>, Error> {
        let owned = &self.shared().owned;
        let lease = |session| NamedLease {
            engine: self.clone(),
            session,
            name: name.into(),
        };
        if !owned.is_shared() {
            return Ok(Some(lease(None)));
        }
        let Some(session) = owned.session() else {
            let message = "this process has no session yet";
            return Err(Error::Unavailable(message.to_owned()));
        };
        if self.shared().leaving.get().is_some() {
            lease(Some(session)).give().await;
            return Ok(None);
        }
        let taken = self.store().take_named(session, name).await?;
        Ok(taken.then(|| lease(Some(session))))
    }

    /// Whether several processes share the store, each with its roles.
    pub fn shares_store(&self) -> bool {
        self.shared().owned.is_shared()
    }

    /// Whether this process has a role.
    pub fn has_role(&self, role: Role) -> bool {
        self.options().roles.has(role)
    }

    /// Tells the processes with the scheduler role that something waits for them.
    pub fn ring_scheduler(&self) {
        if self.shares_store() {
            ring(Arc::clone(self.store()), Bell::Requests);
        }
    }

    /// Resolves when a job over many runs may wait for a process, or when this one leaves.
    pub async fn job_rung(&self) {
        self.shared().jobs.notified().await;
    }
}
