//! A test harness for one shard and one run: the caller makes every append, answer and result.
//! For figures, and for scenarios that a seed found and that should stay readable.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, ConcurrencyKey, Queued, RULES};
use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::run::{Failure, Input as RunInput, Instance, Outcome, Report, Run};
use windlass_core::value::Payload;
use windlass_core::{Digest, Millis, RunId};
use windlass_orchestrator::{AcquireMode, Begin, Effect, Options, Shard, ShardInput, Start};
use windlass_store::{Append, AppendError, Appended, Head, checksum};

use crate::store::SimStore;
use crate::workload;

/// One run in one shard.
#[derive(Debug)]
pub struct ShardHarness {
    /// The shard under test.
    pub shard: Shard,
    /// The moment.
    pub now: Millis,
    /// The run.
    pub run: RunId,
    /// Its graph.
    pub plan: Arc<Plan>,
    /// What is durable.
    pub store: SimStore,
    /// Appends that wait for an answer, oldest first.
    pub in_flight: Vec<Append>,
    /// How many inputs the shard took.
    pub inputs: u64,
    /// The gate that the run is started with.
    pub gate: Option<ConcurrencyKey>,
    next_command: u64,
}

impl ShardHarness {
    /// An empty shard and the graph of a definition.
    pub fn new(definition: &str) -> Self {
        Self {
            shard: Shard::new(Options::default()),
            now: Millis(1_000),
            run: RunId::from_bytes([7; 16]),
            plan: workload::plan(definition),
            store: SimStore::default(),
            in_flight: Vec::new(),
            inputs: 0,
            gate: None,
            next_command: 0,
        }
    }

    /// Asks for the run.
    pub fn start(&mut self, begin: Begin) {
        let queued = Queued {
            rules: RULES,
            workflow: "bench".into(),
            version: 1,
            definition: Digest([0; 32]),
            request_id: "r".into(),
            tenant: None,
            correlation_id: "r".into(),
            priority: 5,
            labels: BTreeMap::new(),
            trigger: Payload::null().stored(),
            vars: BTreeMap::new(),
            parent: None,
            depth: 0,
            origin: None,
            frozen: false,
            gate: self.gate.clone(),
            traceparent: None,
            partition: 0,
            defaults: None,
        };
        let start = Start {
            run: self.run,
            plan: Arc::clone(&self.plan),
            queued,
            blobs: Vec::new(),
            claims: Vec::new(),
            begin,
            reused: Vec::new(),
        };
        self.handle(ShardInput::Start(Box::new(start)));
    }

    /// Another process: everything but the log is gone, and it acquires the run.
    pub fn restart(&mut self, recover: bool) {
        self.shard = Shard::new(Options::default());
        self.in_flight.clear();
        self.acquire(recover);
    }

    /// Acquires the run from its log.
    pub fn acquire(&mut self, recover: bool) {
        let (run, head) = self.replay();
        let run = Box::new(run);
        let mode = if recover {
            AcquireMode::RECOVER
        } else {
            AcquireMode::ForCommand
        };
        self.handle(ShardInput::Acquire { run, head, mode });
    }

    /// Another shard, or one that released the run, acquires it from its log, which says that it
    /// only waits.
    pub fn wake(&mut self, wrote_last: bool) {
        self.shard = Shard::new(Options::default());
        self.acquire_sleeper(wrote_last);
    }

    /// The shard acquires the run from its log, which says that it only waits.
    pub fn acquire_sleeper(&mut self, wrote_last: bool) {
        let (run, head) = self.replay();
        let mode = AcquireMode::of_sleeper(&run, wrote_last);
        let run = Box::new(run);
        self.handle(ShardInput::Acquire { run, head, mode });
    }

    /// The state that the durable log folds to.
    pub fn replay(&self) -> (Run, Head) {
        let replayed = self
            .store
            .replay(self.run, |_| Some(Arc::clone(&self.plan)));
        replayed.expect("the log replays")
    }

    fn handle(&mut self, input: ShardInput) {
        self.inputs += 1;
        self.shard.handle(input, self.now);
    }

    /// Takes what is to be appended; how many appends there were.
    pub fn poll(&mut self) -> usize {
        let batch = self.shard.poll_append();
        let count = batch.len();
        self.in_flight.extend(batch);
        count
    }

    /// Makes the oldest append durable and answers it.
    pub fn answer(&mut self) {
        let append = self.in_flight.remove(0);
        let (run, append_id) = (append.run, append.append_id);
        let head = checksum::next_head(&append);
        let result = self.store.append(append);
        assert!(result.is_ok(), "nothing else appends here: {result:?}");
        let result = Ok(Appended { head });
        self.handle(ShardInput::Appended {
            run,
            append_id,
            result,
        });
    }

