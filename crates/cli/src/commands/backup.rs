//! `windlass backup`: the data directory in one file, also while it is in use.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::args::Backup;
use crate::config::Config;
use crate::database::NO_BACKUP;
use crate::exit::{Exit, Failure};
use crate::remote;
use crate::session::{Session, Settings};

/// Makes a backup.
pub(crate) fn run(
    settings: &Settings,
    config: &Config,
    arguments: &Backup,
) -> Result<Exit, Failure> {
    if settings.server.is_none() && config.value("backend") == Some("nats") {
        let message = crate::nats::NO_BACKUP;
        return Err(Failure::new(Exit::Usage, "BACKUP_UNSUPPORTED", message));
    }
    if settings.server.is_none() && config.value("backend") == Some("postgres") {
        return Err(Failure::new(Exit::Usage, "BACKUP_UNSUPPORTED", NO_BACKUP));
    }
    let file = &arguments.file;
    if file.exists() {
        let message = format!("{} exists", file.display());
        return Err(Failure::new(Exit::Conflict, "FILE_EXISTS", message)
            .hint("a backup never overwrites; name another file"));
    }
    let session = Session::queries(settings.clone())?;
    let mut next = Instant::now() + Duration::from_secs(1);
    let output = settings.output;
    let mut progress = move |done: u64, total: u64| {
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_secs(1);
            let percent = done.saturating_mul(100) / total.max(1);
            output.say(&format!("{percent}% of {}", size(total)));
        }
    };
    match session.server() {
        Some(server) => remote::backup(server, file, progress)?,
        None => session.directory()?.backup(file, &mut progress)?,
    }
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    if settings.output.json {
        settings
            .output
            .json(&json!({ "file": file.display().to_string(), "bytes": bytes }))?;
    } else {
        let text = format!("backed up {} to {}", size(bytes), file.display());
        settings.output.data(&text)?;
    }
    Ok(Exit::Done)
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return match unit {
                "B" => format!("{bytes} B"),
                _ => format!("{value:.1} {unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}
