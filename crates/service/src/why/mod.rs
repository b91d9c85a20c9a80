//! What a run or a node waits for, or why it ended, in a sentence.

mod queue_reason;
mod reasons;
mod work;

use serde_json::{Value, json};
use windlass_core::run::{Instance, Run};
use windlass_core::{NodeStatus, RunId, RunStatus};
use windlass_engine::view::{self, Nodes, Overview, SeenInstance};

use crate::failure::{Failure, FailureKind};
use crate::run_queries::RunQueries;
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
}

impl Why {
    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "executionId": self.run.to_string(),
            "status": self.status.as_str(),
            "reason": self.reason,
            "nodes": self.nodes.iter().map(WhyAnswer::json).collect::<Vec<_>>(),
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
        json
    }
}

/// Says why a run, or one node of it, stands where it does.
///
/// # Errors
/// There is no such run or node, or it cannot be read.
pub fn why(queries: &RunQueries, id: RunId, node: Option<&str>) -> Result<Why, Failure> {
    let overview = view::overview(&*queries.store, &queries.plans, id)?;
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
            .collect::<Result<_, _>>()?,
    };
    Ok(Why {
        run: id,
        status: run.status(),
        reason: match queue_reason::sentence(queries, run)? {
            Some(sentence) if queries.holder.is_some() => sentence,
            _ => reasons.run(),
        },
        undoing: reasons.undoing()?,
        nodes,
    })
}

/// Why one node stands where it does, though the run may have forgotten it.
fn one(reasons: &Reasons<'_>, path: &str) -> Result<WhyAnswer, Failure> {
    let Reasons {
        overview, queries, ..
    } = reasons;
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
        let path = |&node: &Instance| seen.run.path(node).into_string();
        let status = seen.run.node_status(seen.node);
        let is_out = matches!(status, NodeStatus::Queued | NodeStatus::Running)
            && matches!(seen.run.status(), RunStatus::Running | RunStatus::Paused);
        let work = match self.queries.engine.as_ref().filter(|_| is_out) {
            Some(engine) => work(engine, seen.run, (seen.node, seen.path))?,
            None => None,
        };
        let (reason, work) = match work {
            Some(Work { reason, json }) => (reason, Some(json)),
            None => (self.node(seen)?, None),
        };
        Ok(WhyAnswer {
            path: seen.path.to_owned(),
            status,
            reason,
            waits_for: parents.iter().map(path).collect(),
            work,
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
