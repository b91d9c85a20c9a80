//! `--filter`: which runs to act on, as `key=value` conditions that all must hold.

use windlass_core::RunStatus;
use windlass_store::RunFilter;

use crate::failure::{Failure, FailureKind};
use crate::moment::{now, since};
use crate::overrides::nearest;

/// Reads the conditions of a filter.
pub fn parse(conditions: &[String]) -> Result<RunFilter, Failure> {
    let mut filter = RunFilter::default();
    for condition in conditions {
        let (key, value) = condition
            .split_once('=')
            .ok_or_else(|| usage(condition, "there is no '='"))?;
        match key {
            "workflow" => filter.workflow = Some(value.into()),
            "status" => filter.statuses.push(status(value)?),
            "since" => filter.since = Some(since(value, now())?),
            _ => match key.strip_prefix("label.") {
                Some(name) if !name.is_empty() => {
                    filter.labels.insert(name.into(), value.into());
                }
                _ => return Err(usage(condition, "there is no such key")),
            },
        }
    }
    Ok(filter)
}

fn status(text: &str) -> Result<RunStatus, Failure> {
    text.parse().map_err(|_| {
        let names = RunStatus::ALL.map(RunStatus::as_str);
        let message = format!("'{text}' is not the status of a run");
        let hint = nearest(text, names.into_iter())
            .unwrap_or_else(|| format!("it is one of {}", names.join(", ")));
        Failure::new(FailureKind::Usage, message).hint(hint)
    })
}

fn usage(condition: &str, what: &str) -> Failure {
    Failure::new(FailureKind::Usage, format!("--filter {condition}: {what}"))
        .hint("workflow=ID, status=STATUS, label.KEY=VALUE or since=TIME")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_named() {
        let conditions = ["workflow=a", "status=failed", "label.team=x"].map(str::to_owned);
        let filter = parse(&conditions).expect("a filter");
        assert_eq!(filter.workflow.as_deref(), Some("a"));
        assert_eq!(filter.statuses, [RunStatus::Failed]);
        assert!(parse(&["stat=x".to_owned()]).is_err());
        let failure = parse(&["status=Faild".to_owned()]).expect_err("no status");
        assert_eq!(failure.hint.as_deref(), Some("did you mean 'Failed'?"));
    }
}
