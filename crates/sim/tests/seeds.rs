//! Thousands of worlds, each from a seed. A failing one prints the command that repeats it with
//! a trace.

use std::time::{Duration, Instant};

use windlass_sim::{Options, WorkloadKind, WorldOutcome, run_seed};

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

/// Runs the seeds of a range on all cores; the failures, and the time that all cores
/// together took for the seeds.
fn failures(kind: WorkloadKind, seeds: std::ops::Range<u64>) -> (Vec<WorldOutcome>, Duration) {
    let step = threads();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..step)
            .map(|offset| {
                let mine = seeds.clone().skip(offset as usize).step_by(step as usize);
                scope.spawn(move || {
                    let clock = Clock::start();
                    let failures: Vec<WorldOutcome> = mine
                        .map(|seed| run_seed(seed, of(kind)))
                        .filter(|outcome| outcome.violation.is_some())
                        .collect();
                    (failures, clock.elapsed())
                })
            })
            .collect();
        let mut all = (Vec::new(), Duration::ZERO);
        for worker in workers {
            let (failures, took) = worker.join().expect("a worker catches panics");
            all.0.extend(failures);
            all.1 += took;
        }
        all
    })
}

/// What a thread took of a core, where the system tells; elsewhere the time that passed.
struct Clock {
    began: Instant,
    on_core: Option<Duration>,
}

impl Clock {
    fn start() -> Self {
        Self {
            began: Instant::now(),
            on_core: on_core(),
        }
    }

    fn elapsed(&self) -> Duration {
        match (on_core(), self.on_core) {
            (Some(now), Some(then)) => now - then,
            _ => self.began.elapsed(),
        }
    }
}

fn on_core() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn of(kind: WorkloadKind) -> Options {
    Options {
        kind,
        ..Options::default()
    }
}

fn tell(kind: WorkloadKind, seed: u64) {
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
    every_seed_holds(WorkloadKind::Plain, 10_000);
}

#[test]
fn every_structured_seed_holds() {
    every_seed_holds(WorkloadKind::Structured, 10_000);
}

#[test]
fn every_seed_of_several_owners_holds() {
    every_seed_holds(WorkloadKind::Owners, 2_000);
}

#[test]
fn every_seed_with_limits_holds() {
    every_seed_holds(WorkloadKind::Limits, 2_000);
}

fn every_seed_holds(kind: WorkloadKind, usual: u64) {
    let seeds = seeds(usual);
    let (mut failures, took) = failures(kind, 0..seeds);
    failures.sort_by_key(|outcome| outcome.seed);
    for outcome in &failures {
        println!("seed {}: {:?}", outcome.seed, outcome.violation);
    }
    if let Some(first) = failures.first() {
        tell(kind, first.seed);
        panic!("{} of {seeds} seeds break a rule", failures.len());
    }
    println!("figure seeds {seeds}");
    let rate = seeds as f64 / took.as_secs_f64();
    println!("{kind:?}: {rate:.0} seeds a second a core");
}

/// A child was paused in the middle of its undoing, and no user resumed it.
#[test]
fn a_child_that_is_paused_while_it_is_undone_goes_on() {
    let violation = run_seed(35_190, of(WorkloadKind::Structured)).violation;
    assert_eq!(violation, None);
}

/// A process that did not know that it was replaced handed out the second attempt, for
/// which the run had slept, under the number of one that was begun by hand meanwhile.
#[test]
fn an_attempt_that_waits_keeps_its_number_when_the_run_is_taken_over() {
    let violation = run_seed(23_864, of(WorkloadKind::Structured)).violation;
    assert_eq!(violation, None);
}

/// The process knew how the second attempt had ended, could not store it, and acquired the run
/// again as if it had only slept.
#[test]
fn an_attempt_whose_end_could_not_be_stored_keeps_its_number() {
    let violation = run_seed(48_116, of(WorkloadKind::Plain)).violation;
    assert_eq!(violation, None);
}

/// A graph was imported with a join that had enough at once: open work was cancelled.
#[test]
fn an_imported_join_lets_go_what_it_has_enough_without() {
    let violation = run_seed(35_820, of(WorkloadKind::Structured)).violation;
    assert_eq!(violation, None);
}

/// A node that held its level back was removed by an import, and what waited for the level
/// began by the old graph.
#[test]
fn a_removed_node_lets_nothing_of_the_old_graph_begin() {
    let violation = run_seed(63_595, of(WorkloadKind::Structured)).violation;
    assert_eq!(violation, None);
}

