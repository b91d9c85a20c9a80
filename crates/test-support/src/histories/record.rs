//! Completes a history from its log: folds it and notes what each record led to.

use super::file::RecordedHistory;
use super::replay::{Graphs, decoded};
use super::state::{State, changes, state};

/// The history with the states that replaying its log gives.
pub fn complete(mut history: RecordedHistory) -> RecordedHistory {
    let graphs = Graphs::of(&history);
    let mut run = None;
    let mut before = State::new();
    let mut led_to = Vec::new();
    for record in &decoded(&history) {
        let folded = graphs.fold(&history, run.take(), record);
        let after = state(&folded);
        led_to.push(changes(&before, &after));
        before = after;
        run = Some(folded);
    }
    for (record, led_to) in history.records.iter_mut().zip(led_to) {
        record.changes = led_to;
    }
    history.end = changes(&State::new(), &before);
    history
}
