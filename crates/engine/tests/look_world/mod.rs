//! An engine on a store in memory, and what people see of its runs.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::command::CommandRequest;
use windlass_core::definition::{self, Source, signature};
use windlass_core::event::{AttemptResult, Event};
use windlass_core::plan::Plan;
use windlass_core::run::Refusal;
use windlass_core::{Digest, Millis, RunId, RunStatus};
use windlass_engine::history::for_each_event;
use windlass_engine::verify::{Misfit, verify};
use windlass_engine::{Backend, CommandError, Engine, NewRun, Options, view};
use windlass_orchestrator::codec;
use windlass_store::{
    Append, Catalogue as _, Head, Log as _, MemoryStore, NewDefinition, Queries as _, Wait as _,
    WriterId,
};

pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) engine: Engine,
}

impl World {
    pub(crate) fn new() -> Self {
        let store = MemoryStore::new();
        let backend: Arc<dyn Backend> = Arc::new(store.clone());
        let registry = windlass_actions::registry();
        let engine = Engine::new(backend, registry, Options::default()).wait();
        Self { store, engine }
    }

    pub(crate) async fn run(&self, text: &str) -> (RunId, RunStatus) {
        let request = publish(&self.store, text).await;
        let run = self.engine.start(&request).await.expect("started").run;
        let status = self.engine.wait(run).await.expect("ended");
        (run, status)
    }

    /// Starts a run and goes on at once.
    pub(crate) async fn start(&self, text: &str) -> RunId {
        let request = publish(&self.store, text).await;
        self.engine.start(&request).await.expect("started").run
    }

    pub(crate) async fn command(&self, run: RunId, command: CommandRequest) {
        // One that falls asleep just then is said to have ended, and is asked again.
        for _ in 0..10 {
            match self.engine.command(run, command.clone()).await {
                Err(CommandError::Refused {
                    refusal: Refusal::RunEnded,
                    ..
                }) => tokio::task::yield_now().await,
                done => {
                    done.expect("the command is carried out");
                    return;
                }
            }
        }
        panic!("the run has ended");
    }

    /// Waits until an event of this kind about this node has happened.
    pub(crate) async fn until(&self, run: RunId, kind: &str, node: &str) {
        let happened = |event: &Value| event["kind"] == kind && event["node"] == node;
        while !self.events(run).iter().any(happened) {
            tokio::task::yield_now().await;
        }
    }

    /// The first event of this kind about this node.
    pub(crate) fn event(&self, run: RunId, kind: &str, node: &str) -> Value {
        let mut events = self.events(run).into_iter();
        let found = events.find(|event| event["kind"] == kind && event["node"] == node);
        found.unwrap_or_else(|| panic!("no {kind} of {node}"))
    }

    /// What the check of a run finds, and how many hashes it recomputed.
    pub(crate) fn verify(&self, run: RunId) -> (Option<Misfit>, u64) {
        let (store, plans) = (&**self.engine.store(), self.engine.plans());
        let verified = verify(store, plans, run).expect("readable");
        (verified.misfit, verified.hashes)
    }

    pub(crate) fn events(&self, run: RunId) -> Vec<Value> {
        let mut events = Vec::new();
        for_each_event(&**self.engine.store(), self.engine.plans(), run, |event| {
            events.push(serde_json::to_value(&event).expect("JSON"));
            ControlFlow::Continue(())
        })
        .expect("readable");
        events
    }

    pub(crate) fn kinds(&self, run: RunId) -> Vec<String> {
        let name = |event: &Value| {
            let node = event["node"].as_str().map(|node| format!(" {node}"));
            let attempt = event["attempt"]
                .as_u64()
                .map(|attempt| format!(" {attempt}"));
            let kind = event["kind"].as_str().unwrap_or_default();
            format!(
                "{kind}{}{}",
                node.unwrap_or_default(),
                attempt.unwrap_or_default()
            )
        };
        self.events(run).iter().map(name).collect()
    }

    pub(crate) fn json(&self, run: RunId, options: &view::Options) -> Value {
        let mut out = Vec::new();
        view::write(
            &**self.engine.store(),
            self.engine.plans(),
            run,
            options,
            &mut out,
        )
        .expect("written");
        serde_json::from_slice(&out).expect("valid JSON")
    }
}

/// Adds a definition to the catalogue, as a request for a run of it.
pub(crate) async fn publish(store: &MemoryStore, text: &str) -> NewRun {
    let source = Source::new("test.json", text.as_bytes());
    let parsed = definition::parse(&source, &definition::Options::default()).expect("valid");
    let digest = Digest::of(&parsed.json);
    let published = store.publish(NewDefinition {
        tenant: None,
        workflow: parsed.definition.id.clone(),
        display_name: None,
        digest,
        text: parsed.json.clone().into(),
        signature: signature(&parsed.definition),
        at: Millis(0),
    });
    let version = published.await.expect("published").version;
    let plan = Arc::new(Plan::build(parsed.definition).expect("a plan"));
    NewRun::new(plan, version, digest)
}

/// A copy of a run's log in which the ancestry of a node is another, and the record that
/// was changed.
pub(crate) async fn forge(
    world: &World,
    run: RunId,
    text: &str,
    path: &str,
) -> (MemoryStore, Option<u64>) {
    let forged = MemoryStore::new();
    publish(&forged, text).await;
    let mut head = Head::NONE;
    let mut second = None;
    for record in world
        .store
        .read(run, 1, usize::MAX)
        .wait()
        .expect("records")
    {
        let mut transition = codec::decode(&record.bytes).expect("a transition");
        for event in &mut transition.events {
            if let Event::AttemptEnded(ended) = event
                && &*ended.node == path
            {
                ended.ancestry = Some(Digest::of(b"forged"));
                assert!(matches!(ended.result, AttemptResult::Succeeded(_)));
                second = Some(record.sequence);
            }
        }
        let mut builder = codec::RecordBuilder::default();
        for event in &transition.events {
            builder.push(event, transition.at);
        }
        let append = Append {
            run,
            head,
            writer: WriterId(1),
            append_id: record.sequence,
            record: builder.finish(),
            row: world
                .store
                .run(run)
                .wait()
                .expect("a row")
                .filter(|_| head == Head::NONE),
            claims: Vec::new(),
            resources: Vec::new(),
            blobs: Vec::new(),
            uses: Vec::new(),
            consumed: Vec::new(),
        };
        let answers = forged.append(vec![append]).await;
        head = answers
            .into_iter()
            .next()
            .expect("an answer")
            .expect("appended")
            .head;
    }
    (forged, second)
}
