//! The table of node instances, and that of what is undone.

use windlass_core::NodeStatus;
use windlass_core::plan::NodeKind;
use windlass_core::run::Instance;
use windlass_engine::view::{self, Nodes, SeenInstance};

use super::Page;
use crate::ending::one_line;
use crate::exit::Failure;
use crate::moment::{duration, now};
use crate::paint::{DIM, node_glyph, node_style};
use crate::table::{Cell, Table};
use crate::wait_state::{format_loop, format_wait, plural};
use windlass_service::text::{error_of, error_text, names};
use windlass_store::Wait as _;

/// Runs with more nodes than this show what matters first.
const ALL_NODES: usize = 50;

/// Of what failed and of what is under way, large runs show this many each.
const SOME_NODES: usize = 20;

/// The most rows that are shown of the nodes asked for.
const MOST_ROWS: usize = 2000;

/// What is undone is listed up to this many steps.
const SOME_STEPS: usize = 50;

/// An instance as a row, with its place in the definition.
struct Row {
    order: Vec<u32>,
    path: String,
    what: String,
    status: NodeStatus,
    tries: u32,
    took: Option<u64>,
    detail: String,
}

impl Page<'_> {
    pub(super) fn nodes(&self, chosen: &Nodes) -> Result<String, Failure> {
        let (mut rows, hidden) = match chosen {
            Nodes::Top => self.top_rows()?,
            chosen => self.chosen_rows(chosen)?,
        };
        rows.sort_by(|one, other| one.order.cmp(&other.order));
        let mut text = String::new();
        if !rows.is_empty() {
            text = self.table(rows);
        }
        if hidden > 0 {
            let short = &self.short;
            text.push_str(&format!(
                "  {hidden} more {}: `windlass show {short} --nodes NODE,…` or `--json`\n",
                plural(hidden as u64, "node")
            ));
        }
        Ok(text)
    }

    /// The top level, or what matters of it; and how many are left out.
    fn top_rows(&self) -> Result<(Vec<Row>, usize), Failure> {
        let run = &self.overview.run;
        let count = run.plan().len();
        let mut nodes: Vec<Instance> = Vec::new();
        if count <= ALL_NODES {
            nodes.extend(run.top_instances());
        } else {
            let open = |node: &Instance| {
                let status = run.node_status(*node);
                !status.is_final() && status != NodeStatus::Pending
            };
            nodes.extend(run.failed().take(SOME_NODES));
            nodes.extend(run.top_instances().filter(open).take(SOME_NODES));
        }
        let hidden = count - nodes.len();
        let rows = nodes.into_iter().map(|node| {
            self.row(&SeenInstance {
                path: &run.path(node),
                run,
                node,
                times: &self.overview.times,
                notes: &self.overview.notes,
                output: None,
                error: None,
                input: None,
            })
        });
        Ok((rows.collect::<Result<_, _>>()?, hidden))
    }

    /// The rows asked for, up to the limit, and how many are left out.
    fn chosen_rows(&self, chosen: &Nodes) -> Result<(Vec<Row>, usize), Failure> {
        let (store, plans) = (&*self.session.store, &self.session.plans);
        let (mut rows, mut hidden) = (Vec::new(), 0);
        view::for_each_instance::<Failure>(store, plans, self.overview, chosen, |seen| {
            if rows.len() < MOST_ROWS {
                rows.push(self.row(seen)?);
            } else {
                hidden += 1;
            }
            Ok(())
        })?;
        Ok((rows, hidden))
    }

    fn row(&self, seen: &SeenInstance<'_>) -> Result<Row, Failure> {
        let (run, node) = (seen.run, seen.node);
        let what = match run.action_of(node) {
            Some(action) => action,
            None => run.kind_of(node).as_str(),
        };
        // The log tells of a start only after a while.
        let at_work = self.at_work.since(run, node);
        let took = seen.times.took(node, now());
        Ok(Row {
            order: run.order(node),
            path: seen.path.to_owned(),
            what: what.to_owned(),
            status: match at_work {
                Some(_) => NodeStatus::Running,
                None => run.node_status(node),
            },
            tries: match at_work {
                Some(_) => run.attempt(node),
                None => run.attempts(node),
            },
            took: took.or_else(|| u64::try_from(now().0.saturating_sub(at_work?.0)).ok()),
            detail: self.detail(seen)?,
        })
    }

    fn table(&self, rows: Vec<Row>) -> String {
        let mut table = Table::new(&["", "NODE", "ACTION", "STATUS", ">TRIES", ">TOOK", "DETAIL"]);
        for row in rows {
            let style = node_style(row.status);
            let tries = Some(row.tries).filter(|&tries| tries > 0);
            table.row([
                Cell::styled(node_glyph(row.status), style),
                row.path.into(),
                Cell::styled(row.what, DIM),
                Cell::styled(row.status.as_str(), style),
                tries
                    .map(|tries| tries.to_string())
                    .unwrap_or_default()
                    .into(),
                row.took.map(duration).unwrap_or_default().into(),
                row.detail.into(),
            ]);
        }
        table.render(&self.session.settings.output)
    }

    /// What a node's status does not say, in a few words.
    fn detail(&self, seen: &SeenInstance<'_>) -> Result<String, Failure> {
        let (run, node) = (seen.run, seen.node);
        let mut parts = Vec::new();
        if let Some(marked) = marked(seen) {
            parts.push(marked);
        }
        match run.node_status(node) {
            NodeStatus::Failed => {
                let handled = if run.is_handled(node) {
                    "handled; "
                } else {
                    ""
                };
                let error = error_of(self.session, run, node)?.unwrap_or_default();
                parts.push(format!("{handled}{error}"));
            }
            NodeStatus::Blocked => parts.push(format!("by {}", names(run, run.blocked_by(node)))),
            NodeStatus::Waiting => parts.push(format_wait(run, node)),
            _ => {}
        }
        let kind = run.kind_of(node);
        if let Some(cycle) = run.cycle(node).filter(|cycle| cycle.opened() > 0) {
            parts.push(format_loop(kind, cycle));
        }
        if let Some(child) = seen.notes.child(node) {
            parts.push(format!("child {child}"));
        }
        let (plan, index) = run.place(node);
        if let (true, NodeKind::Action, Some(name)) = (parts.is_empty(), kind, plan.name(index)) {
            parts.push(name.to_owned());
        }
        Ok(parts.join("; "))
    }

    /// What is undone, in order.
    pub(super) fn undoing(&self) -> Result<String, Failure> {
        let run = &self.overview.run;
        let Some(undo) = run.undo() else {
            return Ok(String::new());
        };
        let mut table = Table::new(&["", "UNDONE", "STATUS", ">TRIES", ">TOOK", "DETAIL"]);
        for (node, status) in undo.steps().take(SOME_STEPS) {
            let undoing = run.undoing_of(node);
            let error = undoing.and_then(|undoing| self.overview.notes.undo_error(undoing));
            let error = match error {
                Some(error) => {
                    let text = self.session.values().resolve(error).wait()?;
                    let error = serde_json::from_str(&text).unwrap_or_default();
                    one_line(&error_text(&error))
                }
                None => String::new(),
            };
            let tries = undoing.map_or(0, |undoing| run.attempts(undoing));
            let took = undoing.and_then(|undoing| self.overview.times.took(undoing, now()));
            table.row([
                Cell::styled(node_glyph(status), node_style(status)),
                run.path(node).into_string().into(),
                Cell::styled(status.as_str(), node_style(status)),
                Some(tries)
                    .filter(|&tries| tries > 0)
                    .map(|tries| tries.to_string())
                    .unwrap_or_default()
                    .into(),
                took.map(duration).unwrap_or_default().into(),
                error.into(),
            ]);
        }
        let mut text = format!("\n{}", table.render(&self.session.settings.output));
        let more = undo.steps().count().saturating_sub(SOME_STEPS);
        if more > 0 {
            text.push_str(&format!("  and {more} more\n"));
        }
        Ok(text)
    }
}

/// Where a result comes from, if not from the node itself.
fn marked(seen: &SeenInstance<'_>) -> Option<String> {
    if seen.run.is_reused(seen.node) {
        return Some("reused".to_owned());
    }
    let by_hand = seen.notes.by_hand(seen.node);
    let by_hand = by_hand.filter(|_| seen.run.is_by_hand(seen.node))?;
    let mut words = String::from(if by_hand.skipped {
        "skipped by hand"
    } else {
        "set by hand"
    });
    if let Some(reason) = &by_hand.actor.reason {
        words.push_str(&format!(": {}", one_line(reason)));
    }
    Some(words)
}
