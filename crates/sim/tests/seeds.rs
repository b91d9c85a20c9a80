//! Thousands of worlds, each from a seed. A failing one prints the command that repeats
//! it with its story.

use windlass_sim::{Kind, Options, Outcome, run_seed};

/// How many seeds; `WINDLASS_SEEDS` says otherwise.
fn seeds(usual: u64) -> u64 {
    let given = std::env::var("WINDLASS_SEEDS").ok();
    given.map_or(usual, |text| {
        text.parse().expect("WINDLASS_SEEDS is a number")
    })
}

fn threads() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Runs the seeds of a range on all cores and gives the failures.
fn failures(kind: Kind, seeds: std::ops::Range<u64>) -> Vec<Outcome> {
    let step = threads();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..step)
            .map(|offset| {
                let mine = seeds.clone().skip(offset as usize).step_by(step as usize);
                scope.spawn(move || {
                    mine.map(|seed| run_seed(seed, of(kind)))
                        .filter(|outcome| outcome.violation.is_some())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let failures = workers.into_iter().flat_map(|worker| worker.join());
        failures.flatten().collect()
    })
}

fn of(kind: Kind) -> Options {
    Options {
        kind,
        ..Options::default()
    }
}

fn tell(kind: Kind, seed: u64) {
    let trace = true;
    let outcome = run_seed(
        seed,
        Options {
            kind,
            trace,
            ..Options::default()
        },
    );
    outcome.trace.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {:?}", outcome.violation);
    println!(
        "repeat: WINDLASS_KIND={kind:?} WINDLASS_SEED={seed} \
         cargo test -p windlass-sim --test seeds one_seed -- --nocapture"
    );
}

#[test]
fn every_plain_seed_holds() {
    every_seed_holds(Kind::Plain);
}

#[test]
fn every_structured_seed_holds() {
    every_seed_holds(Kind::Structured);
}

fn every_seed_holds(kind: Kind) {
    let seeds = seeds(2_500);
    let mut failures = failures(kind, 0..seeds);
    failures.sort_by_key(|outcome| outcome.seed);
    for outcome in &failures {
        println!("seed {}: {:?}", outcome.seed, outcome.violation);
    }
    if let Some(first) = failures.first() {
        tell(kind, first.seed);
        panic!("{} of {seeds} seeds break a rule", failures.len());
    }
    println!("figure seeds {seeds}");
}

/// Repeats the seed named by `WINDLASS_SEED`, of `WINDLASS_KIND`, and tells its story.
#[test]
fn one_seed() {
    let Ok(text) = std::env::var("WINDLASS_SEED") else {
        return;
    };
    let seed = text.parse().expect("WINDLASS_SEED is a number");
    let kind = match std::env::var("WINDLASS_KIND").as_deref() {
        Ok("Structured") => Kind::Structured,
        _ => Kind::Plain,
    };
    tell(kind, seed);
    let outcome = run_seed(seed, of(kind));
    assert_eq!(outcome.violation, None);
}

#[test]
fn the_same_seed_gives_the_same_logs() {
    let seeds = seeds(60);
    for (kind, seed) in [Kind::Plain, Kind::Structured]
        .into_iter()
        .flat_map(|kind| (0..seeds).map(move |seed| (kind, seed)))
    {
        let options = Options {
            trace: true,
            ..of(kind)
        };
        let first = run_seed(seed, options);
        let second = run_seed(seed, options);
        assert!(first.logs == second.logs, "seed {seed}: the logs differ");
        assert!(!first.logs.is_empty(), "seed {seed}: nothing happened");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
    println!("figure repeated {}", 2 * seeds);
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

/// The structured worlds do have children, sleeping runs, and people who help.
#[test]
fn structured_worlds_have_everything() {
    let (mut children, mut sleeps, mut nudges, mut crashes) = (0, 0, 0, 0);
    for seed in 0..200 {
        let counts = run_seed(seed, of(Kind::Structured)).counts;
        children += counts.children;
        sleeps += counts.sleeps;
        nudges += counts.nudges;
        crashes += counts.crashes;
    }
    let all = (children, sleeps, nudges, crashes);
    assert!(
        children > 50 && sleeps > 100 && nudges > 20 && crashes > 100,
        "{all:?}"
    );
}
