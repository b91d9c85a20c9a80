//! How runs end, to compare a world with an undisturbed one of the same seed: nothing goes
//! wrong there, and one process does everything.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::RunId;
use windlass_core::run::{Dispatch, Run};

use super::{Cluster, workload};
use crate::faults::{Defect, Faults};
use crate::limits;
use crate::oracle::describe;
use crate::random::Random;
use crate::workload::WorkloadKind;
use crate::world::{Options, Setup, World};

/// Worlds with several processes take more steps: leases are renewed.
const MAX_STEPS: u64 = 200_000;

/// How each run ended, by where it came from.
pub(crate) type Ends = BTreeMap<String, String>;

/// The first run that ended otherwise.
pub(crate) fn differs(here: &Ends, undisturbed: &Ends) -> Option<String> {
    let keys = here.keys().chain(undisturbed.keys());
    let mut different = keys.filter(|&key| here.get(key) != undisturbed.get(key));
    different.next().map(|key| {
        let (here, there) = (here.get(key), undisturbed.get(key));
        format!("{key} ended as {here:?}, undisturbed as {there:?}")
    })
}

impl World {
    /// The world of a seed with several processes; or one with one process and no faults.
    pub(crate) fn of_owners(seed: u64, options: Options, undisturbed: bool) -> Self {
        let mut random = Random::new(seed);
        let horizon = [15_000, 30_000, 45_000][random.below(3) as usize];
        let determinate = random.chance(50);
        let mut faults = Faults::draw(&mut random, horizon, WorkloadKind::Plain);
        faults.crash_times.clear();
        faults.takeovers.clear();
        // A hanging action takes five minutes, in which nothing else would happen.
        faults.actions.hanging = 0;
        if determinate {
            // A child whose first record cannot be stored fails its parent's node.
            faults.append_fails = 0;
        }
        let (workload, limits) = match options.kind {
            WorkloadKind::Limits => {
                let (workload, limits) = limits::workload(&mut random, horizon, determinate);
                (workload, Some(limits))
            }
            _ => (workload(&mut random, horizon, determinate), None),
        };
        let mut cluster = Cluster::draw(&mut random, horizon, undisturbed);
        cluster.determinate = determinate;
        cluster.ignores_lease = options.defect == Some(Defect::IgnoreLease);
        if undisturbed {
            faults = Faults {
                actions: faults.actions,
                ..Faults::default()
            };
        }
        let setup = Setup {
            random,
            horizon,
            faults,
            workload,
            script: None,
            max_steps: MAX_STEPS,
            until: None,
            cluster: Some(Box::new(cluster)),
            limits,
            defaults: None,
        };
        Self::with(seed, setup, options)
    }

    /// How every run ended, where that depends on nothing but the workload.
    pub(crate) fn ends(&self) -> Option<Ends> {
        self.cluster.as_ref().filter(|it| it.determinate)?;
        let histories = self.oracle.histories();
        let ends = histories.filter_map(|(run, history)| {
            let state = history.last()?;
            Some((self.origin(run), self.without_ids(self.end(state))))
        });
        Some(ends.collect())
    }

    /// Whether a run waits where no person has a part in it, so that only the owners can continue
    /// it: they must have found it by themselves.
    pub(crate) fn waits_for_ever(&mut self) -> bool {
        if !self.cluster.as_ref().is_some_and(|it| it.determinate) {
            return false;
        }
        let waits = self.oracle.histories().find_map(|(run, history)| {
            let state = history.last()?;
            (!state.status().is_final()).then(|| (run, describe(state)))
        });
        let Some((run, state)) = waits else {
            return false;
        };
        self.oracle
            .record_verdict(run, Err(format!("it never ended: {state}")));
        true
    }

    /// Runs are named by where they came from: their ids are drawn.
    fn without_ids(&self, mut text: String) -> String {
        for (run, _) in self.oracle.histories() {
            let id = run.to_string();
            if text.contains(&id) {
                text = text.replace(&id, &self.origin(run));
            }
        }
        text
    }

    /// Where a run came from: its request, or its parent's node.
    fn origin(&self, run: RunId) -> String {
        if let Some(request) = self.request_of.get(&run) {
            return format!("r{request}");
        }
        let state = self.oracle.history(run).and_then(|history| history.last());
        let parent = state.and_then(|state| state.queued().parent.as_ref());
        match parent {
            Some(parent) => format!("{}/{}", self.origin(parent.execution_id), parent.node),
            None => "nowhere".to_owned(),
        }
    }

    /// Where the chances of an action come from, if not from the world's own.
    pub(crate) fn fate(&self, dispatch: &Dispatch) -> Option<Random> {
        self.cluster.as_ref().filter(|it| it.determinate)?;
        let (origin, path) = (self.origin(dispatch.run), &dispatch.path);
        let name = format!("{} {origin} {path} {}", self.seed, dispatch.attempt);
        // FNV-1a: the same text has the same fate in every world.
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        Some(Random::new(hash))
    }

    /// How a run stands, node by node.
    fn end(&self, state: &Run) -> String {
        let mut nodes: Vec<String> = state
            .instances()
            .map(|node| {
                let (path, status) = (state.path(node), state.node_status(node));
                format!("{path}:{status}/{}", state.attempt(node))
            })
            .collect();
        nodes.sort();
        let finished = state.finished();
        let output = finished.and_then(|it| it.output.as_ref());
        let output = output.and_then(|it| self.store.resolve(it));
        let mut output: Value = output.map_or(Value::Null, |text| {
            serde_json::from_str(&text).expect("an output is JSON")
        });
        forget_order(&mut output);
        format!("{} {output} [{}]", state.status(), nodes.join(" "))
    }
}

/// Which node failed first depends on how long each waited for slots: the causes of a failure are
/// compared without their order, and without the sentence that names the first.
fn forget_order(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(forget_order),
        Value::Object(members) => {
            members.values_mut().for_each(forget_order);
            if members
                .get("code")
                .is_some_and(|code| code == "NODE_FAILED")
            {
                members.remove("message");
            }
            if let Some(Value::Array(causes)) = members.get_mut("causes") {
                causes.sort_by_key(ToString::to_string);
            }
        }
        _ => {}
    }
}
