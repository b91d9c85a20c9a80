//! Reads a definition: checks its size before its text, then prints every problem as a compiler
//! would.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use windlass_core::definition::Parsed;
use windlass_engine::{DeclaredAction, FROZEN_AT};
use windlass_service::frozen::{CheckedSource, Expected};
use windlass_service::moment::now;
pub(crate) use windlass_service::source::{PreparedDefinition, build};

use crate::definition_file::{accept, accept_source};
use crate::exit::{Exit, Failure};
use crate::overrides::Overrides;
use windlass_engine::limits;

/// As much as the main thread has.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// What a file has: a definition, or a graph that belongs to one run alone.
pub(crate) struct Source {
    pub(crate) definition: PreparedDefinition,
    pub(crate) frozen: bool,
}

/// Reads a definition from a file, or from stdin if it is called `-`, applies the requested
/// changes, and checks it. Problems are printed; warnings as well.
///
/// A definition that was changed for one run belongs to that run alone. It becomes no version
/// of the workflow, because other runs would follow that.
///
/// This happens on a thread of its own: reading a large definition takes several times the
/// memory that the result keeps, and the allocator returns a thread's memory when the thread
/// ends.
pub(crate) fn prepare(path: &Path, overrides: &Overrides) -> Result<Source, Failure> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, || prepare_here(path, overrides)) {
            Ok(preparing) => preparing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // Without another thread it takes more memory, and nothing else.
            Err(_) => prepare_here(path, overrides),
        }
    })
}

fn prepare_here(path: &Path, overrides: &Overrides) -> Result<Source, Failure> {
    let text = read_definition(path)?;
    let name = path.display().to_string();
    let CheckedSource { parsed, frozen } = accept_source(&name, &text, Expected::default())?;
    let Parsed {
        mut definition,
        json,
        ..
    } = parsed;
    if !overrides.changes_nodes() {
        let definition = build(definition, json)?;
        return Ok(Source { definition, frozen });
    }
    overrides.apply_to_nodes(&mut definition)?;
    let labels = &mut definition.labels;
    labels.insert(FROZEN_AT.into(), now().to_string().into());
    let changed = serde_json::to_vec(&definition)
        .map_err(|error| Failure::new(Exit::Invalid, "DEFINITION_INVALID", error))?;
    drop(definition);
    let parsed = accept(&format!("{name} with --set"), &changed, Vec::new)?;
    let definition = build(parsed.definition, parsed.json)?;
    let frozen = true;
    Ok(Source { definition, frozen })
}

/// Checks a definition's text. Problems are printed; warnings as well.
pub(crate) fn prepare_named(
    name: &str,
    text: &[u8],
    declared: impl FnOnce() -> Vec<DeclaredAction>,
) -> Result<PreparedDefinition, windlass_service::Failure> {
    let parsed = accept(name, text, declared)?;
    build(parsed.definition, parsed.json)
}

/// Reads the file of a definition, within its limit.
pub(crate) fn read_definition(path: &Path) -> Result<Vec<u8>, Failure> {
    read_limited(path, limits().definition.bytes, |message| {
        Failure::new(Exit::Invalid, "DEFINITION_TOO_LARGE", message)
    })
}

/// The failure for a file without an error code of its own.
pub(crate) fn too_large(message: String) -> Failure {
    Failure::new(Exit::Invalid, "INPUT_TOO_LARGE", message)
}

/// Reads at most this many bytes of a file; a larger one is refused unread, with the caller's
/// failure.
pub(crate) fn read_limited(
    path: &Path,
    limit: usize,
    refuse: impl FnOnce(String) -> Failure,
) -> Result<Vec<u8>, Failure> {
    let place = path.display();
    let too_large = || {
        refuse(format!(
            "{place} has more than {limit} bytes, which is the limit"
        ))
    };
    let unreadable = |error: io::Error| {
        let (exit, code) = match error.kind() {
            io::ErrorKind::NotFound => (Exit::NotFound, "FILE_NOT_FOUND"),
            _ => (Exit::Invalid, "FILE_UNREADABLE"),
        };
        Failure::new(exit, code, format!("cannot read {place}: {error}"))
    };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        let stdin = io::stdin().lock();
        let mut limited = stdin.take(limit as u64 + 1);
        limited.read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        let file = File::open(path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        if size > limit as u64 {
            return Err(too_large());
        }
        // The size of a pipe or device says nothing, and a file may grow meanwhile.
        bytes.reserve_exact(usize::try_from(size).unwrap_or(0) + 1);
        let mut limited = file.take(limit as u64 + 1);
        limited.read_to_end(&mut bytes).map_err(unreadable)?;
    }
    if bytes.len() > limit {
        return Err(too_large());
    }
    Ok(bytes)
}
