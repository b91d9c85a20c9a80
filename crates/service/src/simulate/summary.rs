//! What many simulated runs did, counted together.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::plan::{NodeIndex, Plan};
use windlass_sim::account::{Account, Condition, DrawCount, Ending, conditions};

/// Runs that ended alike.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub ending: Ending,
    /// How many.
    pub runs: u64,
    /// The first seed of them.
    pub seed: u64,
}

/// How long runs that ended took, in virtual milliseconds.
#[derive(Debug)]
pub struct Durations {
    /// The shortest.
    pub min: u64,
    /// Half of the runs took no longer.
    pub median: u64,
    /// 95 of 100 runs took no longer.
    pub p95: u64,
    /// The longest.
    pub max: u64,
}

/// Everything that a report says.
#[derive(Debug)]
pub struct Summary {
    /// How many runs were simulated.
    pub runs: u64,
    /// How often a process died in them.
    pub crashes: u64,
    /// The most frequent first.
    pub endings: Vec<Ended>,
    /// None if no run ended.
    pub durations: Option<Durations>,
    /// The nodes that ran in none of them.
    pub never_ran: Vec<String>,
    /// How often each condition was asked and true.
    pub conditions: Vec<(Condition, DrawCount)>,
    /// By node and code.
    pub failures: Vec<((String, String), FailedAttempts)>,
    /// The seed of the first run in which Windlass broke one of its own rules, and the rule.
    pub broken: Option<(u64, String)>,
}

/// Attempts of one node that failed with one code.
#[derive(Debug)]
pub struct FailedAttempts {
    /// How many.
    pub attempts: u64,
    /// The runs that had one.
    pub runs: u64,
    /// The first message.
    pub message: String,
}

pub(super) fn of(plan: &Plan, accounts: &[Account]) -> Summary {
    let mut endings: BTreeMap<&Ending, (u64, u64)> = BTreeMap::new();
    let mut ran: BTreeSet<&str> = BTreeSet::new();
    let mut asked: BTreeMap<Condition, DrawCount> = BTreeMap::new();
    let mut failures: BTreeMap<(String, String), FailedAttempts> = BTreeMap::new();
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
        for (key, (count, message)) in &account.failures {
            let all = failures.entry(key.clone()).or_insert(FailedAttempts {
                attempts: 0,
                runs: 0,
                message: message.clone(),
            });
            all.attempts += count;
            all.runs += 1;
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
    failures.sort_by_key(|(_, failed)| std::cmp::Reverse(failed.attempts));
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
        broken: accounts
            .iter()
            .find_map(|account| Some((account.seed, account.broken.clone()?))),
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
