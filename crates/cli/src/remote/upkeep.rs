//! A server's own affairs: rebuilding what derives from the logs, and copies.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::acting::read;
use super::failures;
use super::question::Question;
use super::server::Server;
use crate::catalogue::Rebuilt;
use crate::exit::{Exit, Failure};

/// How long making a copy may take before its first byte comes.
const COPY_TIME: Duration = Duration::from_secs(3600);

/// How long a copy may stand still on its way.
const STILL: Duration = Duration::from_secs(60);

/// The shortest and the longest rest between two looks at a job.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

#[derive(Deserialize)]
struct JobStatus {
    id: String,
    status: String,
    done: usize,
    failed: usize,
    failures: Vec<JobFailure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobFailure {
    execution_id: String,
    code: String,
    message: String,
}

/// Lets the server make anew what derives from the logs, and waits for it.
pub(crate) fn rebuild(
    server: &Server,
    mut progress: impl FnMut(usize),
) -> Result<Rebuilt, Failure> {
    let question = Question::post(server.url(&["rebuild"]), b"{}".to_vec());
    let mut job: JobStatus = read(server, &server.ask(question)?)?;
    let mut rest = LOOKS.0;
    while job.status != "done" {
        std::thread::sleep(rest);
        rest = (rest * 2).min(LOOKS.1);
        job = read(server, &server.get(server.url(&["bulk", &job.id]))?)?;
        progress(job.done);
    }
    let mut rebuilt = Rebuilt {
        rebuilt: job.done,
        quarantined: Vec::new(),
        left: job.failed,
    };
    for failure in job.failures {
        match failure.execution_id.parse() {
            Ok(run) => rebuilt.quarantined.push((run, failure.message)),
            Err(_) => return Err(Failure::new(Exit::Storage, failure.code, failure.message)),
        }
    }
    Ok(rebuilt)
}

/// Writes a copy of everything that the server stores into a new file; `progress` hears
/// how many bytes have come, and of how many.
pub(crate) fn backup(
    server: &Server,
    path: &Path,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    // A backup holds everything that the data directory does.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.write(true).create_new(true).open(path);
    let file = file.map_err(|error| unwritable(path, &error))?;
    let place = path.to_owned();
    let asking = server.clone();
    let copied = server.wait(async move { copy(&asking, file, &place, progress).await });
    if copied.is_err() {
        // Half a copy is none.
        let _ = std::fs::remove_file(path);
    }
    copied
}

async fn copy(
    server: &Server,
    mut file: File,
    path: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Failure> {
    let question = Question {
        accept: "*/*",
        time: None,
        ..Question::post(server.url(&["backup"]), b"{}".to_vec())
    };
    let late = || {
        let message = format!(
            "the server at {} stopped sending the copy",
            server.address()
        );
        Failure::new(Exit::Unreachable, "SERVER_UNREACHABLE", message)
    };
    let answer = tokio::time::timeout(COPY_TIME, server.send(question)).await;
    let mut answer = answer.map_err(|_| late())??;
    if !answer.status().is_success() {
        return server.whole(answer).await.map(|_| ());
    }
    let total = answer.content_length();
    let mut done = 0;
    loop {
        let chunk = tokio::time::timeout(STILL, answer.chunk()).await;
        let chunk = chunk
            .map_err(|_| late())?
            .map_err(|error| failures::unreachable(server.address(), &error))?;
        let Some(chunk) = chunk else { break };
        file.write_all(&chunk)
            .map_err(|error| unwritable(path, &error))?;
        done += chunk.len() as u64;
        progress(done, total.unwrap_or(done));
    }
    if total.is_some_and(|total| total != done) {
        return Err(late());
    }
    file.sync_all().map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot write {}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::new(Exit::Conflict, "FILE_EXISTS", message)
            .hint("a backup never overwrites; name another file"),
        _ => Failure::new(Exit::Storage, "OUTPUT_FAILED", message),
    }
}
