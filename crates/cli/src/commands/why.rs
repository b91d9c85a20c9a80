//! `windlass why`: in a sentence, what a run or a node waits for, or why it ended so.

use serde_json::json;
use windlass_core::definition::ExecutionMode;
use windlass_core::event::StopCause;
use windlass_core::plan::NodeIndex;
use windlass_core::routing::EdgeState;
use windlass_core::run::Run;
use windlass_core::{NodeStatus, RunStatus};
use windlass_engine::view::{self, Counts, Overview};

use crate::args::Why;
use crate::commands::show::{error_of, names, node as find_node, summary};
use crate::ending::one_line;
use crate::exit::{Exit, Failure};
use crate::moment::{ago, now, readable};
use crate::paint::{node_glyph, node_style, paint};
use crate::session::{Session, Settings};

/// People read this many nodes; programs get them all.
const SHOWN: usize = 50;

/// Says why.
pub(crate) fn run(settings: &Settings, arguments: &Why) -> Result<Exit, Failure> {
    let session = Session::look(settings.clone())?;
    let id = session.find_run(&arguments.run)?;
    let overview = view::overview(&session.store, &session.plans, id)?;
    let run = &overview.run;
    let reasons = Reasons {
        overview: &overview,
        session: &session,
        short: session.short_id(id)?,
    };
    let nodes: Vec<NodeIndex> = match &arguments.node {
        Some(name) => vec![find_node(run, name)?],
        None => interesting(run),
    };
    if settings.output.json {
        let entry = |&node: &NodeIndex| {
            Ok(json!({
                "node": run.plan().id(node),
                "status": run.node_status(node).as_str(),
                "reason": reasons.node(node)?,
                "waitsFor": waits_for(run, node).iter().map(|&n| run.plan().id(n)).collect::<Vec<_>>(),
            }))
        };
        let nodes = nodes
            .iter()
            .map(entry)
            .collect::<Result<Vec<_>, Failure>>()?;
        settings.output.json(&json!({
            "executionId": id.to_string(),
            "status": run.status().as_str(),
            "reason": reasons.run(),
            "nodes": nodes,
        }))?;
        return Ok(Exit::Done);
    }
    if run.status() == RunStatus::Pending && arguments.node.is_none() {
        // All its nodes wait for the same thing.
        settings.output.data(&reasons.run())?;
        return Ok(Exit::Done);
    }
    let color = settings.output.color;
    let mut text = String::new();
    if arguments.node.is_none() {
        text.push_str(&format!("{}\n", reasons.run()));
    }
    for &node in nodes.iter().take(SHOWN) {
        let status = run.node_status(node);
        let mark = paint(color, node_style(status), node_glyph(status));
        text.push_str(&format!("{mark} {}\n", reasons.node(node)?));
    }
    if nodes.len() > SHOWN {
        text.push_str(&format!(
            "and {} more nodes (--json has them all)\n",
            nodes.len() - SHOWN
        ));
    }
    settings.output.data(&text)?;
    Ok(Exit::Done)
}

/// What keeps a run from its end or, once it has ended, what decided it.
fn interesting(run: &Run) -> Vec<NodeIndex> {
    let all = 0..run.plan().len() as NodeIndex;
    if run.status().is_final() {
        return run.failed().filter(|&node| !run.is_handled(node)).collect();
    }
    // What is under way first: the rest waits for it.
    let open = |node: &NodeIndex| {
        let status = run.node_status(*node);
        !status.is_final() && status != NodeStatus::Pending
    };
    let pending = |node: &NodeIndex| run.node_status(*node) == NodeStatus::Pending;
    all.clone()
        .filter(open)
        .chain(all.filter(pending))
        .collect()
}

/// The parents whose end a node waits for.
fn waits_for(run: &Run, node: NodeIndex) -> Vec<NodeIndex> {
    if run.node_status(node) != NodeStatus::Pending {
        return Vec::new();
    }
    let plan = run.plan();
    let unresolved = plan
        .incoming(node)
        .iter()
        .filter(|&&edge| run.edge_state(edge) == EdgeState::Unresolved);
    let mut parents: Vec<NodeIndex> = unresolved.map(|&edge| plan.edge(edge).source).collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

struct Reasons<'a> {
    overview: &'a Overview,
    session: &'a Session,
    short: String,
}

