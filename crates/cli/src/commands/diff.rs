//! `windlass diff`: what changed between two versions of a workflow.

use windlass_service::diff::{Changes, diff};

use crate::args::Diff;
use crate::exit::{Exit, Failure};
use crate::paint::{GREEN, RED, YELLOW, paint};
use crate::session::{Session, Settings};

/// Compares two versions.
pub(crate) fn run(settings: &Settings, arguments: &Diff) -> Result<Exit, Failure> {
    let session = Session::queries(settings.clone())?;
    let (from, to) = (version(&arguments.from)?, version(&arguments.to)?);
    let changes = diff(&session, &arguments.id, from, to)?;
    if settings.output.json {
        settings.output.json(&changes.json())?;
    } else {
        let text = text(&changes, settings.output.color);
        settings.output.data(&text)?;
    }
    Ok(Exit::Done)
}

/// `3` or `v3`.
fn version(text: &str) -> Result<u32, Failure> {
    let number = text.strip_prefix('v').unwrap_or(text);
    number.parse().map_err(|_| {
        Failure::new(
            Exit::Usage,
            "VERSION_INVALID",
            format!("'{text}' is not a version"),
        )
        .hint("write 3 or v3")
    })
}

/// What changed, for people.
fn text(changes: &Changes, color: bool) -> String {
    let mut text = String::new();
    let mut line = |mark: &str, what: &str| {
        let style = match mark {
            "+" => GREEN,
            "-" => RED,
            _ => YELLOW,
        };
        text.push_str(&paint(color, style, &format!("{mark} {what}")));
        text.push('\n');
    };
    for key in &changes.keys {
        line("~", key);
    }
    for id in &changes.removed {
        line("-", &format!("node {id}"));
    }
    for id in &changes.added {
        line("+", &format!("node {id}"));
    }
    for (id, keys) in &changes.changed {
        line("~", &format!("node {id}: {}", keys.join(", ")));
    }
    for edge in &changes.edges_removed {
        line("-", &format!("edge {edge}"));
    }
    for edge in &changes.edges_added {
        line("+", &format!("edge {edge}"));
    }
    if text.is_empty() {
        text.push_str("no difference\n");
    }
    text
}
