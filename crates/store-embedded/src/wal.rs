//! Reads the write-ahead log before SQLite does, because SQLite silently drops every commit
//! after a damaged frame.
//!
//! The format is SQLite's (fileformat2.html, section 4): a header of 32 bytes, then frames
//! of a 24-byte header and a page. Each frame repeats the header's two salts and carries a
//! checksum over everything before it. The log is valid up to the first frame whose salts or
//! checksum do not fit; what follows is one of:
//!
//! - zeros, or frames with older salts: the log was reset and is being written over;
//! - the tail of one transaction that a crash tore: at most one frame in it is a commit,
//!   because the next transaction is written only after that one was synced;
//! - two or more commits with the current salts: those were acknowledged, and the frame
//!   before them is damaged.
//!
//! Where the store was closed in good order, its mark says how much was acknowledged, so
//! that the last commit counts as well; see `mark`.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use windlass_store::Error;

use crate::error::{damaged_file, from_io};
use crate::mark::Mark;

const HEADER: u64 = 32;
const FRAME_HEADER: usize = 24;
/// Every database of ours has pages of this size.
pub(crate) const PAGE: usize = 4096;
const FRAME: u64 = (FRAME_HEADER + PAGE) as u64;

/// Checksums over little-endian words; the one greater is over big-endian ones.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// What a log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Frames up to the last whole commit.
    pub(crate) committed: u64,
    /// The number of commits in them.
    pub(crate) commits: u64,
    /// Frames after them that were written since the log was last reset: the tail of a
    /// transaction that was never acknowledged, as far as can be told.
    pub(crate) torn: u64,
}

impl Scan {
    /// What is dropped, if something is.
    pub(crate) fn torn_tail(self) -> Option<TornTail> {
        (self.torn > 0).then_some(TornTail {
            offset: HEADER + self.committed * FRAME,
            bytes: self.torn * FRAME,
        })
    }
}

/// The unfinished end of the write-ahead log, which is passed over: a crash came before the
/// transaction was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Where it begins in the log.
    pub offset: u64,
    /// How much of it there is.
    pub bytes: u64,
}

impl std::fmt::Display for TornTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { offset, bytes } = self;
        write!(
            f,
            "the write-ahead log ends in an unfinished transaction, {bytes} bytes at offset \
             {offset}, which is passed over: it was never acknowledged"
        )
    }
}

/// Reads a log to its end, or says where it is damaged. A file that is not there is empty.
pub(crate) fn scan(path: &Path) -> Result<Scan, Error> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let mark = Mark::read(directory);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Scan::default()),
        Err(error) => return Err(from_io(path, &error)),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut reader = BufReader::with_capacity(256 << 10, file);
    scan_reader(&mut reader, &name, mark).map_err(|problem| match problem {
        Problem::Io(error) => from_io(path, &error),
        Problem::Damage(error) => error,
    })
}

enum Problem {
    Io(std::io::Error),
    Damage(Error),
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// The salts of a log: those of its header.
pub(crate) fn salts(path: &Path) -> Option<(u32, u32)> {
    let mut header = [0; HEADER as usize];
    File::open(path).ok()?.read_exact(&mut header).ok()?;
    Some((word(&header, 16), word(&header, 20)))
}

/// Bytes of a log with so many frames.
pub(crate) fn length(frames: u64) -> u64 {
    HEADER + frames * FRAME
}

fn scan_reader(reader: &mut impl Read, name: &str, mark: Option<Mark>) -> Result<Scan, Problem> {
    let mut header = [0; HEADER as usize];
    if !fill(reader, &mut header)? {
        return Ok(Scan::default());
    }
    let mut sum = Checksum::new(word(&header, 0) == MAGIC + 1);
    sum.add(&header[..24]);
    let sound = word(&header, 0) & !1 == MAGIC
        && word(&header, 4) == VERSION
        && (word(&header, 24), word(&header, 28)) == sum.words();
    if sound && word(&header, 8) as usize != PAGE {
        let reason = format!("pages of {} bytes are not ours", word(&header, 8));
        return Err(Problem::Damage(damaged_file(name, 8, reason)));
    }
    // Without a sound header the first frame tells which salts are current.
    let mut salts = sound.then(|| (word(&header, 16), word(&header, 20)));
    let mut valid = sound;
    let mut scan = Scan::default();
    let mut bad = if sound { None } else { Some(0) };
    let mut lost = 0;
    let mut frame = vec![0; FRAME as usize];
    let mut number = 0;
    while fill(reader, &mut frame)? {
        let of_frame = (word(&frame, 8), word(&frame, 12));
        let current = *salts.get_or_insert(of_frame);
        let commit = word(&frame, 4) != 0;
        if valid {
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER..]);
            valid = of_frame == current && (word(&frame, 16), word(&frame, 20)) == sum.words();
            if !valid {
                bad = Some(HEADER + number * FRAME);
            }
        }
        number += 1;
        if valid && commit {
            scan.committed = number;
            scan.commits += 1;
            scan.torn = 0;
        } else if alike(of_frame, current) {
            scan.torn += 1;
        }
        if !valid && commit && alike(of_frame, current) {
            lost += 1;
        }
    }
    match bad {
        Some(offset) if lost >= 2 => {
            let reason = format!("{lost} commits follow a frame that does not fit its checksum");
            Err(Problem::Damage(damaged_file(name, offset, reason)))
        }
        _ => acknowledged(scan, name, bad.unwrap_or(length(number)), (mark, salts)),
    }
}

/// What was acknowledged when the store was closed is still there.
fn acknowledged(
    scan: Scan,
    name: &str,
    bad: u64,
    (mark, salts): (Option<Mark>, Option<(u32, u32)>),
) -> Result<Scan, Problem> {
    let mark = mark.filter(|mark| Some(mark.salts) == salts);
    match mark {
        Some(mark) if scan.committed < mark.frames => {
            let (whole, all) = (scan.committed, mark.frames);
            let reason = format!("{all} frames were acknowledged, only {whole} are whole");
            Err(Problem::Damage(damaged_file(name, bad, reason)))
        }
        _ => Ok(scan),
    }
}

/// Whether a frame was written since the log was last reset. Both salts change then, so one
/// that is still the same tells that the other is damaged.
fn alike(salts: (u32, u32), current: (u32, u32)) -> bool {
    salts != (0, 0) && (salts.0 == current.0 || salts.1 == current.1)
}

/// Fills the buffer; `false` if the file ends before.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> Result<bool, std::io::Error> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The cumulative checksum of section 4.2.
struct Checksum {
    first: u32,
    second: u32,
    big_endian: bool,
}

impl Checksum {
    fn new(big_endian: bool) -> Self {
        Self {
            first: 0,
            second: 0,
            big_endian,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let read = |part: &[u8]| {
            let word = [part[0], part[1], part[2], part[3]];
            if self.big_endian {
                u32::from_be_bytes(word)
            } else {
                u32::from_le_bytes(word)
            }
        };
        let (mut first, mut second) = (self.first, self.second);
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(read(&pair[..4])).wrapping_add(second);
            second = second.wrapping_add(read(&pair[4..])).wrapping_add(first);
        }
        (self.first, self.second) = (first, second);
    }

    fn words(&self) -> (u32, u32) {
        (self.first, self.second)
    }
}
