//! A run in a test: what a handle offers, without awaiting, and assertions that say what
//! they found instead.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_core::{NodeStatus, RunStatus};

use crate::CommandError;
use crate::run::{Attempt, Execution, NodeState, RunHandle, history_of, node_of};

/// Virtual time after which a run is taken to wait for something else than time.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// A run of a test engine.
pub struct TestRun {
    runtime: Arc<Runtime>,
    handle: RunHandle,
}

impl TestRun {
    pub(super) fn new(runtime: Arc<Runtime>, handle: RunHandle) -> Self {
        Self { runtime, handle }
    }

    /// The handle, for what is not here.
    pub fn handle(&self) -> &RunHandle {
        &self.handle
    }

    /// Waits for the end; time passes at once.
    ///
    /// # Panics
    /// The run has not ended after a year of virtual time, or cannot be read.
    #[track_caller]
    pub fn wait(&self) -> RunStatus {
        let waiting = async { tokio::time::timeout(PATIENCE, self.handle.wait()).await };
        match self.runtime.block_on(waiting) {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => panic!("the run cannot be waited for: {error}"),
            Err(_) => panic!("the run does not end by itself:{}", self.picture()),
        }
    }

    /// How the run stands.
    ///
    /// # Panics
    /// The run cannot be read.
    #[track_caller]
    pub fn status(&self) -> RunStatus {
        self.execution().status
    }

    /// What came out; null before the end.
    ///
    /// # Panics
    /// The run cannot be read.
    #[track_caller]
    pub fn output(&self) -> Value {
        self.execution().output
    }

    /// The whole run, as it is now.
    ///
    /// # Panics
    /// The run cannot be read.
    #[track_caller]
    pub fn execution(&self) -> Execution {
        match self.handle.read_now(false) {
            Ok(execution) => execution,
            Err(error) => panic!("the run cannot be read: {error}"),
        }
    }

    /// One node, by its id or its name for people.
    ///
    /// # Panics
    /// There is no such node.
    #[track_caller]
    pub fn node(&self, node: &str) -> NodeState {
        let read = self.handle.read_now(false);
        match read.and_then(|execution| node_of(execution, node)) {
            Ok(state) => state,
            Err(error) => panic!("{error}"),
        }
    }

    /// The ids of the nodes in one state, sorted.
    ///
    /// # Panics
    /// The run cannot be read.
    #[track_caller]
    pub fn nodes_with_state(&self, state: NodeStatus) -> Vec<String> {
        let nodes = self.execution().nodes.into_iter();
        let nodes = nodes.filter(|node| node.status == state);
        let mut ids: Vec<String> = nodes.map(|node| node.id).collect();
        ids.sort();
        ids
    }

    /// Every attempt of a node, oldest first.
    ///
    /// # Panics
    /// There is no such node.
    #[track_caller]
    pub fn history(&self, node: &str) -> Vec<Attempt> {
        let read = self.handle.read_now(true);
        match read.and_then(|execution| history_of(execution, node)) {
            Ok(attempts) => attempts,
            Err(error) => panic!("{error}"),
        }
    }

    /// Ends the run.
    ///
    /// # Errors
    /// The run's state does not allow it.
    pub fn cancel(&self) -> Result<(), CommandError> {
        self.runtime.block_on(self.handle.cancel())
    }

    /// Pause: starts no new nodes until the run is resumed.
    ///
    /// # Errors
    /// The run's state does not allow it.
    pub fn pause(&self) -> Result<(), CommandError> {
        self.runtime.block_on(self.handle.pause())
    }

    /// Resumes a paused run.
    ///
    /// # Errors
    /// The run's state does not allow it.
    pub fn resume(&self) -> Result<(), CommandError> {
        self.runtime.block_on(self.handle.resume())
    }

    /// Tries nodes again; none named means all that can be.
    ///
    /// # Errors
    /// The run's state does not allow it, or there is no such node.
    pub fn reattempt<N: Into<String>>(
        &self,
        nodes: impl IntoIterator<Item = N>,
    ) -> Result<(), CommandError> {
        self.runtime.block_on(self.handle.reattempt(nodes))
    }

    /// The run succeeded.
    ///
    /// # Panics
    /// It did not; the message shows every node.
    #[track_caller]
    pub fn assert_succeeded(&self) -> &Self {
        self.assert_status(RunStatus::Succeeded)
    }

    /// The run failed.
    ///
    /// # Panics
    /// It did not; the message shows every node.
    #[track_caller]
    pub fn assert_failed(&self) -> &Self {
        self.assert_status(RunStatus::Failed)
    }

    /// Asserts the status of the run.
    ///
    /// # Panics
    /// It does not; the message shows every node.
    #[track_caller]
    pub fn assert_status(&self, expected: RunStatus) -> &Self {
        let status = self.status();
        if status != expected {
            panic!("the run is {status}, not {expected}:{}", self.picture());
        }
        self
    }

    /// Asserts the status of a node: `"Succeeded"`, `"Blocked"`, …
    ///
    /// # Panics
    /// It does not; the message shows every node.
    #[track_caller]
    pub fn assert_node(&self, node: &str, expected: &str) -> &Self {
        let status = self.node(node).status;
        if status.as_str() != expected {
            panic!("'{node}' is {status}, not {expected}:{}", self.picture());
        }
        self
    }

    /// Asserts how many attempts a node had.
    ///
    /// # Panics
    /// It was not; the message shows every node.
    #[track_caller]
    pub fn assert_attempts(&self, node: &str, expected: u32) -> &Self {
        let attempts = self.node(node).attempts;
        if attempts != expected {
            let picture = self.picture();
            panic!("'{node}' was attempted {attempts} times, not {expected}:{picture}");
        }
        self
    }

    /// The node failed with this code.
    ///
    /// # Panics
    /// It did not; the message shows every node.
    #[track_caller]
    pub fn assert_error(&self, node: &str, code: &str) -> &Self {
        let found = self.node(node).error.map(|error| error.code);
        if found.as_deref() != Some(code) {
            panic!(
                "'{node}' has the error {found:?}, not {code}:{}",
                self.picture()
            );
        }
        self
    }

    /// The run gave this output.
    ///
    /// # Panics
    /// It gave another.
    #[track_caller]
    pub fn assert_output(&self, expected: Value) -> &Self {
        assert_eq!(self.output(), expected, "the run's output");
        self
    }

    /// The first node ended before the second started.
    ///
    /// # Panics
    /// It did not, or one of them did not run.
    #[track_caller]
    pub fn assert_before(&self, first: &str, second: &str) -> &Self {
        let ended = self.node(first).ended_at;
        let started = self.node(second).started_at;
        match (&ended, &started) {
            (Some(ended), Some(started)) if ended <= started => self,
            _ => panic!("'{first}' ended at {ended:?}, and '{second}' started at {started:?}"),
        }
    }

    /// Every node on a line, for messages.
    fn picture(&self) -> String {
        let Ok(Execution { nodes, .. }) = self.handle.read_now(false) else {
            return " (it cannot be read)".to_owned();
        };
        let line = |node: &NodeState| {
            let name = node.name.as_ref().map(|name| format!(" ({name})"));
            let error = node
                .error
                .as_ref()
                .filter(|_| node.status == NodeStatus::Failed);
            let error = error.map(|error| format!(", {}: {}", error.code, error.message));
            format!(
                "\n  {}{}: {}, {} attempts{}",
                node.id,
                name.unwrap_or_default(),
                node.status,
                node.attempts,
                error.unwrap_or_default()
            )
        };
        nodes.iter().map(line).collect()
    }
}
