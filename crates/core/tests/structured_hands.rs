//! Random structured runs under every input that a run can get: reports, timers, signals,
//! stops, pauses, takeovers, reattempts, results by hand and compensations, also on instances
//! that are gone or never were. Nothing panics, no attempt has two outcomes, replay gives the
//! live state, and the invariants of every run hold at every moment.
//!
//! `WINDLASS_SEED=n` plays one case; `WINDLASS_CASES=n` plays that many.

#[path = "structured_hands/invariants.rs"]
mod invariants;
mod model;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use windlass_core::command::{NewGraph, RunCommand};
use windlass_core::event::{Actor, Event};
use windlass_core::run::{Input, Instance, Outcome};
use windlass_core::value::Payload;
use windlass_core::{NodeStatus, RunStatus};

use model::generate::Dice;
use model::structured::Word;
use model::structured::generate::{self, Bounds};
use windlass_test_support::harness::{self, Harness, ancestry, digest, output};

#[test]
fn whatever_hands_do_the_run_stays_whole() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(seed) = number("WINDLASS_SEED") {
        return Case::new(seed).play();
    }
    for seed in 0..number("WINDLASS_CASES").unwrap_or(1500) {
        Case::new(seed).play();
    }
}

struct Case {
    seed: u64,
    dice: Dice,
    definition: String,
    harness: Harness,
    /// Attempts that have an outcome: whether they undo, path, number.
    outcomes: BTreeSet<(bool, String, u32)>,
    story: String,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let bounds = Bounds {
            nodes: 1 + (seed as usize / 100).min(6),
            depth: (seed % 4) as usize,
            plain: false,
        };
        let mut definition = generate::definition(&mut dice, bounds);
        if dice.chance(40) {
            definition["inFlight"] = serde_json::json!("healing");
        }
        let definition = definition.to_string();
        let mut harness = Harness::new(&definition, "null");
        harness.watch = Some(ancestry::check);
        Self {
            seed,
            dice,
            definition,
            harness,
            outcomes: BTreeSet::new(),
            story: String::new(),
        }
    }

    fn play(mut self) {
        self.give("start", &Input::Begin);
        for _ in 0..10 + self.dice.below(80) {
            self.choose();
        }
        self.check_replay();
        self.finish();
        self.check_replay();
    }

    fn choose(&mut self) {
        match self.dice.below(100) {
            0..40 => self.word(),
            40..48 => self.take(),
            48..58 => self.due(),
            58..62 => self.signal(),
            62..64 => self.cancel(),
            64..66 => self.time(),
            66..68 => self.grace(),
            68..71 => self.give(
                "pause",
                &Input::command(RunCommand::Pause, Actor::default()),
            ),
            71..75 => self.give(
                "resume",
                &Input::command(RunCommand::Resume, Actor::default()),
            ),
            75..77 => self.give("recover", &Input::Recover(Default::default())),
            77..87 => self.reattempt(),
            87..93 => self.set_result(),
            93..95 => self.compensation(),
            95..97 => self.change_graph(),
            _ => self.stranger(),
        }
    }

    fn give(&mut self, what: &str, input: &Input) {
        let _ = writeln!(self.story, "> {what}");
        let before = digest(&self.harness.run);
        let ended = self.ended_loops();
        match self.harness.give(input) {
            Ok(steps) => {
                if let Some((Event::Reattempted { .. } | Event::SetByHand(_), _)) = steps.first() {
                    self.forget_reopened(&ended, &steps[0].0);
                }
                steps.iter().for_each(|(event, _)| self.note(event));
            }
            Err(refusal) => {
                let _ = writeln!(self.story, "  refused: {refusal}");
                let after = digest(&self.harness.run);
                assert_eq!(before, after, "a refusal changed something");
            }
        }
        if std::env::var_os("WINDLASS_SHOW").is_some() {
            let _ = writeln!(self.story, "{}", digest(&self.harness.run));
        }
        invariants::check(&self.harness.run, &self.definition);
    }

    /// No attempt has two outcomes.
    fn note(&mut self, event: &Event) {
        let (undoes, path, attempt) = match event {
            Event::AttemptEnded(ended) => (false, &ended.node, ended.attempt),
            Event::CompensationEnded(ended) => (true, &ended.node, ended.attempt),
            Event::SetByHand(set) => (false, &set.node, set.attempt),
            _ => return,
        };
        let is_new = self.outcomes.insert((undoes, path.to_string(), attempt));
        assert!(is_new, "attempt {attempt} of {path} has two outcomes");
    }

    /// Loops that have ended, with their attempts.
    fn ended_loops(&self) -> BTreeSet<(String, u32)> {
        let run = &self.harness.run;
        let loops = run.instances().filter(|&node| run.cycle(node).is_some());
        let ended = loops.filter(|&node| run.node_status(node).is_final());
        ended
            .map(|node| (run.path(node).into(), run.attempt(node)))
            .collect()
    }

    /// A loop opens again around a node that is tried again, and goes on to another end
    /// without a new attempt of its own (semantics §5).
    fn forget_reopened(&mut self, before: &BTreeSet<(String, u32)>, event: &Event) {
        let now = self.ended_loops();
        for ended in before {
            // One that opened again may have ended again by now.
            let is_around = match event {
                Event::SetByHand(set) => set.node.starts_with(&format!("{}[", ended.0)),
                _ => false,
            };
            if is_around || !now.contains(ended) {
                self.outcomes.remove(&(false, ended.0.clone(), ended.1));
            }
        }
    }

    fn pick(&mut self, wanted: impl Fn(&Self, Instance) -> bool) -> Option<Instance> {
        let run = &self.harness.run;
        let undoing = run.undo().into_iter().flat_map(|undo| undo.steps());
        let undoing = undoing.filter_map(|(node, _)| run.undoing_of(node));
        let mut nodes: Vec<Instance> = run.instances().chain(undoing).collect();
        nodes.retain(|&node| wanted(self, node));
        (!nodes.is_empty()).then(|| *self.dice.pick(&nodes))
    }

    fn is_open_work(&self, node: Instance) -> bool {
        let run = &self.harness.run;
        let is_work = run.open_instances().contains(&node);
        is_work && !run.is_structural(node)
    }

    fn word(&mut self) {
        let Some(node) = self.pick(Self::is_open_work) else {
            return;
        };
        let attempt = self.harness.run.attempt(node);
        let path = self.harness.id(node);
        let outcome = match generate::answer(self.dice.roll(), &path, attempt) {
            Word::Success(value) => output(&value.to_string()),
            Word::Failure => harness::failure("BOOM"),
            Word::Retriable => harness::retriable("BUSY", None),
            Word::Skip | Word::Stopped if self.dice.chance(50) => Outcome::Stopped,
            Word::Skip | Word::Stopped => Outcome::Skipped,
        };
        self.end(node, attempt, outcome);
    }

    fn end(&mut self, node: Instance, attempt: u32, outcome: Outcome) {
        let what = format!("{} #{attempt} ends: {outcome:?}", self.harness.id(node));
        let input = self.harness.ended(node, attempt, outcome);
        self.give(&what, &input);
        if self.harness.run.find_status(node) == Some(NodeStatus::Waiting) {
            self.harness.running.remove(&node);
        }
    }

    fn take(&mut self) {
        let may_go =
            |case: &Self, node| case.is_open_work(node) && case.harness.run.may_hand_out(node);
        if let Some(node) = self.pick(may_go) {
            let _ = writeln!(self.story, "> running {}", self.harness.id(node));
            self.harness.running.insert(node);
        }
    }

    fn due(&mut self) {
        let due = |case: &Self, node| case.harness.run.due(node).is_some();
        let Some(node) = self.pick(due) else { return };
        let run = &self.harness.run;
        let due = run.due(node).expect("just looked at");
        let attempt = run.attempt(node);
        self.harness.now = self.harness.now.max(due);
        let what = format!("due {}", self.harness.id(node));
        self.give(&what, &Input::Due { node, attempt });
    }

    fn signal(&mut self) {
        let name = *self.dice.pick(&["go", "more", "nobody"]);
        self.send(name);
    }

    fn send(&mut self, name: &str) {
        let input = Input::from(
            RunCommand::Signal { name: name.into() }
                .by(Actor::default())
                .with(Payload::new("1")),
        );
        self.give(&format!("signal {name}"), &input);
    }

    fn cancel(&mut self) {
        let compensate = self.dice.chance(50);
        let actor = Actor::default();
        self.give(
            "cancel",
            &Input::command(RunCommand::Cancel { compensate }, actor),
        );
    }

    fn time(&mut self) {
        self.harness.now = self.harness.now.plus(2000);
        self.give("timeout", &Input::TimedOut);
    }

    fn grace(&mut self) {
        self.harness.now = self.harness.now.plus(20_000);
        self.give("grace", &Input::GraceEnded);
    }

    fn reattempt(&mut self) {
        let ended_badly = |case: &Self, node| {
            let status = case.harness.run.find_status(node);
            matches!(status, Some(NodeStatus::Failed | NodeStatus::Cancelled))
        };
        let count = self.dice.below(4);
        let nodes: Vec<Instance> = (0..count).filter_map(|_| self.pick(ended_badly)).collect();
        let names: Vec<String> = nodes.iter().map(|&node| self.harness.id(node)).collect();
        let input = Input::command(RunCommand::Reattempt { nodes }, Actor::default());
        self.give(&format!("reattempt {names:?}"), &input);
    }

    fn set_result(&mut self) {
        let Some(node) = self.pick(|_, _| true) else {
            return;
        };
        let skips = self.dice.chance(40);
        let command = match skips {
            true => RunCommand::Skip { node },
            false => RunCommand::SetResult { node },
        };
        let command = command.by(Actor::default());
        let input = Input::from(command.with(Payload::new("\"by hand\"")));
        let what = format!("set {} by hand", self.harness.id(node));
        self.give(&what, &input);
    }

    fn compensation(&mut self) {
        let actor = Actor::default();
        let targets = self.harness.run.undo();
        let targets: Vec<Instance> = targets
            .iter()
            .flat_map(|undo| undo.steps())
            .map(|s| s.0)
            .collect();
        if targets.is_empty() {
            return self.give("compensate", &Input::command(RunCommand::Compensate, actor));
        }
        let node = *self.dice.pick(&targets);
        let (what, input) = if self.dice.chance(50) {
            (
                "undo again",
                Input::command(RunCommand::RetryCompensation { nodes: vec![node] }, actor),
            )
        } else {
            (
                "do not undo",
                Input::command(RunCommand::SkipCompensation { nodes: vec![node] }, actor),
            )
        };
        self.give(&format!("{what} {}", self.harness.id(node)), &input);
    }

    /// Another graph with partly the same ids.
    fn change_graph(&mut self) {
        let bounds = Bounds {
            nodes: 1 + self.dice.below(6),
            depth: self.dice.below(3),
            plain: false,
        };
        let text = generate::definition(&mut self.dice, bounds).to_string();
        let (definition, plan) = self.harness.bring(&text);
        let input = if self.harness.run.status() == RunStatus::Paused {
            let text = Payload::null();
            let graph = NewGraph {
                definition,
                plan,
                text,
            };
            Input::from(RunCommand::Import.by(Actor::default()).with(graph))
        } else {
            Input::Heal {
                version: self.harness.run.version() + 1,
                definition,
                plan,
            }
        };
        // Bodies that have begun keep the joins of the graph before.
        self.definition = format!("[{},{text}]", self.definition);
        self.give(&format!("another graph: {text}"), &input);
    }

    /// Inputs on instances that the run may not have.
    fn stranger(&mut self) {
        let node = self.dice.below(60) as Instance;
        let attempt = self.dice.below(3) as u32;
        let actor = Actor::default();
        let run = &self.harness.run;
        let is_known = run.find_status(node).is_some();
        let _ = (run.attempt(node), run.attempts(node), run.value(node));
        let _ = (
            run.is_handled(node),
            run.may_hand_out(node),
            run.after_all(node),
        );
        let _ = (
            run.in_the_way(&[node]),
            run.held_back_by(&[node]),
            run.signal_of(node),
        );
        let input = match self.dice.below(6) {
            0 => Input::Due { node, attempt },
            1 => Input::command(RunCommand::Reattempt { nodes: vec![node] }, actor),
            2 => Input::command(RunCommand::RetryCompensation { nodes: vec![node] }, actor),
            3 => Input::command(RunCommand::SkipCompensation { nodes: vec![node] }, actor),
            4 => Input::StillRunning {
                node,
                attempt,
                started: self.harness.now,
                worker: "worker".into(),
            },
            _ => self.harness.ended(node, attempt, Outcome::Skipped),
        };
        let what = format!("{input:?}, known {is_known}");
        self.give(&what, &input);
    }

    /// Whatever is left goes on to its end.
    fn finish(&mut self) {
        for _ in 0..3000 {
            if self.harness.run.status().is_final() {
                return;
            }
            if self.harness.run.status() == RunStatus::Paused {
                self.give(
                    "resume",
                    &Input::command(RunCommand::Resume, Actor::default()),
                );
            }
            if let Some(node) = self.pick(Self::is_open_work) {
                let attempt = self.harness.run.attempt(node);
                self.end(node, attempt, output("1"));
            }
            self.due();
            for name in ["go", "more"] {
                self.send(name);
            }
        }
        panic!("the run does not end");
    }

    fn check_replay(&self) {
        let replayed = digest(&self.harness.replayed());
        assert_eq!(replayed, digest(&self.harness.run), "replay differs");
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "WINDLASS_SEED={}\n{}\n{}",
                self.seed, self.definition, self.story
            );
        }
    }
}
