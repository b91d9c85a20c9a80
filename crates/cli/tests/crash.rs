//! `kill -9` at any moment: nothing acknowledged is lost, the run ends as if nothing had
//! happened, and no attempt has two outcomes. The kills are placed, and also come at
//! random times.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::crash_world::{Effects, Kill, World};
use anyhow::{Context as _, Result, ensure};

/// The places that the execution of one run passes, with how often each is tried. The first count
/// must be reached; a later one that is not only says that the run is over before.
const POINTS: &[(&str, &[u64])] = &[
    ("before-create", &[1]),
    ("after-create", &[1]),
    ("before-commit", &[1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 18]),
    ("after-commit", &[1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 18]),
    ("after-checkpoint", &[1, 2]),
    ("after-growth", &[1]),
    ("after-blob-write", &[1, 2, 3]),
    ("after-blob-rename", &[1, 2, 3]),
    ("after-accept", &[1]),
    ("before-dispatch", &[1, 2, 5, 8, 14, 20, 28]),
    ("before-action", &[1, 2, 5, 8, 14, 20, 28]),
    ("after-action", &[1, 2, 5, 8, 14, 20, 28]),
    ("before-outcome", &[1, 3, 9, 17, 25]),
    ("after-outcome-sent", &[1, 2, 5, 8, 14, 20, 28]),
    ("at-finish", &[1]),
    ("before-print", &[1]),
];

/// What is struck while it goes on: the first few times, and how many steps after its
/// beginning.
const DURING: &[(&str, u64, &[u32])] = &[
    ("in-commit", 8, &[0, 1, 3, 6]),
    ("in-checkpoint", 2, &[0, 1, 2, 3, 4, 6, 9, 14]),
    // The thread stays there that long; no other thread may act on the unfinished write
    // meanwhile.
    ("before-commit", 12, &[200]),
    ("after-blob-write", 1, &[200]),
];

/// What strikes while the run is recovered after the first kill, and after the second.
const AFTERWARDS: &[&[Kill]] = &[
    &[Kill::At("before-recovery", 1), Kill::At("in-recovery", 1)],
    &[Kill::At("in-recovery", 1), Kill::At("after-commit", 1)],
    &[Kill::At("before-commit", 1), Kill::At("before-action", 1)],
    &[Kill::At("after-commit", 1), Kill::At("after-action", 1)],
    &[Kill::At("before-dispatch", 1), Kill::At("after-commit", 2)],
    &[Kill::At("after-action", 1), Kill::At("in-recovery", 1)],
    &[
        Kill::During("in-checkpoint", 1, 1),
        Kill::At("after-outcome-sent", 1),
    ],
];

/// Processes at once: more than there are processors, because they wait for the disk.
const AT_ONCE: usize = 4;

#[test]
fn killed_at_every_place_a_run_ends_as_if_nothing_had_happened() {
    let placed = POINTS
        .iter()
        .flat_map(|(point, counts)| counts.iter().map(|&count| Kill::At(point, count)));
    let during = DURING.iter().flat_map(|&(point, times, steps)| {
        let kill = move |count| move |&steps: &u32| Kill::During(point, count, steps);
        (1..=times).flat_map(move |count| steps.iter().map(kill(count)))
    });
    let scenarios: Vec<Vec<Kill>> = placed
        .chain(during)
        .enumerate()
        .map(|(index, first)| {
            let mut kills = vec![first];
            kills.extend(AFTERWARDS[index % AFTERWARDS.len()]);
            kills
        })
        .collect();
    let tally = play_all(&scenarios);
    for (point, _) in POINTS {
        assert!(tally.contains_key(*point), "nothing was killed at {point}");
    }
    for (point, ..) in DURING {
        assert!(tally.contains_key(*point), "nothing was killed {point}");
    }
    for kill in AFTERWARDS.iter().flat_map(|kills| kills.iter()) {
        if let Kill::At(point, _) = kill {
            assert!(tally.contains_key(*point), "nothing was killed at {point}");
        }
    }
}

#[test]
fn killed_at_any_time_a_run_ends_as_if_nothing_had_happened() {
    let mut random = Random::new();
    let given = std::env::var("WINDLASS_SCENARIOS").ok();
    let count = given.map_or(25, |text| text.parse().expect("a number of scenarios"));
    let scenarios: Vec<Vec<Kill>> = (0..count)
        .map(|_| {
            let kills = 1 + random.below(5);
            (0..kills)
                .map(|_| Kill::After(Duration::from_micros(2000 + random.below(120_000))))
                .collect()
        })
        .collect();
    let tally = play_all(&scenarios);
    let killed = tally.values().sum::<usize>();
    println!("figure runs-killed {killed}");
    // A fast machine ends many runs before their kill.
    assert!(killed > 10, "{tally:?}");
}