impl Reasons<'_> {
    /// Why the run stands where it does.
    fn run(&self) -> String {
        let run = &self.overview.run;
        let short = &self.short;
        let since = |at| ago(at, now());
        match run.status() {
            RunStatus::Pending | RunStatus::Running if self.session.store.holder().is_none() => {
                let state = if run.status() == RunStatus::Pending {
                    "is queued"
                } else {
                    "is unfinished"
                };
                format!("The run {state}, and nobody carries it on: windlass resume {short}")
            }
            RunStatus::Pending => "The run is queued and has not started.".to_owned(),
            RunStatus::Running => {
                let holder = self.session.store.holder();
                let by = holder
                    .map(|holder| format!(", carried on by {holder}"))
                    .unwrap_or_default();
                format!("The run is under way{by}: {}.", summary(&Counts::of(run)))
            }
            RunStatus::Paused => format!("The run is paused: windlass resume {short}"),
            RunStatus::Succeeded => {
                let ended = run.ended_at().map(since).unwrap_or_default();
                format!("The run succeeded {ended}: {}.", summary(&Counts::of(run)))
            }
            RunStatus::Failed => {
                let error = run.finished().and_then(|finished| finished.error.as_ref());
                let error =
                    error.map(|error| one_line(&format!("{}: {}", error.code, error.message)));
                format!("The run failed: {}.", error.unwrap_or_default())
            }
            RunStatus::Cancelled => format!("The run was cancelled{}.", self.hand()),
        }
    }

    /// Who asked for the stop, and why.
    fn hand(&self) -> String {
        let Some(hand) = self.overview.run.stop_hand() else {
            return String::new();
        };
        let by = hand
            .by
            .as_ref()
            .map(|by| format!(" by {by}"))
            .unwrap_or_default();
        let why = hand
            .reason
            .as_ref()
            .map(|why| format!(", because: {why}"))
            .unwrap_or_default();
        format!("{by}{why}")
    }

    /// Why a node stands where it does.
    fn node(&self, node: NodeIndex) -> Result<String, Failure> {
        let Overview { run, times } = self.overview;
        let id = run.plan().id(node);
        let when =
            |at: Option<windlass_core::Millis>| at.map(|at| ago(at, now())).unwrap_or_default();
        Ok(match run.node_status(node) {
            NodeStatus::Pending => self.pending(node),
            NodeStatus::Queued => self.queued(node),
            NodeStatus::Running if self.session.store.holder().is_none() => format!(
                "{id} was under way when its process ended, and nobody carries this run on: \
                 windlass resume {}",
                self.short
            ),
            NodeStatus::Running => {
                let attempt = run.attempt(node);
                let since = times.started(node).map(readable).unwrap_or_default();
                format!("{id} has been running since {since} (attempt {attempt}).")
            }
            NodeStatus::Waiting => {
                let made = run.attempts(node);
                let due = run.due(node).map(readable).unwrap_or_default();
                let next = run.attempt(node);
                format!(
                    "{id} failed in attempt {made} and backs off: attempt {next} is due at {due}."
                )
            }
            NodeStatus::Succeeded => format!("{id} succeeded {}.", when(times.ended(node))),
            NodeStatus::Failed => {
                let error = error_of(self.session, run, node)?.unwrap_or_default();
                let handled = if run.is_handled(node) {
                    "; its failure was handled"
                } else {
                    ", and nothing handles it"
                };
                format!("{id} failed {}: {error}{handled}.", when(times.ended(node)))
            }
            NodeStatus::Skipped if run.attempts(node) > 0 => {
                format!("{id} was skipped: its action had nothing to do.")
            }
            NodeStatus::Skipped => {
                format!("{id} was skipped: none of the edges that lead to it was taken.")
            }
            NodeStatus::Blocked => {
                format!("{id} is blocked by {}.", names(run, run.blocked_by(node)))
            }
            NodeStatus::Cancelled => {
                let why = match run.stop_cause() {
                    Some(StopCause::Cancel) => format!("the run was cancelled{}", self.hand()),
                    Some(StopCause::FailFast) => {
                        "another node failed, and the workflow fails fast".to_owned()
                    }
                    Some(StopCause::Timeout) => "the run's time was over".to_owned(),
                    None => "the run let it go".to_owned(),
                };
                format!("{id} was cancelled: {why}.")
            }
        })
    }

    fn pending(&self, node: NodeIndex) -> String {
        let run = &self.overview.run;
        let id = run.plan().id(node);
        if run.status() == RunStatus::Pending {
            return format!("{id} waits for the run to start.");
        }
        let parents = waits_for(run, node);
        if !parents.is_empty() {
            let named = |&parent: &NodeIndex| {
                format!("{} ({})", run.plan().id(parent), run.node_status(parent))
            };
            let more = parents.len().saturating_sub(5);
            let mut text = parents
                .iter()
                .take(5)
                .map(named)
                .collect::<Vec<_>>()
                .join(", ");
            if more > 0 {
                text.push_str(&format!(" and {more} more"));
            }
            return format!("{id} waits for {text}.");
        }
        let level = run.plan().level(node);
        let earlier = (0..run.plan().len() as NodeIndex)
            .filter(|&other| run.plan().level(other) < level && !run.node_status(other).is_final())
            .collect::<Vec<_>>();
        format!(
            "{id} waits for its level ({level}): {} not ended.",
            names(run, &earlier)
        )
    }

    fn queued(&self, node: NodeIndex) -> String {
        let run = &self.overview.run;
        let id = run.plan().id(node);
        if run.status() == RunStatus::Paused {
            return format!(
                "{id} is ready, but the run is paused: windlass resume {}",
                self.short
            );
        }
        match self.session.store.holder() {
            None => format!(
                "{id} is ready, but nobody carries this run on: windlass resume {}",
                self.short
            ),
            Some(_) if run.plan().execution_mode() == ExecutionMode::Sequential => {
                format!("{id} is ready and waits for its turn: one node runs at a time.")
            }
            Some(_) => format!("{id} is ready: a worker has it, or takes it next."),
        }
    }
}
