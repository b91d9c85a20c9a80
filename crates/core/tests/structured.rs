//! Random structured definitions, scripted outcomes and random schedules, through the
//! naive model of `model/structured/` and, where the engine can run the definition,
//! through the engine; after every move both must report the same.
//!
//! `WINDLASS_SEED=n` plays one case; `WINDLASS_CASES=n` plays that many.

#[path = "structured/engine.rs"]
mod engine;
mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;
use windlass_core::definition::{DefinitionSource, Options, parse};

use engine::{Engine, View};
use model::Names;
use model::generate::Dice;
use model::structured::generate::{self, Bounds};
use model::structured::read::Kind;
use model::structured::report::report;
use model::structured::scope::{Outcome, Scope, Stop};
use model::structured::{Model, Move, Status, Word};

#[test]
fn structured_runs_end_and_both_agree() {
    play(structured);
}

#[test]
fn plain_runs_agree() {
    let all_compared = play(|seed| Bounds {
        nodes: 2 + (seed as usize / 100).min(8),
        depth: 0,
        plain: true,
    });
    assert!(all_compared, "the engine declined a plain definition");
}

/// What random cases never reach, they do not test.
#[test]
fn generated_runs_reach_every_rule() {
    let mut reached: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..1500 {
        let mut case = Case::new(seed, structured(seed));
        case.engine = None;
        case.play_on();
        for word in case.reached() {
            *reached.entry(word).or_default() += 1;
        }
    }
    let rules = [
        "BOOM",
        "BUSY",
        "ITEM_FAILED",
        "ITEMS_INVALID",
        "ITERATION_FAILED",
        "LOOP_LIMIT",
        "RETRY_EXHAUSTED",
        "OUTPUT_INVALID",
        "SIGNAL_TIMEOUT",
        "Cancelled",
        "Blocked",
        "Skipped",
        "handled",
        "let go",
        "a loop let go",
        "a loop cut",
        "an iteration stopped fast",
        "an early join blocked",
        "an early join skipped",
        "a loop retried",
        "collected",
        "three deep",
        "run Succeeded",
        "run Failed",
        "run Cancelled",
        "undone complete",
        "undone incomplete",
        "undone inside a body",
    ];
    for rule in rules {
        let count = reached.get(rule).copied().unwrap_or_default();
        assert!(
            count >= 5,
            "'{rule}' is reached {count} times: {reached:#?}"
        );
    }
}

fn structured(seed: u64) -> Bounds {
    Bounds {
        nodes: 1 + (seed as usize / 100).min(7),
        depth: (seed % 4) as usize,
        plain: false,
    }
}

/// Plays cases; says whether the engine took part in all of them.
fn play(bounds: impl Fn(u64) -> Bounds) -> bool {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(seed) = number("WINDLASS_SEED") {
        return Case::new(seed, bounds(seed)).play();
    }
    let cases = 0..number("WINDLASS_CASES").unwrap_or(2000);
    let compared = cases.map(|seed| Case::new(seed, bounds(seed)).play());
    compared.filter(|compared| !compared).count() == 0
}

/// One random run, in the model and, if it can, in the engine.
struct Case {
    seed: u64,
    dice: Dice,
    definition: String,
    model: Model,
    engine: Option<Engine>,
    /// The instances that are with a worker.
    running: Names,
    story: String,
}

impl Case {
    fn new(seed: u64, bounds: Bounds) -> Self {
        let mut dice = Dice(seed);
        let definition = generate::definition(&mut dice, bounds);
        let text = definition.to_string();
        publishable(&text);
        Self {
            seed,
            dice,
            model: Model::new(&definition),
            engine: Engine::new(&text),
            definition: text,
            running: Names::new(),
            story: String::new(),
        }
    }

    fn play(mut self) -> bool {
        self.play_on();
        if let Some(engine) = &self.engine {
            engine.check_replay();
        }
        self.engine.is_some()
    }

