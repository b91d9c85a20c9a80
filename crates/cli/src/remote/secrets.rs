//! Secrets over HTTP: names come out, values only go in.

use serde::Deserialize;
use serde_json::json;
use windlass_core::Millis;
use windlass_store::{Error, Pending, SecretRow, Secrets, TenantFilter};

use super::acting::{read, written};
use super::question::Question;
use super::refusals::{refusal, refused};
use super::server::Server;
use super::shapes::{Page, moment};
use super::store::RemoteStore;
use crate::exit::Failure;

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

    fn secret(&self, _: Option<&str>, _: &str) -> Result<Option<Vec<u8>>, Error> {
        Err(refusal())
    }

    fn secrets(&self, tenant: &TenantFilter) -> Result<Vec<SecretRow>, Error> {
        let url = self.server.url(&["secrets"]);
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
        rows.retain(|row| tenant.matches(row.tenant.as_deref()));
        Ok(rows)
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
