//! The ledger of effects: a file outside all processes of a fleet, to which each action appends its
//! idempotency key.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::json;

/// The nodes of a run, in order.
pub(crate) const NODES: [&str; 4] = ["first", "last", "left", "right"];

pub(crate) struct Effects {
    folder: tempfile::TempDir,
}

impl Effects {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("effects")
    }

    /// A workflow whose four nodes each have an effect.
    pub(super) fn definition(&self) -> String {
        // One write of a short line to the end of a file is whole.
        let script = format!(
            "printf '%s\\n' \"$WINDLASS_IDEMPOTENCY_KEY\" >> {}",
            self.file().display()
        );
        let node = |id: &str, after: &[&str], script: &str| {
            json!({
                "id": id,
                "dependsOn": after,
                "actionType": "core.exec",
                "parameters": { "program": "sh", "args": ["-c", script] },
            })
        };
        // Long enough that some are killed between their effect and their outcome.
        let slow = format!("{script}; sleep 0.3");
        let nodes = [
            node("first", &[], &script),
            node("left", &["first"], &slow),
            node("right", &["first"], &script),
            node("last", &["left", "right"], &script),
        ];
        json!({ "id": "effects", "nodes": nodes }).to_string()
    }

    /// Every node of these runs had its effect, and nothing else had one. Gives how many effects
    /// happened again.
    #[track_caller]
    pub(super) fn check(&self, runs: &[String]) -> usize {
        let text = fs::read_to_string(self.file()).unwrap_or_default();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for key in text.lines() {
            *counts.entry(key).or_default() += 1;
        }
        let mut repeated = 0;
        for run in runs {
            for node in NODES {
                let key = format!("{run}/{node}");
                let count = counts.remove(&*key);
                let count = count.unwrap_or_else(|| panic!("{key} is recorded and never happened"));
                repeated += count - 1;
            }
        }
        assert!(
            counts.is_empty(),
            "effects of runs that no client started: {counts:?}"
        );
        repeated
    }
}
