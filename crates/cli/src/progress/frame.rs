//! What is drawn on a terminal: a header, a bar, counts, the loops that go round, what
//! runs and what waits. Pure: a model, a size and a moment give lines.

use std::time::Instant;

use windlass_core::NodeStatus;
use windlass_core::run::{WaitState, WaitingNode};

use super::Phase;
use super::line::{Line, Paint, width_of};
use super::model::{Model, Running, Said};
use crate::wait_state::format_wait_state;

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
    // One line may say how many more there are, and the cursor needs one.
    let limit = lines.len() + terminal.height.saturating_sub(5).clamp(1, 12);
    lines.extend(loops(model, limit - lines.len()));
    // Waiting nodes are shown as well, where there is room for both.
    let room = limit - lines.len();
    let reserved = model.waits.len().min(room.div_ceil(3));
    lines.extend(running(model, room - reserved, now));
    let room = limit.saturating_sub(lines.len());
    lines.extend(waits(model, room.max(reserved.min(1))));
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
    let (done, total) = model.work();
    let (done, total) = (done as usize, total.max(1) as usize);
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

/// The loops that go round.
fn loops(model: &Model, room: usize) -> Vec<Line> {
    let shown = model.loops.values().take(room.div_ceil(2));
    let line = |waiting_node: &WaitingNode| {
        Line::new()
            .add(Paint::Blue, "  ↻ ")
            .add(
                Paint::Plain,
                shorten(&model.shown(&waiting_node.path), NODE_COLUMN),
            )
            .add(
                Paint::Plain,
                format!("  {}", format_wait_state(&waiting_node.what)),
            )
    };
    shown.map(line).collect()
}

/// What runs, the longest-running first.
fn running(model: &Model, room: usize, now: Instant) -> Vec<Line> {
    let mut nodes: Vec<&Running> = model.running.values().collect();
    nodes.sort_by_key(|running| running.since);
    let shown = &nodes[..nodes.len().min(room)];
    let column = shown
        .iter()
        .map(|running| model.shown(&running.path).chars().count())
        .max()
        .unwrap_or(0)
        .min(NODE_COLUMN);
    let mut lines: Vec<Line> = shown
        .iter()
        .map(|running| {
            let id = shorten(&model.shown(&running.path), column);
            let elapsed = clock(now.saturating_duration_since(running.since).as_secs());
            Line::new()
                .add(Paint::Blue, "  ▸ ")
                .add(Paint::Plain, format!("{id:column$}"))
                .add(Paint::Plain, format!("  {elapsed:>6}"))
                .add(Paint::Dim, format!("  {}", running.action))
        })
        .collect();
    if nodes.len() > shown.len() {
        let more = format!("  + {} more", nodes.len() - shown.len());
        lines.push(Line::new().add(Paint::Dim, more));
    }
    lines
}

/// What waits for a time, a signal or a child.
fn waits(model: &Model, room: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = model
        .waits
        .values()
        .take(room)
        .map(|waiting_node| {
            Line::new()
                .add(Paint::Yellow, "  ◷ ")
                .add(
                    Paint::Plain,
                    shorten(&model.shown(&waiting_node.path), NODE_COLUMN),
                )
                .add(Paint::Dim, format!("  {}", model.wait_words(waiting_node)))
        })
        .collect();
    // Where few wait, each has room for the command that ends its wait.
    if model.waits.len() <= 2 && lines.len() == model.waits.len() && room > 2 {
        let commands = model.waits.values().map(|it| signal_command(model, it));
        let both = lines.into_iter().zip(commands);
        lines = both
            .flat_map(|(line, command)| [Some(line), command])
            .flatten()
            .collect();
    }
    let more = model.waits.len().saturating_sub(room);
    if more > 0 && room > 0 {
        lines.pop();
        let more = format!("  + {} more waiting", more + 1);
        lines.push(Line::new().add(Paint::Dim, more));
    }
    lines
}

/// The command that sends the signal that a node waits for.
fn signal_command(model: &Model, waiting_node: &WaitingNode) -> Option<Line> {
    let WaitState::Signal { name, .. } = &waiting_node.what else {
        return None;
    };
    let command = format!("      windlass signal {} {name}", model.short_id());
    Some(Line::new().add(Paint::Plain, command))
}

