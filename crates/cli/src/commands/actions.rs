//! `windlass actions`: what a node can call, and with what.

use schemars::Schema;
use serde_json::{Value, json};
use windlass_core::printable;
use windlass_engine::action::Description;
use windlass_engine::{DeclaredAction, declared_actions};
use windlass_service::moment::now;
use windlass_store::Wait as _;

use crate::args::Actions;
use crate::exit::{Exit, Failure};
use crate::paint::{BOLD, DIM, paint};
use crate::registry::registry;
use crate::remote;
use crate::session::{Session, Settings};
use crate::table::{Cell, Table};

/// Lists the actions, or describes one.
pub(crate) fn run(settings: &Settings, arguments: &Actions) -> Result<Exit, Failure> {
    let mut actions = match &settings.server {
        Some(server) => remote::actions(server)?,
        None => [registry().describe(), declared(settings)?].concat(),
    };
    if let Some(name) = &arguments.name {
        actions.retain(|action| action.name == *name);
        if actions.is_empty() {
            let message = format!("there is no action '{name}'");
            return Err(Failure::new(Exit::NotFound, "ACTION_NOT_FOUND", message)
                .hint("`windlass actions` lists them"));
        }
    }
    if settings.output.json {
        let items: Vec<Value> = actions.iter().map(to_json).collect();
        settings.output.json(&match &arguments.name {
            Some(_) => items.into_iter().next().unwrap_or_default(),
            None => Value::Array(items),
        })?;
    } else if arguments.name.is_some() {
        for action in &actions {
            settings.output.data(&describe(settings, action))?;
        }
    } else {
        let mut table = Table::new(&["ACTION", "WHAT IT DOES"]);
        for action in &actions {
            table.row([
                action.name.as_str().into(),
                action.description.as_str().into(),
            ]);
        }
        settings.output.data(&table.render(&settings.output))?;
        settings
            .output
            .say_lines("\n`windlass actions NAME` shows the parameters of one");
    }
    Ok(Exit::Done)
}

/// The action types that workers have declared, where definitions are checked; none if they
/// cannot be read, because the check is only the better for them.
pub(crate) fn declared_types(settings: &Settings) -> Vec<DeclaredAction> {
    let Some(server) = &settings.server else {
        return stored(settings).unwrap_or_default();
    };
    let own = registry();
    let listed = remote::actions(server).unwrap_or_default();
    let listed = listed.iter().filter(|it| !own.contains(&it.name));
    let declared = listed.map(|it| {
        let schema = it.parameters.as_value();
        // Without a schema of its own, a type is listed as one that takes any value.
        let schema = schema.is_object().then(|| schema.to_string().into());
        DeclaredAction::listed(&it.name, schema, now())
    });
    declared.collect()
}

/// What workers have declared in the data directory, if there is one.
fn stored(settings: &Settings) -> Result<Vec<DeclaredAction>, Failure> {
    if !settings.data_dir.exists() {
        return Ok(Vec::new());
    }
    let session = Session::queries(settings.clone())?;
    Ok(declared_actions(&*session.store, None, now()).wait()?)
}

fn declared(settings: &Settings) -> Result<Vec<Description>, Failure> {
    let declared = stored(settings)?;
    let describe = |action: &DeclaredAction| Description {
        name: action.action.to_string(),
        description: action.description.as_deref().unwrap_or_default().to_owned(),
        parameters: schema(action.parameters.as_deref()),
        output: schema(None),
    };
    Ok(declared.iter().map(describe).collect())
}

/// A schema as it is stored; without one, that of any value.
fn schema(text: Option<&str>) -> Schema {
    let value = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let schema = value.and_then(|value| Schema::try_from(value).ok());
    schema.unwrap_or_else(|| Schema::from(true))
}

fn to_json(action: &Description) -> Value {
    json!({
        "name": action.name,
        "description": action.description,
        "parameters": action.parameters,
        "output": action.output,
    })
}

fn describe(settings: &Settings, action: &Description) -> String {
    let color = settings.output.color;
    let mut text = format!(
        "{}\n{}\n",
        paint(color, BOLD, &action.name),
        printable::one_line(&action.description)
    );
    for (title, schema) in [
        ("parameters", &action.parameters),
        ("output", &action.output),
    ] {
        let schema = schema.as_value();
        let fields = fields(schema);
        text.push_str(&format!("\n{}\n", paint(color, DIM, title)));
        if fields.is_empty() {
            text.push_str(&format!("  {}\n", kind(schema)));
            continue;
        }
        let mut table = Table::new(&["NAME", "TYPE", "", "MEANING"]);
        for field in fields {
            table.row(field);
        }
        for line in table.render(&settings.output).lines().skip(1) {
            text.push_str(&format!("  {line}\n"));
        }
        if let Some(example) = schema.pointer("/examples/0") {
            let title = format!("example of {title}");
            text.push_str(&format!("\n{}\n", paint(color, DIM, &title)));
            let example = serde_json::to_string_pretty(example).unwrap_or_default();
            for line in example.lines() {
                text.push_str(&format!("  {line}\n"));
            }
        }
    }
    text
}

/// The properties of an object's schema, as rows.
fn fields(schema: &Value) -> Vec<[Cell; 4]> {
    let required = |name: &str| {
        let list = schema.get("required").and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|entry| entry == name))
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let meaning = property.get("description").and_then(Value::as_str);
            // A comment of several lines is one sentence.
            let meaning = meaning.map(|text| text.lines().collect::<Vec<_>>().join(" "));
            [
                name.as_str().into(),
                Cell::styled(kind(property), DIM),
                if required(name) { "required" } else { "" }.into(),
                meaning.unwrap_or_default().into(),
            ]
        })
        .collect()
}

/// A schema's type in a word or two.
fn kind(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            names
                .filter(|name| *name != "null")
                .collect::<Vec<_>>()
                .join(" or ")
        }
        _ => "any value".to_owned(),
    }
}
