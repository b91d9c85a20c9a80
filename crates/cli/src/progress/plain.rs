//! Progress in plain lines, without a live display: a line at the start, one for each failure,
//! one for each node of a small run, and one now and then for a large one.

use windlass_core::NodeStatus;

use super::Phase;
use super::model::{Model, SMALL, Said};
use super::screen::write;
use crate::wait_state::format_wait_state;

/// This many of the loops that run at the same time are shown.
const LOOPS: usize = 10;

/// Says that the run begins.
pub(super) fn begin(model: &mut Model) {
    let (workflow, nodes) = (model.plan.workflow(), model.plan.len());
    let done = model.done_before;
    let so_far = if done > 0 {
        format!(", {done} done so far")
    } else {
        String::new()
    };
    let plural = if nodes == 1 { "" } else { "s" };
    write(&format!(
        "{workflow} {}: {nodes} node{plural}{so_far}\n",
        model.run
    ));
}

/// The line for something that was said; nothing for what a plain log need not hold.
pub(super) fn line(said: &Said) -> Option<String> {
    Some(match said {
        Said::Ended(node, status, Some(seconds)) => {
            format!("  {node}: {status} in {seconds:.1} s")
        }
        Said::Ended(node, status, None) => format!("  {node}: {status}"),
        Said::Failed { node, what, again } => {
            let then = if *again { " (to be tried again)" } else { "" };
            format!("  {node}: Failed: {what}{then}")
        }
        Said::Waits(node, what) => format!("  {node}: {what}"),
        Said::TooMany => "  … further failures are only counted".to_owned(),
        Said::Phase(Phase::Running) => "  resumed".to_owned(),
        Said::Phase(Phase::Paused) => "  paused".to_owned(),
        Said::Phase(Phase::Stopping) => "  stopping".to_owned(),
    })
}

/// The lines that a large run, and loops, get now and then.
pub(super) fn summary(model: &Model) -> Vec<String> {
    let elapsed = model.began.elapsed().as_secs();
    let mut lines = Vec::new();
    if model.plan.len() > SMALL {
        let (done, total) = (model.done(), model.plan.len());
        let failed = model.count(NodeStatus::Failed);
        let running = model.count(NodeStatus::Running);
        lines.push(format!(
            "  {done}/{total} done, {failed} failed, {running} running after {elapsed} s"
        ));
    }
    for waiting_node in model.loops.values().take(LOOPS) {
        let words = format_wait_state(&waiting_node.what);
        lines.push(format!(
            "  {}: {words} after {elapsed} s",
            waiting_node.path
        ));
    }
    lines
}
