//! A user's definition in virtual time: many seeds, each a world with crashes, where a script
//! says what actions do. Counts what can happen. Of the oracle's rules those are checked that need
//! no copy of each state; a broken one ends the world, because what follows would mean nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_core::defaults::Defaults;
use windlass_core::event::{Compensation, Transition};
use windlass_core::plan::{NodeIndex, NodeKind, Plan};
use windlass_core::value::Payload;
use windlass_core::{Millis, RunId};
use windlass_orchestrator::Begin;

use crate::account::{Account, Ending};
use crate::catalogue::WorkflowCatalogue;
use crate::faults::{Faults, Side};
use crate::random::Random;
use crate::script::BehaviourScript;
use crate::unblock::awaited;
use crate::workload::{PRIORITY, RunRequest, Workload};
use crate::world::{EPOCH, Event, Options, Setup, World};

/// A run that has not ended after this long counts as one that never ends.
const YEAR_MS: u64 = 365 * 24 * 3_600_000;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The definition's text.
    pub text: Arc<str>,
    /// Its graph.
    pub plan: Arc<Plan>,
    /// What the run is started with.
    pub trigger: String,
    /// How everything behaves.
    pub script: Arc<BehaviourScript>,
    /// What the configuration gives where the definition says nothing.
    pub defaults: Defaults,
    /// Whether the process dies now and then.
    pub crashes: bool,
    /// A run that takes more steps than this is given up.
    pub max_steps: u64,
}

impl Simulation {
    /// Runs one seed.
    pub fn run(&self, seed: u64) -> Account {
        self.run_with(seed, Options::default())
    }

    fn run_with(&self, seed: u64, options: Options) -> Account {
        let mut world = self.world(seed, options);
        world.run();
        world.account(seed, &self.plan)
    }

    /// Runs one seed, unless it is stopped before its end.
    pub fn run_unless(&self, seed: u64, stopped: &Arc<AtomicBool>) -> Option<Account> {
        let mut world = self.world(seed, Options::default());
        world.stopped = Some(Arc::clone(stopped));
        world.run();
        let is_whole = !stopped.load(Ordering::Relaxed);
        is_whole.then(|| world.account(seed, &self.plan))
    }

    fn world(&self, seed: u64, options: Options) -> World {
        let mut random = Random::new(seed);
        // Neighbouring seeds have little in common after one step.
        random.number();
        let mut faults = Faults::default();
        if self.crashes && random.chance(25) {
            for _ in 0..random.between(1, 2) {
                let side = [Side::Before, Side::After][random.below(2) as usize];
                faults.crash_writes.push((random.between(2, 12), side));
            }
        }
        let setup = Setup {
            random,
            horizon: 0,
            faults,
            workload: self.workload(),
            script: Some(Arc::clone(&self.script)),
            max_steps: self.max_steps,
            until: Some(Millis(EPOCH).plus(YEAR_MS)),
            cluster: None,
            limits: None,
            defaults: self.defaults.some(),
        };
        World::with(seed, setup, options)
    }

    fn workload(&self) -> Workload {
        let mut catalogue = WorkflowCatalogue::default();
        catalogue.insert(&self.text, Arc::clone(&self.plan));
        for node in 0..self.plan.total() as NodeIndex {
            if let Some((workflow, version)) = self.plan.child(node)
                && catalogue.versions(workflow) < version.unwrap_or(1)
            {
                stand_in(&mut catalogue, workflow, version.unwrap_or(1));
            }
        }
        let request = RunRequest {
            workflow: self.plan.workflow().into(),
            starts: vec![0],
            begin: Begin::Now,
            trigger: self.trigger.clone(),
            user_actions: Vec::new(),
            fork: None,
            gate: None,
            priority: PRIORITY,
        };
        Workload {
            catalogue,
            requests: vec![request],
            publications: Vec::new(),
        }
    }
}

/// Another workflow is one action that behaves as the node that starts it, and echoes
/// what it is given.
fn stand_in(catalogue: &mut WorkflowCatalogue, workflow: &str, version: u32) {
    let text = format!(
        r#"{{"id":"{workflow}","nodes":[{{"id":"run","actionType":"simulated","parameters":"{{{{ trigger }}}}"}}]}}"#
    );
    while catalogue.versions(workflow) < version {
        catalogue.add(&text);
    }
}

impl World {
    /// The path by which the script knows a node: a child stands for the node that has it.
    pub(crate) fn scripted_path(&self, run: RunId, path: &str) -> Box<str> {
        let state = self.oracle.history(run).and_then(|history| history.last());
        let parent = state.and_then(|state| state.queued().parent.as_ref());
        match (parent, self.requests.first(), state) {
            (Some(parent), Some(request), Some(state))
                if state.queued().workflow != request.workflow =>
            {
                parent.node.clone()
            }
            _ => path.into(),
        }
    }

