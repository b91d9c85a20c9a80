//! Dead letters over HTTP.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::RunId;
use windlass_store::{DeadLetter, DeadLetters, Error, Pending, TenantFilter};

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
struct LetterShape {
    execution_id: RunId,
    workflow_id: Box<str>,
    tenant_id: Option<Box<str>>,
    reason: Box<str>,
    deliveries: u32,
    at: String,
    payload: Value,
    damage: Option<Box<str>>,
}

impl LetterShape {
    fn letter(self) -> Option<DeadLetter> {
        Some(DeadLetter {
            run: self.execution_id,
            tenant: self.tenant_id,
            workflow: self.workflow_id,
            reason: self.reason,
            payload: self.payload.to_string().into_bytes(),
            deliveries: self.deliveries,
            at: moment(&self.at)?,
            damage: self.damage,
        })
    }
}

impl RemoteStore {
    fn letters(&self, before: Option<RunId>, limit: usize) -> Result<Vec<DeadLetter>, Error> {
        let cursor = match before {
            None => None,
            // The page before said where the next begins; the last page has no next.
            Some(before) => match self.memory().letters.get(&before) {
                Some(cursor) => Some(cursor.clone()),
                None => return Ok(Vec::new()),
            },
        };
        let mut url = self.server.url(&["dead-letters"]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("limit", &limit.clamp(1, PAGE).to_string());
            if let Some(cursor) = &cursor {
                query.append_pair("cursor", cursor);
            }
        }
        let Some(page) = self.json::<Page<LetterShape>>(url)? else {
            return Ok(Vec::new());
        };
        let letters = page.items.into_iter().map(LetterShape::letter);
        let letters: Option<Vec<DeadLetter>> = letters.collect();
        let letters = letters.ok_or_else(|| self.foreign("dead letters that cannot be read"))?;
        if let (Some(last), Some(next)) = (letters.last(), page.next) {
            self.memory().letters.insert(last.run, next);
        }
        Ok(letters)
    }
}

impl DeadLetters for RemoteStore {
    fn add_dead_letter(&self, _: DeadLetter) -> Pending<'_, Result<(), Error>> {
        refused()
    }

    /// Each page must follow one that was read before.
    fn dead_letters(
        &self,
        tenant: &TenantFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Pending<'_, Result<Vec<DeadLetter>, Error>> {
        answer(|| {
            let mut letters = self.letters(before, limit)?;
            letters.retain(|letter| tenant.matches(letter.tenant.as_deref()));
            Ok(letters)
        })
    }

    fn dead_letter(&self, run: RunId) -> Pending<'_, Result<Option<DeadLetter>, Error>> {
        answer(|| {
            let mut before = None;
            loop {
                let page = self.letters(before, PAGE)?;
                let Some(last) = page.last() else {
                    return Ok(None);
                };
                before = Some(last.run);
                if let Some(found) = page.into_iter().find(|letter| letter.run == run) {
                    return Ok(Some(found));
                }
            }
        })
    }

    fn requeue(&self, _: RunId) -> Pending<'_, Result<bool, Error>> {
        refused()
    }

    fn purge(&self, _: RunId) -> Pending<'_, Result<bool, Error>> {
        refused()
    }
}

/// Lets dead letters be tried again, or forgets them: those of these runs, or all. Gives
/// the runs whose they were.
pub(crate) fn letters(
    server: &Server,
    runs: &[RunId],
    all: bool,
    requeue: bool,
) -> Result<Vec<String>, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape {
        execution_ids: Vec<String>,
    }
    let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
    let mut url = server.url(&["dead-letters"]);
    let question = match requeue {
        true => {
            let body = json!({ "executionId": runs, "all": all });
            Question::post(url, written(&body)?)
        }
        false => {
            {
                let mut query = url.query_pairs_mut();
                query.extend_pairs(runs.iter().map(|run| ("executionId", run)));
                query.append_pair("all", if all { "true" } else { "false" });
            }
            Question {
                method: reqwest::Method::DELETE,
                ..Question::get(url)
            }
        }
    };
    let answer = server.ask(question)?;
    Ok(read::<Shape>(server, &answer)?.execution_ids)
}
