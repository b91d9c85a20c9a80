//! A Monday with one board.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{ServiceReply, ServiceRequest, StubServer, ok};

pub const TOKEN: &str = "monday-token-1";
pub const BOARD: &str = "123";

/// The server, and the items of its board: id, name and texts by column id.
pub struct Monday {
    pub server: StubServer,
    board: Arc<Mutex<Board>>,
}

struct Board {
    columns: Value,
    items: Vec<Value>,
    page: usize,
}

impl Monday {
    pub fn start() -> Self {
        let columns = json!([
            { "id": "name", "title": "Name", "type": "name" },
            { "id": "status", "title": "Status", "type": "status" },
            { "id": "owner", "title": "Owner", "type": "text" },
            { "id": "pulse_id", "title": "Item ID", "type": "item_id" },
        ]);
        Self::with(columns)
    }

    /// A board that has room for markers.
    pub fn with_marker_column() -> Self {
        Self::with(json!([
            { "id": "name", "title": "Name", "type": "name" },
            { "id": "status", "title": "Status", "type": "status" },
            { "id": "key", "title": "Windlass key", "type": "text" },
        ]))
    }

    /// A board with these columns.
    pub fn with(columns: Value) -> Self {
        let board = Arc::new(Mutex::new(Board {
            columns,
            items: Vec::new(),
            page: 2,
        }));
        let shared = Arc::clone(&board);
        let server = StubServer::start(move |request| handle(request, &shared));
        Self { server, board }
    }

    /// Puts an item on the board, as made long ago.
    pub fn put(&self, id: &str, name: &str, status: &str, owner: &str) {
        let item = json!({
            "id": id, "name": name, "created_at": "2020-01-01T00:00:00Z",
            "group": { "id": "topics", "title": "Group Title" },
            "column_values": [
                { "id": "status", "text": status, "type": "status" },
                { "id": "owner", "text": owner, "type": "text" },
                { "id": "pulse_id", "text": id, "type": "item_id" },
            ],
        });
        self.board.lock().expect("the board").items.push(item);
    }

    pub fn items(&self) -> Vec<Value> {
        self.board.lock().expect("the board").items.clone()
    }
}

fn error(message: &str, code: &str) -> ServiceReply {
    ok(json!({ "data": {}, "errors": [{ "message": message, "extensions": { "code": code } }] }))
}

fn handle(request: &ServiceRequest, board: &Mutex<Board>) -> ServiceReply {
    if request.header("authorization") != TOKEN {
        return ServiceReply::Json(401, Vec::new(), json!({ "errors": ["Not Authenticated"] }));
    }
    let body = request.json();
    let query = body["query"].as_str().unwrap_or_default();
    let variables = &body["variables"];
    let mut board = board.lock().expect("the board");
    if query.contains("create_item(") {
        return create(variables, &mut board);
    }
    if query.contains("next_items_page(") {
        let cursor = variables["cursor"].as_str().unwrap_or_default();
        let page = page(&board, cursor);
        return ok(json!({ "data": { "next_items_page": page } }));
    }
    if variables["board"] != json!([BOARD]) {
        return ok(json!({ "data": { "boards": [] } }));
    }
    let ids = variables["filter"]["ids"].clone();
    let rules = variables["filter"]["rules"].clone();
    let page = page(
        &board,
        &json!({ "from": 0, "ids": ids, "rules": rules }).to_string(),
    );
    let found = json!({ "id": BOARD, "columns": board.columns, "items_page": page });
    ok(json!({ "data": { "boards": [found] } }))
}

/// The page of a cursor, which holds the filter as Monday's does.
fn page(board: &Board, cursor: &str) -> Value {
    let at: Value = serde_json::from_str(cursor).unwrap_or_default();
    let from = usize::try_from(at["from"].as_u64().unwrap_or(0)).unwrap_or(0);
    let fits = |item: &&Value| {
        let by_id = at["ids"]
            .as_array()
            .is_none_or(|ids| ids.contains(&item["id"]));
        let rules = at["rules"].as_array();
        by_id && rules.is_none_or(|rules| rules.iter().all(|rule| passes(item, rule)))
    };
    let items: Vec<&Value> = board.items.iter().filter(fits).collect();
    let next = from + board.page;
    let cursor = (next < items.len())
        .then(|| json!({ "from": next, "ids": at["ids"], "rules": at["rules"] }).to_string());
    let items: Vec<&Value> = items.into_iter().skip(from).take(board.page).collect();
    json!({ "cursor": cursor, "items": items })
}

fn passes(item: &Value, rule: &Value) -> bool {
    let column = &rule["column_id"];
    let text = if column == "name" {
        &item["name"]
    } else {
        let values = item["column_values"].as_array();
        let value = values.and_then(|values| values.iter().find(|value| value["id"] == *column));
        value.map_or(&Value::Null, |value| &value["text"])
    };
    rule["compare_value"]
        .as_array()
        .is_some_and(|values| values.contains(text))
}

fn create(variables: &Value, board: &mut Board) -> ServiceReply {
    if variables["board"] != BOARD {
        return error("invalid board", "InvalidBoardIdException");
    }
    let text = variables["values"].as_str().unwrap_or("{}");
    let values: Value = serde_json::from_str(text).unwrap_or_default();
    if values["status"]["label"] == "Nonsense" {
        return error("no such label", "ColumnValueException");
    }
    let id = (1000 + board.items.len()).to_string();
    let texts = values
        .as_object()
        .into_iter()
        .flatten()
        .map(|(column, value)| {
            let text = value.as_str().or(value["label"].as_str());
            json!({ "id": column, "text": text, "type": "text" })
        });
    let item = json!({
        "id": id, "name": variables["name"], "created_at": "2099-01-01T00:00:00Z",
        "group": { "id": variables["group"], "title": "Group Title" },
        "column_values": texts.collect::<Vec<_>>(),
    });
    board.items.push(item);
    ok(json!({ "data": { "create_item": { "id": id, "name": variables["name"] } } }))
}
