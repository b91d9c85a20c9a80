//! An action for real engines whose attempts wait until a test says how they end, in whichever
//! process carries them out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::Notify;
use windlass_core::RunId;
use windlass_engine::{Action, ActionError, Context, Registry, Reply};

/// How an attempt is to end.
#[derive(Clone, Debug)]
pub enum Word {
    Succeed(Value),
    /// With an error of this code.
    Fail(String),
    /// With an error of this code that another attempt may mend.
    Retry(String),
    Skip,
}

/// An attempt, as the stage knows it.
pub type StagedAttempt = (RunId, String, bool, u32);

/// Where attempts wait for a test's instruction. An instruction stays valid for the next
/// process that carries the attempt out.
#[derive(Default)]
pub struct Stage {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Attempts that wait, and how many processes carry them out.
    open: BTreeMap<StagedAttempt, usize>,
    words: BTreeMap<StagedAttempt, Word>,
    /// Nodes, by workflow, that go on until they have their word, though they are asked to stop.
    expected: BTreeSet<(String, String)>,
    /// The processes in which attempts were carried out.
    processes: BTreeSet<usize>,
    /// How many runs had an open attempt at once, at most.
    most_runs: usize,
}

impl Stage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with the stage")
    }

    /// Waits until an attempt of the node, or to undo it, waits that has no word yet, and gives
    /// it one.
    pub async fn give(&self, run: RunId, node: &str, undo: bool, word: Word) -> StagedAttempt {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                let is_meant =
                    |part: &&StagedAttempt| part.0 == run && part.1 == node && part.2 == undo;
                let waiting = state.open.keys().filter(is_meant);
                let mut part = waiting.filter(|part| !state.words.contains_key(*part));
                if let Some(part) = part.next().cloned() {
                    state.words.insert(part.clone(), word);
                    self.changed.notify_waiters();
                    return part;
                }
            }
            changed.await;
        }
    }

    /// A node of a workflow goes on until it has its word, though it is asked to stop.
    pub fn expect(&self, workflow: &str, node: &str) {
        let node = (workflow.to_owned(), node.to_owned());
        self.state().expected.insert(node);
    }

    /// How many attempts wait.
    pub fn waiting(&self) -> usize {
        self.state().open.len()
    }

    /// Whether an attempt of a run waits.
    pub fn is_open(&self, run: RunId) -> bool {
        self.state().open.keys().any(|part| part.0 == run)
    }

    /// How many runs had an open attempt at once, at most.
    pub fn most_runs(&self) -> usize {
        self.state().most_runs
    }

    /// The processes that carried attempts out.
    pub fn processes(&self) -> BTreeSet<usize> {
        self.state().processes.clone()
    }

    async fn play(
        &self,
        part: StagedAttempt,
        context: &Context,
    ) -> Result<Reply<Value>, ActionError> {
        let node = (context.workflow.to_string(), part.1.clone());
        let is_expected = self.state().expected.contains(&node);
        loop {
            let changed = self.changed.notified();
            let word = self.state().words.get(&part).cloned();
            match word {
                Some(Word::Succeed(value)) => return Ok(value.into()),
                Some(Word::Fail(code)) => return Err(ActionError::failed(&code, "it failed")),
                Some(Word::Retry(code)) => return Err(ActionError::retriable(&code, "it failed")),
                Some(Word::Skip) => return Ok(Reply::skipped()),
                None => {}
            }
            tokio::select! {
                () = changed => {}
                () = context.stop_asked(), if !is_expected => return Err(ActionError::stopped()),
            }
        }
    }
}

/// The actions of one process, `test` and `undo`, which end as the stage says.
pub(super) fn actions(stage: &Arc<Stage>, process: usize) -> Registry {
    let mut registry = Registry::new();
    for undo in [false, true] {
        let stage = Arc::clone(stage);
        registry.register(Played {
            stage,
            undo,
            process,
        });
    }
    registry
}

struct Played {
    stage: Arc<Stage>,
    undo: bool,
    process: usize,
}

/// An attempt that is being carried out.
struct Open<'s>(&'s Stage, StagedAttempt);

impl<'s> Open<'s> {
    fn new(stage: &'s Stage, part: StagedAttempt) -> Self {
        let mut state = stage.state();
        *state.open.entry(part.clone()).or_default() += 1;
        let runs: BTreeSet<RunId> = state.open.keys().map(|part| part.0).collect();
        state.most_runs = state.most_runs.max(runs.len());
        drop(state);
        stage.changed.notify_waiters();
        Self(stage, part)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(count) = state.open.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.1);
            }
        }
    }
}

impl Action for Played {
    type Parameters = Value;
    type Output = Value;

    fn name(&self) -> &str {
        match self.undo {
            true => "undo",
            false => "test",
        }
    }

    fn description(&self) -> &str {
        "Ends as it is told."
    }

    async fn run(&self, context: Context, _: Value) -> Result<Reply<Value>, ActionError> {
        let part = (
            context.run,
            context.node.to_string(),
            self.undo,
            context.attempt,
        );
        self.stage.state().processes.insert(self.process);
        let _open = Open::new(&self.stage, part.clone());
        self.stage.play(part, &context).await
    }
}