#[test]
fn killed_with_several_runs_each_ends_as_if_nothing_had_happened() {
    let kills = [
        Kill::At("after-commit", 3),
        Kill::At("in-recovery", 4),
        Kill::At("before-dispatch", 9),
        Kill::During("in-checkpoint", 2, 2),
        Kill::At("after-action", 20),
        Kill::At("before-commit", 6),
        Kill::At("after-blob-rename", 2),
        Kill::At("after-outcome-sent", 30),
        Kill::At("at-finish", 1),
        Kill::At("after-commit", 2),
    ];
    let play = || -> Result<usize> {
        let world = World::new()?;
        let mut acknowledged = Vec::new();
        for number in 0..6 {
            let request = format!("several-{number}");
            // What was not acknowledged is asked for again, and is there once.
            for kill in [Some(Kill::At("after-commit", 1 + number % 3)), None] {
                let arguments = ["run", "crash.json", "--detach", "--request-id", &request];
                let ended = world.windlass(&arguments, kill)?;
                if ended.code == Some(0) {
                    acknowledged.push(ended.stdout.trim().to_owned());
                }
            }
        }
        let mut died = 0;
        let all = ["resume", "--filter", "workflow=crash"];
        for kill in kills {
            let ended = world.windlass(&all, Some(kill))?;
            died += usize::from(ended.was_killed());
            world.check_grounded()?;
            let runs = world.runs()?;
            ensure!(runs.len() == 6, "six requests made {} runs", runs.len());
            for id in &acknowledged {
                let is_there = runs.iter().any(|run| run.id == *id);
                ensure!(
                    is_there,
                    "run {id} was acknowledged and is lost after {kill}"
                );
            }
        }
        let ended = world.windlass(&all, None)?;
        ensure!(ended.code == Some(0), "{}", ended.stderr);
        for run in world.runs()? {
            world
                .check_end(&run.id, died)
                .with_context(|| format!("{run:?}"))?;
        }
        Ok(died)
    };
    // A kill that misses lets all runs end, and those after it have nothing to strike: it
    // depends on how the runs take turns. Whatever struck was checked; enough must strike.
    let mut died = 0;
    for played in 1..=5 {
        died += play().unwrap();
        println!("several runs: {died} kills in {played} plays");
        if died >= 6 {
            return;
        }
    }
    panic!("only {died} of {} kills struck in five plays", kills.len());
}

#[test]
fn a_definition_is_published_once_however_often_its_publisher_dies() {
    let play = |point: &'static str| -> Result<()> {
        let world = World::new()?;
        let killed = world.windlass(&["publish", "crash.json"], Some(Kill::At(point, 1)))?;
        ensure!(killed.was_killed(), "publish passed {point} alive");
        let ended = world.windlass(&["publish", "crash.json"], None)?;
        ensure!(ended.code == Some(0), "{}", ended.stderr);
        let listed = world.windlass(&["workflows", "versions", "crash", "--json"], None)?;
        ensure!(listed.code == Some(0), "{}", listed.stderr);
        let found = listed.stdout.matches("\"version\"").count();
        ensure!(found == 1, "{found} versions: {}", listed.stdout);
        let ended = world.start("only", None)?;
        ensure!(ended.code == Some(0), "{}", ended.stderr);
        let run = world.only_run()?.context("no run")?;
        world.check_end(&run.id, 0)
    };
    for point in [
        "before-create",
        "after-create",
        "before-commit",
        "after-commit",
    ] {
        play(point).with_context(|| point).unwrap();
    }
}

