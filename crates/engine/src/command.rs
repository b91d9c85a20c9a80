//! Commands on runs, with nodes named by their paths: each is checked, resolved into what the
//! rules take, and durable on return. Must not know which callers may give them.

use std::fmt;
use std::sync::Arc;

use windlass_core::command::{Command, CommandBody, CommandRequest, NewGraph, RunCommand};
use windlass_core::event::RequestKey;
use windlass_core::name::{NameProblem, TEXT_BYTES, is_key_name};
use windlass_core::plan::{AmbiguousName, Plan};
use windlass_core::run::{Input, Instance, Refusal, Run};
use windlass_core::value::Payload;
use windlass_core::{Digest, RunId, RunStatus};
use windlass_store::Wait as _;

use crate::Backend;
use crate::blocking::blocking;
use crate::engine::Engine;
use crate::load::{LoadError, LoadedRun, load_latest};
use crate::names::is_request_id;
use crate::payload::{PayloadError, check_payload, check_payload_off_thread};
use crate::plans::Plans;

/// Why a command was not carried out.
#[derive(Debug)]
pub enum CommandError {
    /// The run's state does not allow it; `nodes` are the ones in the way.
    Refused {
        /// What the run's state does not allow.
        refusal: Refusal,
        /// The nodes that the refusal names; of an unknown signal, the known ones.
        nodes: Vec<String>,
    },
    /// The run names no such node.
    UnknownNode(String),
    /// A name that several nodes have.
    AmbiguousNode(AmbiguousName),
    /// The signal's payload does not fit every node that waits for one of its name.
    SignalInvalid(PayloadError),
    /// The signal's name cannot be one, and no node of the run waits for it.
    SignalName,
    /// A result given by hand is not a value.
    ResultInvalid(PayloadError),
    /// The run cannot be read.
    Load(LoadError),
    /// The idempotency key is empty, too long, or has control characters.
    KeyInvalid,
    /// No owner of the run has taken the command or refused it in time. It stays offered, and
    /// the same key gets its answer later.
    OwnerUnavailable {
        /// The request's key, or the one that was generated for it.
        key: Box<str>,
    },
    /// The run is a child, and its parent has ended: its result would reach no run.
    ParentEnded {
        /// The child.
        run: RunId,
        /// Its parent.
        parent: RunId,
        /// How the parent ended.
        status: RunStatus,
    },
    /// The run is a child that its parent's node does not wait for any more.
    NotAwaited {
        /// The child.
        run: RunId,
        /// Its parent.
        parent: RunId,
    },
    /// No process that owns the run has requeued or purged its dead letter in time. The request
    /// stays offered.
    LetterWaits,
    /// The engine has stopped.
    Stopped,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandAnswer {
    /// How the run stood after the record that carried the command out; known of requests
    /// with a key alone.
    pub status: Option<RunStatus>,
    /// Whether an earlier request with the same key was carried out, and this one not.
    pub repeated: bool,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { refusal, nodes } if nodes.is_empty() => refusal.fmt(f),
            Self::Refused {
                refusal: refusal @ Refusal::UnknownSignal(_),
                nodes,
            } => write!(f, "{refusal}; it knows {}", nodes.join(", ")),
            Self::Refused { refusal, nodes } => write!(f, "{refusal}: {}", nodes.join(", ")),
            Self::UnknownNode(node) => write!(f, "the run has no node '{node}'"),
            Self::AmbiguousNode(name) => name.fmt(f),
            Self::SignalInvalid(error) => write!(f, "the signal's payload: {error}"),
            Self::SignalName => write!(f, "the signal's name: {}", NameProblem::NoKey),
            Self::ResultInvalid(error) => write!(f, "the result: {error}"),
            Self::Load(error) => error.fmt(f),
            Self::KeyInvalid => write!(
                f,
                "the idempotency key has from 1 to {TEXT_BYTES} bytes and no control characters"
            ),
            Self::OwnerUnavailable { key } => write!(
                f,
                "no process that owns the run has taken the command in time; it stays offered: \
                 repeat it with the idempotency key '{key}' to get its answer"
            ),
            Self::LetterWaits => f.write_str(
                "no process that owns the run has taken the request in time; it stays offered: \
                 repeat it to get its answer; `windlass cluster` lists the live processes",
            ),
            Self::ParentEnded {
                run,
                parent,
                status,
            } => write!(
                f,
                "run {run} is a child of run {parent}, which has ended ({status}): its result \
                 would reach no run"
            ),
            Self::NotAwaited { run, parent } => write!(
                f,
                "run {run} is a child of run {parent}, whose node does not wait for it any more: \
                 its result would reach no run"
            ),
            Self::Stopped => f.write_str("the engine has stopped"),
        }
    }
}

