//! `monday.create-item`: makes an item on a board.
//!
//! Monday offers no idempotency. If the board has a text column called "Windlass key", the
//! item carries its marker there. Otherwise an item counts as an earlier attempt's if it has
//! the name, was made since the run was requested, and belongs to no other node.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use windlass_engine::{Action, ActionError, Context, Reply};

use super::api::{self, Api, Id, NOT_UNDERSTOOD};
use super::board::{Board, Column, Item, column};
use super::filter::missing;
use super::values::column_value;
use crate::Options;
use crate::connector::{Claims, Marker, Service, earliest_ms};

/// The column that holds the marker, where the board has it.
const MARKER_COLUMN: &str = "Windlass key";

/// How much older than its run an item may seem: Monday's times are whole seconds by another
/// clock. Without a marker this decides, so it is small.
const SKEW_MS: u64 = 10_000;

/// How many locks for names there are; two names that share one take turns.
const NAMES: usize = 64;

/// Monday refuses longer names.
const MAX_NAME_CHARACTERS: usize = 255;

/// Makes an item.
#[derive(Clone, Debug)]
pub struct CreateItem {
    service: Service,
    /// Items that attempts of this process have claimed.
    claims: Arc<Claims>,
    /// Held from the search until the item is made, by board and name: of two attempts with
    /// the same name, one must not see the other's item before its maker has claimed it.
    names: Arc<[Mutex<()>; NAMES]>,
}

/// What to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "boardId": "1234567890", "name": "Apollo",
    "columns": { "Status": "Approved", "Due": "2026-01-31" } }))]
pub struct Parameters {
    /// The board's id.
    board_id: Id,
    /// The id of the group it is put into; the board's first without it.
    #[serde(default)]
    group_id: Option<String>,
    /// The item's name, at most 255 characters.
    name: String,
    /// Values by the column's title or id: plain ones, or an object in Monday's own form.
    #[serde(default)]
    columns: BTreeMap<String, Value>,
    /// The name of the secret with the token, instead of `MONDAY_TOKEN`.
    #[serde(default)]
    credentials: Option<String>,
}

/// What was made.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(example = json!({ "id": "456", "name": "Apollo" }))]
pub struct Output {
    /// The item's id.
    id: String,
    /// Its name.
    name: String,
}

impl CreateItem {
    /// Makes items in the Monday that the options name.
    pub fn new(options: &Options) -> Self {
        Self {
            service: api::service(options),
            claims: Arc::default(),
            names: Arc::new(std::array::from_fn(|_| Mutex::default())),
        }
    }
}

impl Action for CreateItem {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "monday.create-item"
    }

    fn description(&self) -> &str {
        "Makes an item on a Monday board."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        check(&parameters)?;
        let marker = Marker::of(&context);
        let id = match marker.made(&context, "monday", "item").await? {
            Some(id) => id,
            None => self.make(&context, &parameters, &marker).await?,
        };
        let links = marker.links("monday", "item", &id, None);
        let output = Output {
            id,
            name: parameters.name,
        };
        Ok(links
            .into_iter()
            .fold(Reply::new(output), Reply::with_resource))
    }
}

fn check(parameters: &Parameters) -> Result<(), ActionError> {
    let characters = parameters.name.chars().count();
    if characters == 0 {
        let message = "an item needs a name; 'name' is empty";
        return Err(ActionError::failed("PARAMETERS_INVALID", message));
    }
    if characters > MAX_NAME_CHARACTERS {
        let message =
            format!("the name has {characters} characters; Monday takes {MAX_NAME_CHARACTERS}");
        return Err(ActionError::failed("MONDAY_TOO_LARGE", message));
    }
    Ok(())
}

impl CreateItem {
    /// Finds what an earlier attempt made, or makes it.
    async fn make(
        &self,
        context: &Context,
        parameters: &Parameters,
        marker: &Marker,
    ) -> Result<String, ActionError> {
        let api = Api::new(&self.service, context, parameters.credentials.as_deref()).await?;
        let board_id = parameters.board_id.to_string();
        let name = json!({ "column_id": "name", "compare_value": [parameters.name],
            "operator": "any_of" });
        let filter = json!({ "rules": [name], "operator": "and" });
        let _alone = self.name(&board_id, &parameters.name).lock().await;
        let board = Board::read(&api, &board_id, Some(filter)).await?;
        let columns = board.columns.clone();
        let key = column(&columns, MARKER_COLUMN).filter(|column| column.kind == "text");
        let named = |item: &Item| item.name == parameters.name;
        for item in board.items(&api, named, usize::MAX).await? {
            if self.is_ours(context, &item, key, marker).await? {
                return Ok(item.id);
            }
        }
        let mut values = column_values(&columns, &parameters.columns)?;
        if let Some(key) = key {
            values.insert(key.id.clone(), json!(marker.id));
        }
        let id = create(&api, parameters, &values).await?;
        self.claims.claim(&id, marker);
        Ok(id)
    }

    fn name(&self, board: &str, name: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        (board, name).hash(&mut hasher);
        &self.names[usize::try_from(hasher.finish() % NAMES as u64).unwrap_or(0)]
    }

    /// Whether an item of the name is what an earlier attempt of this node made.
    async fn is_ours(
        &self,
        context: &Context,
        item: &Item,
        key: Option<&Column>,
        marker: &Marker,
    ) -> Result<bool, ActionError> {
        if let Some(key) = key {
            return Ok(item.text(&key.id) == Some(&marker.id));
        }
        let earliest = earliest_ms(context, SKEW_MS);
        let is_new = item.created_at.as_deref().is_none_or(|at| {
            let moment = crate::connector::moment_ms(at);
            moment.is_none_or(|moment| moment >= earliest)
        });
        let linked = context.resource("monday", "item", &item.id).await;
        let linked = linked.map_err(|error| {
            let message = format!("the resource links cannot be read: {error}");
            ActionError::retriable("STORE_UNAVAILABLE", message)
        })?;
        Ok(is_new && linked.is_none() && self.claims.claim(&item.id, marker))
    }
}

fn column_values(
    columns: &[Column],
    given: &BTreeMap<String, Value>,
) -> Result<Map<String, Value>, ActionError> {
    let mut values = Map::new();
    for (name, value) in given {
        let column = column(columns, name).ok_or_else(|| missing(name, columns))?;
        values.insert(column.id.clone(), column_value(column, value));
    }
    Ok(values)
}

async fn create(
    api: &Api<'_>,
    parameters: &Parameters,
    values: &Map<String, Value>,
) -> Result<String, ActionError> {
    let query = "mutation ($board: ID!, $group: String, $name: String!, $values: JSON) { \
        create_item(board_id: $board, group_id: $group, item_name: $name, \
        column_values: $values) { id name } }";
    let variables = json!({
        "board": parameters.board_id.to_string(),
        "group": parameters.group_id,
        "name": parameters.name,
        // Monday's JSON is a text that holds JSON.
        "values": Value::Object(values.clone()).to_string(),
    });
    let (data, answer) = api.ask(query, variables).await?;
    let id = match data.pointer("/create_item/id") {
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    id.ok_or_else(|| answer.error("Monday", NOT_UNDERSTOOD))
}
