//! Runs many seeds, with progress: `soak [plain|structured|owners|limits] [SEEDS] [FIRST]`. With
//! `WINDLASS_SEED` set, runs that one and tells its story.

use std::time::{Duration, Instant};

use windlass_core::Digest;
use windlass_sim::{Options, WorkloadKind, run_seed};

fn main() {
    let kind = match std::env::args().nth(1).as_deref() {
        Some("structured") => WorkloadKind::Structured,
        Some("owners") => WorkloadKind::Owners,
        Some("limits") => WorkloadKind::Limits,
        _ => WorkloadKind::Plain,
    };
    let options = Options {
        kind,
        ..Options::default()
    };
    if let Some(seed) = std::env::var("WINDLASS_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        let trace = true;
        let outcome = run_seed(seed, Options { trace, ..options });
        outcome.trace.iter().for_each(|line| println!("{line}"));
        println!("{:?} {:?}", outcome.violation, outcome.counts);
        return;
    }
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse::<u64>().ok());
    let count = numbers.next().unwrap_or(10_000);
    let first = numbers.next().unwrap_or(0);
    let (began, on_core_before) = (Instant::now(), on_core());
    // Whether two builds gave the same worlds: all logs and counts, and with
    // `WINDLASS_TRACE` the stories too.
    let mut worlds = Digest::of(b"");
    let trace = std::env::var_os("WINDLASS_TRACE").is_some();
    let options = Options { trace, ..options };
    let (mut failed, mut runs, mut records, mut crashes, mut conflicts) = (0, 0, 0, 0, 0);
    for seed in first..first + count {
        let outcome = run_seed(seed, options);
        let told = format!("{worlds:?} {:?} {:?}", outcome.counts, outcome.trace);
        worlds = Digest::of(&[told.as_bytes(), &outcome.logs].concat());
        runs += outcome.counts.runs;
        records += outcome.counts.records;
        crashes += outcome.counts.crashes;
        conflicts += outcome.counts.conflicts;
        if let Some(violation) = outcome.violation {
            failed += 1;
            if failed <= 40 {
                println!("seed {seed}: {violation}");
            }
        }
        let done = seed - first + 1;
        if done.is_multiple_of(10_000) || done == count {
            // What it took of a core, where the system tells: others may be at work.
            let on_core = on_core().zip(on_core_before).map(|(now, then)| now - then);
            let took = on_core.unwrap_or_else(|| began.elapsed());
            let rate = done as f64 / took.as_secs_f64();
            println!(
                "{done} seeds, {failed} failed, {runs} runs, {records} records, {crashes} crashes, {conflicts} refused, {rate:.0} seeds a second a core, worlds {worlds}"
            );
        }
    }
    if failed > 0 {
        std::process::exit(1);
    }
}

/// How long this thread has been on a core.
fn on_core() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}
