//! A data directory with one workflow, the binary that runs it, a file that each action
//! appends to, and what must be true after the binary was killed.

mod definition;
mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use process::{Ended, Kill};

/// How an undisturbed run of the workflow ends.
static UNDISTURBED: LazyLock<Undisturbed> = LazyLock::new(|| {
    let make = || -> Result<Undisturbed> {
        let world = World::new()?;
        let ended = world.start("undisturbed", None)?;
        ensure!(ended.code == Some(0), "{}", ended.stderr);
        let run = world.only_run()?.context("no run")?.id;
        let execution = world.execution(&run)?;
        let effects = world.effects(&run)?;
        Ok(Undisturbed { execution, effects })
    };
    make().expect("an undisturbed run")
});

struct Undisturbed {
    execution: Value,
    effects: Effects,
}

/// How often each node and attempt was carried out.
pub(crate) type Effects = BTreeMap<(String, u32), usize>;

/// A run as the list shows it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) status: String,
}

impl Row {
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(&*self.status, "Pending" | "Running" | "Paused")
    }
}

/// What a run's log said at some moment: nodes that had ended, and how.
type Recorded = BTreeMap<String, String>;

/// A directory of its own, removed at the end.
pub(crate) struct World {
    directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Result<Self> {
        let directory = TempDir::with_prefix_in("crash-", env!("CARGO_TARGET_TMPDIR"))?;
        let world = Self { directory };
        let text = serde_json::to_vec_pretty(&definition::definition())?;
        fs::write(world.path("crash.json"), text)?;
        Ok(world)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Asks for a run and executes it to its end.
    pub(crate) fn start(&self, request: &str, kill: Option<Kill>) -> Result<Ended> {
        self.windlass(&["run", "crash.json", "--request-id", request], kill)
    }

    /// Continues the only run: resumes it if it is there, asks for it if it is not.
    pub(crate) fn go_on(&self, kill: Option<Kill>) -> Result<Ended> {
        match self.only_run()? {
            Some(row) => self.windlass(&["resume", &row.id], kill),
            None => self.start("only", kill),
        }
    }

    /// Every run there is; none if the directory is not there yet.
    pub(crate) fn runs(&self) -> Result<Vec<Row>> {
        let ended = self.windlass(&["runs", "--json", "--limit", "100"], None)?;
        if ended.code != Some(0) {
            // The process died before it had made the database.
            ensure!(ended.code == Some(4), "runs: {}", ended.stderr);
            return Ok(Vec::new());
        }
        let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
        let page: Value = serde_json::from_str(&ended.stdout)?;
        let items = page["items"].as_array().context("a list of runs")?;
        let row = |item| Row {
            id: text(item, "executionId"),
            status: text(item, "status"),
        };
        Ok(items.iter().map(row).collect())
    }

    /// The run, of which there must not be two.
    pub(crate) fn only_run(&self) -> Result<Option<Row>> {
        let mut runs = self.runs()?;
        ensure!(runs.len() < 2, "one request made two runs: {runs:?}");
        Ok(runs.pop())
    }

    fn show(&self, run: &str) -> Result<Value> {
        let ended = self.windlass(&["show", run, "--json", "--include", "actions"], None)?;
        ensure!(ended.code == Some(0), "show {run}: {}", ended.stderr);
        Ok(serde_json::from_str(&ended.stdout)?)
    }

    /// A run as `windlass show` prints it, without what differs from run to run.
    pub(crate) fn execution(&self, run: &str) -> Result<Value> {
        let mut execution = self.show(run)?;
        forget(&mut execution, run);
        // Attempts are listed as they ended, which is a matter of chance.
        let actions = execution["actions"].as_array_mut().context("attempts")?;
        actions.sort_by_key(|action| (action["node"].to_string(), action["attempt"].as_u64()));
        Ok(execution)
    }

    /// What the actions of a run did. Each node has one key, whatever was killed.
    fn effects(&self, run: &str) -> Result<Effects> {
        Ok(self.effects_of_all()?.remove(run).unwrap_or_default())
    }

    fn effects_of_all(&self) -> Result<BTreeMap<String, Effects>> {
        // Until the first action there is no such file.
        let text = fs::read_to_string(self.path("effects")).unwrap_or_default();
        let mut effects: BTreeMap<String, Effects> = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [node, attempt, key] = words[..] else {
                bail!("a torn line among the effects: {line:?}");
            };
            let (of, instance) = key.split_once('/').context("a key without a run")?;
            ensure!(instance == node, "node {node} was given the key {key}");
            let key = (node.to_owned(), attempt.parse()?);
            *effects
                .entry(of.to_owned())
                .or_default()
                .entry(key)
                .or_default() += 1;
        }
        Ok(effects)
    }

