//! Drives the pure state machine as an engine would: decides, applies, decides on the inputs
//! that the run itself asks for next, and keeps the log and the values. Knows no fixture.

pub mod ancestry;
mod digest;
pub mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use windlass_core::event::{Compensation, Event, Queued, RULES, ResourceLink, Transition};
use windlass_core::plan::{NodeIndex, Plan};
use windlass_core::run::{
    Change, Decision, Evaluations, Facts, Failure, Input, Interrupt, Loaded, Outcome, Refusal,
    Report, Run, Snapshot, ValueLimits, Values, decide, required_values,
};
use windlass_core::value::{Payload, Stored};
use windlass_core::{Digest, Millis, NodeStatus, RunId};

pub use digest::digest;

/// The time at which every run of the tests is asked for.
pub const BEGIN: Millis = Millis(1_000_000);

/// What a worker says of an attempt besides how it ended.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Reporting {
    parameters: Option<Box<RawValue>>,
    meta: Option<Box<RawValue>>,
    resources: Vec<ResourceLink>,
}

/// What one input led to: each event with the changes it made.
pub type Steps = Vec<(Event, Vec<Change>)>;

/// A run, its log, its values and its clock.
pub struct Harness {
    pub run: Run,
    pub now: Millis,
    /// Randomness for jitter.
    pub seed: u64,
    /// The nodes that are with a worker.
    pub running: BTreeSet<NodeIndex>,
    pub values: Values,
    pub log: Vec<Transition>,
    /// The graph that the run began with, and those that were brought later.
    first_plan: Arc<Plan>,
    plans: BTreeMap<Digest, Arc<Plan>>,
    /// The texts of all graphs, the first one first.
    pub definitions: Vec<String>,
    /// What workers say besides how an attempt ended.
    pub reporting: Reporting,
    /// Whether the next record ends with a checkpoint.
    pub takes_checkpoint: bool,
    /// Where the edges of nodes lead that were asked: the frame may be gone by the time a test
    /// prints it.
    pub asked: BTreeMap<String, Vec<String>>,
    /// Looks at the run after each event.
    pub watch: Option<fn(&Run, &Event)>,
    /// Whether `freed` gets an entry when an iteration ends.
    pub buries: bool,
    /// Iterations that ended, by their paths, each with the run at that moment: the next
    /// event may free them.
    pub freed: Vec<(String, Run)>,
    /// Paths of instances that may be gone by the time a test prints them.
    paths: BTreeMap<NodeIndex, String>,
}

impl Harness {
    /// A run that was asked for and has not begun.
    pub fn new(definition: &str, trigger: &str) -> Self {
        Self::asked(definition, trigger, json!({}))
    }

    /// A run that was asked for and has not begun; the request has these keys in place of
    /// the usual ones.
    pub fn asked(text: &str, trigger: &str, keys: serde_json::Value) -> Self {
        let definition = serde_json::from_str(text).expect("a definition");
        let plan = Arc::new(Plan::build(definition).expect("a plan"));
        let inline = |text: &str| Payload::new(text).stored();
        let queued = Queued {
            rules: RULES,
            workflow: plan.workflow().into(),
            version: 1,
            definition: Digest::of(text.as_bytes()),
            request_id: "request".into(),
            tenant: None,
            correlation_id: "correlation".into(),
            priority: 5,
            labels: BTreeMap::new(),
            trigger: inline(trigger),
            vars: plan
                .vars()
                .iter()
                .map(|(name, value)| (name.clone(), inline(value.get())))
                .collect(),
            parent: None,
            depth: 0,
            origin: None,
            frozen: false,
            gate: None,
            traceparent: None,
            partition: 0,
            defaults: None,
        };
        let queued = with_keys(&queued, keys);
        let id = RunId::from_bytes([7; 16]);
        let run = Run::new(id, Arc::clone(&plan), queued.clone(), BEGIN).expect("a run");
        let mut harness = Self {
            run,
            now: BEGIN,
            seed: u64::MAX,
            running: BTreeSet::new(),
            values: Values::default(),
            log: Vec::new(),
            first_plan: plan,
            plans: BTreeMap::new(),
            definitions: vec![text.to_owned()],
            reporting: Reporting::default(),
            takes_checkpoint: false,
            asked: BTreeMap::new(),
            watch: None,
            buries: false,
            freed: Vec::new(),
            paths: BTreeMap::new(),
        };
        harness.record(vec![Event::Queued(Box::new(queued))]);
        harness
    }

    pub fn index(&self, id: &str) -> NodeIndex {
        let index = self.run.resolve(id);
        index.unwrap_or_else(|| panic!("there is no node '{id}'"))
    }

    pub fn id(&self, node: NodeIndex) -> String {
        match self.paths.get(&node) {
            Some(path) => path.clone(),
            None => self.run.path(node).into_string(),
        }
    }

