//! The bytes that a run's nodes stored beside their outputs.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use futures_util::TryStreamExt as _;
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use windlass_engine::{Backend, FileReader, file_digest, find_file};
use windlass_store::block_on;

use crate::answer::Download;
use crate::app::{App, Caller};
use crate::error::ApiError;
use crate::extract::Path;
use crate::failures::{self, LOOKING, together};
use crate::route::{Access, Routes};

pub(super) fn add(routes: &mut Routes<App>) {
    routes.add(
        Method::GET,
        "/api/v1/executions/{id}/blobs/{digest}",
        Access::read(),
        &together(&[LOOKING, &[failures::BLOB_NOT_FOUND]]),
        "Gives the bytes that a node of the run stored as a blob",
        blob,
    );
}

/// A blob in the path.
#[derive(Debug, Deserialize, JsonSchema)]
struct BlobPath {
    /// The run's id.
    id: String,
    /// The blob's digest, as the node's output names it.
    digest: String,
}

async fn blob(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<BlobPath>,
) -> Result<Download, ApiError> {
    let run = app.run(&caller, &path.id).await?.run;
    let missing = || {
        let message = format!("no node of the run stored a blob {}", path.digest);
        failures::BLOB_NOT_FOUND.error(message)
    };
    let digest = file_digest(&path.digest).ok_or_else(missing)?;
    let found = app.read(&caller, move |queries| {
        let store: Arc<dyn Backend> = Arc::clone(&queries.store);
        let found = block_on(find_file(&*store, run, &digest))?;
        Ok(found.map(|file| FileReader::new(store, file)))
    });
    let reader = found.await?.ok_or_else(missing)?;
    let length = reader.file().size;
    let pieces = reader.pieces().inspect_err(|error| {
        tracing::warn!(%error, "a blob broke off");
    });
    Ok(Download::new(Body::from_stream(pieces), length))
}
