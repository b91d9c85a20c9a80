//! What an engine tells its observer.

use std::time::Duration;

use windlass_core::run::{Dispatch, Input, Instance, RunSummary, WaitingNode};
use windlass_core::{Millis, NodeStatus, RunId, RunStatus};
use windlass_orchestrator::FailedAttempt;

use crate::attempt_tracker::FinishedAttempt;

/// Something an observer may want to know. All of it rests on durable records.
#[derive(Debug)]
pub enum EngineEvent<'a> {
    /// An attempt was handed to a worker.
    Dispatched {
        /// The attempt.
        dispatch: &'a Dispatch,
    },
    /// Nodes changed their status.
    Progress {
        /// The run whose nodes these are.
        run: RunId,
        /// The nodes, with what they are now.
        nodes: &'a [(Instance, NodeStatus)],
        /// How loops of the top level and waits stand, where that changed: for people to
        /// look at, and perhaps ahead of what is durable.
        waiting_nodes: &'a [WaitingNode],
    },
    /// An attempt failed, of an action, a loop, a wait or a child run: the node has failed,
    /// or waits for its next attempt.
    Failed {
        /// The run whose attempt failed.
        run: RunId,
        /// The node, how it failed, and whether another attempt follows.
        failed: &'a FailedAttempt,
    },
    /// A command to a run was carried out.
    Commanded {
        /// The run that the command is for.
        run: RunId,
        /// A command, a newer version to follow, or the end of its parent's time.
        input: &'a Input,
    },
    /// A run waits for a time, a signal or a child, and is in memory no more.
    Asleep {
        /// The run that sleeps.
        run: RunId,
        /// When it wakes, if that is known.
        wake_at: Option<Millis>,
    },
    /// A run was asked for, and waits to begin.
    Queued {
        /// The run that waits.
        run: RunId,
        /// The tenant that the run belongs to, if any.
        tenant: Option<&'a str>,
        /// The id of the workflow that the run executes.
        workflow: &'a str,
    },
    /// A run became active: it began, or was opened again.
    Started {
        /// The run that is active.
        run: RunId,
        /// The tenant that the run belongs to, if any.
        tenant: Option<&'a str>,
        /// The id of the workflow that the run executes.
        workflow: &'a str,
    },
    /// A record of a run is durable.
    Recorded {
        /// The run whose log has the record.
        run: RunId,
        /// The record's place in the run's log, from 1.
        sequence: u64,
    },
    /// A run went to the dead letters.
    DeadLettered {
        /// The run that no process may acquire now.
        run: RunId,
        /// Its workflow.
        workflow: &'a str,
        /// The version that it began with; 0 where no version was found for it.
        version: u32,
        /// What ties the run to the outside; its own id, if that cannot be read.
        correlation_id: &'a str,
        /// Why it is a dead letter.
        reason: &'a str,
    },
    /// Something stored is damaged; everything else continues.
    Damaged {
        /// What, in words.
        what: &'a str,
        /// What is wrong with it, and what became of it.
        reason: &'a str,
    },
    /// A run ended.
    Finished {
        /// The run that ended.
        run: RunId,
        /// The status that it ended with.
        status: RunStatus,
        /// A summary of the run.
        about: &'a RunSummary,
    },
    /// A run began, or was recovered from a process that is gone.
    Began {
        /// A summary of the run.
        about: &'a RunSummary,
        /// Whether it had begun before, in a process that is gone.
        recovered: bool,
    },
    /// An attempt ended.
    Ended {
        /// The attempt, and how it ended.
        attempt: &'a FinishedAttempt,
    },
    /// The store answered an append of these many records.
    Appended {
        /// The number of records.
        records: usize,
        /// How long it took, from being handed over to the answer.
        took: Duration,
    },
    /// The store that several processes share does not answer this one. What was acknowledged is
    /// safe, and work resumes by itself.
    StoreAway {
        /// What a call failed with.
        reason: &'a str,
    },
    /// The store answers again.
    StoreBack {
        /// How long it did not.
        after: Duration,
    },
}
