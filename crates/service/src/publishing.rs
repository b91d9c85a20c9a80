//! What a new version would do to each live run, before it is
//! published. The runs' own rules decide.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::run::Run;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Healing, load_run, would_heal};
use windlass_store::{RunFilter, RunRow, Wait as _};

use crate::failure::Failure;
use crate::moment::now;
use crate::run_queries::RunQueries;
use crate::source::PreparedDefinition;

/// What a new version would do to a run.
pub enum PublishImpact {
    /// It goes on as it is; the words say why.
    Unaffected(&'static str),
    /// It follows.
    Adopts(Healing),
    /// It follows, and an operator should look at it.
    Decision(Healing),
    /// It would pause.
    Incompatible(Healing),
    /// It cannot be read.
    Unreadable(String),
}

impl PublishImpact {
    /// Its name, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unaffected(_) => "unaffected",
            Self::Adopts(_) => "adopts",
            Self::Decision(_) => "needsDecision",
            Self::Incompatible(_) => "incompatible",
            Self::Unreadable(_) => "unreadable",
        }
    }

    fn healing(&self) -> Option<&Healing> {
        match self {
            Self::Adopts(healing) | Self::Decision(healing) | Self::Incompatible(healing) => {
                Some(healing)
            }
            _ => None,
        }
    }

    /// What that means for the run.
    pub fn detail(&self) -> String {
        let healing = match self {
            Self::Unaffected(why) => return (*why).to_owned(),
            Self::Unreadable(why) => return why.clone(),
            Self::Adopts(healing) | Self::Decision(healing) | Self::Incompatible(healing) => {
                healing
            }
        };
        let mut parts = Vec::new();
        for (word, nodes) in [
            ("adds", &healing.added),
            ("removes", &healing.removed),
            ("starts", &healing.ready),
        ] {
            if !nodes.is_empty() {
                parts.push(format!("{word} {}", nodes.join(", ")));
            }
        }
        for warning in &healing.warnings {
            let node = warning.node.as_deref().unwrap_or_default();
            parts.push(format!("{} {node}", warning.code));
        }
        if healing.is_stuck {
            parts.push("DAG_INCOMPATIBLE: it would pause".to_owned());
        }
        if parts.is_empty() {
            parts.push("changes what has not begun".to_owned());
        }
        parts.join("; ")
    }

    fn json(&self, row: &RunRow) -> Value {
        let none = Healing::default();
        let healing = self.healing().unwrap_or(&none);
        let mut warnings: Vec<Value> = healing
            .warnings
            .iter()
            .map(|it| json!({ "node": it.node, "code": it.code, "message": it.message }))
            .collect();
        if healing.is_stuck {
            let message = "with the new version the run can make no progress";
            warnings.push(json!({ "node": null, "code": "DAG_INCOMPATIBLE", "message": message }));
        }
        json!({
            "executionId": row.run, "status": row.status, "version": row.version,
            "effect": self.name(), "detail": self.detail(),
            "added": healing.added, "removed": healing.removed, "ready": healing.ready,
            "warnings": warnings,
        })
    }
}

/// What publishing a definition would do.
pub struct Publishing {
    workflow: Box<str>,
    /// The version that it would have.
    pub version: u32,
    /// Whether that version would be new.
    pub created: bool,
    /// Its live runs, each with what would become of it.
    pub runs: Vec<(RunRow, PublishImpact)>,
}

impl Publishing {
    /// For programs.
    pub fn json(&self) -> Value {
        let runs: Vec<Value> = self.runs.iter().map(|(row, it)| it.json(row)).collect();
        json!({
            "workflowId": self.workflow, "version": self.version, "created": self.created,
            "runs": runs,
        })
    }
}

/// Says what publishing would do.
///
/// # Errors
/// The store failed.
pub fn would_publish(
    queries: &RunQueries,
    definition: &PreparedDefinition,
) -> Result<Publishing, Failure> {
    let workflow = definition.plan.workflow();
    let newest = queries
        .store
        .definition(queries.tenant(), workflow, None)
        .wait()?;
    let created = newest
        .as_ref()
        .is_none_or(|row| row.digest != definition.digest);
    let version = newest.map_or(0, |row| row.version) + u32::from(created);
    let effects = live(queries, workflow)?.into_iter().map(|row| {
        let effect = effect(queries, row.run, version, definition);
        (row, effect)
    });
    Ok(Publishing {
        workflow: workflow.into(),
        version,
        created,
        runs: effects.collect(),
    })
}

fn effect(
    queries: &RunQueries,
    run: RunId,
    version: u32,
    definition: &PreparedDefinition,
) -> PublishImpact {
    let loaded = match load_run(&*queries.store, &queries.plans, run, |_, _| {}) {
        Ok(loaded) => loaded.run,
        Err(error) => return PublishImpact::Unreadable(error.to_string()),
    };
    if let Some(why) = stays(&loaded, definition) {
        return PublishImpact::Unaffected(why);
    }
    let plan = Arc::clone(&definition.plan);
    match would_heal(&loaded, version, definition.digest, &plan, now()) {
        Err(_) => PublishImpact::Unaffected("it does not follow newer versions now"),
        Ok(healing) if healing.is_stuck => PublishImpact::Incompatible(healing),
        Ok(healing) if !healing.warnings.is_empty() => PublishImpact::Decision(healing),
        Ok(healing) => PublishImpact::Adopts(healing),
    }
}

/// Why a run stays as it is, if it does.
fn stays(run: &Run, definition: &PreparedDefinition) -> Option<&'static str> {
    if run.is_frozen() {
        Some("its graph is its own (frozen)")
    } else if !run.heals() {
        Some("it stays on its version (pinned)")
    } else if run.definition() == definition.digest {
        Some("it has this graph already")
    } else {
        None
    }
}

fn live(queries: &RunQueries, workflow: &str) -> Result<Vec<RunRow>, Failure> {
    let mut filter = RunFilter {
        tenant: queries.tenants.clone(),
        workflow: Some(workflow.into()),
        statuses: vec![RunStatus::Pending, RunStatus::Running, RunStatus::Paused],
        limit: 500,
        ..RunFilter::default()
    };
    let mut rows = Vec::new();
    loop {
        let page = queries.store.runs(&filter).wait()?;
        rows.extend(page.rows);
        match page.next {
            Some(next) => filter.before = Some(next),
            None => return Ok(rows),
        }
    }
}