    /// Nodes that durably wait for a signal get it, as the script says.
    pub(crate) fn waiting(&mut self, run: RunId, transition: &Transition) {
        let Some(script) = self.script.clone() else {
            return;
        };
        for event in &transition.events {
            let history = self.oracle.history(run);
            let Some(state) = history.and_then(|history| history.last()) else {
                return;
            };
            let windlass_core::event::Event::Waiting { node: path, .. } = event else {
                continue;
            };
            let node = state.resolve(path);
            let Some(name) = node.and_then(|node| state.signal_of(node)) else {
                continue;
            };
            let name: Box<str> = name.into();
            let behaviour = script.behaviour(path).clone();
            let sent = self.random.fraction() >= behaviour.fail;
            if let Some(payload) = script.signals.get(&name).filter(|_| sent) {
                let (low, high) = behaviour.delay;
                let delay = self.random.between(low, high);
                let payload = Payload::new(Arc::clone(payload));
                self.after(delay, Event::Signal(run, name, payload));
            }
        }
    }

    /// How the only request went.
    fn account(&self, seed: u64, plan: &Plan) -> Account {
        let root = self.request_of.keys().find_map(|&run| {
            let state = self.oracle.history(run)?.last()?;
            Some((run, state))
        });
        let broken = self.oracle.violation();
        let Some((run, state)) = root else {
            let mut account = Account::empty(seed, "the run was never accepted");
            broken.into_iter().for_each(|rule| account.breaks(rule));
            return account;
        };
        let ending = match state.finished() {
            Some(finished) => Ending::Finished {
                status: finished.status,
                code: finished.error.as_ref().map(|error| error.code.clone()),
                nodes: finished
                    .error
                    .iter()
                    .flat_map(|error| error.nodes.iter().cloned())
                    .collect(),
                handled: state
                    .failed()
                    .filter(|&node| state.is_handled(node))
                    .map(|node| state.path(node))
                    .collect(),
                compensated: finished.compensation.map(|it| it == Compensation::Complete),
            },
            None if self.violation.is_some() => Ending::TooManySteps,
            None if self.now > Millis(EPOCH).plus(YEAR_MS) => Ending::TooLong,
            None => Ending::Stuck(self.waits_for()),
        };
        let ended = state.ended_at().unwrap_or(self.now);
        let mut account = Account {
            seed,
            ending,
            duration_ms: u64::try_from(ended.0 - state.created_at().0).unwrap_or(0),
            crashes: self.counts.crashes,
            ..Account::default()
        };
        account.read(&self.store.records(run), plan, state.created_at());
        broken.into_iter().for_each(|rule| account.breaks(rule));
        account
    }

    /// The names of the signals that runs wait for and that are never sent.
    fn waits_for(&self) -> Vec<Box<str>> {
        let mut names: Vec<Box<str>> = self
            .oracle
            .histories()
            .filter_map(|(_, history)| awaited(history.last()?))
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// The names that a script may use: every action, child and wait, by its path, and the
/// short id with all paths that it means.
pub fn scripted_nodes(plan: &Plan) -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in 0..plan.total() as NodeIndex {
        let is_told = matches!(
            plan.kind(node),
            NodeKind::Action | NodeKind::Signal | NodeKind::Subworkflow
        );
        if is_told {
            let path = plan.static_path(node);
            names.entry(path.clone()).or_default().push(path.clone());
            if path != plan.id(node) {
                names
                    .entry(plan.id(node).to_owned())
                    .or_default()
                    .push(path);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use windlass_core::RunStatus;

    use super::*;
    use crate::faults::Defect;
    use crate::script::Behaviour;

    /// Two requests, of which the first that is answered wins and the other is let go.
    fn race() -> Simulation {
        let text = include_str!("../../../examples/race.json");
        let slow = Behaviour {
            delay: (60_000, 60_000),
            ..Behaviour::default()
        };
        let script = BehaviourScript {
            nodes: BTreeMap::from([("slow".to_owned(), slow)]),
            ..BehaviourScript::default()
        };
        Simulation {
            text: text.into(),
            plan: crate::workload::plan(text),
            trigger: "{}".to_owned(),
            script: Arc::new(script),
            defaults: Defaults::default(),
            crashes: true,
            max_steps: 10_000,
        }
    }

    #[test]
    fn an_attempt_that_is_let_go_breaks_no_rule() {
        for seed in 0..200 {
            let account = race().run(seed);
            assert_eq!(account.broken, None, "seed {seed}");
            let succeeded = matches!(
                account.ending,
                Ending::Finished {
                    status: RunStatus::Succeeded,
                    ..
                }
            );
            assert!(succeeded, "seed {seed}: {:?}", account.ending);
        }
    }

    #[test]
    fn a_broken_rule_ends_the_simulation_and_is_told() {
        let options = Options {
            defect: Some(Defect::LoseAnswered),
            ..Options::default()
        };
        let accounts = (0..50).map(|seed| race().run_with(seed, options));
        let broken: Vec<Account> = accounts.filter(|it| it.broken.is_some()).collect();
        assert!(broken.len() > 5, "{}", broken.len());
        for account in broken {
            let last = account.story.last().map(|(_, words)| words.as_str());
            let words = last.unwrap_or_default();
            assert!(words.contains("is answered"), "{words}");
            assert_eq!(account.ending, Ending::RuleBroken);
        }
    }
}