    fn play_on(&mut self) {
        self.make(Move::Start);
        let patience = 10 + self.dice.below(200);
        for _ in 0..patience {
            self.choose();
        }
        self.finish();
    }

    fn choose(&mut self) {
        match self.dice.below(100) {
            0..50 => self.word(),
            50..62 => self.take(),
            62..74 => {
                if let Some(path) = self.dice.pick_name(&self.model.timers()) {
                    self.make(Move::Fire(path));
                }
            }
            74..80 => {
                let name = *self.dice.pick(&["go", "more"]);
                let value = generate::value(&mut self.dice);
                self.make_if_structured(Move::Signal(name.to_owned(), value));
            }
            80..92 => self.undo(),
            92..95 => self.late(),
            95..96 => self.make(Move::Cancel),
            96..97 => self.make(Move::TimeOut),
            _ => self.make(Move::GraceEnds),
        }
    }

    /// Whatever is left goes on to its end.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            if self.model.has_ended() {
                break;
            }
            self.word();
            if let Some(path) = self.dice.pick_name(&self.model.timers()) {
                self.make(Move::Fire(path));
            }
            self.make_if_structured(Move::Signal("go".to_owned(), Value::Null));
            self.make_if_structured(Move::Signal("more".to_owned(), Value::Null));
            self.undo();
        }
        assert!(self.model.has_ended(), "the run does not end");
        for (path, seen) in self.model.seen() {
            assert!(seen.status.has_ended(), "{path} is {:?}", seen.status);
        }
    }

    fn word(&mut self) {
        let Some(path) = self.dice.pick_name(&self.model.work()) else {
            return;
        };
        let attempt = self.model.seen()[&path].attempt;
        let obeys = self.model.is_told(&path) && self.dice.chance(50);
        let word = if obeys {
            Word::Stopped
        } else {
            generate::answer(self.seed, &path, attempt)
        };
        self.make(Move::Word(path, attempt, word));
    }

    /// A word on an attempt that may not be open.
    fn late(&mut self) {
        let seen = self.model.seen();
        let paths: Names = seen.keys().cloned().collect();
        if let Some(path) = self.dice.pick_name(&paths) {
            let attempt = self.dice.below(3) as u32;
            let word = generate::answer(self.seed, &path, attempt);
            self.make(Move::Word(path, attempt, word));
        }
    }

    /// A worker takes an open attempt: nothing is recorded yet.
    fn take(&mut self) {
        if let Some(path) = self.dice.pick_name(&self.model.work()) {
            let _ = writeln!(self.story, "> running {path}");
            self.running.insert(path);
        }
    }

    fn undo(&mut self) {
        if let Some(path) = self.model.undoing.left.first() {
            let attempt = self.model.undoing.attempt;
            let word = generate::answer(self.seed, &format!("undo {path}"), attempt);
            self.make(Move::Undone(word));
        }
    }

    /// Signals mean nothing to a definition that waits for none.
    fn make_if_structured(&mut self, step: Move) {
        if self.definition.contains("waitForSignal") {
            self.make(step);
        }
    }

    fn make(&mut self, step: Move) {
        let _ = writeln!(self.story, "> {step:?}");
        let accepted = self.model.make(&step, &self.running);
        if let Some(engine) = &mut self.engine {
            engine.set_running(&self.running);
            assert_eq!(engine.make(&step), accepted, "accepted or refused");
            same(&engine.view(), &view(&self.model));
        }
        if let Move::Word(path, ..) = &step {
            self.running.remove(path);
        }
        let work = self.model.work();
        self.running.retain(|path| work.contains(path));
        self.check();
    }

    /// The rules that this case came by.
    fn reached(&self) -> BTreeSet<String> {
        let mut words = BTreeSet::from([format!("run {:?}", self.model.life)]);
        words.extend(self.model.error.map(str::to_owned));
        if let Some(word) = self.model.compensation() {
            words.insert(format!("undone {word}"));
        }
        for (path, _) in &self.model.undoing.done {
            if path.contains('/') {
                words.insert("undone inside a body".to_owned());
            }
        }
        for scope in self.model.root.all() {
            for id in scope.ids() {
                words.extend(node_reached(scope, &id));
            }
        }
        words
    }

    /// The invariants of every run at every moment.
    fn check(&self) {
        for scope in self.model.root.all() {
            for (id, node) in &scope.nodes {
                let open = node.rounds.iter().filter(|round| round.outcome.is_none());
                let is_loop_open = matches!(node.status, Status::Open);
                assert!(is_loop_open || open.count() == 0, "{id} ended too early");
                let blocked = node.status == Status::Blocked;
                assert_eq!(blocked, !node.blocked_by.is_empty(), "{id}");
            }
        }
    }
}