    /// Everything that a process said before it died is there.
    pub(crate) fn check_acknowledged(&self, said: &Ended) -> Result<()> {
        for (run, nodes) in said.acknowledged() {
            let recorded = self.recorded(&run)?;
            for (node, status) in nodes {
                let is = recorded.get(&node).map(String::as_str);
                ensure!(
                    is == Some(&*status),
                    "it said that {node} of {run} ended {status}, but its log says {is:?}"
                );
            }
        }
        Ok(())
    }

    /// Nothing was carried out before the record that decided it was durable: not for a
    /// run that is not there, not after a node whose end is not recorded, and no attempt
    /// after one that is not.
    pub(crate) fn check_grounded(&self) -> Result<()> {
        for run in self.effects_of_all()?.keys() {
            let row = self.runs()?.into_iter().find(|row| row.id == *run);
            ensure!(row.is_some(), "effects of run {run}, which is not there");
            let recorded = self.recorded(run)?;
            let attempts = self.attempts(run)?;
            for (node, attempt) in self.effects(run)?.into_keys() {
                for parent in definition::parents(&node) {
                    let is_recorded = recorded.contains_key(&parent);
                    ensure!(
                        is_recorded,
                        "{node} was carried out before {parent} had ended"
                    );
                }
                let before = (node, attempt - 1);
                let is_recorded = attempt == 1 || attempts.contains(&before);
                ensure!(
                    is_recorded,
                    "attempt {attempt} began before {before:?} had ended"
                );
            }
        }
        Ok(())
    }

    /// The attempts of a run that are recorded.
    fn attempts(&self, run: &str) -> Result<BTreeSet<(String, u32)>> {
        let execution = self.show(run)?;
        let actions = execution["actions"].as_array().context("attempts")?;
        let attempt = |action: &Value| {
            let node = action["node"].as_str()?.to_owned();
            Some((node, u32::try_from(action["attempt"].as_u64()?).ok()?))
        };
        Ok(actions.iter().filter_map(attempt).collect())
    }

    /// The effects of nodes whose end is recorded: there must never be more of them.
    pub(crate) fn settled(&self, run: &str) -> Result<Effects> {
        let recorded = self.recorded(run)?;
        let mut effects = self.effects(run)?;
        effects.retain(|(node, _), _| recorded.contains_key(node));
        Ok(effects)
    }

    /// What was settled earlier is as it was.
    pub(crate) fn check_settled(&self, run: &str, settled: &Effects) -> Result<()> {
        let effects = self.effects(run)?;
        for (attempt, count) in settled {
            let now = effects.get(attempt);
            ensure!(
                now == Some(count),
                "{attempt:?} had ended and was carried out again: {count} times, then {now:?}"
            );
        }
        Ok(())
    }

    /// The nodes of a run that have ended, by its log.
    fn recorded(&self, run: &str) -> Result<Recorded> {
        let execution = self.show(run)?;
        let nodes = execution["nodes"].as_object().context("nodes")?;
        let is_final = |status: &str| {
            matches!(
                status,
                "Succeeded" | "Failed" | "Skipped" | "Blocked" | "Cancelled"
            )
        };
        let status = |node: &Value| node["status"].as_str().unwrap_or_default().to_owned();
        let nodes = nodes.iter().map(|(id, node)| (id.clone(), status(node)));
        Ok(nodes.filter(|(_, status)| is_final(status)).collect())
    }