impl std::error::Error for CommandError {}

impl From<LoadError> for CommandError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

/// Checks a signal's payload against its limits and the schema of every node of the run
/// that waits for a signal of this name, or still may: the engine does not know yet which
/// node will take it.
///
/// # Errors
/// What does not fit, all of it.
pub fn check_signal(run: &Run, name: &str, payload: &str) -> Result<(), PayloadError> {
    check_payload(payload, run.signal_schemas(run.plan(), name))
}

/// Checks a signal's name. One that a node of the graph waits for is good, also if it was
/// published before names had a pattern.
///
/// # Errors
/// It cannot be the name of a signal.
pub fn check_signal_name(plan: &Plan, name: &str) -> Result<(), CommandError> {
    match is_key_name(name) || plan.signals().contains(&name) {
        true => Ok(()),
        false => Err(CommandError::SignalName),
    }
}

/// The instance that a path means, whose parts are ids or unique names.
///
/// # Errors
/// The run has no such node, or the name belongs to several.
pub fn find_node(run: &Run, node: &str) -> Result<Instance, CommandError> {
    if let Some(instance) = run.find(node) {
        return Ok(instance);
    }
    let path = run.plan().named_path(node);
    let path = path.map_err(CommandError::AmbiguousNode)?;
    run.find(&path)
        .ok_or_else(|| CommandError::UnknownNode(node.to_owned()))
}

/// Refuses to try a child run again that its parent does not wait for any more. It blocks.
///
/// # Errors
/// The refusal, or the store failed.
pub fn refuse_orphan(store: &dyn Backend, plans: &Plans, run: RunId) -> Result<(), CommandError> {
    let find = |run| {
        let found = store.run(run).wait();
        found.map_err(|error| CommandError::Load(LoadError::Store(error)))
    };
    let Some(parent) = find(run)?.and_then(|row| row.parent) else {
        return Ok(());
    };
    match find(parent)?.map(|row| row.status) {
        Some(status) if status.is_final() => Err(CommandError::ParentEnded {
            run,
            parent,
            status,
        }),
        Some(_) => {
            let state = load_latest(store, plans, parent)?.run;
            match state.node_of_child(run) {
                Some(_) => Ok(()),
                None => Err(CommandError::NotAwaited { run, parent }),
            }
        }
        None => Ok(()),
    }
}

impl Engine {
    /// Carries a command out. On return its record is durable. A request that comes again with
    /// a key that the run knows gets the first answer, and changes nothing. A run of another
    /// process gets it through the inbox; then the answer comes from the record, too.
    ///
    /// # Errors
    /// The run cannot be read, has no such node, or its state does not allow the command; a
    /// value does not fit; the key was used for another command; or no process owns the run.
    pub async fn command(
        &self,
        run: RunId,
        request: CommandRequest,
    ) -> Result<CommandAnswer, CommandError> {
        match self.shared().owned.is_shared() {
            true => self.command_shared(run, request).await,
            false => self.command_here(run, request).await,
        }
    }

    /// Executes a command on a run that this process may work on.
    pub(crate) async fn command_here(
        &self,
        run: RunId,
        request: CommandRequest,
    ) -> Result<CommandAnswer, CommandError> {
        let Some(key) = request.actor.request.as_deref() else {
            self.resolve_and_submit(run, &request).await?;
            return Ok(CommandAnswer::default());
        };
        if !is_request_id(&key.key) {
            return Err(CommandError::KeyInvalid);
        }
        if let Some(answer) = self.answered(run, key).await? {
            return Ok(answer);
        }
        let done = self.resolve_and_submit(run, &request).await;
        match (self.answered(run, key).await, done) {
            (Ok(Some(answer)), Ok(())) => Ok(CommandAnswer {
                repeated: false,
                ..answer
            }),
            // The same request was carried out concurrently, and this one came second.
            (Ok(Some(answer)), Err(_)) => Ok(answer),
            (_, done) => done.map(|()| CommandAnswer::default()),
        }
    }

    async fn resolve_and_submit(
        &self,
        run: RunId,
        request: &CommandRequest,
    ) -> Result<(), CommandError> {
        let command = self.resolved(run, request).await?;
        self.submit(run, command.into()).await?;
        if let RunCommand::Cancel { .. } = request.command {
            self.forget_letter_at_end(run).await?;
        }
        Ok(())
    }

