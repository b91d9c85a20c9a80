//! Thousands of worlds, each from a seed. A failing one prints the command that repeats
//! it with its story.

use windlass_sim::{Options, Outcome, run_seed};

const SEEDS: u64 = 3_000;

fn threads() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Runs the seeds of a range on all cores and gives the failures.
fn failures(seeds: std::ops::Range<u64>) -> Vec<Outcome> {
    let step = threads();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..step)
            .map(|offset| {
                let mine = seeds.clone().skip(offset as usize).step_by(step as usize);
                scope.spawn(move || {
                    mine.map(|seed| run_seed(seed, Options::default()))
                        .filter(|outcome| outcome.violation.is_some())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let failures = workers.into_iter().flat_map(|worker| worker.join());
        failures.flatten().collect()
    })
}

fn tell(seed: u64) {
    let trace = true;
    let outcome = run_seed(
        seed,
        Options {
            trace,
            defect: None,
        },
    );
    outcome.trace.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {:?}", outcome.violation);
    println!(
        "repeat: WINDLASS_SEED={seed} cargo test -p windlass-sim --test seeds one_seed -- --nocapture"
    );
}

#[test]
fn every_seed_holds() {
    let mut failures = failures(0..SEEDS);
    failures.sort_by_key(|outcome| outcome.seed);
    for outcome in &failures {
        println!("seed {}: {:?}", outcome.seed, outcome.violation);
    }
    if let Some(first) = failures.first() {
        tell(first.seed);
        panic!("{} of {SEEDS} seeds break a rule", failures.len());
    }
}

/// Repeats the seed named by `WINDLASS_SEED` and tells its story.
#[test]
fn one_seed() {
    let Ok(text) = std::env::var("WINDLASS_SEED") else {
        return;
    };
    let seed = text.parse().expect("WINDLASS_SEED is a number");
    tell(seed);
    let outcome = run_seed(seed, Options::default());
    assert_eq!(outcome.violation, None);
}

#[test]
fn the_same_seed_gives_the_same_logs() {
    for seed in 0..100 {
        let (trace, defect) = (true, None);
        let first = run_seed(seed, Options { trace, defect });
        let second = run_seed(seed, Options { trace, defect });
        assert!(first.logs == second.logs, "seed {seed}: the logs differ");
        assert!(!first.logs.is_empty(), "seed {seed}: nothing happened");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

/// The worlds are not all calm: faults of every kind do happen.
#[test]
fn worlds_have_faults() {
    let (mut crashes, mut refused, mut records) = (0, 0, 0);
    for seed in 0..200 {
        let counts = run_seed(seed, Options::default()).counts;
        crashes += counts.crashes;
        refused += counts.conflicts;
        records += counts.records;
    }
    assert!(crashes > 100 && refused > 20 && records > 1_000);
}
