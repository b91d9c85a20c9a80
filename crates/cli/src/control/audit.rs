//! Who changed what through the process that holds the data directory.

use serde_json::json;
use windlass_service::moment::now;
use windlass_store::AuditEntry;

use super::protocol::{Answer, Request};
use crate::act;

/// What a request changes, if it changes anything.
pub(super) fn entry(request: &Request) -> Option<AuditEntry> {
    let (what, target, detail) = match request {
        Request::Ping | Request::Watch { .. } => return None,
        Request::Start(start) => (
            "executions.start".to_owned(),
            String::new(),
            json!({ "requestId": start.request_id }),
        ),
        Request::Fork(asked) => (
            "executions.fork".to_owned(),
            asked.origin.to_string(),
            json!({ "from": asked.from }),
        ),
        Request::Act {
            run, deed, reason, ..
        } => (
            format!("executions.{}", deed.name()),
            run.to_string(),
            json!({ "deed": deed, "reason": reason }),
        ),
        Request::Publish { .. } => ("workflows.publish".to_owned(), String::new(), json!({})),
        Request::SetEnabled { workflow, enabled } => {
            let what = match enabled {
                true => "workflows.enable",
                false => "workflows.disable",
            };
            (what.to_owned(), workflow.clone(), json!({}))
        }
        Request::Rebuild => ("rebuild".to_owned(), String::new(), json!({})),
    };
    Some(AuditEntry {
        at: now(),
        tenant: None,
        by: act::hand(None).by.unwrap_or_else(|| "local".into()),
        from: "terminal".into(),
        what: what.into(),
        target: target.into(),
        detail: detail.to_string().into(),
        damage: None,
    })
}

/// The same with what came of it.
pub(super) fn named(mut entry: AuditEntry, answer: &Answer) -> AuditEntry {
    match answer {
        Answer::Started { run, .. } if entry.target.is_empty() => {
            entry.target = run.to_string().into();
        }
        Answer::Started { run, .. } => {
            entry.detail = json!({ "executionId": run }).to_string().into();
        }
        Answer::Published { version, created } => {
            entry.detail = json!({ "version": version, "created": created })
                .to_string()
                .into();
        }
        _ => {}
    }
    entry
}