    /// The answer that a request with this key has had.
    async fn answered(
        &self,
        run: RunId,
        key: &RequestKey,
    ) -> Result<Option<CommandAnswer>, CommandError> {
        let loaded = self.load_beside(run).await?;
        let answered = loaded.run.answer_to(key);
        let answered = answered.map_err(|refusal| CommandError::refused(&loaded.run, refusal))?;
        Ok(answered.map(|answered| CommandAnswer {
            status: Some(answered.status()),
            repeated: true,
        }))
    }

    /// The command as the rules take it: nodes by their numbers, values checked.
    pub(crate) async fn resolved(
        &self,
        run: RunId,
        request: &CommandRequest,
    ) -> Result<Command, CommandError> {
        let (command, actor, text) = (&request.command, &request.actor, &request.body);
        if let RunCommand::SetResult { .. } = command {
            check_payload(text, []).map_err(CommandError::ResultInvalid)?;
        }
        let body = match command {
            RunCommand::SetResult { .. } | RunCommand::Signal { .. } => Payload::typed(text).into(),
            RunCommand::Import => self.new_graph(text)?.into(),
            _ => CommandBody::None,
        };
        // Only these commands need the run's state; the others need not wait for it.
        let loaded = match command {
            RunCommand::Cancel { .. }
            | RunCommand::Pause
            | RunCommand::Resume
            | RunCommand::Compensate
            | RunCommand::Import => None,
            RunCommand::Reattempt { nodes } if nodes.is_empty() => None,
            _ => Some(self.load_beside(run).await?.run),
        };
        if let (RunCommand::Signal { name }, Some(state)) = (command, &loaded) {
            self.check_signal_to(state, name, text).await?;
        }
        let instance = |path: &String| match &loaded {
            Some(state) => find_node(state, path),
            None => Err(CommandError::UnknownNode(path.clone())),
        };
        Ok(Command {
            command: command.try_map(instance)?,
            body,
            actor: actor.clone(),
        })
    }

    async fn check_signal_to(
        &self,
        state: &Run,
        name: &str,
        payload: &Arc<str>,
    ) -> Result<(), CommandError> {
        // The graph that it has by the time the signal comes.
        let plan = match self.newest_for(state).await? {
            Some(Input::Heal { plan, .. }) => plan,
            _ => Arc::clone(state.plan()),
        };
        check_signal_name(&plan, name)?;
        let schemas = state.signal_schemas(&plan, name).into_iter();
        let schemas = schemas.map(str::to_owned).collect();
        let tenant = state.queued().tenant.as_deref();
        let checked = check_payload_off_thread(tenant, Arc::clone(payload), schemas).await;
        checked.map_err(CommandError::SignalInvalid)
    }

    /// The graph of a definition that was validated.
    fn new_graph(&self, text: &Arc<str>) -> Result<NewGraph, CommandError> {
        let definition = Digest::of(text.as_bytes());
        let plan = self.plans().plan(definition, text.as_bytes());
        let plan = plan.map_err(|error| LoadError::Definition(error.to_string()))?;
        Ok(NewGraph {
            definition,
            plan,
            text: Payload::new(Arc::clone(text)),
        })
    }

    /// Reads a run back, off the tasks of the runtime.
    pub(crate) async fn load_beside(&self, run: RunId) -> Result<LoadedRun, CommandError> {
        let engine = self.clone();
        match blocking(move || engine.load(run)).await {
            Ok(loaded) => Ok(loaded?),
            Err(error) => Err(LoadError::Definition(error.to_string()).into()),
        }
    }

    /// Names what a refusal is about.
    pub(crate) async fn refused(&self, run: RunId, refusal: Refusal) -> CommandError {
        let loaded = self.load_beside(run).await;
        match loaded {
            Ok(loaded) => CommandError::refused(&loaded.run, refusal),
            Err(_) => CommandError::Refused {
                refusal,
                nodes: Vec::new(),
            },
        }
    }
}

impl CommandError {
    /// A refusal, with the names of what it is about.
    pub fn refused(run: &Run, refusal: Refusal) -> Self {
        let nodes = match &refusal {
            Refusal::InTheWay(nodes) | Refusal::NotFailed(nodes) => nodes
                .iter()
                .filter(|&&node| run.find_status(node).is_some())
                .map(|&node| run.path_and_name(node))
                .collect(),
            Refusal::UnknownSignal(_) => {
                let names = run.awaited_signals().into_iter();
                names.map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        Self::Refused { refusal, nodes }
    }
}
