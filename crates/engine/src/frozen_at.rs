//! When the graph that belongs to a run alone was frozen into it.

use windlass_core::RunId;
use windlass_core::event::Event;
use windlass_core::run::Run;

use crate::Backend;
use crate::fork::definition_text;
use crate::load::{LoadError, load_run};
use crate::plans::Plans;
use crate::start::FROZEN_AT;

/// When a run's graph was frozen, if it is: as the graph itself says, else when it was imported,
/// or when the run was asked for.
///
/// # Errors
/// There is no such run, or it cannot be read.
pub fn frozen_at(
    store: &dyn Backend,
    plans: &Plans,
    id: RunId,
) -> Result<Option<(Run, String)>, LoadError> {
    #[derive(serde::Deserialize)]
    struct Labelled {
        #[serde(default)]
        labels: std::collections::BTreeMap<String, String>,
    }
    let mut imported = None;
    let run = load_run(store, plans, id, |_, transition| {
        let is_import = |event: &Event| matches!(event, Event::Imported { .. });
        if transition.events.iter().any(is_import) {
            imported = Some(transition.at);
        }
    })?
    .run;
    if !run.is_frozen() {
        return Ok(None);
    }
    let text = definition_text(store, &run)?;
    let labelled = serde_json::from_str::<Labelled>(&text).ok();
    let said = labelled.and_then(|mut graph| graph.labels.remove(FROZEN_AT));
    let at = said.unwrap_or_else(|| imported.unwrap_or(run.created_at()).to_string());
    Ok(Some((run, at)))
}