    /// Takes what is to be appended and stores none of it.
    ///
    /// # Panics
    /// There is nothing to append.
    pub fn fail_append(&mut self) {
        self.poll();
        let append = self.in_flight.remove(0);
        let error = windlass_store::Error::Unavailable("on the bench".to_owned());
        self.handle(ShardInput::Appended {
            run: append.run,
            append_id: append.append_id,
            result: Err(AppendError::Failed(error)),
        });
    }

    /// Appends and answers until there is nothing to append.
    pub fn settle(&mut self) {
        while self.poll() > 0 || !self.in_flight.is_empty() {
            self.answer();
        }
    }

    /// A worker's result.
    pub fn end(&mut self, node: &str, attempt: u32, outcome: Outcome) {
        let node = self.plan.index(node).expect("the graph has the node");
        self.end_index(node, attempt, outcome);
    }

    /// A worker's result, by the node's place.
    pub fn end_index(&mut self, node: NodeIndex, attempt: u32, outcome: Outcome) {
        let report = Box::new(Report {
            started: self.now,
            ended: self.now,
            worker: "w".into(),
            outcome,
            parameters: None,
            meta: None,
            resources: Vec::new(),
            files: Vec::new(),
            lease: None,
            completed: false,
        });
        let run = self.run;
        self.handle(ShardInput::Ended {
            run,
            node,
            attempt,
            report,
        });
    }

    /// The instance with this path now.
    ///
    /// # Panics
    /// The shard does not have the run in memory, or the run has no such instance.
    pub fn instance(&self, path: &str) -> Instance {
        let run = self.shard.run(self.run).expect("the shard holds the run");
        run.resolve(path).expect("the run has the instance")
    }

    /// Gives the run a command; its number.
    pub fn command(&mut self, command: RunCommand<Instance>) -> u64 {
        self.ask(RunInput::command(command, Actor::default()))
    }

    /// Asks something of the run that is answered; its number.
    pub fn ask(&mut self, input: RunInput) -> u64 {
        self.ask_for_item(input, None)
    }

    /// The same on behalf of an item of the inbox.
    pub fn ask_for_item(&mut self, input: RunInput, item: Option<&str>) -> u64 {
        self.next_command += 1;
        let (run, id) = (self.run, self.next_command);
        let item = item.map(Into::into);
        self.handle(ShardInput::Command {
            run,
            id,
            input,
            item,
        });
        id
    }

    /// Lets time pass and deadlines fire.
    pub fn pass(&mut self, milliseconds: u64) {
        self.now = self.now.plus(milliseconds);
        self.shard.handle_deadlines(self.now);
    }

    /// What the shard wants done, as short text: `dispatch a#1`, `stop a#1`, `give up a#1`,
    /// `finished Succeeded`, `answer 1 ok`; progress is left out.
    pub fn effects(&mut self) -> Vec<String> {
        let mut effects = Vec::new();
        while let Some(effect) = self.shard.poll_effect() {
            effects.extend(self.words(&effect));
        }
        effects
    }

    fn words(&self, effect: &Effect) -> Option<String> {
        Some(match effect {
            Effect::Dispatch(dispatch) => {
                format!("dispatch {}#{}", dispatch.path, dispatch.attempt)
            }
            Effect::Stop {
                give_up,
                node,
                attempt,
                ..
            } => {
                let verb = if *give_up { "give up" } else { "stop" };
                let state = self.shard.run(self.run);
                let path = state.and_then(|run| run.find_status(*node).map(|_| run.path(*node)));
                let path = path.unwrap_or_else(|| match *node {
                    node if (node as usize) < self.plan.len() => self.plan.id(node).into(),
                    node => format!("instance {node}").into(),
                });
                format!("{verb} {path}#{attempt}")
            }
            Effect::Accepted { .. } => "accepted".to_owned(),
            Effect::Finished { status, .. } => format!("finished {status}"),
            Effect::Answer {
                id, result: Ok(()), ..
            } => format!("answer {id} ok"),
            Effect::Answer { id, result, .. } => format!("answer {id} {result:?}"),
            Effect::Progress { .. } | Effect::Began { .. } | Effect::ActiveChanged { .. } => {
                return None;
            }
            other => format!("{other:?}"),
        })
    }
}

/// A success.
pub fn success() -> Outcome {
    Outcome::Succeeded(Payload::null())
}

/// An error for good.
pub fn failure() -> Outcome {
    Outcome::Failed(Failure::permanent("NEVER", "on the bench"))
}

/// An error that may be tried again.
pub fn retriable() -> Outcome {
    Outcome::Failed(Failure {
        retriable: true,
        ..Failure::permanent("AGAIN", "on the bench")
    })
}
