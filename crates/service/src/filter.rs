//! `--filter`: which runs to act on, as `key=value` conditions that all must hold.

use std::collections::BTreeMap;

use windlass_core::{RunId, RunStatus};

use crate::failure::{Failure, FailureKind};
use crate::moment::{now, since};
use crate::overrides::nearest;
use crate::run_list::RunSelection;

/// What the conditions of a filter are.
const CONDITIONS: &str = "workflow=ID, version=N, status=STATUS, label.KEY=VALUE, since=TIME, \
     error=CODE, parent=RUN, waiting, dead, orphaned or unresolved";

/// Reads the conditions of a filter. Child runs are meant where a condition is about them.
///
/// # Errors
/// A condition is none, or `find_run` finds no run.
pub fn parse(
    conditions: &[String],
    find_run: impl Fn(&str) -> Result<RunId, Failure>,
) -> Result<RunSelection, Failure> {
    let mut selection = RunSelection::default();
    let filter = &mut selection.filter;
    for condition in conditions {
        let (key, value) = match condition.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (condition.as_str(), None),
        };
        let is_wanted = || match value {
            None | Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(usage(condition, "it takes no value")),
        };
        let value = || value.ok_or_else(|| usage(condition, "there is no '='"));
        match key {
            "workflow" => filter.workflow = Some(value()?.into()),
            "version" => {
                let number = value()?.parse();
                let wrong = |_| usage(condition, "it is not the number of a version");
                filter.version = Some(number.map_err(wrong)?);
            }
            "status" => filter.statuses.push(status(value()?)?),
            "since" => filter.since = Some(since(value()?, now())?),
            "error" => filter.error = Some(value()?.into()),
            "parent" => filter.parent = Some(find_run(value()?)?),
            "waiting" => filter.waiting = is_wanted()?,
            "dead" => filter.dead = is_wanted()?.then_some(true),
            "orphaned" => selection.orphaned = is_wanted()?,
            "unresolved" => filter.unforked = is_wanted()?,
            _ => match key.strip_prefix("label.") {
                Some(name) if !name.is_empty() => {
                    add_label(&mut filter.labels, name, value()?)?;
                }
                _ => return Err(usage(condition, "there is no such key")),
            },
        }
    }
    selection.check()?;
    selection.fold_children();
    Ok(selection)
}

/// Labels as `key=value`.
///
/// # Errors
/// One is no label, or a key has two values.
pub fn labels(texts: &[String]) -> Result<BTreeMap<Box<str>, Box<str>>, Failure> {
    let mut labels = BTreeMap::new();
    for text in texts {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => add_label(&mut labels, key, value)?,
            _ => {
                let message = format!("'{text}' is not a label");
                let failure = Failure::new(FailureKind::LabelInvalid, message);
                return Err(failure.hint("write key=value"));
            }
        }
    }
    Ok(labels)
}

/// A run has one value for each key: two of them are a mistake, and the last one would stand for
/// more runs than were meant.
fn add_label(
    labels: &mut BTreeMap<Box<str>, Box<str>>,
    key: &str,
    value: &str,
) -> Result<(), Failure> {
    match labels.insert(key.into(), value.into()) {
        Some(other) if *other != *value => {
            let message = format!("the label '{key}' is given twice: '{other}' and '{value}'");
            Err(Failure::new(FailureKind::LabelInvalid, message).hint("give each key once"))
        }
        _ => Ok(()),
    }
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
    Failure::new(FailureKind::Usage, format!("--filter {condition}: {what}")).hint(CONDITIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(conditions: &[&str]) -> Result<RunSelection, Failure> {
        let conditions: Vec<String> = conditions.iter().map(|&it| it.to_owned()).collect();
        let none = |text: &str| Err(Failure::new(FailureKind::RunNotFound, text));
        parse(&conditions, none)
    }

    #[test]
    fn conditions_are_named() {
        let filter = parsed(&["workflow=a", "status=failed", "label.team=x"]);
        let filter = filter.expect("a filter").filter;
        assert_eq!(filter.workflow.as_deref(), Some("a"));
        assert_eq!(filter.statuses, [RunStatus::Failed]);
        assert!(!filter.roots);
        assert!(parsed(&["stat=x"]).is_err());
        let failure = parsed(&["status=Faild"]).expect_err("no status");
        assert_eq!(failure.hint.as_deref(), Some("did you mean 'Failed'?"));
    }

    #[test]
    fn a_version_is_one_of_a_workflow() {
        let chosen = parsed(&["version=3", "workflow=a"]).expect("a filter");
        assert_eq!(chosen.filter.version, Some(3));
        for wrong in [&["version=3"][..], &["workflow=a", "version=v3"]] {
            let failure = parsed(wrong).expect_err("no filter");
            assert_eq!(failure.code(), "USAGE", "{wrong:?}");
        }
    }

    #[test]
    fn conditions_on_how_a_run_stands_have_no_value() {
        let chosen = parsed(&["error=HTTP_503", "unresolved"]).expect("a filter");
        assert_eq!(chosen.filter.error.as_deref(), Some("HTTP_503"));
        assert!(chosen.filter.unforked && chosen.filter.roots);
        let chosen = parsed(&["waiting", "dead=false"]).expect("a filter");
        assert!(chosen.filter.waiting && !chosen.filter.roots);
        assert_eq!(chosen.filter.dead, None);
        assert!(parsed(&["orphaned"]).expect("a filter").orphaned);
        for wrong in ["waiting=yes", "error", "parent=x"] {
            assert!(parsed(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_label_has_one_value() {
        let given = |texts: &[&str]| labels(&texts.iter().map(|&it| it.into()).collect::<Vec<_>>());
        assert_eq!(given(&["a=1", "b=2", "a=1"]).expect("labels").len(), 2);
        for wrong in [&["a=1", "a=2"][..], &["a"], &["=1"]] {
            let failure = given(wrong).expect_err("no labels");
            assert_eq!(failure.code(), "LABEL_INVALID", "{wrong:?}");
        }
        let twice = parsed(&["label.team=x", "label.team=y"]);
        assert_eq!(twice.expect_err("two values").code(), "LABEL_INVALID");
    }
}
