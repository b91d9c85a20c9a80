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
//! The log does not tell how much of it was acknowledged; see `acknowledged`.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use windlass_store::Error;

use crate::error::{damaged_file, from_io};
use crate::files::read_at;

const HEADER: u64 = 32;
pub(crate) const FRAME_HEADER: usize = 24;
/// Every database of ours has pages of this size.
pub(crate) const PAGE: usize = 4096;
pub(crate) const FRAME: u64 = (FRAME_HEADER + PAGE) as u64;

/// Checksums over little-endian words; the one greater is over big-endian ones.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// Which log it is: both parts change each time it begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogId {
    /// The first is incremented, the second is random.
    pub(crate) salts: (u32, u32),
    /// How often it began anew.
    pub(crate) restarts: u32,
}

impl LogId {
    fn of(header: &[u8]) -> Self {
        Self {
            salts: (word(header, 16), word(header, 20)),
            restarts: word(header, 12),
        }
    }
}

/// What a log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Which log it is; `None` if there is none. Of one without a sound header, the salts of
    /// its first frame.
    pub(crate) log: Option<LogId>,
    /// Where the first frame that does not fit begins, or the file ends.
    pub(crate) end: u64,
    /// Frames up to the last whole commit.
    pub(crate) committed: u64,
    /// The number of commits in them.
    pub(crate) commits: u64,
    /// Frames after them that were written since the log was last reset: the tail of a transaction
    /// that was never acknowledged, as far as the log shows.
    pub(crate) torn: u64,
}

impl Scan {
    /// The part that SQLite drops, if there is one.
    pub(crate) fn torn_tail(self) -> Option<TornTail> {
        (self.torn > 0).then_some(TornTail {
            offset: HEADER + self.committed * FRAME,
            bytes: self.torn * FRAME,
        })
    }
}

/// The unfinished end of the write-ahead log, which is skipped: a crash came before the
/// transaction was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Where it begins in the log.
    pub offset: u64,
    /// Its length.
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
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Scan::default()),
        Err(error) => return Err(from_io(path, &error)),
    };
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let (scan, lost) = read_log(&mut reader).map_err(|error| from_io(path, &error))?;
    match lost {
        Some(lost) => Err(lost.into_error(&name(path))),
        None => Ok(scan),
    }
}

/// The same, but for a damaged log it returns the commits before the damage, which SQLite
/// takes for the whole log.
pub(crate) fn scan_to_damage(path: &Path) -> std::io::Result<Scan> {
    let mut reader = BufReader::with_capacity(256 << 10, File::open(path)?);
    Ok(read_log(&mut reader)?.0)
}

/// How damage in the log names it.
pub(crate) fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Damage that the log itself shows.
enum Lost {
    /// Whole commits follow the place where it cannot be read on.
    Commits { offset: u64, count: u64 },
    /// Pages of a size that no database of ours has.
    Foreign { page: u32 },
}

impl Lost {
    fn into_error(self, name: &str) -> Error {
        match self {
            Self::Commits { offset, count } => {
                let reason =
                    format!("{count} commits follow a frame that does not fit its checksum");
                damaged_file(name, offset, reason)
            }
            Self::Foreign { page } => {
                damaged_file(name, 8, format!("pages of {page} bytes are not ours"))
            }
        }
    }
}

/// Which log a file is, by its header.
pub(crate) fn identify(file: &File) -> std::io::Result<LogId> {
    let mut header = [0; HEADER as usize];
    read_at(file, &mut header, 0)?;
    Ok(LogId::of(&header))
}

/// A frame as the log has it.
pub(crate) struct Frame {
    /// The salts of its log.
    pub(crate) salts: (u32, u32),
    /// The number of its page.
    pub(crate) page: u32,
    /// The page's checksum.
    pub(crate) sum: u64,
}

/// Reads a frame, counted from 1.
pub(crate) fn frame_at(file: &File, frame: u64) -> std::io::Result<Frame> {
    let mut bytes = [0; FRAME as usize];
    read_at(file, &mut bytes, length(frame.saturating_sub(1)))?;
    Ok(Frame {
        salts: (word(&bytes, 8), word(&bytes, 12)),
        page: word(&bytes, 0),
        sum: page_sum(&bytes[FRAME_HEADER..]),
    })
}

/// A checksum of a page, for comparing it with another version of itself.
pub(crate) fn page_sum(page: &[u8]) -> u64 {
    let mut sum = Checksum::new(false);
    sum.add(page);
    let (first, second) = sum.words();
    u64::from(first) << 32 | u64::from(second)
}

/// Bytes of a log with so many frames.
pub(crate) fn length(frames: u64) -> u64 {
    HEADER + frames * FRAME
}

fn read_log(reader: &mut impl Read) -> std::io::Result<(Scan, Option<Lost>)> {
    let mut header = [0; HEADER as usize];
    if !fill(reader, &mut header)? {
        return Ok((Scan::default(), None));
    }
    let mut sum = Checksum::new(word(&header, 0) == MAGIC + 1);
    sum.add(&header[..24]);
    let sound = word(&header, 0) & !1 == MAGIC
        && word(&header, 4) == VERSION
        && (word(&header, 24), word(&header, 28)) == sum.words();
    if sound && word(&header, 8) as usize != PAGE {
        let page = word(&header, 8);
        return Ok((Scan::default(), Some(Lost::Foreign { page })));
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
    scan.end = bad.unwrap_or(length(number));
    scan.log = salts.map(|salts| LogId {
        salts,
        ..LogId::of(&header)
    });
    let lost = bad.filter(|_| lost >= 2).map(|offset| Lost::Commits {
        offset,
        count: lost,
    });
    Ok((scan, lost))
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
