//! The one place where the engine is held against the model of structured runs: the
//! same moves, and the same report of what can be seen afterwards.
//!
//! Everything here speaks of instances by their paths.

use windlass_core::command::RunCommand;
use windlass_core::definition::Definition;
use windlass_core::event::Actor;
use windlass_core::plan::Plan;
use windlass_core::run::{Input, Outcome};
use windlass_core::value::Payload;
use windlass_test_support::harness::seen::LastSeen;
use windlass_test_support::harness::{Harness, digest, failure, output, retriable};
use windlass_test_support::report::RunReport;

use crate::model::Names;
use crate::model::structured::{Move, Word};

/// A run of the engine.
pub(crate) struct Engine {
    pub(crate) harness: Harness,
    seen: LastSeen,
}

impl Engine {
    /// A run that has not begun; `None` where the engine cannot run the definition.
    pub(crate) fn new(definition: &str) -> Option<Self> {
        let read: Definition = serde_json::from_str(definition).expect("a definition");
        Plan::build(read).ok()?;
        let mut harness = Harness::new(definition, "null");
        harness.buries = true;
        let seen = LastSeen::default();
        Some(Self { harness, seen })
    }

    /// Makes a move; says whether it was accepted.
    pub(crate) fn make(&mut self, step: &Move) -> bool {
        let accepted = self.try_move(step);
        self.seen.update(&mut self.harness);
        accepted
    }

    fn try_move(&mut self, step: &Move) -> bool {
        let input = match step {
            Move::Start => Some(Input::Begin),
            Move::Cancel => Some(Input::command(
                RunCommand::Cancel { compensate: false },
                Actor::default(),
            )),
            Move::TimeOut => {
                self.harness.now = self.harness.now.plus(100_000);
                Some(Input::TimedOut)
            }
            // The model knows one grace, the engine one for each scope.
            Move::GraceEnds => {
                self.harness.now = self.harness.now.plus(20_000);
                Some(Input::GraceEnded)
            }
            Move::Word(path, attempt, word) => {
                let node = self.harness.run.resolve(path);
                node.map(|node| self.harness.ended(node, *attempt, outcome(word)))
            }
            Move::Fire(path) => self.due(path),
            Move::Signal(name, value) => Some(Input::from(
                RunCommand::Signal {
                    name: (&**name).into(),
                }
                .by(Actor::default())
                .with(Payload::new(value.to_string())),
            )),
            Move::Undone(word) => self.undone(word),
        };
        input.is_some_and(|input| self.harness.give(&input).is_ok())
    }

    /// The clock moves to when a waiting instance is due.
    fn due(&mut self, path: &str) -> Option<Input> {
        let run = &self.harness.run;
        let node = run.resolve(path)?;
        let (due, attempt) = (run.due(node)?, run.attempt(node));
        self.harness.now = self.harness.now.max(due);
        Some(Input::Due { node, attempt })
    }

    /// A word on the compensation that is open.
    fn undone(&self, word: &Word) -> Option<Input> {
        let run = &self.harness.run;
        let mut open = run.open_instances().into_iter();
        let node = open.find(|&node| run.undone(node).is_some())?;
        Some(self.harness.ended(node, run.attempt(node), outcome(word)))
    }

    /// Says which instances are with a worker.
    pub(crate) fn set_running(&mut self, running: &Names) {
        let running = running.iter();
        let running = running.filter_map(|path| self.harness.run.resolve(path));
        self.harness.running = running.collect();
    }

    /// Folding the log without any decision leads to the same state.
    pub(crate) fn check_replay(&self) {
        let replayed = digest(&self.harness.replayed());
        assert_eq!(replayed, digest(&self.harness.run), "replay differs");
    }

    /// What can be seen of the run, and of its edges.
    pub(crate) fn view(&self) -> View {
        let report = self.seen.report(&self.harness);
        (report, self.seen.edges(&self.harness))
    }
}

/// What can be seen of a run, and of its edges.
pub(crate) type View = (RunReport, Vec<String>);

fn outcome(word: &Word) -> Outcome {
    match word {
        Word::Success(value) => output(&value.to_string()),
        Word::Failure => failure("BOOM"),
        Word::Retriable => retriable("BUSY", None),
        Word::Skip => Outcome::Skipped,
        Word::Stopped => Outcome::Stopped,
    }
}
