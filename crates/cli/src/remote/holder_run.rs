//! What the process that holds a data directory does with a run: asked at its socket, which has
//! these routes besides the API.

use serde::Deserialize;
use windlass_core::{RunId, RunStatus};

use super::acting::read;
use super::question::Question;
use super::server::Server;
use crate::exit::Failure;

/// How a run stands with the process.
#[derive(Deserialize)]
pub(super) struct HolderRun {
    pub(super) status: RunStatus,
    /// Whether the process executes it, or wakes it at its time.
    pub(super) carried: bool,
}

/// Whether the process executes a run.
pub(super) async fn status(server: &Server, run: RunId) -> Result<HolderRun, Failure> {
    let url = server.place(&["holder", "runs", &run.to_string()]);
    let answer = server.send(Question::get(url)).await?;
    read(server, &server.whole(answer).await?)
}

/// Waits for the end of a run that the process executes.
pub(super) async fn ended(server: &Server, run: RunId) -> Result<RunStatus, Failure> {
    #[derive(Deserialize)]
    struct Ended {
        status: RunStatus,
    }
    let url = server.place(&["holder", "runs", &run.to_string(), "end"]);
    let answer = server.send(Question::get(url)).await?;
    let ended: Ended = read(server, &server.whole(answer).await?)?;
    Ok(ended.status)
}
