//! Progress where nobody draws: a line at the start, one for each failure, one for
//! each node of a small run, and one now and then for a large one.

use windlass_core::NodeStatus;

use super::Phase;
use super::model::{Model, SMALL, Said};

/// Says that the run begins.
pub(super) fn begin(model: &mut Model) {
    let (workflow, nodes) = (model.plan.workflow(), model.plan.len());
    let done = model.done();
    let so_far = if done > 0 {
        format!(", {done} done so far")
    } else {
        String::new()
    };
    let plural = if nodes == 1 { "" } else { "s" };
    eprintln!("{workflow} {}: {nodes} node{plural}{so_far}", model.run);
}

/// The line for something that was said; nothing for what a plain log need not hold.
pub(super) fn line(model: &Model, said: &Said) -> Option<String> {
    let id = |node: &u32| model.plan.id(*node);
    Some(match said {
        Said::Ended(node, status, Some(seconds)) => {
            format!("  {}: {status} in {seconds:.1} s", id(node))
        }
        Said::Ended(node, status, None) => format!("  {}: {status}", id(node)),
        Said::Failed { node, what, again } => {
            let then = if *again { " (to be tried again)" } else { "" };
            let what: String = what
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            format!("  {}: Failed: {what}{then}", id(node))
        }
        Said::TooMany => "  … further failures are only counted".to_owned(),
        Said::Phase(Phase::Running) => "  resumed".to_owned(),
        Said::Phase(Phase::Paused) => "  paused".to_owned(),
        Said::Phase(Phase::Stopping) => "  stopping".to_owned(),
    })
}

/// The line that a large run gets now and then.
pub(super) fn summary(model: &Model) -> Option<String> {
    if model.plan.len() <= SMALL {
        return None;
    }
    let (done, total) = (model.done(), model.plan.len());
    let failed = model.count(NodeStatus::Failed);
    let running = model.count(NodeStatus::Running);
    let elapsed = model.began.elapsed().as_secs();
    Some(format!(
        "  {done}/{total} done, {failed} failed, {running} running after {elapsed} s"
    ))
}
