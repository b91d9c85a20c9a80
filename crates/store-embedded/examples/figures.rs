//! Measures the store on this machine, beside the raw cost of the disk in the same run.
//!
//! `cargo run --release -p windlass-store-embedded --example figures [directory]`

// A measurement that cannot go on has nothing better to do than to stop.
#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use windlass_core::{Millis, RunId, RunStatus};
use windlass_store::conformance::{must_append, record, row, run_id};
use windlass_store::{
    Append, Head, Log as _, Partitions, Queries, RunFilter, RunRow, Wait as _, block_on,
};
use windlass_store_embedded::{EmbeddedStore, Options};

fn main() {
    let base = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp".into());
    let root = tempfile::tempdir_in(base).unwrap();
    opening(root.path());
    single(root.path());
    for in_flight in [1, 8] {
        concurrent(root.path(), in_flight);
    }
    tasks(root.path());
    batches(root.path());
    lists(root.path());
    packing(root.path());
    sleeping(root.path());
}

fn open(directory: &Path) -> EmbeddedStore {
    let opened = EmbeddedStore::open(directory, Options::default()).unwrap();
    opened.store
}

fn with_row(run: RunId, head: Head, id: u64) -> Append {
    Append {
        row: Some(row(run)),
        ..record(run, head, id, &[7; 300])
    }
}

fn opening(root: &Path) {
    let directory = root.join("opening");
    for what in ["fresh", "existing", "existing"] {
        let start = Instant::now();
        let store = open(&directory);
        let opened = start.elapsed();
        let run = run_id(start.elapsed().as_nanos() as u64);
        must_append(&store, with_row(run, Head::NONE, 1));
        println!(
            "open {what}: {opened:?}, with the first commit {:?}",
            start.elapsed()
        );
    }
}

/// Raw and stored appends in turns of a hundred, so that both see the same disk.
fn single(root: &Path) {
    let mut raw = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(root.join("raw"))
        .unwrap();
    raw.write_all(&vec![0; 8 << 20]).unwrap();
    raw.sync_all().unwrap();
    raw.seek(SeekFrom::Start(0)).unwrap();
    let store = open(&root.join("single"));
    let run = run_id(1);
    let mut head = must_append(&store, with_row(run, Head::NONE, 0));
    // The first hundred grow the log.
    for n in 0..100 {
        head = must_append(&store, record(run, head, n, &[7; 300]));
    }
    let (mut disk, mut stored) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        for _ in 0..100 {
            let start = Instant::now();
            raw.write_all(&[7; 256]).unwrap();
            raw.sync_data().unwrap();
            disk.push(start.elapsed());
        }
        for n in 0..100 {
            let append = record(run, head, n, &[7; 300]);
            let start = Instant::now();
            head = must_append(&store, append);
            stored.push(start.elapsed());
        }
    }
    let (disk, stored) = (spread(&mut disk), spread(&mut stored));
    println!("raw append: mean {:?}, median {:?}", disk.0, disk.1);
    println!(
        "stored append: mean {:?}, median {:?}; {:.2} times the raw mean, {:.2} the median",
        stored.0,
        stored.1,
        stored.0.as_secs_f64() / disk.0.as_secs_f64(),
        stored.1.as_secs_f64() / disk.1.as_secs_f64()
    );
}

fn spread(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort();
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    (mean, times[times.len() / 2])
}

