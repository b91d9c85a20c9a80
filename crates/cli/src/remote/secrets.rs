//! Secrets over HTTP: names come out, values only go in.

use serde::Deserialize;
use serde_json::json;
use windlass_core::Millis;
use windlass_service::secrets::Rotated;
use windlass_store::{Error, Pending, SecretRow, Secrets, TenantFilter};

use super::acting::{read, written};
use super::question::Question;
use super::refusals::refused;
use super::server::Server;
use super::shapes::{Page, moment};
use super::store::{RemoteStore, answer};
use crate::exit::Failure;

/// The longest page that a server gives.
const PAGE: usize = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    name: Box<str>,
    tenant_id: Option<Box<str>>,
    updated_at: String,
    damage: Option<Box<str>>,
}

impl Secrets for RemoteStore {
    fn put_secret(
        &self,
        _: Option<&str>,
        _: &str,
        _: Vec<u8>,
        _: Millis,
    ) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn secret(&self, _: Option<&str>, _: &str) -> Pending<'_, Result<Option<Vec<u8>>, Error>> {
        refused()
    }

    /// Each page must follow one that was read before.
    fn secrets(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<SecretRow>, Error>> {
        answer(|| {
            let cursor = match after {
                None => None,
                Some((name, owner)) => {
                    let key = (name.into(), owner.map(Into::into));
                    match self.memory().secrets.get(&key) {
                        Some(cursor) => Some(cursor.clone()),
                        None => return Ok(Vec::new()),
                    }
                }
            };
            let mut url = self.server.url(&["secrets"]);
            {
                let mut query = url.query_pairs_mut();
                query.append_pair("limit", &limit.clamp(1, PAGE).to_string());
                if let Some(cursor) = &cursor {
                    query.append_pair("cursor", cursor);
                }
            }
            let Some(page) = self.json::<Page<Shape>>(url)? else {
                return Ok(Vec::new());
            };
            let rows = page.items.into_iter().map(|shape| {
                Some(SecretRow {
                    tenant: shape.tenant_id,
                    name: shape.name,
                    updated_at: moment(&shape.updated_at)?,
                    damage: shape.damage,
                })
            });
            let rows: Option<Vec<SecretRow>> = rows.collect();
            let mut rows = rows.ok_or_else(|| self.foreign("secrets that cannot be read"))?;
            if let (Some(last), Some(next)) = (rows.last(), page.next) {
                let key = (last.name.clone(), last.tenant.clone());
                self.memory().secrets.insert(key, next);
            }
            rows.retain(|row| tenant.matches(row.tenant.as_deref()));
            Ok(rows)
        })
    }

    fn remove_secret(&self, _: Option<&str>, _: &str) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

/// Sets a secret; says whether there was none of that name.
pub(crate) fn set_secret(server: &Server, name: &str, value: &str) -> Result<bool, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        created: bool,
    }
    let body = json!({ "name": name, "value": value });
    let question = Question::post(server.url(&["secrets"]), written(&body)?);
    let answer: Answer = read(server, &server.ask(question)?)?;
    Ok(answer.created)
}

/// Lets the server forget a secret.
pub(crate) fn remove_secret(server: &Server, name: &str) -> Result<(), Failure> {
    let question = Question {
        method: reqwest::Method::DELETE,
        ..Question::get(server.url(&["secrets", name]))
    };
    server.ask(question).map(|_| ())
}

/// Lets the server seal everything with a new key.
pub(crate) fn rotate_key(server: &Server) -> Result<Rotated, Failure> {
    #[derive(Deserialize)]
    struct Answer {
        secrets: usize,
        hooks: usize,
    }
    let url = server.url(&["secret-key", "rotate"]);
    let question = Question {
        method: reqwest::Method::POST,
        ..Question::get(url)
    };
    let answer: Answer = read(server, &server.ask(question)?)?;
    Ok(Rotated {
        secrets: answer.secrets,
        hooks: answer.hooks,
    })
}