/// A run was forked from an iteration inside a loop that a result by hand had taken back.
#[test]
fn a_fork_is_of_what_is_still_there() {
    let violation = run_seed(99_108, of(WorkloadKind::Structured)).violation;
    assert_eq!(violation, None);
}

/// A process whose session had expired began another one, and took the answer to what it had
/// asked for the first as one for the second.
#[test]
fn an_answer_to_a_session_that_is_over_counts_for_no_other() {
    let violation = run_seed(2_911, of(WorkloadKind::Owners)).violation;
    assert_eq!(violation, None);
}

/// A command was refused because of a record in flight that the store then did not take.
#[test]
fn a_refusal_rests_on_what_is_durable() {
    holds(WorkloadKind::Structured, &[33_362]);
}

/// A process was stopped past its lease, and answered a refusal after the next owner had carried
/// out the same request.
#[test]
fn a_refusal_is_given_under_the_lease() {
    holds(WorkloadKind::Owners, &[37_991]);
}

/// A request came again while its refusal waited for a record, and was carried out.
#[test]
fn a_request_that_is_repeated_gets_the_refusal_that_waits() {
    holds(WorkloadKind::Structured, &[1_898]);
    holds(WorkloadKind::Owners, &[11_135]);
}

/// The deadline of an attempt that had been given up handed out a later one with the same number
/// before it was durable.
#[test]
fn the_deadline_of_an_attempt_that_was_given_up_counts_for_no_other() {
    holds(WorkloadKind::Plain, &[28_895]);
}

/// An attempt that an earlier owner had handed out waited for its turn, and its slots went to
/// another.
#[test]
fn slots_of_an_attempt_that_may_be_with_a_worker_are_kept() {
    let seeds = [16_926, 22_191, 23_579, 26_575, 38_805, 42_274];
    holds(WorkloadKind::Limits, &seeds);
}

/// The first record of a child became durable after the next owner of its parent had tried to
/// start it: the parent's node failed.
#[test]
fn a_child_that_an_earlier_owner_started_late_goes_on() {
    holds(WorkloadKind::Limits, &[17_973]);
}

/// Two nodes failed in another order than in the undisturbed world.
#[test]
fn causes_are_compared_without_their_order() {
    holds(WorkloadKind::Limits, &[48_859]);
}

/// A process whose lease was in doubt put a run to sleep, and acquired it again before that was
/// carried out.
#[test]
fn only_what_acts_for_a_run_waits_for_the_lease() {
    holds(WorkloadKind::Limits, &[22_941]);
}

/// Two processes told each other of room in pools without end.
#[test]
fn processes_do_not_tell_each_other_of_room_for_ever() {
    holds(WorkloadKind::Limits, &[39_499]);
}

fn holds(kind: WorkloadKind, seeds: &[u64]) {
    for &seed in seeds {
        assert_eq!(run_seed(seed, of(kind)).violation, None, "seed {seed}");
    }
}

/// Repeats the seed named by `WINDLASS_SEED`, of `WINDLASS_KIND`, and prints its trace.
#[test]
fn one_seed() {
    let Ok(text) = std::env::var("WINDLASS_SEED") else {
        return;
    };
    let seed = text.parse().expect("WINDLASS_SEED is a number");
    let kind = match std::env::var("WINDLASS_KIND").as_deref() {
        Ok("Structured") => WorkloadKind::Structured,
        Ok("Owners") => WorkloadKind::Owners,
        Ok("Limits") => WorkloadKind::Limits,
        _ => WorkloadKind::Plain,
    };
    tell(kind, seed);
    let outcome = run_seed(seed, of(kind));
    assert_eq!(outcome.violation, None);
}

#[test]
fn the_same_seed_gives_the_same_logs() {
    let seeds = seeds(60);
    for (kind, seed) in [
        WorkloadKind::Plain,
        WorkloadKind::Structured,
        WorkloadKind::Owners,
        WorkloadKind::Limits,
    ]
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
    println!("figure repeated {}", 4 * seeds);
}

