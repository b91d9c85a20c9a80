//! Which runs are set aside, for the other processes: each keeps its suspects in memory, and any
//! process may be asked why a run stands still.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use windlass_core::{Millis, RunId};
use windlass_store::{Error, RunRow};

use super::{Suspect, Suspended};
use crate::engine::Engine;

/// The kind of the notes; their keys are runs.
const SUSPENDED: &str = "suspended";

#[derive(Serialize, Deserialize)]
struct SuspensionNote {
    deaths: u32,
    until: i64,
    /// Which process set it aside: what a dead one said does not count.
    writer: u64,
}

impl Engine {
    /// Tells the other processes of suspects that wait here.
    pub(super) async fn tell_suspended(&self, suspects: &VecDeque<Suspect>) {
        if !self.shared().owned.is_shared() {
            return;
        }
        for suspect in suspects {
            let run = suspect.row.run;
            let Some(Suspended { deaths, until }) = self.suspended(run) else {
                continue;
            };
            let told = SuspensionNote {
                deaths,
                until: until.0,
                writer: self.writer().0,
            };
            let text = serde_json::to_vec(&told).expect("numbers always serialise");
            // Only words depend on it.
            let _ = self
                .store()
                .keep_note(SUSPENDED, &run.to_string(), text)
                .await;
        }
    }

    /// The run is not set aside any more.
    pub(super) async fn forget_suspended(&self, run: RunId) {
        if self.shared().owned.is_shared() {
            let _ = self.store().forget_note(SUSPENDED, &run.to_string()).await;
        }
    }

    /// Whether a run is set aside, by this process or by the one that owns it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn suspended_anywhere(&self, row: &RunRow) -> Result<Option<Suspended>, Error> {
        let owned = &self.shared().owned;
        if !owned.is_shared() || owned.holds(row.partition) {
            return Ok(self.suspended(row.run));
        }
        let note = self
            .store()
            .note_at(SUSPENDED, &row.run.to_string())
            .await?;
        let told = note.and_then(|text| serde_json::from_slice::<SuspensionNote>(&text).ok());
        let Some(told) = told else {
            return Ok(None);
        };
        let live = self.live_writers().await?;
        Ok(live.contains(&told.writer).then_some(Suspended {
            deaths: told.deaths,
            until: Millis(told.until),
        }))
    }
}
