//! What many simulated runs did, counted together.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::plan::{NodeIndex, Plan};
use windlass_sim::account::{Account, Condition, DrawCount, Ending, conditions};

/// Runs that ended alike.
pub(super) struct Ended {
    pub(super) ending: Ending,
    pub(super) runs: u64,
    /// The first seed of them.
    pub(super) seed: u64,
}

/// How long runs that ended took, in virtual milliseconds.
pub(super) struct Durations {
    pub(super) min: u64,
    pub(super) median: u64,
    pub(super) p95: u64,
    pub(super) max: u64,
}

/// Everything that a report says.
pub(super) struct Summary {
    pub(super) runs: u64,
    pub(super) crashes: u64,
    /// The most frequent first.
    pub(super) endings: Vec<Ended>,
    /// None if no run ended.
    pub(super) durations: Option<Durations>,
    pub(super) never_ran: Vec<String>,
    pub(super) conditions: Vec<(Condition, DrawCount)>,
    /// Failed attempts, and the runs that had one, by node and code.
    pub(super) failures: Vec<((String, String), (u64, u64))>,
}

/// Counts.
pub(super) fn of(plan: &Plan, accounts: &[Account]) -> Summary {
    let mut endings: BTreeMap<&Ending, (u64, u64)> = BTreeMap::new();
    let mut ran: BTreeSet<&str> = BTreeSet::new();
    let mut asked: BTreeMap<Condition, DrawCount> = BTreeMap::new();
    let mut failures: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    asked.extend(
        conditions(plan)
            .into_iter()
            .map(|it| (it, DrawCount::default())),
    );
    for account in accounts {
        let entry = endings.entry(&account.ending).or_insert((0, account.seed));
        entry.0 += 1;
        ran.extend(account.ran.iter().map(String::as_str));
        for (condition, one) in &account.conditions {
            let all = asked.entry(condition.clone()).or_default();
            all.asked += one.asked;
            all.taken += one.taken;
        }
        for (key, count) in &account.failures {
            let all = failures.entry(key.clone()).or_default();
            *all = (all.0 + count, all.1 + 1);
        }
    }
    let mut endings: Vec<Ended> = endings
        .into_iter()
        .map(|(ending, (runs, seed))| Ended {
            ending: ending.clone(),
            runs,
            seed,
        })
        .collect();
    endings.sort_by_key(|ended| std::cmp::Reverse(ended.runs));
    let mut failures: Vec<_> = failures.into_iter().collect();
    failures.sort_by_key(|(_, (attempts, _))| std::cmp::Reverse(*attempts));
    let never_ran = (0..plan.total() as NodeIndex)
        .map(|node| plan.static_path(node))
        .filter(|path| !ran.contains(path.as_str()))
        .collect();
    Summary {
        runs: accounts.len() as u64,
        crashes: accounts.iter().map(|account| account.crashes).sum(),
        endings,
        durations: durations(accounts),
        never_ran,
        conditions: asked.into_iter().collect(),
        failures,
    }
}

fn durations(accounts: &[Account]) -> Option<Durations> {
    let ended = accounts
        .iter()
        .filter(|account| matches!(account.ending, Ending::Finished { .. }));
    let mut times: Vec<u64> = ended.map(|account| account.duration_ms).collect();
    times.sort_unstable();
    let at = |percent: usize| times.get((times.len() - 1) * percent / 100).copied();
    Some(Durations {
        min: *times.first()?,
        median: at(50)?,
        p95: at(95)?,
        max: *times.last()?,
    })
}
