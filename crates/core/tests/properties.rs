//! Random graphs, outcomes, schedules and commands, through the engine and through the
//! naive model of `model/`; after every step both must say the same.
//!
//! `WINDLASS_SEED=n` plays one case; `WINDLASS_CASES=n` plays that many.

mod model;

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use windlass_core::command::RunCommand;
use windlass_core::event::{Actor, Event};
use windlass_core::plan::NodeIndex;
use windlass_core::routing::EdgeState;
use windlass_core::run::{Change, Input, Outcome, Refusal};
use windlass_core::{NodeStatus, RunStatus};

use model::derive::{Fate, Lot};
use model::generate::{self, Dice};
use model::{After, End, Life, Model, Names, Word};
use windlass_test_support::harness::{Harness, Steps, digest, failure, output, retriable};

#[test]
fn the_engine_does_what_the_model_says() {
    if let Some(seed) = number("WINDLASS_SEED") {
        return Case::new(seed).play();
    }
    for seed in 0..number("WINDLASS_CASES").unwrap_or(4000) {
        Case::new(seed).play();
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// One random run, in the engine and in the model.
struct Case {
    seed: u64,
    dice: Dice,
    harness: Harness,
    model: Model,
    definition: String,
    story: String,
    /// The nodes that are open, going only by the changes that events made.
    followed: Names,
    /// Each ended node's ancestry, by the naive formula.
    hashes: std::collections::BTreeMap<String, String>,
}

impl Case {
    /// Small graphs come first, so that the first failure is easy to read.
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let size = 1 + dice.below(12.min(2 + seed as usize / 100));
        let (graph, definition) = generate::graph(&mut dice, size);
        Self {
            seed,
            dice,
            harness: Harness::new(&definition, "null"),
            model: Model::new(graph),
            definition,
            story: String::new(),
            followed: Names::new(),
            hashes: Default::default(),
        }
    }

    fn play(mut self) {
        if !self.dice.chance(95) {
            self.command("cancel");
        } else {
            self.command("start");
        }
        for _ in 0..20 + self.dice.below(60) {
            let command = self.choose();
            self.command(command);
            if self.model.has_ended() && self.dice.chance(30) {
                break;
            }
        }
        self.finish();
    }

    /// Whatever the commands left open ends, and then everything has ended.
    fn finish(&mut self) {
        self.command("resume");
        while let Some(name) = self.model.open().first().cloned() {
            let attempt = self.model.facts[&name].attempt;
            self.word(&name, attempt, Word::Success);
        }
        for name in &self.model.graph.names {
            let status = self.harness.run.node_status(self.harness.index(name));
            assert!(status.is_final(), "{name} is {status} at the end");
        }
        assert!(self.harness.run.status().is_final());
        let replayed = digest(&self.harness.replayed());
        assert_eq!(replayed, digest(&self.harness.run), "replay differs");
    }

    fn choose(&mut self) -> &'static str {
        match self.dice.below(100) {
            0..60 => "word",
            60..74 => "take",
            74..77 => "still",
            77..80 => "late",
            80..82 => "cancel",
            82..85 => "pause",
            85..89 => "resume",
            89..90 => "timeout",
            90..92 => "grace",
            92..94 => "recover",
            94..97 => "reattempt",
            97..99 => "reattempt all",
            _ => "start",
        }
    }

    fn command(&mut self, command: &str) {
        let running = self.running();
        let nobody = Actor::default;
        match command {
            "start" => self.both("start", &Input::Begin, Model::start),
            "cancel" => {
                let input = Input::command(RunCommand::Cancel { compensate: false }, nobody());
                self.both("cancel", &input, |model| model.cancel(&running));
            }
            "pause" => self.both(
                "pause",
                &Input::command(RunCommand::Pause, nobody()),
                Model::pause,
            ),
            "resume" => self.both(
                "resume",
                &Input::command(RunCommand::Resume, nobody()),
                Model::resume,
            ),
            "timeout" => {
                self.harness.now = self.harness.now.plus(100_000);
                self.both("timeout", &Input::TimedOut, |model| {
                    model.time_out(&running)
                });
            }
            "grace" => self.both("grace", &Input::GraceEnded, Model::grace_ends),
            "recover" => self.both(
                "recover",
                &Input::Recover(Default::default()),
                Model::recover,
            ),
            "reattempt" | "reattempt all" => self.reattempt(command == "reattempt all"),
            "take" => self.take(),
            "still" => self.still(),
            "late" => {
                let name = self.dice.pick(&self.model.graph.names).clone();
                let attempt = self.dice.below(4) as u32;
                self.word(&name, attempt, Word::Success);
            }
            _ => {
                if let Some(name) = self.dice.pick_name(&self.model.open()) {
                    let words = [
                        Word::Success,
                        Word::Failure,
                        Word::Retriable,
                        Word::Skip,
                        Word::Stopped,
                    ];
                    let weights = [0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 4];
                    let word = words[*self.dice.pick(&weights)];
                    let attempt = self.model.facts[&name].attempt;
                    self.word(&name, attempt, word);
                }
            }
        }
    }

    /// A worker takes an open attempt: nothing is recorded yet.
    fn take(&mut self) {
        if let Some(name) = self.dice.pick_name(&self.model.open()) {
            let node = self.harness.index(&name);
            self.harness.running.insert(node);
            let _ = write!(self.story, "> running {}", self.running_list());
            self.story.push('\n');
        }
    }

    fn still(&mut self) {
        let Some(name) = self.dice.pick_name(&self.model.open()) else {
            return;
        };
        let node = self.harness.index(&name);
        if self.harness.run.node_status(node) == NodeStatus::Running {
            return;
        }
        self.harness.running.insert(node);
        let input = Input::StillRunning {
            node,
            attempt: self.harness.run.attempt(node),
            started: self.harness.now,
            worker: "worker".into(),
        };
        self.both(&format!("still {name}"), &input, |model| {
            let facts = model.facts.get_mut(&name).expect("a node");
            facts.backs_off = false;
            true
        });
    }

    fn word(&mut self, name: &str, attempt: u32, word: Word) {
        let (verb, outcome) = match word {
            Word::Success => ("succeed", output(&format!("\"{name} {attempt}\""))),
            Word::Failure => ("fail", failure("BOOM")),
            Word::Retriable => ("fail", retriable("BUSY", None)),
            Word::Skip => ("skip", Outcome::Skipped),
            Word::Stopped => ("stopped", Outcome::Stopped),
        };
        let _ = writeln!(self.story, "> {verb} {name}#{attempt} {word:?}");
        let parents = self.parents(name);
        let running = self.running();
        let before = digest(&self.harness.run);
        let result = self.harness.end_attempt(name, attempt, outcome);
        let accepted = self.model.word(name, attempt, word, &running);
        self.agree(&before, &result, accepted);
        if let Ok(steps) = result {
            self.check_ancestry(name, attempt, word, parents, &steps);
        }
    }

    fn reattempt(&mut self, all: bool) {
        let mut names = Names::new();
        if !all {
            for _ in 0..1 + self.dice.below(2) {
                names.insert(self.dice.pick(&self.model.graph.names).clone());
            }
        }
        let list: Vec<&str> = names.iter().map(String::as_str).collect();
        let _ = writeln!(self.story, "> reattempt {}", list.join(" "));
        let nodes = names.iter().map(|name| self.harness.index(name)).collect();
        let before = digest(&self.harness.run);
        let result = self.harness.give(&Input::command(
            RunCommand::Reattempt { nodes },
            Actor::default(),
        ));
        let refused = self.model.reattempt(&names);
        if let Err(Refusal::InTheWay(nodes)) = &result {
            let named: Names = nodes.iter().map(|&node| self.harness.id(node)).collect();
            assert_eq!(Some(named), refused, "the nodes in the way");
        }
        self.agree(&before, &result, refused.is_none());
    }

    fn both(&mut self, words: &str, input: &Input, follow: impl FnOnce(&mut Model) -> bool) {
        let _ = writeln!(self.story, "> {words}");
        let before = digest(&self.harness.run);
        let result = self.harness.give(input);
        let accepted = follow(&mut self.model);
        self.agree(&before, &result, accepted);
    }

    /// Both accepted or both refused, and both are in the same state.
    fn agree(&mut self, before: &str, result: &Result<Steps, Refusal>, accepted: bool) {
        if let Err(refusal) = result {
            assert!(!accepted, "the model accepts what was refused: {refusal:?}");
            let after = digest(&self.harness.run);
            assert_eq!(before, after, "a refusal changed something");
        } else {
            assert!(accepted, "the model refuses what was accepted");
        }
        result.iter().for_each(|steps| self.follow(steps));
        assert_eq!(self.followed, self.model.open(), "who follows the changes");
        assert_eq!(self.engine_state(), self.model_state());
    }

    /// Follows the changes as an engine would, which hands out ready nodes and takes back
    /// ended ones.
    fn follow(&mut self, steps: &Steps) {
        for (event, changes) in steps {
            let mut ready = Names::new();
            for change in changes {
                match *change {
                    Change::Ready(node, _) => {
                        let name = self.harness.id(node);
                        assert!(self.followed.insert(name.clone()), "{name} was open");
                        ready.insert(name);
                    }
                    Change::Ended(node, ..) => {
                        let name = self.harness.id(node);
                        self.followed.remove(&name);
                        assert!(!ready.contains(&name), "{event:?} opened and ended {name}");
                    }
                    _ => {}
                }
            }
        }
    }

    fn engine_state(&self) -> String {
        let run = &self.harness.run;
        let mut text = format!("run {}\n", run.status());
        for name in &self.model.graph.names {
            let node = self.harness.index(name);
            let status = match run.node_status(node) {
                NodeStatus::Queued | NodeStatus::Running => "open",
                status => status.as_str(),
            };
            let by: Names = run
                .blocked_by(node)
                .iter()
                .map(|&by| self.harness.id(by))
                .collect();
            let handled = run.node_status(node) == NodeStatus::Failed && run.is_handled(node);
            let attempt = run.attempt(node);
            let _ = writeln!(
                text,
                "{name} {status} {attempt} by {by:?} handled {handled}"
            );
        }
        let mut edges: Vec<String> = Vec::new();
        for (index, edge) in run.plan().edges().iter().enumerate() {
            let (from, to) = (self.harness.id(edge.source), self.harness.id(edge.target));
            let state = match run.edge_state(index as u32) {
                EdgeState::Unresolved => "open",
                EdgeState::Taken => "taken",
                EdgeState::NotTaken => "not taken",
                EdgeState::Lost => "lost",
            };
            edges.push(format!("{from} -{:?}-> {to} {state}", edge.when));
        }
        edges.sort();
        text + &edges.join("\n")
    }

    fn model_state(&self) -> String {
        let model = &self.model;
        let mut text = format!("run {}\n", life(model.life));
        for name in &model.graph.names {
            let facts = &model.facts[name];
            let lot = model.now.lots.get(name);
            let (status, by) = match (facts.end, lot) {
                (Some(end), _) => (format!("{end:?}"), Names::new()),
                (None, Some(Lot::Skipped)) => ("Skipped".to_owned(), Names::new()),
                (None, Some(Lot::Blocked(by))) => ("Blocked".to_owned(), by.clone()),
                _ if facts.backs_off => ("Waiting".to_owned(), Names::new()),
                _ if facts.open => ("open".to_owned(), Names::new()),
                _ => ("Pending".to_owned(), Names::new()),
            };
            let handled = facts.end == Some(End::Failed) && model.now.handled.contains(name);
            let attempt = facts.attempt;
            let _ = writeln!(
                text,
                "{name} {status} {attempt} by {by:?} handled {handled}"
            );
        }
        let mut edges: Vec<String> = Vec::new();
        for (arrow, fate) in model.graph.arrows.iter().zip(&model.now.arrows) {
            let state = match fate {
                Fate::Open => "open",
                Fate::Taken(_) => "taken",
                Fate::NotTaken => "not taken",
                Fate::Lost(_) => "lost",
            };
            let when: After = arrow.after;
            edges.push(format!("{} -{when:?}-> {} {state}", arrow.from, arrow.to));
        }
        edges.sort();
        text + &edges.join("\n")
    }

    /// The hashes of the nodes that a node was reached from.
    fn parents(&self, name: &str) -> Vec<String> {
        let arrows = self.model.graph.arrows.iter().zip(&self.model.now.arrows);
        let taken = arrows.filter(|(arrow, fate)| arrow.to == name && fate.is_taken());
        let parents: Names = taken.map(|(arrow, _)| arrow.from.clone()).collect();
        let ran = parents
            .iter()
            .filter(|parent| self.model.facts[*parent].end.is_some());
        let mut hashes: Vec<String> = ran.map(|parent| self.hashes[parent].clone()).collect();
        hashes.sort();
        hashes
    }

    fn check_ancestry(
        &mut self,
        name: &str,
        attempt: u32,
        word: Word,
        parents: Vec<String>,
        steps: &Steps,
    ) {
        let Event::AttemptEnded(ended) = &steps[0].0 else {
            panic!("the end of an attempt comes first");
        };
        let end = self.model.facts[name].end;
        let Some(end) = end.filter(|&end| end != End::Cancelled) else {
            assert!(
                ended.ancestry.is_none(),
                "an attempt that did not end its node"
            );
            return;
        };
        let value = match (end, word) {
            (End::Succeeded, _) => format!("\"{name} {attempt}\""),
            (End::Skipped, _) => "null".to_owned(),
            (_, Word::Retriable) => {
                r#"{"code":"BUSY","message":"it failed","retriable":true}"#.to_owned()
            }
            _ => r#"{"code":"BOOM","message":"it failed","retriable":false}"#.to_owned(),
        };
        let mut text = format!("{name}:{attempt}:{}", sha256(&value));
        for parent in parents {
            text.push(':');
            text.push_str(&parent);
        }
        let hash = sha256(&text);
        let actual = ended.ancestry.map(|hash| hash.to_string());
        assert_eq!(actual.as_deref(), Some(&*hash), "the ancestry of {name}");
        self.hashes.insert(name.to_owned(), hash);
    }

    fn running(&self) -> Names {
        let running = self.harness.running.iter();
        running
            .map(|&node: &NodeIndex| self.harness.id(node))
            .collect()
    }

    fn running_list(&self) -> String {
        self.running().into_iter().collect::<Vec<_>>().join(" ")
    }
}

fn life(life: Life) -> RunStatus {
    match life {
        Life::Pending => RunStatus::Pending,
        Life::Running => RunStatus::Running,
        Life::Paused => RunStatus::Paused,
        Life::Succeeded => RunStatus::Succeeded,
        Life::Failed => RunStatus::Failed,
        Life::Cancelled => RunStatus::Cancelled,
    }
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
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