    /// The run ended as if nothing had happened: the same execution, every effect at least
    /// once and no other, no attempt with two ends, and a log that fits together.
    pub(crate) fn check_end(&self, run: &str, kills: usize) -> Result<()> {
        let execution = self.execution(run)?;
        if execution != UNDISTURBED.execution {
            let difference = difference("", &UNDISTURBED.execution, &execution);
            bail!("the execution differs from an undisturbed one: {difference}");
        }
        self.check_effects(run, kills)?;
        self.check_events(run)?;
        let verified = self.windlass(&["verify", run], None)?;
        ensure!(verified.code == Some(0), "verify: {}", verified.stderr);
        Ok(())
    }

    fn check_effects(&self, run: &str, kills: usize) -> Result<()> {
        let effects = self.effects(run)?;
        let keys = |effects: &Effects| effects.keys().cloned().collect::<BTreeSet<_>>();
        let (are, should) = (keys(&effects), keys(&UNDISTURBED.effects));
        let lost: Vec<_> = should.difference(&are).collect();
        let invented: Vec<_> = are.difference(&should).collect();
        ensure!(lost.is_empty(), "recorded but never carried out: {lost:?}");
        ensure!(
            invented.is_empty(),
            "attempts that never were: {invented:?}"
        );
        for (attempt, count) in effects {
            ensure!(
                count <= kills + 1,
                "{attempt:?} was carried out {count} times after {kills} kills"
            );
        }
        Ok(())
    }

    fn check_events(&self, run: &str) -> Result<()> {
        let ended = self.windlass(&["events", run, "--json"], None)?;
        ensure!(ended.code == Some(0), "events: {}", ended.stderr);
        let mut ends = BTreeSet::new();
        let mut finished = 0;
        for (index, line) in ended.stdout.lines().enumerate() {
            let event: Value = serde_json::from_str(line)?;
            ensure!(
                event["position"] == json!(index + 1),
                "a gap in the events: {line}"
            );
            let kind = event["kind"].as_str().context("an event's kind")?;
            match kind {
                "NodeSucceeded" | "NodeFailed" | "NodeRetryScheduled" | "NodeSkipped"
                | "NodeBlocked" | "NodeCancelled" => {
                    let key = (event["node"].to_string(), event["attempt"].to_string());
                    ensure!(ends.insert(key), "an attempt with two ends: {line}");
                }
                "RunFinished" => finished += 1,
                _ => {}
            }
        }
        ensure!(finished == 1, "the run ended {finished} times");
        ensure!(ends.len() >= UNDISTURBED.effects.len(), "{ends:?}");
        Ok(())
    }
}

/// Removes times, ids and the worker, which differ from run to run.
fn forget(value: &mut Value, run: &str) {
    match value {
        Value::Object(object) => {
            for key in [
                "executionId",
                "requestId",
                "correlationId",
                "worker",
                "createdAt",
                "startedAt",
                "updatedAt",
                "endedAt",
                "durationMs",
            ] {
                object.remove(key);
            }
            object.values_mut().for_each(|value| forget(value, run));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| forget(value, run)),
        Value::String(text) => *text = text.replace(run, "RUN"),
        _ => {}
    }
}

/// The first place where two values differ.
pub(crate) fn difference(place: &str, should: &Value, is: &Value) -> String {
    match (should, is) {
        (Value::Object(left), Value::Object(right)) if left.keys().eq(right.keys()) => {
            let found = left.iter().find(|(key, value)| right[*key] != **value);
            found.map_or_else(String::new, |(key, value)| {
                difference(&format!("{place}/{key}"), value, &right[key])
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let found = left
                .iter()
                .zip(right)
                .position(|(left, right)| left != right);
            found.map_or_else(String::new, |index| {
                difference(&format!("{place}/{index}"), &left[index], &right[index])
            })
        }
        _ => {
            let short = |value: &Value| value.to_string().chars().take(400).collect::<String>();
            format!("{place} is {}, not {}", short(is), short(should))
        }
    }
}
