//! `windlass why`: in a sentence, what a run or a node waits for, or why it ended so.

use windlass_core::RunStatus;
use windlass_core::printable::one_line;
use windlass_service::why::{Why, WhyAnswer, why};

use crate::args::Why as Arguments;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::paint::{node_glyph, node_style, paint};
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::folded;

/// People read this many nodes; programs get them all.
const SHOWN: usize = 50;

/// Why a run of the data directory stands where it does.
fn local(settings: &Settings, reference: &str, node: Option<&str>) -> Result<Why, Failure> {
    let session = Session::queries(settings.clone())?;
    let id = session.find_run(reference)?;
    let mut why = why(&session, id, node)?;
    // Only the process that executes the run knows which workers poll.
    if why.status == RunStatus::Running
        && let Some(server) = session.holding_server()
    {
        // One that ends meanwhile takes its workers with it.
        let _ = remote::ask_why(&server, &mut why);
    }
    Ok(why)
}

/// Says why.
pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<Exit, Failure> {
    let node = arguments.node.as_deref();
    let why = match &settings.server {
        Some(server) => remote::why(server, &arguments.run, node)?,
        None => local(settings, &arguments.run, node)?,
    };
    let output = settings.output;
    if output.json {
        output.json(&why.json())?;
        return Ok(Exit::Done);
    }
    let line = |answer: &WhyAnswer| {
        let glyph = node_glyph(answer.status);
        let mark = paint(output.color, node_style(answer.status), glyph);
        format!("{mark} {}\n", sentence(&output, &answer.reason, "  "))
    };
    if arguments.node.is_some() {
        output.data(&why.nodes.iter().map(line).collect::<String>())?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{}\n", sentence(&output, &why.reason, ""));
    // All nodes of a run that has not begun wait for the same thing.
    if why.status != RunStatus::Pending {
        text.extend(why.undoing.iter().map(line));
        text.extend(why.nodes.iter().take(SHOWN).map(line));
        if why.nodes.len() > SHOWN {
            text.push_str(&format!(
                "and {} more nodes (--json has them all)\n",
                why.nodes.len() - SHOWN
            ));
        }
    }
    output.data(&text)?;
    Ok(Exit::Done)
}

/// A sentence as it fits the terminal, its further lines after `indent`. The command that it may
/// end with has a line of its own there, which can be copied.
fn sentence(output: &Output, reason: &str, indent: &str) -> String {
    let reason = one_line(reason);
    let (words, command) = match reason.rsplit_once(": windlass ") {
        Some((words, command)) if output.terminal => (format!("{words}:"), Some(command)),
        _ => (reason.to_string(), None),
    };
    let mut text = folded(output, &words, indent.len()).join(&format!("\n{indent}"));
    if let Some(command) = command {
        text.push_str(&format!("\n{indent}  windlass {command}"));
    }
    text
}
