//! What can be wrong with a workflow that is built in code: all of it at once, each with
//! what is known instead.

use std::fmt;
use std::sync::Arc;

use windlass_core::definition;

/// Why a workflow or a graph could not be built: every problem that was found.
#[derive(Clone, Debug)]
pub struct BuildError {
    /// The workflow's id.
    pub workflow: Box<str>,
    /// What is wrong, at least one thing.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Two nodes have the same name; steps and tasks share one namespace.
    NameTaken {
        /// The name.
        name: Box<str>,
    },
    /// A reference leads nowhere.
    UnknownNode {
        /// The node that refers.
        node: Box<str>,
        /// How it refers: `depends_on`, `after`, …
        through: &'static str,
        /// What it refers to.
        name: Box<str>,
        /// The names that there are.
        known: Arc<[Box<str>]>,
    },
    /// A step is placed beside a task, which is not in the chain.
    NotInChain {
        /// The step.
        node: Box<str>,
        /// The task.
        name: Box<str>,
        /// The steps that there are.
        steps: Arc<[Box<str>]>,
    },
    /// A step says twice where it stands.
    PlacedTwice {
        /// The step.
        node: Box<str>,
    },
    /// Steps that are placed beside each other in a circle.
    PlacedInCircle {
        /// The steps.
        nodes: Vec<Box<str>>,
    },
    /// A name means several nodes of a graph.
    AmbiguousName {
        /// The node that refers.
        node: Box<str>,
        /// The name.
        name: Box<str>,
        /// The nodes that have it.
        ids: Vec<Box<str>>,
    },
    /// A value cannot be written as JSON.
    NotJson {
        /// The node, if it is about one.
        node: Option<Box<str>>,
        /// Which value.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// A compensation is something else than an action.
    CompensationIsNoAction {
        /// The node.
        node: Box<str>,
    },
    /// A node of a graph, which is data alone, has a retry strategy in code.
    StrategyInGraph {
        /// The node.
        node: Box<str>,
    },
    /// What every definition is checked for.
    Definition(Box<definition::Problem>),
}

impl std::error::Error for BuildError {}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the workflow '{}' cannot be built:", self.workflow)?;
        for problem in self.problems.iter().take(WRITTEN) {
            write!(f, "\n  {problem}")?;
        }
        match self.problems.len().saturating_sub(WRITTEN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken { name } => write!(
                f,
                "there are two nodes named '{name}'; steps and tasks share their names, so \
                 give one of them another"
            ),
            Self::UnknownNode {
                node,
                through,
                name,
                known,
            } => {
                write!(
                    f,
                    "'{node}' refers to '{name}' ({through}), which does not exist; "
                )?;
                write_known(f, name, known)
            }
            Self::NotInChain { node, name, steps } => {
                let placed = "is a task, and tasks are not in the chain; the steps are";
                write!(
                    f,
                    "'{node}' is placed beside '{name}', which {placed} {}",
                    list(steps)
                )
            }
            Self::PlacedTwice { node } => {
                write!(
                    f,
                    "'{node}' has several places; say `after` or `before` once"
                )
            }
            Self::PlacedInCircle { nodes } => write!(
                f,
                "the places of {} depend on each other; give one of them a place of its own",
                list(nodes)
            ),
            Self::AmbiguousName { node, name, ids } => write!(
                f,
                "'{node}' refers to '{name}', which is the name of {}; refer by id",
                list(ids)
            ),
            Self::NotJson { node, what, reason } => {
                match node {
                    Some(node) => write!(f, "{what} of '{node}'")?,
                    None => f.write_str(what)?,
                }
                write!(f, " cannot be written as JSON: {reason}")
            }
            Self::StrategyInGraph { node } => write!(
                f,
                "'{node}' has a retry strategy in code, and a graph is data alone; use `every`, \
                 `linear` or `factor`"
            ),
            Self::CompensationIsNoAction { node } => write!(
                f,
                "the compensation of '{node}' is no action; give a function, an action or the \
                 name of one"
            ),
            Self::Definition(problem) => {
                write!(f, "{}: {}", problem.code, problem.message)?;
                match &problem.suggestion {
                    Some(suggestion) => write!(f, "; {suggestion}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The most names that one message lists.
const LISTED: usize = 20;

/// The most problems that are written: each one searches all names for the nearest.
const WRITTEN: usize = 100;

fn list(names: &[Box<str>]) -> String {
    let listed: Vec<String> = names
        .iter()
        .take(LISTED)
        .map(|name| format!("'{name}'"))
        .collect();
    match names.len().saturating_sub(LISTED) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// "did you mean", and what there is.
pub(crate) fn write_known(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    known: &[Box<str>],
) -> fmt::Result {
    if known.is_empty() {
        return f.write_str("there are none");
    }
    if let Some(nearest) = nearest(name, known) {
        write!(f, "did you mean '{nearest}'? ")?;
    }
    write!(f, "known: {}", list(known))
}

/// The nearest of these names, if one is near.
fn nearest<'a>(name: &str, known: &'a [Box<str>]) -> Option<&'a str> {
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (strsim::osa_distance(name, candidate), &**candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_answered_with_what_is_known() {
        let known: Arc<[Box<str>]> = ["validate", "charge"].map(Into::into).into();
        let problem = |name: &str| Problem::UnknownNode {
            node: "ship".into(),
            through: "depends_on",
            name: name.into(),
            known: known.clone(),
        };
        assert_eq!(
            problem("chrage").to_string(),
            "'ship' refers to 'chrage' (depends_on), which does not exist; did you mean \
             'charge'? known: 'validate', 'charge'"
        );
        assert!(!problem("elsewhere").to_string().contains("did you mean"));
    }

    #[test]
    fn many_problems_are_cut() {
        let name = "a".into();
        let error = BuildError {
            workflow: "flow".into(),
            problems: vec![Problem::NameTaken { name }; 102],
        };
        assert!(error.to_string().ends_with("\n  and 2 more"), "{error}");
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<Box<str>> = (0..25).map(|n| format!("n{n}").into()).collect();
        assert!(list(&names).ends_with("'n19' and 5 more"));
    }
}
