//! `windlass doctor`: the installation, finding by finding, with what to do about each.

mod database;
mod nats;
mod server;

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Value, json};
use windlass_api::auth::{KeySource, count_keys};
use windlass_core::printable::one_line;
use windlass_store::{Health, Queries, RunFilter, Wait as _};
use windlass_store_embedded::EmbeddedStore;

use crate::args::Doctor;
use crate::bench::disk;
use crate::commands::backup::size;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::moment::{now, readable};
use crate::paint::{DIM, GREEN, RED, YELLOW, paint};
use crate::session::{Session, Settings};

/// Less free space than this is worth a word; less than a tenth of it is an error.
const FREE_BYTES: u64 = 1 << 30;

/// A journal larger than this means that its copying does not keep up.
const JOURNAL_BYTES: u64 = 1 << 30;

/// A sync that takes longer than this makes every step slow.
const SLOW_SYNC_MS: f64 = 20.0;

/// Syncs that are timed.
const SYNCS: usize = 20;

/// Fewer open files than this are few for a server.
const OPEN_FILES: u64 = 1024;

/// 2024-01-01: this program did not exist before.
const EARLIEST_MS: i64 = 1_704_067_200_000;

/// What to do where nothing better is known.
const RESTORE: &str = "restore a backup with `windlass restore FILE`";

/// Damage that is named one by one.
const NAMED_DAMAGE: usize = 10;

/// Checks the installation.
pub(crate) fn run(
    settings: &Settings,
    config: &Config,
    arguments: &Doctor,
) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    if arguments.accept_loss {
        accept_loss(settings, &mut findings)?;
    }
    if let Some(server) = &settings.server {
        server::check(server, &mut findings);
        check_clock(&mut findings);
        return findings.end(settings);
    }
    let url = arguments.database.postgres_url.as_deref();
    let nats = arguments.nats.nats_url.as_deref();
    if nats.is_some() || config.value("backend") == Some("nats") {
        nats::check(config, (nats, url), &mut findings);
        check_clock(&mut findings);
        return findings.end(settings);
    }
    if url.is_some() || config.value("backend") == Some("postgres") {
        database::check(config, url, &mut findings);
        check_clock(&mut findings);
        return findings.end(settings);
    }
    let directory = &settings.data_dir;
    if check_directory(directory, &mut findings) {
        match Session::queries(settings.clone()) {
            Ok(session) => check_store(session.directory()?, settings, &mut findings),
            Err(failure) => findings.add(
                "store",
                Grade::Error,
                format!("{}: {}", failure.code, failure.message),
                failure.hint.unwrap_or(RESTORE.to_owned()),
            ),
        }
        check_disk(directory, &mut findings);
    }
    if let Some(keys) = config.value("auth_keys") {
        check_keys(keys, &mut findings)?;
    }
    check_open_files(&mut findings);
    check_clock(&mut findings);
    let version = env!("CARGO_PKG_VERSION");
    findings.add("windlass", Grade::Ok, format!("version {version}"), "");
    findings.end(settings)
}

/// The keys of tokens, as a server that starts now would find them.
fn check_keys(source: &str, findings: &mut Findings) -> Result<(), Failure> {
    let source = KeySource::parse(source);
    match crate::access::runtime()?.block_on(count_keys(&source)) {
        Ok(count) => {
            let text = format!("{source} has {count} of use");
            findings.add("keys of tokens", Grade::Ok, text, "");
        }
        Err(reason) => {
            let what = "put the JWKS document back: a server refuses every token without it";
            findings.add("keys of tokens", Grade::Error, reason, what);
        }
    }
    Ok(())
}

/// Lets a directory open whose write-ahead log lost commits.
fn accept_loss(settings: &Settings, findings: &mut Findings) -> Result<(), Failure> {
    settings.refuse_server_for_files("doctor --accept-loss")?;
    match windlass_store_embedded::accept_loss(&settings.data_dir)? {
        None => {
            let text = "nothing is lost, and nothing was changed".to_owned();
            findings.add("accepted loss", Grade::Ok, text, "");
        }
        Some(accepted) => {
            let what = match &accepted.kept {
                Some(path) => format!("what was left of the log is kept in {}", path.display()),
                None => "runs since the last checkpoint are gone".to_owned(),
            };
            let text = accepted.damage.to_string();
            findings.add("accepted loss", Grade::Warn, text, what);
        }
    }
    Ok(())
}

fn check_directory(directory: &Path, findings: &mut Findings) -> bool {
    let place = directory.display();
    match std::fs::metadata(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            findings.add(
                "data directory",
                Grade::Warn,
                format!("{place} does not exist"),
                "`windlass run FILE` makes it, or name another with --data-dir",
            );
            false
        }
        Err(error) => {
            let text = format!("{place}: {error}");
            findings.add(
                "data directory",
                Grade::Error,
                text,
                "check its permissions",
            );
            false
        }
        Ok(metadata) if !metadata.is_dir() => {
            let text = format!("{place} is not a directory");
            findings.add(
                "data directory",
                Grade::Error,
                text,
                "name another with --data-dir",
            );
            false
        }
        Ok(metadata) => {
            findings.add("data directory", Grade::Ok, place.to_string(), "");
            check_rights(&metadata, findings);
            true
        }
    }
}

