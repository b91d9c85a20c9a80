//! What a run waits for that only its server knows.

use serde::Deserialize;
use windlass_core::RunId;

use super::acting::read;
use super::question::Question;
use super::server::Server;
use crate::exit::Failure;

/// Why a run stands where it does, in the server's words where it is in line; else in these.
pub(crate) fn in_line(server: &Server, run: RunId, words: String) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Shape {
        reason: String,
    }
    let url = server.url(&["executions", &run.to_string(), "why"]);
    let answer: Shape = read(server, &server.ask(Question::get(url))?)?;
    let under_way = answer.reason.starts_with("The run is under way");
    Ok(if under_way { words } else { answer.reason })
}
