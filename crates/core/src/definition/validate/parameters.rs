//! What actions and subworkflows are called with, as far as it is known before a run: literal
//! parameters against the schemas of actions, and children against the catalogue.

use super::Validator;
use crate::definition::codes;
use crate::definition::path::Path;
use crate::definition::problem::{Severity, SourceLocation};
use crate::definition::repair::STAND_IN;
use crate::definition::types::{JsonText, Subworkflow};

/// Larger parameters are checked when the action is called: a tree of one takes several times
/// its bytes.
const CHECKED_BYTES: usize = 256 * 1024;

/// Longer parameters are hardly ever written twice.
const REMEMBERED_BYTES: usize = 256;

impl<'d> Validator<'d, '_> {
    /// Checks the literal parameters of an action; `owner` is the object with `actionType`.
    pub(super) fn literals(
        &mut self,
        action: &'d str,
        parameters: Option<&'d JsonText>,
        owner: &Path<'_>,
    ) {
        let Some(check) = self.options.check_parameters else {
            return;
        };
        let text = parameters.map_or("{}", |parameters| parameters.get());
        let left_out = parameters.is_none() && self.left_out.has(&owner.pointer());
        if action == STAND_IN
            || left_out
            || text.len() > CHECKED_BYTES
            || self.findings.is_full(Severity::Error)
            || self.fitting.contains(&(action, text))
        {
            return;
        }
        let problems = check.problems(action, text);
        if problems.is_empty() && text.len() <= REMEMBERED_BYTES {
            self.fitting.insert((action, text));
        }
        let place = match parameters {
            Some(_) => owner.key("parameters"),
            // What is missing is missed where the action is named.
            None => owner.key("actionType"),
        };
        for problem in problems {
            let (location, suggestion) = match &problem.unknown_key {
                None => (SourceLocation::Value, None),
                Some(known) => {
                    let key = problem.pointer.rsplit('/').next().unwrap_or_default();
                    let names = known.iter().map(String::as_str);
                    let nearest = self.suggester.did_you_mean(key, names);
                    let all = || format!("it takes {}", known.join(", "));
                    let listed = (!known.is_empty()).then(all);
                    (SourceLocation::Key, nearest.or(listed))
                }
            };
            let pointer = place.pointer() + &problem.pointer;
            self.findings
                .error(codes::PARAMETERS_INVALID, problem.message, pointer)
                .at(location)
                .suggest(suggestion);
        }
    }

    /// Checks that the catalogue has the workflow of a child.
    pub(super) fn known_workflow(&mut self, child: &Subworkflow, path: &Path<'_>) {
        let Some(unknown) = self.options.unknown_workflows else {
            return;
        };
        let missing = |version| {
            unknown
                .missing
                .contains(&(child.workflow_id.clone(), version))
        };
        let name = &child.workflow_id;
        let (message, pointer) = match child.version {
            Some(version) if missing(Some(version)) => {
                let message = format!("the workflow '{name}' has no version {version}");
                (message, path.key("version").pointer())
            }
            _ if missing(None) => {
                let message = format!("the catalogue has no workflow '{name}'");
                (message, path.key("workflowId").pointer())
            }
            _ => return,
        };
        let known = unknown.known.iter().map(|name| &**name);
        let nearest = self.suggester.did_you_mean(name, known);
        let finding = match unknown.refused {
            true => self
                .findings
                .error(codes::UNKNOWN_WORKFLOW, message, pointer),
            false => self
                .findings
                .warning(codes::UNKNOWN_WORKFLOW, message, pointer),
        };
        finding.suggest(Some(
            nearest.unwrap_or_else(|| "publish it first".to_owned()),
        ));
    }
}
