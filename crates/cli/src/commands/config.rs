//! `windlass config`: the settings in force, and where each comes from.

use serde_json::{Map, json};

use crate::config::{Config, Setting};
use crate::exit::{Exit, Failure};
use crate::session::Settings;

/// Prints the settings.
pub(crate) fn run(settings: &Settings, config: &Config) -> Result<Exit, Failure> {
    let output = settings.output;
    if output.json {
        let mut object = Map::new();
        for setting in config.settings() {
            let origin = setting.origin.to_string();
            let value = json!({ "value": shown(setting), "from": origin });
            object.insert(setting.key.to_owned(), value);
        }
        output.json(&object)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = config
        .settings()
        .iter()
        .map(|setting| (setting, shown(setting).unwrap_or_else(|| "-".to_owned())))
        .collect();
    let widest = rows.iter().map(|(_, value)| value.chars().count()).max();
    let widest = widest.unwrap_or(0);
    for (setting, value) in rows {
        let origin = &setting.origin;
        output.data(&format!("{:<13} {value:<widest$}  {origin}", setting.key))?;
    }
    Ok(Exit::Done)
}

/// The value as it may be seen.
fn shown(setting: &Setting) -> Option<String> {
    match setting.key {
        "token" => setting.value.as_ref().map(|_| "(set)".to_owned()),
        _ => setting.value.clone(),
    }
}