    /// Decides on an input and on everything that the run asks for after it.
    pub fn give(&mut self, input: &Input) -> Result<Steps, Refusal> {
        // A grace is over no earlier than its time.
        if let (Input::GraceEnded, Some(deadline)) = (input, self.run.grace_deadline()) {
            self.now = self.now.max(deadline);
        }
        let mut steps = self.step(input)?;
        if steps.is_empty() {
            // A request that was answered before: nothing is recorded.
            return Ok(steps);
        }
        let mut asked = 0;
        while let Some(pending_decision) = self.run.pending_decision() {
            asked += 1;
            assert!(
                asked < 20_000,
                "the run asks for ever: {pending_decision:?}"
            );
            steps.extend(self.step(&Input::Pending(pending_decision))?);
        }
        if std::mem::take(&mut self.takes_checkpoint) {
            let event = Event::Checkpointed {};
            let applied = self.run.apply(&event, self.now, &mut Vec::new());
            applied.expect("a checkpoint changes nothing");
            steps.push((event, Vec::new()));
        }
        self.run.finish_record();
        let events = steps.iter().map(|(event, _)| event.clone()).collect();
        self.log.push(Transition {
            at: self.now,
            events,
        });
        self.running.retain(|&node| {
            let status = self.run.find_status(node);
            status.is_some_and(|status| !status.is_final() && status != NodeStatus::Pending)
        });
        Ok(steps)
    }

    /// A worker reports the end of the node's present attempt.
    pub fn end(&mut self, node: &str, outcome: Outcome) -> Result<Steps, Refusal> {
        let attempt = self.run.attempt(self.index(node));
        self.end_attempt(node, attempt, outcome)
    }

    /// A worker reports the end of one attempt.
    pub fn end_attempt(
        &mut self,
        node: &str,
        attempt: u32,
        outcome: Outcome,
    ) -> Result<Steps, Refusal> {
        let node = self.index(node);
        let input = self.ended(node, attempt, outcome);
        let steps = self.give(&input)?;
        if self.run.find_status(node) == Some(NodeStatus::Waiting) {
            self.running.remove(&node);
        }
        Ok(steps)
    }

    /// A worker's report of the end of an attempt.
    pub fn ended(&self, node: NodeIndex, attempt: u32, outcome: Outcome) -> Input {
        let report = Report {
            started: self.now,
            ended: self.now,
            worker: "worker".into(),
            outcome,
            parameters: self.reporting.parameters.as_deref().map(payload),
            meta: self.reporting.meta.clone(),
            resources: self.reporting.resources.clone(),
            files: Vec::new(),
            lease: None,
            completed: false,
        };
        Input::Ended {
            node,
            attempt,
            report: Box::new(report),
        }
    }

    /// The run as replay gives it: folds the log without deciding anything, each event through
    /// its stored form.
    pub fn replayed(&self) -> Run {
        let Event::Queued(queued) = &self.log[0].events[0] else {
            panic!("the first event is always Queued");
        };
        let plan = Arc::clone(&self.first_plan);
        let mut run =
            Run::new(self.run.id(), plan, (**queued).clone(), self.log[0].at).expect("known rules");
        for transition in &self.log {
            let text = serde_json::to_string(transition).expect("events serialise");
            let read: Transition = serde_json::from_str(&text).expect("events deserialise");
            let again = serde_json::to_string(&read).expect("events serialise");
            assert_eq!(text, again, "an event changed on its way through storage");
            for event in &read.events {
                self.stage(&mut run, event);
                run.apply(event, read.at, &mut Vec::new())
                    .expect("what was decided can be applied");
            }
            run.finish_record();
            // Half-way, a checkpoint stands for what came before it.
            if run.records() == self.log.len() as u64 / 2 {
                run = self.through_checkpoint(run, queued);
            }
        }
        run
    }

    /// The state as its own snapshot gives it back, where there is one.
    fn through_checkpoint(&self, mut run: Run, queued: &Queued) -> Run {
        let Some(bytes) = run.snapshot() else {
            return run;
        };
        let snapshot = Snapshot::read(&bytes).expect("a snapshot");
        let graphs = snapshot.graphs().iter().map(|name| {
            let brought = self.plans.get(&name.definition);
            Arc::clone(brought.unwrap_or(&self.first_plan))
        });
        let (graphs, at) = (graphs.collect(), self.log[0].at);
        let restored = Run::restore(run.id(), graphs, queued.clone(), at, snapshot);
        let mut restored = restored.expect("a snapshot of this run");
        assert_eq!(
            restored.snapshot(),
            Some(bytes),
            "a snapshot lost something"
        );
        restored
    }

    /// Adds a graph that a user imports; returns its digest and its plan.
    pub fn bring(&mut self, definition: &str) -> (Digest, Arc<Plan>) {
        let digest = Digest::of(definition.as_bytes());
        self.definitions.push(definition.to_owned());
        let definition = serde_json::from_str(definition).expect("a definition");
        let plan = Arc::new(Plan::build(definition).expect("a plan"));
        self.plans.insert(digest, Arc::clone(&plan));
        (digest, plan)
    }

    fn stage(&self, run: &mut Run, event: &Event) {
        if let Event::Healed { definition, .. } | Event::Imported { definition, .. } = event {
            run.stage(*definition, Arc::clone(&self.plans[definition]));
        }
    }