/// Whether other users of the machine can look into the data directory.
#[cfg(unix)]
fn check_rights(metadata: &std::fs::Metadata, findings: &mut Findings) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return findings.add("rights", Grade::Ok, "its owner alone".to_owned(), "");
    }
    let text = format!("other users can look into it (mode {mode:o})");
    let what = "`chmod 700` it; a process that writes does so itself where nothing else is in it";
    findings.add("rights", Grade::Warn, text, what);
}

#[cfg(not(unix))]
fn check_rights(_: &std::fs::Metadata, _: &mut Findings) {}

fn check_store(store: &EmbeddedStore, settings: &Settings, findings: &mut Findings) {
    match store.holder() {
        Some(holder) => findings.add("lock", Grade::Ok, format!("held by {holder}"), ""),
        None => findings.add("lock", Grade::Ok, "free".to_owned(), ""),
    }
    match store.health().wait() {
        Ok(health) => check_health(&health, findings),
        Err(error) => {
            let what = "look at the message, then restore a backup";
            findings.add("store", Grade::Error, error.to_string(), what);
        }
    }
    match store.torn_tail() {
        Some(tail) => {
            let what = "nothing, if the machine or the process was stopped hard; what was \
                        acknowledged is there";
            findings.add("journal's end", Grade::Warn, tail.to_string(), what);
        }
        None => findings.add("journal's end", Grade::Ok, "whole".to_owned(), ""),
    }
    check_unfinished(store, findings);
    check_letters(store, findings);
    settings.output.say("reading everything that is stored …");
    match store.check(None) {
        Ok(damage) if damage.is_empty() => {
            let text = "every checksum fits".to_owned();
            findings.add("integrity", Grade::Ok, text, "");
        }
        Ok(damage) => {
            for one in damage.iter().take(NAMED_DAMAGE) {
                let what = "keep a copy of the data directory, then restore a backup";
                findings.add("integrity", Grade::Error, one.to_string(), what);
            }
            if damage.len() > NAMED_DAMAGE {
                let text = format!("and {} more damaged places", damage.len() - NAMED_DAMAGE);
                findings.add("integrity", Grade::Error, text, "");
            }
        }
        Err(error) => findings.add(
            "integrity",
            Grade::Error,
            format!("cannot be checked: {error}"),
            "check the disk and its permissions",
        ),
    }
}

