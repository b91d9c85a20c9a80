//! Compares the write-ahead log that is found with what was acknowledged.
//!
//! | the log that is there | means |
//! | --- | --- |
//! | the one of the mark, with at least its frames | all is there |
//! | one that began after it | the mark's was copied whole: SQLite begins anew only then |
//! | the one of the mark with fewer frames | damage: the log was cut |
//! | one that began before it | damage: an older copy took its place |
//! | none, or none with a whole commit | damage, unless everything had been copied |
//! | one that does not descend from it | damage, unless everything had been copied |
//!
//! Each time a log begins anew, SQLite increments its first salt and its number of restarts
//! (`walRestartHdr`), which orders logs of one descent. Only a log that is created where there
//! was none has random salts.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use windlass_store::Error;

use crate::error::damaged_file;
use crate::mark::Mark;
use crate::wal::{self, LogId, PAGE, Scan};

/// What the writer must do before it opens the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogVerdict {
    /// Nothing: the mark is right, or there is none.
    Sound,
    /// The marked log is gone, but nothing of it is lost: forget the mark.
    Superseded,
}

/// How the log that was found is related to the marked one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    Later,
    Earlier,
    None,
}

/// Compares the two.
fn relation(found: LogId, marked: LogId) -> Relation {
    if found.salts == marked.salts {
        return Relation::Same;
    }
    let steps = found.restarts.wrapping_sub(marked.restarts);
    if steps == 0 || found.salts.0 != marked.salts.0.wrapping_add(steps) {
        return Relation::None;
    }
    match steps.cast_signed() {
        1.. => Relation::Later,
        _ => Relation::Earlier,
    }
}

/// Whether everything that was acknowledged is there; an error says what is missing. Only the
/// holder of the lock may call this, because it may have to read the database file.
pub(crate) fn check(
    scan: &Scan,
    mark: Option<&Mark>,
    name: &str,
    database: &Path,
) -> Result<LogVerdict, Error> {
    let Some(mark) = mark.filter(|mark| mark.frames > 0) else {
        return Ok(LogVerdict::Sound);
    };
    if mark.old {
        return check_old(scan, mark, name);
    }
    let all_copied = || mark.copied >= mark.frames || was_copied_by_another(mark, database);
    let relation = scan
        .log
        .map_or(Relation::None, |log| relation(log, mark.log));
    match relation {
        Relation::Same if scan.committed >= mark.frames => Ok(LogVerdict::Sound),
        Relation::Later => Ok(LogVerdict::Sound),
        Relation::Same if scan.committed > 0 => Err(cut(scan, mark, name)),
        Relation::Earlier if scan.committed > 0 => Err(missing(scan, mark, name)),
        _ if all_copied() => Ok(LogVerdict::Superseded),
        _ => Err(missing(scan, mark, name)),
    }
}

/// Checks a mark of a version that wrote it only on closing: another log may have come since.
fn check_old(scan: &Scan, mark: &Mark, name: &str) -> Result<LogVerdict, Error> {
    let same = scan.log.is_some_and(|log| log.salts == mark.log.salts);
    if same && scan.committed < mark.frames {
        return Err(cut(scan, mark, name));
    }
    Ok(LogVerdict::Sound)
}

fn cut(scan: &Scan, mark: &Mark, name: &str) -> Error {
    let (whole, all) = (scan.committed, mark.frames);
    let commits = mark.commits.saturating_sub(scan.commits);
    let reason = match mark.old {
        true => format!("{all} frames were acknowledged, only {whole} are whole"),
        false => format!(
            "the log was cut or damaged: {all} frames were acknowledged, only {whole} are whole; \
             {commits} of {} commits are missing",
            mark.commits
        ),
    };
    damaged_file(name, scan.end, reason)
}

fn missing(scan: &Scan, mark: &Mark, name: &str) -> Error {
    let state = match (scan.log, scan.committed) {
        (None, _) => "the log is missing",
        (_, 0) => "the log holds no whole commit",
        (Some(log), _) if relation(log, mark.log) == Relation::Earlier => {
            "the log was replaced by an older one"
        }
        _ => "the log was replaced by another one",
    };
    let (frames, commits) = (mark.frames, mark.commits);
    let copied = mark.copied.min(frames);
    let reason = format!(
        "{state}: {frames} frames in {commits} commits were acknowledged, of which {copied} \
         frames had been copied into the database"
    );
    damaged_file(name, scan.end, reason)
}

/// Whether another SQLite program has copied the log into the database, and removed it: then
/// the database has a page of the log's end, which Windlass had not begun to copy.
fn was_copied_by_another(mark: &Mark, database: &Path) -> bool {
    let Ok(mut file) = File::open(database) else {
        return false;
    };
    let mut bytes = vec![0; PAGE];
    mark.pages.iter().filter(|sum| sum.page > 0).any(|sum| {
        let at = u64::from(sum.page - 1) * PAGE as u64;
        file.seek(SeekFrom::Start(at)).is_ok()
            && file.read_exact(&mut bytes).is_ok()
            && wal::page_sum(&bytes) == sum.sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(first: u32, restarts: u32) -> LogId {
        LogId {
            salts: (first, first.wrapping_mul(77)),
            restarts,
        }
    }

    #[test]
    fn logs_of_one_descent_are_ordered() {
        assert_eq!(relation(log(5, 1), log(5, 1)), Relation::Same);
        assert_eq!(relation(log(6, 2), log(5, 1)), Relation::Later);
        assert_eq!(relation(log(4, 0), log(5, 1)), Relation::Earlier);
        assert_eq!(relation(log(9, 0), log(5, 1)), Relation::None);
        assert_eq!(relation(log(9, 2), log(5, 1)), Relation::None);
        // Both numbers wrap.
        assert_eq!(relation(log(0, 1), log(u32::MAX, 0)), Relation::Later);
        assert_eq!(relation(log(6, 0), log(5, u32::MAX)), Relation::Later);
        assert_eq!(relation(log(5, u32::MAX), log(6, 0)), Relation::Earlier);
    }

    #[test]
    fn every_relation_has_its_verdict() {
        let mark = Mark {
            log: log(5, 1),
            frames: 10,
            commits: 4,
            ..Mark::default()
        };
        let copied = Mark { copied: 10, ..mark };
        let scan = |log, committed| Scan {
            log,
            committed,
            ..Scan::default()
        };
        let verdict = |scan: &Scan, mark: &Mark| {
            let nowhere = Path::new("/nowhere/windlass.db");
            check(scan, Some(mark), "windlass.db-wal", nowhere).ok()
        };
        use LogVerdict::{Sound, Superseded};
        for (log_found, committed, expected, when_copied) in [
            (Some(log(5, 1)), 10, Some(Sound), Some(Sound)),
            (Some(log(5, 1)), 12, Some(Sound), Some(Sound)),
            (Some(log(5, 1)), 9, None, None),
            (Some(log(5, 1)), 0, None, Some(Superseded)),
            (Some(log(6, 2)), 1, Some(Sound), Some(Sound)),
            (Some(log(6, 2)), 0, Some(Sound), Some(Sound)),
            (Some(log(4, 0)), 50, None, None),
            (Some(log(8, 0)), 50, None, Some(Superseded)),
            (None, 0, None, Some(Superseded)),
        ] {
            let scan = scan(log_found, committed);
            assert_eq!(verdict(&scan, &mark), expected, "{scan:?}");
            assert_eq!(verdict(&scan, &copied), when_copied, "copied, {scan:?}");
        }
    }
}
