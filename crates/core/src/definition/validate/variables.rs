//! Variables that parallel branches set, where the last write wins, by chance; and those that
//! are read and that nothing in the definition sets.

use std::collections::{BTreeMap, BTreeSet};

use windlass_expr::Field;

use super::Validator;
use super::level::Level;
use crate::definition::codes;
use crate::definition::graph::{DefinitionGraph, EdgeOrigin, GraphEdge};
use crate::definition::path::Path;
use crate::definition::problem::SourceLocation;
use crate::definition::structure::shortened;
use crate::definition::types::{Definition, Node, When};

/// The variables that a definition sets: at the start, or with a node anywhere.
pub(super) fn set_anywhere(definition: &Definition) -> BTreeSet<&str> {
    let mut names: BTreeSet<&str> = definition.vars.keys().map(|name| &**name).collect();
    let mut levels: Vec<&[Node]> = vec![&definition.nodes];
    while let Some(nodes) = levels.pop() {
        for node in nodes {
            let vars = node.set_vars.iter().flat_map(|vars| vars.keys());
            names.extend(vars.map(|name| &**name));
            levels.extend(node.for_each.iter().map(|it| &*it.body.nodes));
            levels.extend(node.while_loop.iter().map(|it| &*it.body.nodes));
            levels.extend(node.retry_until.iter().map(|it| &*it.body.nodes));
        }
    }
    names
}

impl<'d> Validator<'d, '_> {
    pub(super) fn variables(&mut self, level: &Level<'d, '_>, list: &Path<'_>) {
        let Some(search) = &level.search else { return };
        let mut setters: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, node) in level.graph.nodes.iter().enumerate() {
            for name in node.set_vars.iter().flat_map(|vars| vars.keys()) {
                setters.entry(name).or_default().push(at);
            }
        }
        for (name, mut nodes) in setters {
            nodes.sort_by_key(|node| search.borrow().rank(*node));
            // If any two were unordered, two neighbours in the order would be.
            // One warning for a variable is enough.
            let conflict = nodes
                .windows(2)
                .find(|pair| self.conflicts(level, pair[0], pair[1]));
            if let Some(pair) = conflict {
                self.conflict(level, name, pair[0], pair[1], list);
            }
        }
    }

    /// Whether something in the definition sets a variable.
    pub(super) fn knows_variable(&self, name: &str) -> bool {
        self.variables.contains(name) || self.left_out.any()
    }

    /// A variable that nothing here sets is a warning: a parent that shares its variables with
    /// this workflow may.
    pub(super) fn unknown_variable(&mut self, field: &Field, pointer: String) {
        let message = format!(
            "nothing in this definition sets the variable '{}'",
            shortened(&field.key)
        );
        let known = self.variables.iter().copied();
        let suggestion = self.suggester.did_you_mean(&field.key, known);
        let otherwise = "add it to 'vars'; ignore it if a parent shares its variables";
        self.findings
            .warning(codes::UNKNOWN_VARIABLE, message, pointer)
            .at(SourceLocation::Within(field.start..field.end))
            .suggest(Some(suggestion.unwrap_or_else(|| otherwise.to_owned())));
    }

    fn conflict(
        &mut self,
        level: &Level<'d, '_>,
        name: &str,
        first: usize,
        second: usize,
        list: &Path<'_>,
    ) {
        let ids = &level.graph.nodes;
        let message = format!(
            "'{}' and '{}' may run at the same time, and both set the variable '{name}'",
            ids[first].id, ids[second].id
        );
        let node = list.index(second);
        let pointer = node.key("setVars").key(name).pointer();
        self.findings
            .warning(codes::VARIABLE_CONFLICT, message, pointer)
            .at(SourceLocation::Key)
            .suggest(Some("the last write wins".to_owned()));
    }

    fn conflicts(&mut self, level: &Level<'d, '_>, first: usize, second: usize) -> bool {
        let Some(search) = &level.search else {
            return false;
        };
        let mut search = search.borrow_mut();
        let graph = &level.graph;
        if search.leads(graph, first, second, &mut self.budget) != Some(false) {
            return false;
        }
        let before = search
            .before(graph, first, &mut self.budget)
            .zip(search.before(graph, second, &mut self.budget));
        let Some((mut left, mut right)) = before else {
            return false;
        };
        left.push(first);
        right.push(second);
        left.sort_unstable();
        right.sort_unstable();
        // Branches of one decision do not run together.
        for node in left.iter().filter(|node| right.binary_search(node).is_ok()) {
            match self.decides(graph, *node, &left, &right) {
                Some(false) => {}
                Some(true) | None => return false,
            }
        }
        true
    }

    /// Whether a node chooses between two sets of nodes; nothing if the budget is spent.
    fn decides(
        &mut self,
        graph: &DefinitionGraph<'d>,
        node: usize,
        left: &[usize],
        right: &[usize],
    ) -> Option<bool> {
        let (mut to_left, mut to_right) = (Vec::new(), Vec::new());
        for edge in graph.outgoing(node) {
            if !self.budget.spend() {
                return None;
            }
            if left.binary_search(&edge.to).is_ok() {
                to_left.push(edge);
            }
            if right.binary_search(&edge.to).is_ok() {
                to_right.push(edge);
            }
        }
        for one in &to_left {
            for other in &to_right {
                if !self.budget.spend() {
                    return None;
                }
                if !are_exclusive(one, other) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }
}

/// Whether at most one of two edges of the same parent is likely to be taken.
fn are_exclusive(one: &GraphEdge<'_>, other: &GraphEdge<'_>) -> bool {
    let switched =
        |edge: &GraphEdge<'_>| matches!(edge.origin, EdgeOrigin::Case(_) | EdgeOrigin::Default);
    if switched(one) && switched(other) {
        return one.to != other.to;
    }
    let opposite = matches!(
        (one.when, other.when),
        (When::Success, When::Failure) | (When::Failure, When::Success)
    );
    opposite
        || (one.condition.is_some()
            && other.condition.is_some()
            && one.condition != other.condition)
}
