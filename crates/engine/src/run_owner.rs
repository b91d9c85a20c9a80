//! Which process owns a run, and which could call its actions, as the store knows it: any process
//! of a cluster is asked about any run.

use std::collections::BTreeSet;

use windlass_store::{Error, Leases, LiveSession, Partition, Role, RunRow};

use crate::engine::Engine;

/// The label of a process that takes every label.
const EVERY_LABEL: &str = "*";

/// The process that executes a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOwner {
    /// This one.
    Here,
    /// Another live one.
    Process {
        /// What it calls itself.
        name: Box<str>,
        /// What it holds.
        partitions: BTreeSet<Partition>,
    },
    /// None holds the run's partition.
    Unowned {
        /// How many live processes could take it.
        orchestrators: usize,
    },
}

impl Engine {
    /// The process that owns a run.
    ///
    /// # Errors
    /// The store failed.
    pub async fn owner_of(&self, row: &RunRow) -> Result<RunOwner, Error> {
        // One that has its store to itself holds everything.
        if self.shared().owned.holds(row.partition) {
            return Ok(RunOwner::Here);
        }
        let live = Leases::sessions(&**self.store()).await?;
        let owner = live
            .iter()
            .find(|it| it.partitions.contains(&row.partition));
        Ok(match owner {
            Some(owner) => RunOwner::Process {
                name: name(owner).into(),
                partitions: owner.partitions.iter().copied().collect(),
            },
            None => {
                let owns = |it: &&LiveSession| it.process.roles.has(Role::Orchestrator);
                let orchestrators = live.iter().filter(owns).count();
                RunOwner::Unowned { orchestrators }
            }
        })
    }

    /// Whether a live process of the cluster calls an action and has these labels. An action that
    /// no process has in its registry is for workers over HTTP, of which this tells nothing.
    ///
    /// # Errors
    /// The store failed.
    pub async fn has_live_worker(&self, action: &str, labels: &[Box<str>]) -> Result<bool, Error> {
        if !self.shared().owned.is_shared() || !self.calls(action) {
            return Ok(true);
        }
        let live = Leases::sessions(&**self.store()).await?;
        Ok(live.iter().any(|it| {
            let own = &it.process.labels;
            let every = own.iter().any(|it| **it == *EVERY_LABEL);
            it.process.actions.iter().any(|own| **own == *action)
                && (every || labels.iter().all(|label| own.contains(label)))
        }))
    }
}

/// The name of a process; who writes stands behind it.
fn name(session: &LiveSession) -> &str {
    let name = session.process.name.split(' ').next();
    name.unwrap_or_default()
}