/// The worlds are not all calm: faults of every kind do happen.
#[test]
fn worlds_have_faults() {
    let (mut crashes, mut refused, mut records) = (0, 0, 0);
    let (mut doubts, mut reloads) = (0, 0);
    for seed in 0..200 {
        let counts = run_seed(seed, Options::default()).counts;
        crashes += counts.crashes;
        refused += counts.conflicts;
        doubts += counts.doubts;
        reloads += counts.reloads;
        records += counts.records;
    }
    assert!(crashes > 100 && refused > 20 && records > 1_000);
    // Appends without an answer, and runs that a process has lost and still owns.
    assert!(doubts > 100 && reloads > 0, "{doubts}, {reloads}");
}

/// The structured worlds do have children, sleeping runs, and runs that need help.
#[test]
fn structured_worlds_have_everything() {
    let (mut children, mut sleeps, mut nudges, mut crashes) = (0, 0, 0, 0);
    let (mut imports, mut forks, mut undo_hands) = (0, 0, 0);
    for seed in 0..200 {
        let counts = run_seed(seed, of(WorkloadKind::Structured)).counts;
        children += counts.children;
        sleeps += counts.sleeps;
        nudges += counts.nudges;
        crashes += counts.crashes;
        imports += counts.imports;
        forks += counts.forks;
        undo_hands += counts.undo_hands;
    }
    let all = (children, sleeps, nudges, crashes);
    assert!(
        children > 50 && sleeps > 100 && nudges > 20 && crashes > 100,
        "{all:?}"
    );
    let rare = (imports, forks, undo_hands);
    assert!(imports > 5 && forks > 5 && undo_hands > 0, "{rare:?}");
}

/// Worlds with limits do fill their gates and pools, and owners mend what others left.
#[test]
fn worlds_with_limits_have_everything() {
    let (mut parked, mut waited, mut mended, mut crashes) = (0, 0, 0, 0);
    let (mut hand_overs, mut lost_rings, mut compared) = (0, 0, 0);
    for seed in 0..200 {
        let outcome = run_seed(seed, of(WorkloadKind::Limits));
        let counts = outcome.counts;
        parked += counts.parked;
        waited += counts.slots_waited;
        mended += counts.places_mended;
        crashes += counts.crashes;
        hand_overs += counts.hand_overs;
        lost_rings += counts.lost_rings;
        compared += u64::from(outcome.ends.is_some());
    }
    let limits = (parked, waited, mended);
    assert!(parked > 100 && waited > 1_000 && mended > 5, "{limits:?}");
    let faults = (crashes, hand_overs, lost_rings, compared);
    assert!(
        crashes > 100 && hand_overs > 200 && lost_rings > 100 && compared > 50,
        "{faults:?}"
    );
}

/// Worlds of several owners do hand partitions over, lose sessions, and lose wake-ups; commands
/// go between them, and owners are lost before they have consumed what was offered.
#[test]
fn worlds_of_several_owners_have_everything() {
    let (mut hand_overs, mut pauses, mut forfeits, mut lost_rings) = (0, 0, 0, 0);
    let (mut crashes, mut refused, mut doubts, mut compared) = (0, 0, 0, 0);
    let (mut offers, mut taken, mut refused_offers) = (0, 0, 0);
    let (mut unanswered, mut passed_on) = (0, 0);
    for seed in 0..200 {
        let outcome = run_seed(seed, of(WorkloadKind::Owners));
        let counts = outcome.counts;
        hand_overs += counts.hand_overs;
        pauses += counts.pauses;
        forfeits += counts.forfeits;
        lost_rings += counts.lost_rings;
        crashes += counts.crashes;
        refused += counts.conflicts;
        doubts += counts.doubts;
        compared += u64::from(outcome.ends.is_some());
        offers += counts.offers;
        taken += counts.offers_taken;
        refused_offers += counts.offers_refused;
        unanswered += counts.offers_unanswered;
        passed_on += counts.offers_passed_on;
    }
    let commands = (offers, taken, refused_offers, unanswered, passed_on);
    assert!(
        offers > 200 && taken > 50 && refused_offers > 50 && unanswered > 10 && passed_on > 5,
        "{commands:?}"
    );
    let leases = (hand_overs, pauses, forfeits, lost_rings);
    assert!(
        hand_overs > 200 && pauses > 50 && forfeits > 20 && lost_rings > 100,
        "{leases:?}"
    );
    let appends = (crashes, refused, doubts, compared);
    assert!(
        crashes > 100 && refused > 50 && doubts > 50 && compared > 50,
        "{appends:?}"
    );
}