fn node_reached(scope: &Scope, id: &str) -> Vec<String> {
    let node = &scope.nodes[id];
    let mut words = vec![format!("{:?}", node.status)];
    let mut say = |holds: bool, word: &str| {
        if holds {
            words.push(word.to_owned());
        }
    };
    let early = scope.definition(id).enough.is_some();
    say(scope.is_handled(id), "handled");
    say(node.let_go, "let go");
    say(node.let_go && !node.rounds.is_empty(), "a loop let go");
    say(
        early && node.status == Status::Blocked,
        "an early join blocked",
    );
    say(
        early && node.status == Status::Skipped,
        "an early join skipped",
    );
    let tries_again = matches!(scope.definition(id).kind, Kind::Until(_)) && node.rounds.len() > 1;
    say(
        tries_again && node.status == Status::Succeeded,
        "a loop retried",
    );
    say(scope.at.matches('/').count() == 3, "three deep");
    for round in &node.rounds {
        let fast = round.scope.stop == Some(Stop::FailFast);
        let good = node.status == Status::Succeeded;
        say(fast, "an iteration stopped fast");
        say(
            round.outcome == Some(Outcome::Cut) && !node.let_go,
            "a loop cut",
        );
        say(
            good && node.items.is_some() && matches!(round.outcome, Some(Outcome::Bad(_))),
            "collected",
        );
    }
    if let (Status::Failed, Some(error)) = (node.status, &node.value) {
        words.extend(error["code"].as_str().map(str::to_owned));
        let inner = &error["details"]["error"]["code"];
        words.extend(inner.as_str().map(str::to_owned));
    }
    words
}

/// What can be seen of the model's run.
fn view(model: &Model) -> View {
    (report(model), model.edges())
}

fn same(engine: &View, model: &View) {
    if engine == model {
        return;
    }
    // Only the lines that differ are worth reading.
    let only = |here: &View, there: &View| {
        let there: BTreeSet<String> = lines(there).into_iter().collect();
        let mut lines = lines(here);
        lines.retain(|line| !there.contains(line));
        lines.join("\n  ")
    };
    let (engine_only, model_only) = (only(engine, model), only(model, engine));
    panic!("the engine says\n  {engine_only}\nthe model says\n  {model_only}");
}

fn lines((report, edges): &View) -> Vec<String> {
    let mut lines = report.lines();
    let nodes = report.nodes.iter();
    lines.extend(nodes.map(|(path, node)| format!("{path} {node:?}")));
    lines.extend_from_slice(edges);
    lines
}

/// Generated definitions are such as the engine would publish.
fn publishable(text: &str) {
    let source = DefinitionSource::new("generated.json", text.as_bytes());
    if let Err(problems) = parse(&source, &Options::default()) {
        panic!("{problems:?}\n{text}");
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "WINDLASS_SEED={}\n{}\n{}\n{}",
                self.seed,
                self.definition,
                self.story,
                lines(&view(&self.model)).join("\n")
            );
        }
    }
}
