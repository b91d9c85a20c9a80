//! Pools over HTTP.

use serde::Deserialize;
use serde_json::{Value, json};

use super::acting::{read, written};
use super::question::Question;
use super::server::Server;
use super::shapes::Page;
use crate::exit::Failure;

/// Every pool that the server shows, for programs.
pub(crate) fn pools(server: &Server) -> Result<Vec<Value>, Failure> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut url = server.url(&["pools"]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("limit", "1000");
            if let Some(cursor) = &cursor {
                query.append_pair("cursor", cursor);
            }
        }
        let page: Page<Value> = read(server, &server.ask(Question::get(url))?)?;
        items.extend(page.items);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(items),
        }
    }
}

/// Makes a pool or changes its size; says whether there was none of that name.
pub(crate) fn set_pool(server: &Server, name: &str, slots: u32) -> Result<bool, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        created: bool,
    }
    let body = json!({ "name": name, "slots": slots });
    let question = Question {
        method: reqwest::Method::PUT,
        ..Question::post(server.url(&["pools"]), written(&body)?)
    };
    let answer: Answer = read(server, &server.ask(question)?)?;
    Ok(answer.created)
}

/// Lets the server remove a pool.
pub(crate) fn remove_pool(server: &Server, name: &str) -> Result<(), Failure> {
    let question = Question {
        method: reqwest::Method::DELETE,
        ..Question::get(server.url(&["pools", name]))
    };
    server.ask(question).map(|_| ())
}
