//! Stored bytes, mutated at random: they are read as they were, or refused, without a panic
//! and without more memory than allowed. `WINDLASS_FUZZ_SECONDS` makes the tests go on that
//! long; a failure prints the seed that repeats it (`WINDLASS_FUZZ_SEED`).

use std::time::{Duration, Instant};

use windlass_core::RunId;
use windlass_store::{Error, Head, Record, WriterId, checksum};

use crate::mark::Mark;
use crate::segment::Segment;
use crate::wal;

/// Cases of a test where no time is given.
const CASES: u64 = 3000;

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

    /// Flips, sets, removes, repeats or adds some bytes.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = [0, 0xff, 0x7f, 0x80][self.below(4)],
                2 => bytes.truncate(at),
                3 => {
                    let part = bytes[at..].to_vec();
                    bytes.extend(part);
                }
                4 => bytes.insert(at, self.next() as u8),
                _ => {
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].fill(0xff);
                }
            }
        }
    }
}

/// Calls a test with one seed after the other.
fn each_seed(test: impl Fn(&mut Random)) {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(seed) = number("WINDLASS_FUZZ_SEED") {
        return test(&mut Random(seed.max(1)));
    }
    let until = number("WINDLASS_FUZZ_SECONDS").map(Duration::from_secs);
    let begun = Instant::now();
    for seed in 1u64.. {
        let goes_on = until.map_or(seed <= CASES, |until| begun.elapsed() < until);
        if !goes_on {
            return;
        }
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            test(&mut Random(seed));
        }));
        assert!(failed.is_ok(), "WINDLASS_FUZZ_SEED={seed} repeats it");
    }
}

fn records(random: &mut Random) -> Vec<Record> {
    let mut previous = Head::NONE.chain;
    let count = 1 + random.below(40) as u64;
    let record = |sequence: u64| {
        let bytes = vec![b'a' + (sequence % 7) as u8; random.below(200)];
        let (writer, append_id) = (WriterId(random.next()), random.next());
        previous = checksum::chain(&previous, sequence, writer, append_id, &bytes);
        Record {
            sequence,
            writer,
            append_id,
            chain: previous,
            bytes,
        }
    };
    (1..=count).map(record).collect()
}

#[test]
fn fuzz_segments_are_whole_or_refused() {
    let run = RunId::from_bytes([7; 16]);
    each_seed(|random| {
        let records = records(random);
        let pack = || Segment::pack(5, Head::NONE.chain, &records).expect("records");
        let mut segment = pack();
        // Mutates the compressed bytes, the columns beside them, or the bytes inside.
        match random.below(3) {
            0 => random.mutate(&mut segment.bytes),
            1 => {
                let mut raw = zstd::bulk::decompress(&segment.bytes, segment.length).expect("raw");
                random.mutate(&mut raw);
                segment.length = raw.len();
                segment.bytes = zstd::bulk::compress(&raw, 3).expect("compressed");
            }
            _ => {
                let strange = [0, 1, u64::MAX, i64::MAX as u64, random.next()];
                let value = strange[random.below(strange.len())];
                match random.below(4) {
                    0 => segment.length = value as usize,
                    1 => segment.first = value,
                    2 => segment.append_id = value,
                    _ => segment.id = value as i64,
                }
            }
        }
        match segment.unpack(run) {
            Ok(unpacked) => assert_eq!(unpacked.records, records),
            Err(Error::Damaged(_)) => {}
            Err(other) => panic!("{other}"),
        }
    });
}

#[test]
fn fuzz_marks_and_logs_are_read_or_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let store = crate::EmbeddedStore::open(root.path(), crate::Options::default());
    let store = store.expect("a store").store;
    for n in 0..4u64 {
        let kept = windlass_store::KeyValue::keep_note(&store, "fuzz", &n.to_string(), vec![1]);
        windlass_store::block_on(kept).expect("noted");
    }
    drop(store);
    let log = std::fs::read(root.path().join("windlass.db-wal")).expect("a log");
    let mark = std::fs::read(root.path().join("windlass.tail")).expect("a mark");
    let whole = wal::scan(&root.path().join("windlass.db-wal")).expect("whole");
    let folder = tempfile::tempdir().expect("a directory");
    each_seed(|random| {
        let mut bytes = mark.clone();
        random.mutate(&mut bytes);
        std::fs::write(folder.path().join("windlass.tail"), &bytes).expect("written");
        if let Some(read) = Mark::read(folder.path()) {
            assert_eq!(bytes, mark, "{read:?}");
        }
        let mut bytes = log.clone();
        random.mutate(&mut bytes);
        let path = folder.path().join("windlass.db-wal");
        std::fs::write(&path, &bytes).expect("written");
        match wal::scan(&path) {
            Ok(scan) => assert!(scan.committed <= whole.committed),
            Err(Error::Damaged(_)) => {}
            Err(other) => panic!("{other}"),
        }
    });
}