fn check_health(health: &Health, findings: &mut Findings) {
    let fact = |name: &str| {
        let found = health.facts.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    let text = format!("SQLite {}, schema {}", fact("sqlite"), fact("schema"));
    findings.add("database", Grade::Ok, text, "");
    let bytes: u64 = fact("bytes").parse().unwrap_or(0);
    findings.add("size", Grade::Ok, size(bytes), "");
    let journal: u64 = fact("journal").parse().unwrap_or(0);
    if journal > JOURNAL_BYTES {
        let what = "end other readers; it shrinks when the last of them has gone";
        findings.add("journal", Grade::Warn, size(journal), what);
    } else {
        findings.add("journal", Grade::Ok, size(journal), "");
    }
}

/// Runs that the engine gave up.
fn check_letters(store: &dyn Queries, findings: &mut Findings) {
    const COUNTED: usize = 100;
    let filter = RunFilter {
        dead: Some(true),
        limit: COUNTED,
        ..RunFilter::default()
    };
    let Ok(page) = store.runs(&filter).wait() else {
        return;
    };
    let more = if page.next.is_some() { "at least " } else { "" };
    match page.rows.len() {
        0 => findings.add("dead letters", Grade::Ok, "none".to_owned(), ""),
        count => {
            let text = format!("{more}{count} that no process executes");
            let what = "see `windlass dead-letters`, then requeue or purge them";
            findings.add("dead letters", Grade::Warn, text, what);
        }
    }
}

/// Runs that no process executes, and runs from the future.
fn check_unfinished(store: &EmbeddedStore, findings: &mut Findings) {
    const LOOKED_AT: usize = 100;
    if let Ok(rows) = store.unfinished(None, LOOKED_AT).wait()
        && !rows.is_empty()
        && store.holder().is_none()
    {
        let more = if rows.len() == LOOKED_AT {
            "at least "
        } else {
            ""
        };
        let text = format!(
            "{more}{} unfinished, and no process executes them",
            rows.len()
        );
        let what = "see `windlass runs --status running`, then `windlass resume RUN`";
        findings.add("runs", Grade::Warn, text, what);
    }
    let newest = RunFilter {
        limit: 1,
        ..RunFilter::default()
    };
    if let Ok(page) = store.runs(&newest).wait()
        && let Some(row) = page.rows.first()
        && row.created_at.0 > now().0 + 60_000
    {
        let text = format!("the newest run is from {}", readable(row.created_at));
        let what = "set the clock: it stood later once than it does now";
        findings.add("clock", Grade::Warn, text, what);
    }
}

fn check_disk(directory: &Path, findings: &mut Findings) {
    if let Some(free) = free_bytes(directory) {
        let grade = match free {
            _ if free < FREE_BYTES / 10 => Grade::Error,
            _ if free < FREE_BYTES => Grade::Warn,
            _ => Grade::Ok,
        };
        let what = if grade == Grade::Ok {
            ""
        } else {
            "make room, or move the data directory"
        };
        findings.add("free space", grade, size(free), what);
    }
    let file = directory.join(format!("doctor-{}.tmp", std::process::id()));
    let measured = disk::writes(&file, SYNCS);
    // A file that cannot be removed is found by the next line's error, if it matters.
    let _ = std::fs::remove_file(&file);
    match measured {
        Ok(writes) => {
            // A store writes over what its journal held before.
            let each = writes.over.as_secs_f64() * 1000.0 / SYNCS as f64;
            let text = format!("{each:.2} ms a sync");
            if each > SLOW_SYNC_MS {
                let what = "every durable step waits for this; a local SSD takes about 1 ms";
                findings.add("disk", Grade::Warn, text, what);
            } else {
                findings.add("disk", Grade::Ok, text, "");
            }
        }
        Err(error) => findings.add(
            "disk",
            Grade::Error,
            format!("cannot write: {error}"),
            "check the permissions of the data directory",
        ),
    }
}

#[cfg(unix)]
fn free_bytes(directory: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(directory).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_directory: &Path) -> Option<u64> {
    None
}

fn check_open_files(findings: &mut Findings) {
    // Only Linux has this file; elsewhere there is nothing to say.
    let Ok(limits) = std::fs::read_to_string("/proc/self/limits") else {
        return;
    };
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3));
    let Some(soft) = soft else { return };
    match soft.parse::<u64>() {
        Ok(number) if number < OPEN_FILES => {
            let what = "raise it with `ulimit -n 4096` before starting a server";
            findings.add("open files", Grade::Warn, format!("{number} allowed"), what);
        }
        _ => findings.add("open files", Grade::Ok, format!("{soft} allowed"), ""),
    }
}

fn check_clock(findings: &mut Findings) {
    let now = now();
    if now.0 < EARLIEST_MS {
        let what = "set the clock: run ids and deadlines rest on it";
        findings.add("clock", Grade::Error, readable(now), what);
    } else {
        findings.add("clock", Grade::Ok, readable(now), "");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Ok,
    Warn,
    Error,
}

impl Grade {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

struct Finding {
    name: Cow<'static, str>,
    grade: Grade,
    text: String,
    what: Cow<'static, str>,
}

#[derive(Default)]
struct Findings {
    list: Vec<Finding>,
}

impl Findings {
    fn add(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        grade: Grade,
        text: String,
        what: impl Into<Cow<'static, str>>,
    ) {
        self.list.push(Finding {
            name: name.into(),
            grade,
            text,
            what: what.into(),
        });
    }

    /// Tells them all.
    fn end(&self, settings: &Settings) -> Result<Exit, Failure> {
        self.print(settings)?;
        Ok(match (self.worst(), &settings.server) {
            (Grade::Ok | Grade::Warn, _) => Exit::Done,
            (Grade::Error, Some(_)) => Exit::Unreachable,
            (Grade::Error, None) => Exit::Storage,
        })
    }

    fn worst(&self) -> Grade {
        let grades = self.list.iter().map(|finding| finding.grade);
        grades.max().unwrap_or(Grade::Ok)
    }

    fn print(&self, settings: &Settings) -> Result<(), Failure> {
        if settings.output.json {
            let findings = self.list.iter().map(|finding| {
                let remedy = Some(&finding.what).filter(|what| !what.is_empty());
                json!({
                    "check": finding.name,
                    "status": finding.grade.as_str(),
                    "message": finding.text,
                    "remedy": remedy,
                })
            });
            let findings: Vec<Value> = findings.collect();
            let status = self.worst().as_str();
            return settings
                .output
                .json(&json!({ "status": status, "findings": findings }));
        }
        let color = settings.output.color;
        let mut text = String::new();
        for finding in &self.list {
            let (mark, style) = match finding.grade {
                Grade::Ok => ("✓", GREEN),
                Grade::Warn => ("!", YELLOW),
                Grade::Error => ("✗", RED),
            };
            let (mark, name) = (paint(color, style, mark), &finding.name);
            text.push_str(&format!("{mark} {name:<15} {}\n", one_line(&finding.text)));
            if !finding.what.is_empty() {
                let what = paint(color, DIM, &format!("→ {}", finding.what));
                text.push_str(&format!("{:18}{what}\n", ""));
            }
        }
        settings.output.data(&text)
    }
}
