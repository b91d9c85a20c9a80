//! `windlass why`: in a sentence, what a run or a node waits for, or why it ended so.

use windlass_core::RunStatus;
use windlass_core::printable::one_line;
use windlass_service::why::{WhyAnswer, why};

use crate::args::Why;
use crate::exit::{Exit, Failure};
use crate::paint::{node_glyph, node_style, paint};
use crate::remote;
use crate::session::{Session, Settings};

/// People read this many nodes; programs get them all.
const SHOWN: usize = 50;

/// Says why.
pub(crate) fn run(settings: &Settings, arguments: &Why) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let id = session.find_run(&arguments.run)?;
    let mut why = why(&session, id, arguments.node.as_deref())?;
    if matches!(why.status, RunStatus::Pending | RunStatus::Running) {
        // Only the process that executes the run knows the order of admission and which
        // workers poll.
        if let Some(server) = &settings.server {
            remote::ask_why(server, &mut why)?;
        } else if why.status == RunStatus::Running
            && let Some(server) = session.holding_server()
        {
            // One that ends meanwhile takes its workers with it.
            let _ = remote::ask_why(&server, &mut why);
        }
    }
    let output = settings.output;
    if output.json {
        output.json(&why.json())?;
        return Ok(Exit::Done);
    }
    let line = |answer: &WhyAnswer| {
        let glyph = node_glyph(answer.status);
        let mark = paint(output.color, node_style(answer.status), glyph);
        format!("{mark} {}\n", one_line(&answer.reason))
    };
    if arguments.node.is_some() {
        output.data(&why.nodes.iter().map(line).collect::<String>())?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{}\n", one_line(&why.reason));
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
