//! `monday.get-items`: the items of a board that pass a filter, to the last page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_engine::{Action, ActionError, Context, Reply};

use super::api::{self, Api, Id};
use super::board::Board;
use super::filter::Filter;
use crate::Options;
use crate::connector::Service;

/// Reads the items of a board.
#[derive(Clone, Debug)]
pub struct GetItems {
    service: Service,
}

/// Which items.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({ "boardId": "1234567890", "filter": { "rules": [
    { "column": "Status", "operator": "eq", "value": "In Progress" } ] } }))]
pub struct Parameters {
    /// The board's id.
    board_id: Id,
    /// Which items are wanted; all without it.
    #[serde(default)]
    filter: Filter,
    /// How many items at most; all without it.
    #[serde(default)]
    limit: Option<usize>,
    /// The name of the secret with the token, instead of `MONDAY_TOKEN`.
    #[serde(default)]
    credentials: Option<String>,
}

/// The items.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(example = json!({ "items": [{ "id": "456", "Name": "Apollo", "Status": "Approved" }] }))]
pub struct Output {
    /// Each with `id`, `Name`, `Group`, and the text of every column by its title.
    items: Vec<Value>,
}

impl GetItems {
    /// Reads from the Monday that the options name.
    pub fn new(options: &Options) -> Self {
        Self {
            service: api::service(options),
        }
    }
}

impl Action for GetItems {
    type Parameters = Parameters;
    type Output = Output;

    fn name(&self) -> &str {
        "monday.get-items"
    }

    fn description(&self) -> &str {
        "Reads the items of a Monday board that pass a filter, to the last page."
    }

    async fn run(
        &self,
        context: Context,
        parameters: Parameters,
    ) -> Result<Reply<Output>, ActionError> {
        let api = Api::new(&self.service, &context, parameters.credentials.as_deref()).await?;
        let board = parameters.board_id.to_string();
        let enough = parameters.limit.unwrap_or(usize::MAX);
        let filter = &parameters.filter;
        let ids = filter.ids().map(|ids| json!({ "ids": ids }));
        let by_ids = ids.is_some();
        let mut read = Board::read(&api, &board, ids).await?;
        if by_ids && !filter.matcher(&read.columns)?.is_by_id() {
            // The board has a column of this title that is not the item's own id.
            read = Board::read(&api, &board, None).await?;
        } else if read.has_more() && !by_ids {
            // A board of one page is filtered here; for a large one, Monday applies the rules
            // that it can.
            if let Some(pushed) = filter.matcher(&read.columns)?.pushed() {
                read = Board::read(&api, &board, Some(pushed)).await?;
            }
        }
        let columns = read.columns.clone();
        let matcher = filter.matcher(&columns)?;
        let items = read
            .items(&api, |item| matcher.accepts(item), enough)
            .await?;
        let items = items.iter().map(|item| item.output(&columns)).collect();
        Ok(Reply::new(Output { items }))
    }
}
