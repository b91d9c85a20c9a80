//! What is drawn on a terminal: a header, a bar, counts, and the nodes that run. Pure:
//! a model, a size and a moment give lines.

use std::time::Instant;

use windlass_core::NodeStatus;
use windlass_core::plan::NodeIndex;

use super::Phase;
use super::line::{Line, Paint, width_of};
use super::model::{Model, Said};

/// The widest column of node ids.
const NODE_COLUMN: usize = 32;

/// How large the terminal is, and what it can show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) color: bool,
}

/// The lines of a frame, each at most as wide as the terminal.
pub(super) fn frame(model: &Model, terminal: Terminal, now: Instant) -> Vec<String> {
    let width = terminal.width;
    let mut lines = vec![header(model, now), bar(model, width), counts(model)];
    // Three lines are above, one may say how many more, and the cursor needs one.
    let room = terminal.height.saturating_sub(5).clamp(1, 12);
    lines.extend(running(model, room, now));
    lines
        .iter()
        .map(|line| line.render(width, terminal.color))
        .collect()
}

fn header(model: &Model, now: Instant) -> Line {
    let elapsed = clock(now.saturating_duration_since(model.began).as_secs());
    let line = Line::new()
        .add(Paint::Bold, model.plan.workflow())
        .add(Paint::Dim, format!("  {}…  ", model.short_id()))
        .add(Paint::Plain, elapsed);
    match model.phase {
        Phase::Running => line,
        Phase::Paused => line.add(Paint::Yellow, "  paused"),
        Phase::Stopping => line.add(Paint::Yellow, "  stopping"),
    }
}

fn bar(model: &Model, width: usize) -> Line {
    let (done, total) = (model.done() as usize, model.plan.len().max(1));
    let failed = (model.count(NodeStatus::Failed) + model.count(NodeStatus::Blocked)) as usize;
    let figures = format!(" {:>3}%  {done}/{total}", done * 100 / total);
    let cells = width.saturating_sub(width_of(&figures) + 1).clamp(4, 60);
    let filled = done * cells / total;
    // A single failure among thousands is worth a cell.
    let red = (failed * cells).div_ceil(total).min(filled);
    Line::new()
        .add(Paint::Green, "━".repeat(filled - red))
        .add(Paint::Red, "━".repeat(red))
        .add(Paint::Dim, "─".repeat(cells - filled))
        .add(Paint::Plain, figures)
}

fn counts(model: &Model) -> Line {
    let waiting = model.count(NodeStatus::Waiting);
    let pending = model.count(NodeStatus::Pending) + model.count(NodeStatus::Queued);
    let shown = [
        (
            model.count(NodeStatus::Succeeded),
            "succeeded",
            Paint::Green,
        ),
        (model.count(NodeStatus::Failed), "failed", Paint::Red),
        (model.count(NodeStatus::Skipped), "skipped", Paint::Dim),
        (model.count(NodeStatus::Blocked), "blocked", Paint::Yellow),
        (
            model.count(NodeStatus::Cancelled),
            "cancelled",
            Paint::Yellow,
        ),
        (model.count(NodeStatus::Running), "running", Paint::Blue),
        (waiting, "waiting", Paint::Blue),
        (pending, "pending", Paint::Dim),
    ];
    let mut line = Line::new();
    let mut first = true;
    for (count, name, paint) in shown {
        if count > 0 {
            line = line.add(Paint::Plain, if first { "" } else { "  " });
            line = line.add(paint, format!("{count} {name}"));
            first = false;
        }
    }
    line
}

/// The running nodes, the longest-running first.
fn running(model: &Model, room: usize, now: Instant) -> Vec<Line> {
    let mut nodes: Vec<(Instant, NodeIndex)> = model
        .running
        .iter()
        .map(|(&node, &since)| (since, node))
        .collect();
    nodes.sort_unstable();
    let shown = &nodes[..nodes.len().min(room)];
    let column = shown
        .iter()
        .map(|&(_, node)| model.plan.id(node).len())
        .max()
        .unwrap_or(0)
        .min(NODE_COLUMN);
    let mut lines: Vec<Line> = shown
        .iter()
        .map(|&(since, node)| {
            let id = shorten(model.plan.id(node), column);
            let elapsed = clock(now.saturating_duration_since(since).as_secs());
            Line::new()
                .add(Paint::Blue, "  ▸ ")
                .add(Paint::Plain, format!("{id:column$}"))
                .add(Paint::Plain, format!("  {elapsed:>6}"))
                .add(
                    Paint::Dim,
                    format!("  {}", model.plan.action(node).unwrap_or_default()),
                )
        })
        .collect();
    if nodes.len() > shown.len() {
        let more = format!("  + {} more", nodes.len() - shown.len());
        lines.push(Line::new().add(Paint::Dim, more));
    }
    lines
}

