//! `windlass publish --plan`: what a new version would do to each live run, before it is
//! published. The runs' own rules are asked.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::run::Run;
use windlass_core::{RunId, RunStatus};
use windlass_engine::{Healing, load_run, would_heal};
use windlass_store::{Catalogue as _, Queries as _, RunFilter, RunRow};

use crate::exit::{Exit, Failure};
use crate::moment::now;
use crate::session::{Session, Settings};
use crate::source::Prepared;
use crate::table::Table;

/// What a new version would do to a run.
enum Effect {
    /// It goes on as it is; the words say why.
    Unaffected(&'static str),
    /// It follows.
    Adopts(Healing),
    /// It follows, and somebody should look at it.
    Decision(Healing),
    /// It would pause.
    Incompatible(Healing),
    /// It cannot be read.
    Unreadable(String),
}

impl Effect {
    fn name(&self) -> &'static str {
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

    fn detail(&self) -> String {
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

/// Says what publishing would do.
pub(crate) fn run(settings: &Settings, definition: &Prepared) -> Result<Exit, Failure> {
    let session = Session::look(settings.clone())?;
    let workflow = definition.plan.workflow();
    let newest = session.store.definition(None, workflow, None)?;
    let is_new = newest
        .as_ref()
        .is_none_or(|row| row.digest != definition.digest);
    let version = newest.map_or(0, |row| row.version) + u32::from(is_new);
    let rows = live(&session, workflow)?;
    let effects: Vec<Effect> = rows
        .iter()
        .map(|row| effect(&session, row.run, version, definition))
        .collect();
    let output = settings.output;
    if output.json {
        let runs: Vec<Value> = rows
            .iter()
            .zip(&effects)
            .map(|(row, it)| it.json(row))
            .collect();
        output.json(&json!({
            "workflowId": workflow, "version": version, "created": is_new, "runs": runs,
        }))?;
        return Ok(Exit::Done);
    }
    output.say(&match is_new {
        true => format!("{workflow} would get version {version}; nothing is published"),
        false => format!("{workflow} version {version} is the same; nothing would change"),
    });
    if rows.is_empty() {
        output.say("no live run of it");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["RUN", "STATUS", "VERSION", "EFFECT", "DETAIL"]);
    for (row, effect) in rows.iter().zip(&effects) {
        table.row([
            session.short_id(row.run)?.into(),
            row.status.as_str().into(),
            format!("v{}", row.version).into(),
            effect.name().into(),
            effect.detail().into(),
        ]);
    }
    output.data(&table.render(&output))?;
    Ok(Exit::Done)
}

fn effect(session: &Session, run: RunId, version: u32, definition: &Prepared) -> Effect {
    let loaded = match load_run(&session.store, &session.plans, run, |_, _| {}) {
        Ok(loaded) => loaded.run,
        Err(error) => return Effect::Unreadable(error.to_string()),
    };
    if let Some(why) = stays(&loaded, definition) {
        return Effect::Unaffected(why);
    }
    let plan = Arc::clone(&definition.plan);
    match would_heal(&loaded, version, definition.digest, &plan, now()) {
        Err(_) => Effect::Unaffected("it does not follow newer versions now"),
        Ok(healing) if healing.is_stuck => Effect::Incompatible(healing),
        Ok(healing) if !healing.warnings.is_empty() => Effect::Decision(healing),
        Ok(healing) => Effect::Adopts(healing),
    }
}

/// Why a run stays as it is, if it does.
fn stays(run: &Run, definition: &Prepared) -> Option<&'static str> {
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

fn live(session: &Session, workflow: &str) -> Result<Vec<RunRow>, Failure> {
    let mut filter = RunFilter {
        workflow: Some(workflow.into()),
        statuses: vec![RunStatus::Pending, RunStatus::Running, RunStatus::Paused],
        limit: 500,
        ..RunFilter::default()
    };
    let mut rows = Vec::new();
    loop {
        let page = session.store.runs(&filter)?;
        rows.extend(page.rows);
        match page.next {
            Some(next) => filter.before = Some(next),
            None => return Ok(rows),
        }
    }
}
