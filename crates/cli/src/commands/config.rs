//! `windlass config`: the settings in force, and where each comes from.

use serde_json::{Map, json};

use crate::config::{Config, KEYS, Setting};
use crate::exit::{Exit, Failure};
use crate::paint::DIM;
use crate::session::Settings;
use crate::table::{Cell, Table};

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
    let mut table = Table::new(&["KEY", "VALUE", "FROM", "MEANING"]);
    for (setting, key) in config.settings().iter().zip(KEYS) {
        table.row([
            setting.key.into(),
            shown(setting).unwrap_or_else(|| "-".to_owned()).into(),
            setting.origin.to_string().into(),
            Cell::styled(key.about, DIM),
        ]);
    }
    output.data(&table.render(&output))?;
    Ok(Exit::Done)
}

/// The value as it may be seen.
fn shown(setting: &Setting) -> Option<String> {
    match setting.key {
        "token" | "postgres_url" | "nats_url" => setting.value.as_ref().map(|_| "(set)".to_owned()),
        _ => setting.value.clone(),
    }
}
