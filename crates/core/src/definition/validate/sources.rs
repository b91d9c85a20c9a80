//! The expressions and templates: those that do not compile, those that name
//! nodes that do not exist, and those that name nodes too early.

use super::level::Level;
use super::{Site, Validator};
use crate::definition::codes;
use crate::definition::expressions::{Checked, Named};
use crate::definition::path::Path;
use crate::definition::problem::SourceLocation;
use crate::definition::repair::STAND_IN;
use crate::definition::structure::shortened;

/// When a source is evaluated, as its level sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// Before this node runs: what came before it can be read.
    Before(usize),
    /// After this node ended: it can be read too.
    After(usize),
    /// When the level has ended, or whenever.
    End,
}

/// Whether a node can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readable {
    Yes,
    TooEarly,
    Unknown,
}

impl<'d> Validator<'d, '_> {
    /// Checks a bare expression.
    pub(super) fn expression(
        &mut self,
        level: &Level<'d, '_>,
        moment: Moment,
        site: Site,
        source: &'d str,
        path: &Path<'_>,
    ) {
        if source == STAND_IN {
            return;
        }
        let checked = self.checker.expression(level.names, site, source);
        self.report(level, moment, &checked, path);
    }

    /// Checks a bare expression whose text the definition does not hold as it is.
    pub(super) fn unescaped_expression(
        &mut self,
        level: &Level<'d, '_>,
        moment: Moment,
        site: Site,
        source: &str,
        path: &Path<'_>,
    ) {
        let checked = self.checker.compile(level.names, site, source);
        self.report(level, moment, &checked, path);
    }

    /// Checks a template.
    pub(super) fn template(
        &mut self,
        level: &Level<'d, '_>,
        moment: Moment,
        site: Site,
        json: &'d str,
        path: &Path<'_>,
    ) {
        let mut checked = self.checker.template(level.names, site, json);
        let mut nodes = checked.nodes.iter();
        let known = nodes.all(|named| self.readable(level, moment, &named.node) == Readable::Yes);
        let variables = checked.variables.iter();
        let known = known
            && variables
                .clone()
                .all(|field| self.knows_variable(&field.key));
        if known && checked.problems.is_empty() {
            return;
        }
        if !known {
            // Only now does it matter where each name stands.
            checked = self.checker.placed(level.names, site, json);
        }
        self.report(level, moment, &checked, path);
    }

    fn report(
        &mut self,
        level: &Level<'d, '_>,
        moment: Moment,
        checked: &Checked,
        path: &Path<'_>,
    ) {
        for wrong in &checked.problems {
            let problem = &wrong.problem;
            let pointer = path.pointer() + &wrong.pointer;
            let nearest = problem.suggestion.as_ref();
            let suggestion = nearest
                .map(|nearest| format!("did you mean '{nearest}'?"))
                .or_else(|| problem.remedy.clone());
            // The suggestion stands under the caret; once is enough.
            let message = match problem.message.split_once("; did you mean") {
                Some((message, _)) if nearest.is_some() => message.to_owned(),
                _ => problem.message.clone(),
            };
            self.findings
                .error(codes::known(problem.code), message, pointer)
                .at(SourceLocation::Within(
                    problem.start..problem.end.max(problem.start + 1),
                ))
                .suggest(suggestion);
        }
        for field in &checked.variables {
            if !self.knows_variable(&field.key) {
                self.unknown_variable(field, path.pointer() + &field.pointer);
            }
        }
        for named in &checked.nodes {
            let readable = self.readable(level, moment, &named.node);
            if readable != Readable::Yes {
                let place = named
                    .span
                    .clone()
                    .map_or(SourceLocation::Value, SourceLocation::Within);
                let pointer = path.pointer() + &named.pointer;
                self.unreadable(level, readable, named, pointer, place);
            }
        }
    }

    fn unreadable(
        &mut self,
        level: &Level<'d, '_>,
        readable: Readable,
        named: &Named,
        pointer: String,
        place: SourceLocation,
    ) {
        let node = shortened(&named.node);
        if readable == Readable::TooEarly {
            let message = format!("node '{node}' cannot have run before this is evaluated");
            self.findings
                .warning(codes::NOT_BEFORE, message, pointer)
                .at(place)
                .suggest(Some(format!("add a path of edges from '{node}' to here")));
            return;
        }
        let message = format!("the expression names '{node}', which is not a node here");
        let mut suggestion = self.nearest_node(&level.graph, &named.node);
        let mut outer = level.outer;
        while let (None, Some((around, _))) = (&suggestion, outer) {
            suggestion = self.nearest_node(&around.graph, &named.node);
            outer = around.outer;
        }
        self.findings
            .error(codes::UNKNOWN_NODE, message, pointer)
            .at(place)
            .suggest(suggestion);
    }

    fn readable(&mut self, level: &Level<'d, '_>, moment: Moment, name: &str) -> Readable {
        let mut level = level;
        let mut moment = moment;
        loop {
            if let Some(target) = level.graph.index.get(name).copied() {
                return self.reached(level, moment, target);
            }
            let Some((around, node)) = level.outer else {
                return Readable::Unknown;
            };
            level = around;
            moment = Moment::Before(node);
        }
    }

    fn reached(&mut self, level: &Level<'d, '_>, moment: Moment, target: usize) -> Readable {
        let node = match moment {
            Moment::End => return Readable::Yes,
            Moment::After(node) if node == target => return Readable::Yes,
            Moment::After(node) | Moment::Before(node) => node,
        };
        let Some(search) = &level.search else {
            return Readable::Yes;
        };
        let leads = search
            .borrow_mut()
            .leads(&level.graph, target, node, &mut self.budget);
        match leads {
            Some(false) => Readable::TooEarly,
            Some(true) | None => Readable::Yes,
        }
    }
}
