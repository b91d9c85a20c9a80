//! `windlass diff`: what changed between two versions of a workflow.

use serde_json::Value;
use windlass_service::diff::{ChangedValue, Changes, diff};
use windlass_service::text::one_line;

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
    let mut line = |mark: &str, what: &str, values: &[&ChangedValue]| {
        let style = match mark {
            "+" => GREEN,
            "-" => RED,
            _ => YELLOW,
        };
        text.push_str(&paint(color, style, &format!("{mark} {what}")));
        text.push('\n');
        for value in values {
            text.push_str(&paint(
                color,
                style,
                &format!("    {}", changed_value(value)),
            ));
            text.push('\n');
        }
    };
    let values_of = |node: Option<&str>| -> Vec<&ChangedValue> {
        let values = changes.values.iter();
        values.filter(|it| it.node.as_deref() == node).collect()
    };
    if !changes.keys.is_empty() {
        line("~", &changes.keys.join(", "), &values_of(None));
    }
    for id in &changes.removed {
        line("-", &format!("node {id}"), &[]);
    }
    for id in &changes.added {
        line("+", &format!("node {id}"), &[]);
    }
    for (id, keys) in &changes.changed {
        let values = values_of(Some(id));
        line("~", &format!("node {id}: {}", keys.join(", ")), &values);
    }
    for edge in &changes.edges_removed {
        line("-", &format!("edge {edge}"), &[]);
    }
    for edge in &changes.edges_added {
        line("+", &format!("edge {edge}"), &[]);
    }
    if text.is_empty() {
        text.push_str("no difference\n");
    }
    text
}

/// `parameters.amount: 5 → 7`
fn changed_value(changed: &ChangedValue) -> String {
    let place = changed.pointer.trim_start_matches('/').replace('/', ".");
    let place = place.replace("~1", "/").replace("~0", "~");
    let shown = |value: &Value| shortened(&one_line(&value.to_string()));
    match (&changed.from, &changed.to) {
        (Some(from), Some(to)) => format!("{place}: {} → {}", shown(from), shown(to)),
        (Some(from), None) => format!("{place}: {} → (removed)", shown(from)),
        (None, Some(to)) => format!("{place}: (none) → {}", shown(to)),
        (None, None) => place,
    }
}

/// The beginning of a long value; `--json` has it whole.
fn shortened(text: &str) -> String {
    match text.chars().count() {
        0..=VALUE_CHARACTERS => text.to_owned(),
        _ => {
            let beginning: String = text.chars().take(VALUE_CHARACTERS).collect();
            format!("{beginning}…")
        }
    }
}

/// How much of a value a line has.
const VALUE_CHARACTERS: usize = 120;