/// 64 writers, each with a number of runs in flight, each append with a row.
fn concurrent(root: &Path, in_flight: u64) {
    let store = open(&root.join(format!("concurrent-{in_flight}")));
    let start = Instant::now();
    let deadline = start + Duration::from_secs(4);
    let writers: Vec<_> = (0..64u64)
        .map(|writer| {
            let store = store.clone();
            thread::spawn(move || {
                let mut heads = vec![Head::NONE; in_flight as usize];
                let mut count = 0u64;
                while Instant::now() < deadline {
                    let batch = heads
                        .iter()
                        .zip(0u64..)
                        .map(|(head, n)| with_row(run_id(writer * 1000 + n), *head, count));
                    let answers = block_on(store.append(batch.collect()));
                    for (head, answer) in heads.iter_mut().zip(answers) {
                        *head = answer.unwrap().head;
                        count += 1;
                    }
                }
                count
            })
        })
        .collect();
    let total: u64 = writers.into_iter().map(|w| w.join().unwrap()).sum();
    let rate = total as f64 / start.elapsed().as_secs_f64();
    println!("64 writers, {in_flight} in flight each: {rate:.0} appends/s with rows");
}

/// 64 writers that are futures of one thread, as those of an engine are.
fn tasks(root: &Path) {
    let store = open(&root.join("tasks"));
    let start = Instant::now();
    let mut heads = vec![Head::NONE; 64];
    let mut count = 0u64;
    while start.elapsed() < Duration::from_secs(4) {
        let pending: Vec<_> = heads
            .iter()
            .zip(0u64..)
            .map(|(head, n)| store.append(vec![with_row(run_id(n), *head, count)]))
            .collect();
        for (head, answer) in heads.iter_mut().zip(pending) {
            *head = block_on(answer).remove(0).unwrap().head;
            count += 1;
        }
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("64 futures of one thread: {rate:.0} appends/s with rows");
}

/// New runs in batches of 500.
fn batches(root: &Path) {
    let store = open(&root.join("batches"));
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < Duration::from_secs(4) {
        let batch = (0..500).map(|n| {
            let run = run_id(count + n);
            Append {
                record: vec![7; 64],
                ..with_row(run, Head::NONE, count + n)
            }
        });
        for answer in block_on(store.append(batch.collect())) {
            answer.unwrap();
        }
        count += 500;
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("batches of 500 new runs: {rate:.0} runs/s, {count} in all");
}

/// Pages among a million rows.
fn lists(root: &Path) {
    let directory = root.join("lists");
    let options = Options {
        durable: false,
        ..Options::default()
    };
    let store = EmbeddedStore::open(&directory, options).unwrap().store;
    let start = Instant::now();
    for part in 0..1000u64 {
        let batch = (0..1000u64).map(|n| sample(part * 1000 + n));
        for answer in block_on(store.append(batch.collect())) {
            answer.unwrap();
        }
    }
    println!("1,000,000 runs taken in: {:?}", start.elapsed());
    let page = |name: &str, filter: RunFilter| {
        let start = Instant::now();
        let found = store.runs(&filter).wait().unwrap().rows.len();
        println!("page {name}: {:?} for {found} rows", start.elapsed());
    };
    let none = RunFilter::default;
    let pending = vec![RunStatus::Pending];
    page("first, cold", none());
    page("first", none());
    page(
        "by workflow",
        RunFilter {
            workflow: Some("w3".into()),
            ..none()
        },
    );
    page(
        "by status",
        RunFilter {
            statuses: pending.clone(),
            ..none()
        },
    );
    let both = RunFilter {
        workflow: Some("w3".into()),
        statuses: pending,
        ..none()
    };
    page("by workflow and status", both);
    let rare = RunFilter {
        statuses: vec![RunStatus::Cancelled],
        ..none()
    };
    page("by a rare status", rare);
    let label = [("n".into(), "77".into())].into();
    page(
        "by a rare label",
        RunFilter {
            labels: label,
            ..none()
        },
    );
    let since = Some(windlass_core::Millis(1_700_000_000_000 + 999_990));
    page("since a moment ago", RunFilter { since, ..none() });
    let start = Instant::now();
    let unfinished = store.unfinished(None, 1000).wait().unwrap().len();
    println!("unfinished: {:?} for {unfinished} rows", start.elapsed());
    drop(store);
    let start = Instant::now();
    open(&directory);
    println!("open with 1,000,000 runs: {:?}", start.elapsed());
}

fn open_unsynced(directory: &Path) -> EmbeddedStore {
    let options = Options {
        durable: false,
        ..Options::default()
    };
    EmbeddedStore::open(directory, options).unwrap().store
}

/// A record like an engine's: JSON with names that repeat and values that do not.
fn step(n: u64) -> String {
    format!(
        r#"{{"at":{},"events":[{{"type":"AttemptEnded","node":"step-{n}","attempt":1,"digest":"{}","result":{{"Succeeded":{{"id":{n},"name":"customer number {n}","active":true}}}}}}]}}"#,
        1_700_000_000_000 + n * 3,
        windlass_core::Digest::of(&n.to_le_bytes()),
    )
}

/// A long log: packed, then read page by page.
fn packing(root: &Path) {
    let store = open_unsynced(&root.join("packing"));
    for (run, count) in [(run_id(1), 100_000u64), (run_id(2), 1_000_000)] {
        let mut head = Head::NONE;
        for begin in (0..count).step_by(1000) {
            let mut batch = Vec::new();
            for n in begin..begin + 1000 {
                let append = record(run, head, n, step(n).as_bytes());
                head = windlass_store::checksum::next_head(&append);
                batch.push(append);
            }
            for answer in block_on(store.append(batch)) {
                answer.unwrap();
            }
        }
        let read = |what: &str| {
            let start = Instant::now();
            let mut from = 1;
            while let Some(last) = store.read(run, from, 1 << 20).wait().unwrap().last() {
                from = last.sequence + 1;
            }
            println!("{count} records read, {what}: {:?}", start.elapsed());
        };
        read("single");
        let start = Instant::now();
        let packed = block_on(store.compact(run, count)).unwrap();
        println!(
            "{count} records packed: {:?}, {} bytes became {}",
            start.elapsed(),
            packed.bytes,
            packed.packed_bytes
        );
        read("packed");
    }
}

/// Few runs awake among many that sleep.
fn sleeping(root: &Path) {
    let store = open_unsynced(&root.join("sleeping"));
    for part in 0..100u64 {
        let batch = (0..1000u64).map(|n| {
            let n = part * 1000 + n;
            let asleep = n % 10_000 != 9;
            let row = RunRow {
                asleep,
                wake_at: asleep.then(|| windlass_core::Millis((n * 7919 % 100_000) as i64)),
                ..row(run_id(n))
            };
            Append {
                row: Some(row),
                ..record(run_id(n), Head::NONE, n, &[7; 64])
            }
        });
        for answer in block_on(store.append(batch.collect())) {
            answer.unwrap();
        }
    }
    let timed = |what: &str, work: &dyn Fn() -> usize| {
        let start = Instant::now();
        let found = work();
        println!("{what} of 100,000: {:?} for {found}", start.elapsed());
    };
    timed("awake", &|| store.awake(None, 1000).wait().unwrap().len());
    let soon = windlass_core::Millis(100);
    timed("due", &|| {
        store
            .due(&Partitions::All, None, soon, 1000)
            .wait()
            .unwrap()
            .len()
    });
    timed("next wake", &|| {
        store
            .due(&Partitions::All, None, Millis(i64::MAX), 1)
            .wait()
            .unwrap()
            .len()
    });
}

fn sample(n: u64) -> Append {
    let status = match n % 1000 {
        0 if n == 500_000 => RunStatus::Cancelled,
        1..=5 => RunStatus::Pending,
        6..=9 => RunStatus::Failed,
        _ => RunStatus::Succeeded,
    };
    let row = RunRow {
        status,
        workflow: format!("w{}", n % 10).into(),
        labels: [("n".into(), n.to_string().into())].into(),
        created_at: windlass_core::Millis(1_700_000_000_000 + n as i64),
        ..row(run_id(n))
    };
    Append {
        row: Some(row),
        ..record(run_id(n), Head::NONE, n, &[7; 64])
    }
}
