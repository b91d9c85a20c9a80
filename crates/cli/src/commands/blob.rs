//! `windlass blob`: the bytes that a node stored beside its output, to a file or a pipe.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use windlass_core::Digest;
use windlass_engine::{FileReader, file_digest, file_name, find_file};
use windlass_store::block_on;

use super::backup::size;
use crate::args::Blob;
use crate::exit::{Exit, Failure};
use crate::output::closed_pipe;
use crate::session::{Session, Settings};

/// Writes a blob.
pub(crate) fn run(settings: &Settings, arguments: &Blob) -> Result<Exit, Failure> {
    if arguments.out.is_none() && settings.output.terminal {
        let message = "a blob is not written to a terminal";
        return Err(Failure::new(Exit::Usage, "USAGE", message)
            .hint("give `--out FILE`, or pipe it to another program"));
    }
    let session = Session::queries(settings.clone())?;
    let run = session.find_run(&arguments.run)?;
    let missing = || {
        let message = format!("no node of the run stored a blob '{}'", arguments.digest);
        let short = run.to_string();
        Failure::new(Exit::NotFound, "BLOB_NOT_FOUND", message).hint(format!(
            "`windlass show {short} --json` has the outputs, which name blobs by their digests"
        ))
    };
    let digest = file_digest(&arguments.digest).ok_or_else(missing)?;
    let found = block_on(find_file(&*session.store, run, &digest))?;
    let file = found.ok_or_else(missing)?;
    let (bytes, kind) = (file.size, file.content_type.clone());
    let mut reader = FileReader::new(Arc::clone(&session.store), file);
    let Some(path) = &arguments.out else {
        let mut out = settings.output.stdout();
        let copied = copy(&mut reader, &mut out);
        return match copied {
            Ok(()) => Ok(Exit::Done),
            Err(Copying::Write(error)) => closed_pipe(error).map(|()| Exit::Done),
            Err(Copying::Read(failure)) => Err(failure),
        };
    };
    save(&mut reader, path)?;
    if settings.output.json {
        settings.output.json(&json!({
            "file": path.display().to_string(),
            "digest": file_name(&digest),
            "bytes": bytes,
            "contentType": kind,
        }))?;
    } else {
        let text = format!("wrote {} to {}", size(bytes), path.display());
        settings.output.data(&text)?;
    }
    Ok(Exit::Done)
}

enum Copying {
    Read(Failure),
    Write(std::io::Error),
}

/// Copies a blob part by part, and compares the whole with its digest.
fn copy(reader: &mut FileReader, out: &mut impl Write) -> Result<(), Copying> {
    let mut whole = Digest::of_parts();
    while let Some(part) = block_on(reader.read()).map_err(|error| Copying::Read(error.into()))? {
        whole.add(&part);
        out.write_all(&part).map_err(Copying::Write)?;
    }
    out.flush().map_err(Copying::Write)?;
    if whole.take() != reader.file().digest {
        let message = "the parts of the blob do not make what its digest says";
        return Err(Copying::Read(Failure::new(
            Exit::Storage,
            "STORE_DAMAGED",
            message,
        )));
    }
    Ok(())
}

/// Writes a blob to a file, which has its name once it is whole.
fn save(reader: &mut FileReader, path: &Path) -> Result<(), Failure> {
    if path.exists() {
        let message = format!("{} exists", path.display());
        return Err(Failure::new(Exit::Conflict, "FILE_EXISTS", message).hint("name another file"));
    }
    let failed = |error: std::io::Error| {
        let message = format!("{} cannot be written: {error}", path.display());
        Failure::new(Exit::Storage, "OUTPUT_FAILED", message)
    };
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".part");
    let unfinished = Path::new(&unfinished);
    let mut out = File::create(unfinished).map_err(failed)?;
    let copied = copy(reader, &mut out).map_err(|error| match error {
        Copying::Read(failure) => failure,
        Copying::Write(error) => failed(error),
    });
    let named = copied.and_then(|()| fs::rename(unfinished, path).map_err(failed));
    if named.is_err() {
        let _ = fs::remove_file(unfinished);
    }
    named
}
