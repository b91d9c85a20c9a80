//! What a run or a node waits for, or why it ended, in a sentence.

mod pool;
mod queue_reason;
mod reasons;
mod work;

use serde_json::{Value, json};
use windlass_core::run::{Instance, Run, SWITCH_UNMATCHED};
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::RunOwner;
use windlass_engine::view::{self, Nodes, Overview, SeenInstance};
use windlass_store::{RunRow, Wait as _};

use crate::failure::{Failure, FailureKind};
use crate::run_queries::RunQueries;
use crate::text::named;
use crate::wait_state::has_instance;
use reasons::{Reasons, waits_for};
use work::{Work, work};

/// Why a run stands where it does.
pub struct Why {
    /// The run.
    pub run: RunId,
    /// How it stands.
    pub status: RunStatus,
    /// Why, in a sentence.
    pub reason: String,
    /// What is being undone, and what could not be.
    pub undoing: Vec<WhyAnswer>,
    /// The nodes that matter: what keeps the run from its end, or what decided it.
    pub nodes: Vec<WhyAnswer>,
}

/// Why one node stands where it does.
pub struct WhyAnswer {
    /// Its path.
    pub path: String,
    /// How it stands.
    pub status: NodeStatus,
    /// Why, in a sentence.
    pub reason: String,
    /// The nodes whose end it waits for.
    pub waits_for: Vec<String>,
    /// Where a worker outside the process does it: how that stands, for programs.
    pub work: Option<Value>,
    /// The pool that it waits for, for programs.
    pub pool: Option<Value>,
}

impl Why {
    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "executionId": self.run.to_string(),
            "status": self.status.as_str(),
            "reason": self.reason,
            "nodes": self.nodes.iter().map(WhyAnswer::json).collect::<Vec<_>>(),
            "undoing": self.undoing.iter().map(WhyAnswer::json).collect::<Vec<_>>(),
        })
    }

    /// Reads what [`json`](Self::json) made; `None` if it is something else.
    pub fn from_json(value: &Value) -> Option<Self> {
        let answers = |key: &str| -> Option<Vec<WhyAnswer>> {
            let list = value
                .get(key)
                .map_or(Some(&[][..]), |list| list.as_array().map(Vec::as_slice));
            list?.iter().map(WhyAnswer::from_json).collect()
        };
        Some(Self {
            run: value["executionId"].as_str()?.parse().ok()?,
            status: value["status"].as_str()?.parse().ok()?,
            reason: value["reason"].as_str()?.to_owned(),
            undoing: answers("undoing")?,
            nodes: answers("nodes")?,
        })
    }
}

impl WhyAnswer {
    fn json(&self) -> Value {
        let mut json = json!({
            "node": self.path,
            "status": self.status.as_str(),
            "reason": self.reason,
            "waitsFor": self.waits_for,
        });
        if let Some(work) = &self.work {
            json["work"] = work.clone();
        }
        if let Some(pool) = &self.pool {
            json["pool"] = pool.clone();
        }
        json
    }

    fn from_json(value: &Value) -> Option<Self> {
        let waits_for = value["waitsFor"].as_array()?.iter();
        let waits_for = waits_for.map(|node| node.as_str().map(str::to_owned));
        Some(Self {
            path: value["node"].as_str()?.to_owned(),
            status: serde_json::from_value(value["status"].clone()).ok()?,
            reason: value["reason"].as_str()?.to_owned(),
            waits_for: waits_for.collect::<Option<_>>()?,
            work: value.get("work").cloned(),
            pool: value.get("pool").cloned(),
        })
    }
}

/// Says why a run, or one node of it, stands where it does.
///
/// # Errors
/// There is no such run or node, or it cannot be read.
pub fn why(queries: &RunQueries, id: RunId, node: Option<&str>) -> Result<Why, Failure> {
    let row = queries.row(id)?;
    let overview = match view::overview(&*queries.store, &queries.plans, id) {
        // One that cannot be read, and is a dead letter for it.
        Err(_) if row.is_dead_letter() && node.is_none() => {
            return Ok(Why {
                run: id,
                status: row.status,
                reason: queue_reason::dead(queries, id)?,
                undoing: Vec::new(),
                nodes: Vec::new(),
            });
        }
        overview => overview?,
    };
    let named = named_owner(queries, &row)?;
    let queries = named.as_ref().unwrap_or(queries);
    let reasons = Reasons {
        overview: &overview,
        queries,
        short: queries.short_id(id)?,
    };
    let run = &overview.run;
    let nodes = match node {
        Some(path) => vec![one(&reasons, path)?],
        None => interesting(run)
            .into_iter()
            .map(|node| reasons.answer(&present(&overview, &run.path(node), node)))
            .chain(unmatched(&overview).map(Ok))
            .collect::<Result<_, _>>()?,
    };
    Ok(Why {
        run: id,
        status: run.status(),
        reason: match queue_reason::sentence(queries, run)? {
            Some(sentence) if queries.holder.is_some() || row.is_dead_letter() => sentence,
            _ => reasons.run(),
        },
        undoing: reasons.undoing()?,
        nodes,
    })
}