/// A line that stays on the screen; nothing for what the drawing shows anyway.
pub(super) fn permanent(said: &Said) -> Option<Line> {
    Some(match said {
        Said::Ended(..) | Said::Waits(..) | Said::Phase(_) => return None,
        Said::Failed { node, what, again } => {
            let (paint, mark) = if *again {
                (Paint::Yellow, "↻ ")
            } else {
                (Paint::Red, "✗ ")
            };
            let line = Line::new()
                .add(paint, mark)
                .add(Paint::Bold, node)
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

/// An id, with the name beside it, in at most so many letters.
fn shorten(id: &str, column: usize) -> String {
    if id.chars().count() <= column {
        return id.to_owned();
    }
    let kept: String = id.chars().take(column.saturating_sub(1)).collect();
    format!("{kept}…")
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
        model_of(&text)
    }

    fn model_of(text: &str) -> Model {
        let definition = serde_json::from_str(text).expect("a definition");
        let plan = Plan::build(definition).expect("a plan");
        Model::new(RunId::new(Millis(0), [0; 10]), Arc::new(plan))
    }

    fn dispatch(model: &mut Model, node: u32) {
        let path = format!("node-{node:05}");
        model.dispatched(node, &path, "core.sleep");
    }

    /// A loop over this many items.
    fn looping(done: u32, total: u32) -> WaitingNode {
        WaitingNode {
            node: 0,
            path: "node-00000".into(),
            what: WaitState::Loop {
                done,
                total: Some(total),
                running: 50,
                failed: 2,
            },
        }
    }

    #[test]
    fn a_loop_shows_how_far_it_is_and_what_runs_in_it() {
        let mut model = model_of(
            r#"{"id":"flow","nodes":[
              {"id":"node-00000","forEach":{"items":[1],"body":{"nodes":[
                {"id":"charge","actionType":"http.request"}]}}},
              {"id":"node-00001","actionType":"core.sleep"}]}"#,
        );
        model.change(&[(0, NodeStatus::Running)], &[looping(40_000, 100_000)]);
        for item in 0..50 {
            let path = format!("node-00000[{item}]/charge");
            model.dispatched(2 + item, &path, "http.request");
        }
        let lines = frame(&model, TERMINAL, model.began);
        assert!(lines[1].ends_with("  39%  40000/100001"), "{}", lines[1]);
        assert_eq!(lines[2], "1 running  1 pending");
        assert_eq!(
            lines[3],
            "  ↻ node-00000  40000/100000 done, 50 running, 2 failed"
        );
        assert_eq!(lines[4], "  ▸ node-00000[0]/charge      0s  http.request");
        assert_eq!(lines.last().map(String::as_str), Some("  + 47 more"));
        assert!(lines.len() < TERMINAL.height, "{lines:#?}");
        // What ended in a body is forgotten, and its failure has a name.
        model.change(&[(2, NodeStatus::Failed)], &[]);
        model.fail("node-00000[0]/charge", "HTTP_503", "no", false);
        let said = model.said.pop_front().expect("a failure");
        let line = permanent(&said).expect("a line");
        assert_eq!(
            line.render(80, false),
            "✗ node-00000[0]/charge  HTTP_503: no"
        );
        assert_eq!(model.running.len(), 49);
        model.change(&[(0, NodeStatus::Succeeded)], &[]);
        assert_eq!(model.work(), (100_000, 100_001));
    }

    #[test]
    fn what_waits_says_for_what() {
        let mut model = model(3);
        let signal = WaitingNode {
            node: 1,
            path: "node-00001".into(),
            what: WaitState::Signal {
                name: "approve".into(),
                until: None,
            },
        };
        let timer = WaitingNode {
            node: 2,
            path: "node-00002".into(),
            what: WaitState::Until(Millis(1_700_000_000_000)),
        };
        let waiting = [(1, NodeStatus::Waiting), (2, NodeStatus::Waiting)];
        model.change(&waiting, &[signal, timer]);
        let wide = Terminal {
            width: 80,
            ..TERMINAL
        };
        let lines = frame(&model, wide, model.began);
        assert_eq!(lines[3], "  ◷ node-00001  waiting for signal 'approve'");
        assert_eq!(lines[4], "      windlass signal 00000000-0000 approve");
        assert_eq!(
            lines[5],
            "  ◷ node-00002  waiting until 2023-11-14 22:13:20 UTC"
        );
        model.change(&[(1, NodeStatus::Succeeded)], &[]);
        assert_eq!(frame(&model, wide, model.began).len(), 4);
    }

    #[test]
    fn a_frame_fits_its_terminal() {
        let mut model = model(10_000);
        for node in 0..200 {
            dispatch(&mut model, node);
        }
        for node in 0..100 {
            model.change(&[(node, NodeStatus::Succeeded)], &[]);
        }
        model.change(&[(100, NodeStatus::Failed)], &[]);
        let began = model.began;
        model
            .running
            .values_mut()
            .for_each(|running| running.since = began);
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
        for (node, after) in [(0, 9), (2, 0)] {
            dispatch(&mut model, node);
            let running = model.running.get_mut(&node).expect("it runs");
            running.since = began + Duration::from_secs(after);
        }
        let lines = frame(&model, TERMINAL, began + Duration::from_secs(10));
        assert_eq!(lines[3], "  ▸ node-00002     10s  core.sleep");
        assert_eq!(lines[4], "  ▸ node-00000      1s  core.sleep");
    }

    #[test]
    fn a_narrow_terminal_cuts_lines() {
        let mut model = model(1);
        model.fail("node-00000", "CODE", "a long\nmessage", true);
        let said = model.said.pop_front().expect("a failure");
        let line = permanent(&said).expect("a line");
        assert_eq!(line.render(20, false), "↻ node-00000  CODE:…");
        let wide = r"↻ node-00000  CODE: a long\nmessage (to be tried again)";
        assert_eq!(line.render(80, false), wide);
    }
}
