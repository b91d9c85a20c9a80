//! A board: its columns by title, and its items page by page.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_engine::ActionError;

use super::api::{Api, NOT_UNDERSTOOD};
use crate::connector::{Answer, Reason};

/// Items of one page; Monday gives at most 500, and counts them as complexity.
const PAGE_ITEMS: u64 = 200;

/// More pages than any board has: Monday's boards hold at most 100,000 items.
const MOST_PAGES: usize = 1000;

/// What the items of all pages may take; more than an output may have.
const MOST_BYTES: usize = 32 * 1024 * 1024;

const ITEM: &str = "cursor items { id name created_at group { id title } column_values { id text \
    type ... on MirrorValue { display_value } ... on BoardRelationValue { display_value } \
    ... on DependencyValue { display_value } } }";

/// A column of a board.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Column {
    pub(super) id: String,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default, rename = "type")]
    pub(super) kind: String,
}

/// An item as Monday gives it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Item {
    pub(super) id: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) created_at: Option<String>,
    #[serde(default)]
    group: Option<Group>,
    #[serde(default)]
    column_values: Vec<ColumnValue>,
}

#[derive(Clone, Debug, Deserialize)]
struct Group {
    #[serde(default)]
    title: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct ColumnValue {
    id: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    display_value: Option<String>,
}

/// A board's columns, and what is read of its items.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) columns: Vec<Column>,
    items: Vec<Item>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    items: Vec<Item>,
}

impl Board {
    /// Begins to read the items that pass Monday's own filter (`ItemsQuery`), if there is one.
    pub(super) async fn read(
        api: &Api<'_>,
        board: &str,
        filter: Option<Value>,
    ) -> Result<Self, ActionError> {
        let query = format!(
            "query ($board: [ID!], $limit: Int!, $filter: ItemsQuery) {{ boards(ids: $board) {{ \
             id columns {{ id title type }} \
             items_page(limit: $limit, query_params: $filter) {{ {ITEM} }} }} }}"
        );
        let variables = json!({ "board": [board], "limit": PAGE_ITEMS, "filter": filter });
        let (data, answer) = api.ask(&query, variables).await?;
        let found = first_board(&data, &answer, board)?;
        let page = page(found.get("items_page"), &answer)?;
        Ok(Self {
            columns: columns(found, &answer)?,
            items: page.items,
            cursor: page.cursor,
        })
    }

    /// Whether there is another page.
    pub(super) fn has_more(&self) -> bool {
        self.cursor
            .as_ref()
            .is_some_and(|cursor| !cursor.is_empty())
    }

    /// All items that are wanted, to the last page or until there are enough.
    pub(super) async fn items(
        self,
        api: &Api<'_>,
        wanted: impl Fn(&Item) -> bool,
        enough: usize,
    ) -> Result<Vec<Item>, ActionError> {
        let mut found: Vec<Item> = self.items.into_iter().filter(&wanted).collect();
        let mut cursor = self.cursor;
        let (mut pages, mut bytes) = (0, 0);
        while let Some(at) = cursor.filter(|at| !at.is_empty() && found.len() < enough) {
            let query = format!(
                "query ($limit: Int!, $cursor: String!) {{ \
                 next_items_page(limit: $limit, cursor: $cursor) {{ {ITEM} }} }}"
            );
            let variables = json!({ "limit": PAGE_ITEMS, "cursor": at });
            let (data, answer) = api.ask(&query, variables).await?;
            let page = page(data.get("next_items_page"), &answer)?;
            let (before, all) = (found.len(), page.items.len());
            found.extend(page.items.into_iter().filter(&wanted));
            // The share of the answer that is kept: all pages together must fit into memory.
            bytes += answer.body.len() * (found.len() - before) / all.max(1);
            pages += 1;
            if bytes > MOST_BYTES || pages >= MOST_PAGES {
                let message = format!(
                    "the items have more than {MOST_BYTES} bytes or {MOST_PAGES} pages; filter \
                     them, or give 'limit'"
                );
                let reason = Reason::permanent("MONDAY_TOO_LARGE", &message);
                return Err(answer.error("Monday", reason));
            }
            if page.cursor.as_ref() == Some(&at) {
                let message = "a page of items leads to itself";
                let reason = Reason::passing("MONDAY_ANSWER_INVALID", message);
                return Err(answer.error("Monday", reason));
            }
            cursor = page.cursor;
        }
        found.truncate(enough);
        Ok(found)
    }
}

fn first_board<'a>(
    data: &'a Value,
    answer: &Answer,
    board: &str,
) -> Result<&'a Value, ActionError> {
    let Some(boards) = data.get("boards").and_then(Value::as_array) else {
        return Err(answer.error("Monday", NOT_UNDERSTOOD));
    };
    boards.first().ok_or_else(|| {
        let message = format!("there is no board {board}, or the token cannot see it");
        answer.error(
            "Monday",
            Reason::permanent("MONDAY_BOARD_NOT_FOUND", &message),
        )
    })
}

fn columns(board: &Value, answer: &Answer) -> Result<Vec<Column>, ActionError> {
    let columns = board.get("columns").cloned().unwrap_or_else(|| json!([]));
    serde_json::from_value(columns).map_err(|_| answer.error("Monday", NOT_UNDERSTOOD))
}

fn page(page: Option<&Value>, answer: &Answer) -> Result<Page, ActionError> {
    let page = page.cloned().unwrap_or_default();
    serde_json::from_value(page).map_err(|_| answer.error("Monday", NOT_UNDERSTOOD))
}

/// The column of a title or id; titles are compared without their case where none is equal.
pub(super) fn column<'a>(columns: &'a [Column], name: &str) -> Option<&'a Column> {
    let by = |fits: &dyn Fn(&Column) -> bool| columns.iter().find(|column| fits(column));
    by(&|column| column.title == name)
        .or_else(|| by(&|column| column.id == name))
        .or_else(|| by(&|column| column.title.eq_ignore_ascii_case(name)))
}

impl Item {
    /// The text of a column, if it has one.
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        let value = self.column_values.iter().find(|value| value.id == column)?;
        value.text.as_deref().or(value.display_value.as_deref())
    }

    /// The title of the item's group.
    pub(super) fn group(&self) -> Option<&str> {
        self.group.as_ref()?.title.as_deref()
    }

    /// The item for expressions: its id, its name, its group, and each column by title.
    pub(super) fn output(&self, columns: &[Column]) -> Value {
        let mut fields = Map::new();
        fields.insert("id".to_owned(), json!(self.id));
        fields.insert("Name".to_owned(), json!(self.name));
        for column in columns {
            let title = match column.title.as_str() {
                "" => &column.id,
                title if fields.contains_key(title) => &column.id,
                title => title,
            };
            if column.kind != "name" && !fields.contains_key(title) {
                fields.insert(title.to_owned(), json!(self.text(&column.id)));
            }
        }
        if let Some(group) = self.group() {
            fields.entry("Group").or_insert_with(|| json!(group));
        }
        Value::Object(fields)
    }
}