/// The same queries with the process that executes the run, if it is not the one that answers.
fn named_owner(queries: &RunQueries, row: &RunRow) -> Result<Option<RunQueries>, Failure> {
    let engine = queries.engine.as_ref().filter(|_| !row.status.is_final());
    let owner = engine
        .map(|engine| engine.owner_of(row).wait())
        .transpose()?;
    Ok(match owner {
        Some(RunOwner::Process { name, .. }) => Some(RunQueries {
            holder: Some(format!("process {name}")),
            ..queries.clone()
        }),
        _ => None,
    })
}

/// The nodes whose switches chose nothing: what comes after them was skipped.
fn unmatched(overview: &Overview) -> impl Iterator<Item = WhyAnswer> {
    let Overview { run, notes, .. } = overview;
    notes.unmatched_nodes().filter_map(|node| {
        let path = run.path(node).into_string();
        Some(WhyAnswer {
            reason: format!(
                "{} led nowhere: {SWITCH_UNMATCHED}: {}.",
                named(run, &path),
                notes.unmatched(node)?
            ),
            path,
            status: run.node_status(node),
            waits_for: Vec::new(),
            work: None,
            pool: None,
        })
    })
}

/// Why one node stands where it does, though the run may have forgotten it.
fn one(reasons: &Reasons<'_>, path: &str) -> Result<WhyAnswer, Failure> {
    let Reasons {
        overview, queries, ..
    } = reasons;
    let path = &*overview.run.plan().named_path(path)?;
    if let Some(node) = overview.run.resolve(path) {
        return reasons.answer(&present(overview, path, node));
    }
    let mut found: Option<WhyAnswer> = None;
    if has_instance(&overview.run, path) {
        let only = Nodes::Only([path.into()].into());
        view::for_each_instance::<Failure>(
            &*queries.store,
            &queries.plans,
            overview,
            &only,
            |seen| {
                if seen.path == path {
                    found = Some(reasons.answer(seen)?);
                }
                Ok(())
            },
        )?;
    }
    found.ok_or_else(|| no_such_node(path))
}

/// The run has no such node.
pub fn no_such_node(name: &str) -> Failure {
    let message = format!("the run has no node '{name}'");
    Failure::new(FailureKind::NodeNotFound, message).hint("`windlass show RUN` lists them")
}

impl Reasons<'_> {
    fn answer(&self, seen: &SeenInstance<'_>) -> Result<WhyAnswer, Failure> {
        let parents = waits_for(seen.run, seen.node);
        // Sentences have the name for people beside the path.
        let named = named(seen.run, seen.path);
        let told = SeenInstance {
            path: &named,
            ..*seen
        };
        let path = |&node: &Instance| seen.run.path(node).into_string();
        let status = seen.run.node_status(seen.node);
        let is_out = matches!(status, NodeStatus::Queued | NodeStatus::Running)
            && matches!(seen.run.status(), RunStatus::Running | RunStatus::Paused);
        let goes_on = seen.run.status() == RunStatus::Running;
        let pool = match self.queries.engine.as_ref().filter(|_| is_out && goes_on) {
            Some(_) => pool::pool(self.queries, seen.run, (seen.node, &named))?,
            None => None,
        };
        let work = match self.queries.engine.as_ref().filter(|_| is_out) {
            Some(engine) if pool.is_none() => work(engine, seen.run, (seen.node, &named))?,
            _ => None,
        };
        let (reason, work, pool) = match (pool, work) {
            (Some((reason, json)), _) => (reason, None, Some(json)),
            (None, Some(Work { reason, json })) => (reason, Some(json), None),
            (None, None) => (self.node(&told)?, None, None),
        };
        Ok(WhyAnswer {
            path: seen.path.to_owned(),
            status,
            reason,
            waits_for: parents.iter().map(path).collect(),
            work,
            pool,
        })
    }
}

/// An instance of the present state.
fn present<'a>(overview: &'a Overview, path: &'a str, node: Instance) -> SeenInstance<'a> {
    SeenInstance {
        path,
        run: &overview.run,
        node,
        times: &overview.times,
        notes: &overview.notes,
        output: None,
        error: None,
        input: None,
    }
}

/// What keeps a run from its end or, once it has ended, what decided it.
fn interesting(run: &Run) -> Vec<Instance> {
    let is_inside = |node: &Instance| run.owner(*node).is_some();
    if run.status().is_final() {
        let inside = run.instances().filter(is_inside);
        let failed = inside.filter(|&node| run.node_status(node) == NodeStatus::Failed);
        let failed = run.failed().chain(failed);
        return failed.filter(|&node| !run.is_handled(node)).collect();
    }
    // Nodes under way come first: the others wait for them.
    let open = |node: &Instance| {
        let status = run.node_status(*node);
        !status.is_final() && status != NodeStatus::Pending
    };
    let pending = |node: &Instance| run.node_status(*node) == NodeStatus::Pending;
    let top = run.top_instances().filter(open);
    let inside = run.instances().filter(is_inside).filter(open);
    let rest = run.top_instances().filter(pending);
    top.chain(inside).chain(rest).collect()
}