#[test]
fn a_backup_that_was_cut_short_restores_nothing() {
    let world = World::new().unwrap();
    let play = |kill: Kill, name: &str| -> Result<bool> {
        let file = format!("{name}.backup");
        let killed = world.windlass(&["backup", &file], Some(kill))?;
        let target = format!("{name}.restored");
        let restored = world.windlass(&["restore", &file, "--data-dir", &target], None)?;
        if restored.code == Some(0) {
            let shown = ["verify", "@last", "--data-dir", &target];
            let verified = world.windlass(&shown, None)?;
            ensure!(verified.code == Some(0), "{}", verified.stderr);
        } else {
            let left = world.path(&target).exists();
            ensure!(!left, "a restore that failed left a data directory");
            ensure!(killed.was_killed(), "restore: {}", restored.stderr);
        }
        Ok(restored.code == Some(0))
    };
    assert_eq!(world.start("only", None).unwrap().code, Some(0));
    for (point, whole) in [
        ("in-backup", false),
        ("before-backup-end", false),
        ("after-backup-end", true),
    ] {
        let restored = play(Kill::At(point, 1), point).unwrap();
        assert_eq!(restored, whole, "{point}");
    }
    let mut random = Random::new();
    for number in 0..10 {
        let time = Duration::from_micros(1000 + random.below(30_000));
        play(Kill::After(time), &format!("timed-{number}")).unwrap();
    }
    let restore = ["restore", "after-backup-end.backup", "--data-dir", "again"];
    let killed = world.windlass(&restore, Some(Kill::At("before-restore", 1)));
    assert!(killed.unwrap().was_killed());
    let ended = world.windlass(&restore, None).unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = world.windlass(&["verify", "@last", "--data-dir", "again"], None);
    assert_eq!(ended.unwrap().code, Some(0));
}

/// One run, killed at each of these in turn, then executed to its end.
fn play(kills: &[Kill]) -> Result<Vec<Kill>> {
    let world = World::new()?;
    let mut died = Vec::new();
    let mut settled = Effects::new();
    for (round, &kill) in kills.iter().enumerate() {
        if world.only_run()?.is_some_and(|run| run.has_ended()) {
            break;
        }
        let ended = world.go_on(Some(kill))?;
        if ended.was_killed() {
            died.push(kill);
        } else {
            ensure!(ended.code == Some(0), "round {round}: {}", ended.stderr);
            let must = matches!(kill, Kill::At(_, 1) | Kill::During(_, 1, 0)) && round == 0;
            ensure!(!must, "the process passed {kill} alive");
        }
        world.check_acknowledged(&ended)?;
        world.check_grounded()?;
        if let Some(run) = world.only_run()? {
            world.check_settled(&run.id, &settled)?;
            settled = world.settled(&run.id)?;
        }
    }
    let run = world.only_run()?;
    if !run.is_some_and(|run| run.has_ended()) {
        // Asking again with the same request id is another way to continue a run.
        let ended = if died.len() % 2 == 0 {
            world.go_on(None)?
        } else {
            world.start("only", None)?
        };
        ensure!(ended.code == Some(0), "the last round: {}", ended.stderr);
        world.check_acknowledged(&ended)?;
    }
    let run = world.only_run()?.context("the run is lost")?;
    world.check_settled(&run.id, &settled)?;
    world.check_end(&run.id, died.len())?;
    Ok(died)
}

/// Plays several at once and says how many kills there were at each place.
fn play_all(scenarios: &[Vec<Kill>]) -> BTreeMap<String, usize> {
    let next = AtomicUsize::new(0);
    let tally = Mutex::new(BTreeMap::new());
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some(kills) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            match play(kills) {
                Ok(died) => {
                    for kill in died {
                        let name = match kill {
                            Kill::At(point, _) | Kill::During(point, ..) => point,
                            Kill::After(_) => "at a time",
                            Kill::Call(call, _) => call,
                        };
                        *tally.lock().unwrap().entry(name.to_owned()).or_default() += 1;
                    }
                }
                Err(error) => {
                    let names: Vec<String> = kills.iter().map(Kill::to_string).collect();
                    let text = format!("{}: {error:#}", names.join(", "));
                    failures.lock().unwrap().push(text);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap();
    let tally: BTreeMap<String, usize> = tally.into_inner().unwrap();
    let mut summary = format!("{} kills", tally.values().sum::<usize>());
    for (point, count) in &tally {
        write!(summary, ", {count} {point}").unwrap();
    }
    println!("{summary}");
    assert!(
        failures.is_empty(),
        "{} of {} scenarios failed:\n{}",
        failures.len(),
        scenarios.len(),
        failures.join("\n")
    );
    tally
}

/// Xorshift; the seed is printed, and can be given as `WINDLASS_CRASH_SEED`.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let given = std::env::var("WINDLASS_CRASH_SEED").ok();
        let seed = match given.and_then(|text| text.parse().ok()) {
            Some(seed) => seed,
            None => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1,
        };
        println!("WINDLASS_CRASH_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