    fn step(&mut self, input: &Input) -> Result<Steps, Refusal> {
        let mut values = Values::default();
        for wanted in required_values(&self.run, input) {
            let value = self.values.get(&wanted.digest).expect("a stored value");
            values.insert(wanted.digest, value.clone());
        }
        let facts = Facts {
            now: self.now,
            seed: self.seed,
            values: &values,
            running: &self.running,
            limits: &ValueLimits::DEFAULT,
            evaluations: &Evaluations::default(),
        };
        let decision = decide(&self.run, input, &facts);
        assert_eq!(
            format!("{decision:?}"),
            format!("{:?}", decide_in_passes(&self.run, input, &facts)),
            "a decision made in passes is the same"
        );
        let decision = decision?;
        for blob in &decision.blobs {
            let loaded = Loaded::new(Arc::clone(blob.text()));
            self.values.insert(blob.digest(), loaded);
        }
        let mut steps = Vec::new();
        for event in decision.events {
            let mut changes = Vec::new();
            if let Event::Healed { definition, .. } | Event::Imported { definition, .. } = &event {
                let plan = Arc::clone(&self.plans[definition]);
                self.run.stage(*definition, plan);
            }
            self.run
                .apply(&event, self.now, &mut changes)
                .expect("what was decided can be applied");
            self.keep(&event);
            if let Event::Routed { node, .. } = &event {
                self.note_asked(node);
            }
            if let Some(watch) = self.watch {
                watch(&self.run, &event);
            }
            for change in &changes {
                let node = change.node();
                self.paths.insert(node, self.run.path(node).into_string());
                if let (true, Change::IterationEnded(_, iteration, _)) = (self.buries, change) {
                    let scope = format!("{}[{iteration}]", self.run.path(node));
                    self.freed.push((scope, self.run.clone()));
                }
            }
            steps.push((event, changes));
        }
        Ok(steps)
    }

    fn note_asked(&mut self, path: &str) {
        let run = &self.run;
        let mut nodes = run.instances().filter(|&node| &*run.path(node) == path);
        let edges = nodes.next().map(|node| run.edges_from(node));
        let id = |(_, target, _)| {
            let path = run.path(target);
            path.rsplit('/').next().expect("a name").to_owned()
        };
        let targets = edges.into_iter().flatten().map(id).collect();
        self.asked.insert(path.to_owned(), targets);
    }

    /// Keeps the values that stand in an event, as a store does.
    fn keep(&mut self, event: &Event) {
        for value in event.values() {
            if let Stored::Inline(raw) = value {
                let loaded = Loaded::new(Arc::from(raw.get()));
                self.values.insert(value.digest(), loaded);
            }
        }
    }

    pub fn record(&mut self, events: Vec<Event>) {
        let transition = Transition {
            at: self.now,
            events,
        };
        self.run
            .apply_record(&transition, &mut Vec::new())
            .expect("a legal record");
        transition.events.iter().for_each(|event| self.keep(event));
        self.log.push(transition);
    }
}

/// A request with these keys in place of its own.
fn with_keys(queued: &Queued, keys: serde_json::Value) -> Queued {
    let text = serde_json::to_string(queued).expect("a request serialises");
    let mut whole: serde_json::Value = serde_json::from_str(&text).expect("an object");
    let serde_json::Value::Object(keys) = keys else {
        panic!("keys of a request: {keys}");
    };
    whole.as_object_mut().expect("an object").extend(keys);
    serde_json::from_str(&whole.to_string()).expect("a request")
}

/// How far undoing a run is.
pub fn compensation_word(compensation: Option<Compensation>) -> &'static str {
    match compensation {
        None => "running",
        Some(Compensation::Complete) => "complete",
        Some(Compensation::Incomplete) => "incomplete",
    }
}

fn payload(json: &RawValue) -> Payload {
    Payload::new(json.get())
}

/// An output.
pub fn output(text: &str) -> Outcome {
    Outcome::Succeeded(Payload::new(text))
}

/// An error that another attempt will not mend.
pub fn failure(code: &str) -> Outcome {
    Outcome::Failed(Failure::permanent(code, "it failed"))
}

/// An error that another attempt may mend.
pub fn retriable(code: &str, retry_after_ms: Option<u64>) -> Outcome {
    Outcome::Failed(Failure {
        retriable: true,
        retry_after_ms,
        ..Failure::permanent(code, "it failed")
    })
}

/// Decides as an engine does that evaluates nothing on its own thread: the first pass ends at
/// the first expression, and the next takes it from there.
fn decide_in_passes(run: &Run, input: &Input, facts: &Facts<'_>) -> Result<Decision, Refusal> {
    let mut evaluations = Evaluations::up_to(0);
    loop {
        let facts = Facts {
            evaluations: &evaluations,
            ..*facts
        };
        let decision = decide(run, input, &facts);
        if !evaluations.is_unfinished() {
            return decision;
        }
        evaluations = evaluations.next_pass(&Interrupt::new());
    }
}