/// A line that stays on the screen; nothing for what the drawing shows anyway.
pub(super) fn permanent(model: &Model, said: &Said) -> Option<Line> {
    Some(match said {
        Said::Ended(..) | Said::Phase(_) => return None,
        Said::Failed { node, what, again } => {
            let (paint, mark) = if *again {
                (Paint::Yellow, "↻ ")
            } else {
                (Paint::Red, "✗ ")
            };
            let line = Line::new()
                .add(paint, mark)
                .add(Paint::Bold, model.plan.id(*node))
                .add(Paint::Plain, format!("  {what}"));
            if *again {
                line.add(Paint::Dim, " (to be tried again)")
            } else {
                line
            }
        }
        Said::TooMany => Line::new().add(Paint::Dim, "… further failures are only counted"),
    })
}

/// Seconds as people read them: 5s, 1m05s, 2h03m.
pub(super) fn clock(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn shorten(id: &str, column: usize) -> String {
    // Ids are ASCII.
    if id.len() <= column {
        id.to_owned()
    } else {
        format!("{}…", &id[..column.saturating_sub(1)])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use windlass_core::plan::Plan;
    use windlass_core::{Millis, RunId};

    use super::*;

    const TERMINAL: Terminal = Terminal {
        width: 60,
        height: 9,
        color: false,
    };

    /// A model of independent nodes.
    fn model(nodes: usize) -> Model {
        let nodes: Vec<String> = (0..nodes)
            .map(|n| format!(r#"{{"id":"node-{n:05}","actionType":"core.sleep"}}"#))
            .collect();
        let text = format!(r#"{{"id":"flow","nodes":[{}]}}"#, nodes.join(","));
        let definition = serde_json::from_str(&text).expect("a definition");
        let plan = Plan::build(definition).expect("a plan");
        Model::new(RunId::new(Millis(0), [0; 10]), Arc::new(plan))
    }

    #[test]
    fn a_frame_fits_its_terminal() {
        let mut model = model(10_000);
        for node in 0..200 {
            model.set(node, NodeStatus::Running);
        }
        for node in 0..100 {
            model.set(node, NodeStatus::Succeeded);
        }
        model.set(100, NodeStatus::Failed);
        let began = model.began;
        model.running.values_mut().for_each(|since| *since = began);
        let now = began + Duration::from_secs(65);
        let lines = frame(&model, TERMINAL, now);
        assert_eq!(lines[0], "flow  00000000-0000…  1m05s");
        assert!(lines[1].ends_with("   1%  101/10000"), "{}", lines[1]);
        assert_eq!(
            lines[2],
            "100 succeeded  1 failed  99 running  9800 pending"
        );
        assert_eq!(lines[3], "  ▸ node-00101   1m05s  core.sleep");
        assert_eq!(lines.last().map(String::as_str), Some("  + 95 more"));
        assert!(lines.len() < TERMINAL.height);
        assert!(lines.iter().all(|line| width_of(line) <= TERMINAL.width));
    }

    #[test]
    fn the_longest_running_node_is_first() {
        let mut model = model(3);
        let began = model.began;
        model.set(0, NodeStatus::Running);
        model.set(2, NodeStatus::Running);
        model.running.insert(0, began + Duration::from_secs(9));
        model.running.insert(2, began);
        let lines = frame(&model, TERMINAL, began + Duration::from_secs(10));
        assert_eq!(lines[3], "  ▸ node-00002     10s  core.sleep");
        assert_eq!(lines[4], "  ▸ node-00000      1s  core.sleep");
    }

    #[test]
    fn a_narrow_terminal_cuts_lines() {
        let mut model = model(1);
        model.fail(0, "CODE", "a long\nmessage", true);
        let said = model.said.pop_front().expect("a failure");
        let line = permanent(&model, &said).expect("a line");
        assert_eq!(line.render(20, false), "↻ node-00000  CODE:…");
        let wide = "↻ node-00000  CODE: a long message (to be tried again)";
        assert_eq!(line.render(80, false), wide);
    }
}
