//! `windlass why`: in a sentence, what a run or a node waits for, or why it ended so.

mod reasons;

use serde_json::{Value, json};
use windlass_core::run::{Instance, Run};
use windlass_core::{NodeStatus, RunStatus};
use windlass_engine::view::{self, Nodes, Overview, Seen};

use crate::args::Why;
use crate::commands::show::no_such_node;
use crate::exit::{Exit, Failure};
use crate::paint::{node_glyph, node_style, paint};
use crate::session::{Session, Settings};
use crate::standing::has_instance;
use reasons::{Reasons, waits_for};

/// People read this many nodes; programs get them all.
const SHOWN: usize = 50;

/// Says why.
pub(crate) fn run(settings: &Settings, arguments: &Why) -> Result<Exit, Failure> {
    let session = Session::look(settings.clone())?;
    let id = session.find_run(&arguments.run)?;
    let overview = view::overview(&session.store, &session.plans, id)?;
    let reasons = Reasons {
        overview: &overview,
        session: &session,
        short: session.short_id(id)?,
    };
    match &arguments.node {
        Some(path) => one(settings, &reasons, path),
        None => all(settings, &reasons),
    }
}

/// Why one node stands where it does, though the run may have forgotten it.
fn one(settings: &Settings, reasons: &Reasons<'_>, path: &str) -> Result<Exit, Failure> {
    let Reasons {
        overview, session, ..
    } = reasons;
    let mut found: Option<Answer> = None;
    if let Some(node) = overview.run.resolve(path) {
        found = Some(reasons.answer(&present(overview, path, node))?);
    } else if has_instance(&overview.run, path) {
        let only = Nodes::Only([path.into()].into());
        let (store, plans) = (&session.store, &session.plans);
        view::for_each_instance::<Failure>(store, plans, overview, &only, |seen| {
            if seen.path == path {
                found = Some(reasons.answer(seen)?);
            }
            Ok(())
        })?;
    }
    let answer = found.ok_or_else(|| no_such_node(path))?;
    if settings.output.json {
        let run = &overview.run;
        settings
            .output
            .json(&reasons.json(run, vec![answer.json()]))?;
    } else {
        settings.output.data(&answer.line(settings.output.color))?;
    }
    Ok(Exit::Done)
}

/// What keeps a run from its end or, once it has ended, what decided it.
fn all(settings: &Settings, reasons: &Reasons<'_>) -> Result<Exit, Failure> {
    let overview = reasons.overview;
    let run = &overview.run;
    let nodes = interesting(run);
    let answer = |&node: &Instance| reasons.answer(&present(overview, &run.path(node), node));
    if settings.output.json {
        let answers = nodes.iter().map(|node| Ok(answer(node)?.json()));
        let answers = answers.collect::<Result<Vec<_>, Failure>>()?;
        settings.output.json(&reasons.json(run, answers))?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{}\n", reasons.run());
    if run.status() == RunStatus::Pending {
        // All its nodes wait for the same thing.
        settings.output.data(&text)?;
        return Ok(Exit::Done);
    }
    for step in reasons.undoing()? {
        text.push_str(&step.line(settings.output.color));
    }
    for node in nodes.iter().take(SHOWN) {
        text.push_str(&answer(node)?.line(settings.output.color));
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

/// One node's answer.
struct Answer {
    path: String,
    status: NodeStatus,
    reason: String,
    waits_for: Vec<String>,
}

impl Answer {
    fn line(&self, color: bool) -> String {
        let mark = paint(color, node_style(self.status), node_glyph(self.status));
        format!("{mark} {}\n", self.reason)
    }

    fn json(&self) -> Value {
        json!({
            "node": self.path,
            "status": self.status.as_str(),
            "reason": self.reason,
            "waitsFor": self.waits_for,
        })
    }
}

impl Reasons<'_> {
    fn answer(&self, seen: &Seen<'_>) -> Result<Answer, Failure> {
        let parents = waits_for(seen.run, seen.node);
        let path = |&node: &Instance| seen.run.path(node).into_string();
        Ok(Answer {
            path: seen.path.to_owned(),
            status: seen.run.node_status(seen.node),
            reason: self.node(seen)?,
            waits_for: parents.iter().map(path).collect(),
        })
    }

    fn json(&self, run: &Run, nodes: Vec<Value>) -> Value {
        json!({
            "executionId": run.id().to_string(),
            "status": run.status().as_str(),
            "reason": self.run(),
            "nodes": nodes,
        })
    }
}

/// An instance of the present state.
fn present<'a>(overview: &'a Overview, path: &'a str, node: Instance) -> Seen<'a> {
    Seen {
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
    // What is under way first: the rest waits for it.
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
