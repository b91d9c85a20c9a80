//! `windlass restore`: a data directory from a backup.

use serde_json::json;
use windlass_store_embedded::restore;

use crate::args::Restore;
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Restores a backup into the data directory, which must be missing or empty.
pub(crate) fn run(settings: &Settings, arguments: &Restore) -> Result<Exit, Failure> {
    settings.refuse_server_for_files("restore")?;
    let (file, directory) = (&arguments.file, &settings.data_dir);
    if !file.exists() {
        let message = format!("there is no file {}", file.display());
        return Err(Failure::new(Exit::NotFound, "FILE_NOT_FOUND", message));
    }
    let occupied = std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
    if occupied {
        let message = format!("{} is not empty", directory.display());
        return Err(Failure::new(Exit::Conflict, "DATA_DIR_NOT_EMPTY", message)
            .hint("name another with --data-dir, or move this one away"));
    }
    restore(file, directory)?;
    if settings.output.json {
        settings
            .output
            .json(&json!({ "dataDir": directory.display().to_string() }))?;
    } else {
        settings
            .output
            .line(&format!("restored into {}", directory.display()))?;
    }
    Ok(Exit::Done)
}
