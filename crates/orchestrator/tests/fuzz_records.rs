//! Stored records and checkpoints, mutated at random: they are read or refused, without a
//! panic. `WINDLASS_FUZZ_SECONDS` makes the test go on that long; a failure prints the seed
//! that repeats it (`WINDLASS_FUZZ_SEED`).

#![allow(
    clippy::disallowed_methods,
    reason = "a round of mutations may be given a time"
)]

use std::time::{Duration, Instant};

use windlass_core::run::Snapshot;
use windlass_orchestrator::codec;

/// Cases where no time is given.
const CASES: u64 = 5000;

/// Records as they are stored, and a state.
const RECORDS: &[&str] = &[
    r#"{"at":1,"events":[{"Started":{}},{"Paused":{}},{"Resumed":{"by":"me","reason":"why"}}]}"#,
    r#"{"at":-9223372036854775808,"events":[]}"#,
    r#"{"at":7,"events":[{"Routed":{"node":"a","taken":[0,4294967295]}},
        {"Looped":{"node":"a[3]/b","iteration":9,"due":12}},
        {"Reattempted":{"nodes":["a","b"],"by":"me"}}]}"#,
    r#"{"version":1,"graphs":[],"frames":[],"status":"Running","records":3}"#,
];

/// What JSON is made of, and what breaks it.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "1e999",
    "-1",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "at",
    "events",
    "\u{10ffff}",
    "{\"at\":",
    "true",
];

/// Numbers that repeat for a seed (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(5) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => bytes.truncate(at),
                2 => {
                    let piece = PIECES[self.below(PIECES.len())];
                    bytes.splice(at..at, piece.bytes());
                }
                3 => {
                    let end = (at + self.below(20)).min(bytes.len());
                    bytes.drain(at..end);
                }
                4 => bytes
                    .splice(at..at, std::iter::repeat_n(b'[', self.below(3000)))
                    .for_each(drop),
                _ => {
                    let part = bytes[at..].to_vec();
                    bytes.extend(part);
                }
            }
        }
    }
}

fn each_seed(test: impl Fn(&mut Random)) {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(seed) = number("WINDLASS_FUZZ_SEED") {
        return test(&mut Random(seed.max(1)));
    }
    let until = number("WINDLASS_FUZZ_SECONDS").map(Duration::from_secs);
    let begun = Instant::now();
    for seed in 1u64.. {
        if !until.map_or(seed <= CASES, |until| begun.elapsed() < until) {
            return;
        }
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let case = std::panic::AssertUnwindSafe(|| test(&mut Random(seed)));
        let failed = std::panic::catch_unwind(case);
        assert!(failed.is_ok(), "WINDLASS_FUZZ_SEED={seed} repeats it");
    }
}

#[test]
fn the_seeds_of_the_mutations_are_records() {
    for body in &RECORDS[..3] {
        let kind = windlass_store::EnvelopeKind::Record;
        let bytes = windlass_store::Envelope::encode(kind, 2, body.as_bytes());
        assert!(codec::decode(&bytes).is_ok(), "{body}");
    }
}

#[test]
fn fuzz_records_are_read_or_refused() {
    each_seed(|random| {
        let body = RECORDS[random.below(RECORDS.len())];
        let kind = random.below(4) as u8;
        let mut bytes =
            windlass_store::Envelope::header(windlass_store::EnvelopeKind::Record, 2).to_vec();
        bytes[2] = bytes[2].wrapping_add(kind / 3);
        bytes.extend_from_slice(body.as_bytes());
        random.mutate(&mut bytes);
        let _ = codec::decode(&bytes);
        let _ = codec::results(&bytes);
        if let Some(state) = codec::open_checkpoint(&bytes) {
            let _ = serde_json::from_slice::<Snapshot>(state);
        }
        let mut checkpoint = codec::checkpoint(body.as_bytes());
        random.mutate(&mut checkpoint);
        if let Some(state) = codec::open_checkpoint(&checkpoint) {
            let _ = serde_json::from_slice::<Snapshot>(state);
        }
    });
}
