//! Hooks over HTTP: the server shows the signing secret once.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::{Digest, Millis};
use windlass_store::{Error, Hook, Hooks, Pending, TenantFilter};

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
    id: Box<str>,
    tenant_id: Option<Box<str>>,
    workflow_id: Box<str>,
    created_at: String,
    damage: Option<Box<str>>,
}

impl Shape {
    /// Without what it is called and signed with.
    fn hook(self) -> Option<Hook> {
        Some(Hook {
            id: self.id,
            tenant: self.tenant_id,
            workflow: self.workflow_id,
            token: Digest::of(b""),
            secret: "".into(),
            created_at: match &self.damage {
                Some(_) => Millis(0),
                None => moment(&self.created_at)?,
            },
            damage: self.damage,
        })
    }
}

impl Hooks for RemoteStore {
    fn put_hook(&self, _: Hook, _: usize) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn hook_of(&self, _: &Digest) -> Pending<'_, Result<Option<Hook>, Error>> {
        refused()
    }

    /// Each page must follow one that was read before.
    fn hooks(
        &self,
        tenant: &TenantFilter,
        after: Option<(&str, Option<&str>)>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<Hook>, Error>> {
        answer(|| {
            let cursor = match after {
                None => None,
                Some((id, owner)) => {
                    let key = (id.into(), owner.map(Into::into));
                    match self.memory().hooks.get(&key) {
                        Some(cursor) => Some(cursor.clone()),
                        None => return Ok(Vec::new()),
                    }
                }
            };
            let mut url = self.server.url(&["hooks"]);
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
            let found: Option<Vec<Hook>> = page.items.into_iter().map(Shape::hook).collect();
            let mut found = found.ok_or_else(|| self.foreign("hooks that cannot be read"))?;
            if let (Some(last), Some(next)) = (found.last(), page.next) {
                let key = (last.id.clone(), last.tenant.clone());
                self.memory().hooks.insert(key, next);
            }
            found.retain(|hook| tenant.matches(hook.tenant.as_deref()));
            Ok(found)
        })
    }

    fn remove_hook(&self, _: Option<&str>, _: &str) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

/// Lets the server make a hook; returns its answer, the only one with the signing secret.
pub(crate) fn set_hook(server: &Server, id: &str, workflow: &str) -> Result<Value, Failure> {
    let body = json!({ "id": id, "workflowId": workflow });
    let question = Question::post(server.url(&["hooks"]), written(&body)?);
    read(server, &server.ask(question)?)
}

/// Lets the server remove a hook.
pub(crate) fn remove_hook(server: &Server, id: &str) -> Result<(), Failure> {
    let question = Question {
        method: reqwest::Method::DELETE,
        ..Question::get(server.url(&["hooks", id]))
    };
    server.ask(question).map(|_| ())
}
