//! Resolves every name of a tree and refuses what has no meaning. Collects all problems.
//!
//! Names are looked up in this order: arrow parameters, the scope's values, its tables, the
//! language's own functions. Also bounds the depth of the tree, which the evaluator relies on.

mod name;

use std::collections::HashMap;

use crate::ast::{
    Access, Arguments, Arrow, CallbackKind, Chunk, Kind, LinkKind, Literal, MethodCall, Node,
    Pattern, PatternKey, Property, Target,
};
use crate::functions::{self, Methods};
use crate::limits::ExpressionLimits;
use crate::problem::{LIMIT, NOT_ALLOWED, Problem, UNKNOWN_METHOD};
use crate::scope::{Field, Mention, Reference, Scope};

/// The references of one expression or of all expressions of a template, each once.
#[derive(Debug, Default)]
pub(crate) struct References {
    pub(crate) list: Vec<Reference>,
    /// Where each first occurs.
    pub(crate) offsets: Vec<usize>,
    slots: HashMap<Reference, usize>,
    /// The slots that were asked for since this was last taken.
    read: Vec<usize>,
    /// The fields of plain values that are read by name, if only these are asked for.
    pub(crate) fields: Option<Vec<Field>>,
}

/// The most fields that are gathered of one source.
const FIELDS: usize = 64;

impl References {
    /// Gathers the fields that are read, too.
    pub(crate) fn with_fields() -> Self {
        Self {
            fields: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Notes that a field of the value in a slot is read.
    fn note_field(&mut self, slot: usize, key: &str, start: usize, end: usize) {
        let (Some(fields), Some(Reference::Value(value))) = (&mut self.fields, self.list.get(slot))
        else {
            return;
        };
        if fields.len() < FIELDS {
            fields.push(Field {
                pointer: String::new(),
                value: value.clone(),
                key: key.into(),
                start,
                end,
            });
        }
    }
}

impl References {
    fn slot(&mut self, reference: Reference, offset: usize) -> usize {
        let slot = self.slots.get(&reference).copied();
        let slot = slot.unwrap_or_else(|| {
            self.slots.insert(reference.clone(), self.list.len());
            self.list.push(reference);
            self.offsets.push(offset);
            self.list.len() - 1
        });
        self.read.push(slot);
        slot
    }

    /// The slots that an expression reads, after it was checked.
    pub(crate) fn take_read(&mut self) -> Box<[usize]> {
        let mut read = std::mem::take(&mut self.read);
        read.sort_unstable();
        read.dedup();
        read.into_boxed_slice()
    }
}

impl References {
    /// Each with where it first occurs, in the text with this pointer.
    pub(crate) fn into_mentions(self, pointer: &str) -> impl Iterator<Item = Mention> {
        let both = self.list.into_iter().zip(self.offsets);
        both.map(|(reference, offset)| Mention {
            pointer: pointer.to_owned(),
            reference,
            offset,
        })
    }
}

/// Resolves a tree in place; gives how many slots its arrow parameters need.
pub(crate) fn check(
    root: &mut Node,
    scope: &Scope,
    limits: &ExpressionLimits,
    references: &mut References,
) -> Result<usize, Vec<Problem>> {
    let mut checker = Checker {
        scope,
        references,
        nesting: limits.nesting,
        depth: 0,
        locals: Vec::new(),
        slots: 0,
        problems: Vec::new(),
    };
    checker.node(root);
    if checker.problems.is_empty() {
        Ok(checker.slots)
    } else {
        Err(checker.problems)
    }
}

/// An arrow parameter that is visible here.
struct Local {
    name: Box<str>,
    slot: usize,
    /// Whether it is bound when the part being checked runs.
    ready: bool,
}

struct Checker<'c> {
    scope: &'c Scope,
    references: &'c mut References,
    nesting: usize,
    depth: usize,
    locals: Vec<Local>,
    slots: usize,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn node(&mut self, node: &mut Node) {
        if self.depth > self.nesting {
            let message = format!("the expression is nested deeper than {}", self.nesting);
            self.problems
                .push(Problem::new(LIMIT, message, node.start, node.end));
            return;
        }
        self.depth += 1;
        self.kind(node);
        self.depth -= 1;
    }

    fn kind(&mut self, node: &mut Node) {
        match &mut node.kind {
            Kind::Name(_) => self.name(node),
            Kind::Access(_) => self.access(node),
            Kind::Call(_) => self.call(node),
            Kind::Template(chunks) => {
                for chunk in chunks {
                    if let Chunk::Value(value) = chunk {
                        self.node(value);
                    }
                }
            }
            Kind::Array(elements) => elements
                .iter_mut()
                .for_each(|element| self.node(&mut element.node)),
            Kind::Object(properties) => properties
                .iter_mut()
                .for_each(|property| self.property(property)),
            Kind::Unary(_, operand) => self.node(operand),
            Kind::Binary(first, rest) => {
                self.node(first);
                rest.iter_mut().for_each(|(_, operand)| self.node(operand));
            }
            Kind::Power(operands) | Kind::Logical(_, operands) => {
                operands.iter_mut().for_each(|operand| self.node(operand));
            }
            Kind::Conditional(parts) => parts.iter_mut().for_each(|part| self.node(part)),
            Kind::Undefined | Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::String(_) => {}
            Kind::Input(_) | Kind::Local(_) => {}
        }
    }

    fn property(&mut self, property: &mut Property) {
        match property {
            Property::Named(_, value) | Property::Spread(value) => self.node(value),
            Property::Computed(key, value) => {
                self.node(key);
                self.node(value);
            }
        }
    }

    /// Checks the links of an access; the caller checks the base.
    fn links(&mut self, access: &mut Access) {
        for link in &mut access.links {
            match &mut link.kind {
                LinkKind::Field(name) => {
                    if let Literal::Plain(name) = name
                        && is_forbidden(name)
                    {
                        let message =
                            format!("`{name}` is not part of the language; read data only");
                        self.problems.push(Problem::new(
                            NOT_ALLOWED,
                            message,
                            link.start,
                            link.end,
                        ));
                    }
                }
                LinkKind::Index(key) => self.node(key),
                LinkKind::Method(call) => self.method(call, link.start, link.end),
            }
        }
    }

    fn method(&mut self, call: &mut MethodCall, start: usize, end: usize) {
        call.methods = Methods::named(&call.name);
        if call.methods.is_none() {
            let name_end = end.min(start + call.name.len() + 1);
            self.problems
                .push(unknown_method(&call.name, start, name_end));
        }
        if &*call.name == "localeCompare" && call.arguments.values.len() > 1 {
            let message = "`localeCompare` takes no locale here; give it the other text alone";
            self.problems
                .push(Problem::new(NOT_ALLOWED, message, start, end));
        }
        let position = functions::callback_position(&call.name);
        self.arguments(&call.name, &mut call.arguments, position);
    }

    /// Checks arguments; `position` is where a function may stand.
    fn arguments(&mut self, name: &str, arguments: &mut Arguments, position: Option<usize>) {
        self.named_callback(arguments, position);
        if let Some(callback) = &mut arguments.callback {
            let spread = arguments
                .values
                .iter()
                .take(callback.position)
                .any(|value| value.spread);
            if Some(callback.position) != position || spread {
                let message = format!("`{name}` takes no function here");
                self.problems.push(Problem::new(
                    NOT_ALLOWED,
                    message,
                    callback.start,
                    callback.start,
                ));
            }
            if let CallbackKind::Arrow(arrow) = &mut callback.kind {
                self.depth += 1;
                self.arrow(arrow);
                self.depth -= 1;
            }
        }
        arguments
            .values
            .iter_mut()
            .for_each(|value| self.node(&mut value.node));
    }

    fn arrow(&mut self, arrow: &mut Arrow) {
        let outer = self.locals.len();
        for parameter in &mut arrow.parameters {
            self.declare(&mut parameter.pattern, outer);
        }
        if let Some(rest) = &mut arrow.rest {
            self.declare(rest, outer);
        }
        for parameter in &mut arrow.parameters {
            self.target(parameter);
        }
        if let Some(rest) = &mut arrow.rest {
            self.bind(rest);
        }
        self.node(&mut arrow.body);
        self.locals.truncate(outer);
    }

    /// Gives every name of a pattern a slot; none is ready yet.
    fn declare(&mut self, pattern: &mut Pattern, outer: usize) {
        match pattern {
            Pattern::Name { name, slot, start } => {
                if self.locals[outer..].iter().any(|local| local.name == *name) {
                    let message = format!("the parameter `{name}` is declared twice");
                    self.problems.push(Problem::new(
                        crate::problem::SYNTAX,
                        message,
                        *start,
                        *start + name.len(),
                    ));
                }
                *slot = self.slots;
                self.slots += 1;
                self.locals.push(Local {
                    name: name.clone(),
                    slot: *slot,
                    ready: false,
                });
            }
            Pattern::Object { properties, rest } => {
                properties
                    .iter_mut()
                    .for_each(|(_, target)| self.declare(&mut target.pattern, outer));
                rest.iter_mut().for_each(|rest| self.declare(rest, outer));
            }
            Pattern::Array { elements, rest } => {
                elements
                    .iter_mut()
                    .flatten()
                    .for_each(|target| self.declare(&mut target.pattern, outer));
                rest.iter_mut().for_each(|rest| self.declare(rest, outer));
            }
        }
    }

    fn target(&mut self, target: &mut Target) {
        if let Some(default) = &mut target.default {
            self.node(default);
        }
        self.bind(&mut target.pattern);
    }

    /// Checks what a pattern computes and marks its names as bound, in the order they are.
    fn bind(&mut self, pattern: &mut Pattern) {
        match pattern {
            Pattern::Name { slot, .. } => {
                for local in self.locals.iter_mut().filter(|local| local.slot == *slot) {
                    local.ready = true;
                }
            }
            Pattern::Object { properties, rest } => {
                for (key, target) in properties {
                    if let PatternKey::Computed(key) = key {
                        self.node(key);
                    }
                    self.target(target);
                }
                rest.iter_mut().for_each(|rest| self.bind(rest));
            }
            Pattern::Array { elements, rest } => {
                elements
                    .iter_mut()
                    .flatten()
                    .for_each(|target| self.target(target));
                rest.iter_mut().for_each(|rest| self.bind(rest));
            }
        }
    }
}

/// Names that lead to prototypes, which do not exist here.
fn is_forbidden(name: &str) -> bool {
    matches!(
        name,
        "constructor"
            | "prototype"
            | "toString"
            | "toLocaleString"
            | "valueOf"
            | "hasOwnProperty"
            | "isPrototypeOf"
            | "propertyIsEnumerable"
    ) || name.starts_with("__")
        && matches!(
            name,
            "__proto__"
                | "__defineGetter__"
                | "__defineSetter__"
                | "__lookupGetter__"
                | "__lookupSetter__"
        )
}

fn unknown_method(name: &str, start: usize, end: usize) -> Problem {
    if is_forbidden(name) {
        return Problem::new(
            NOT_ALLOWED,
            format!("`{name}` is not part of the language"),
            start,
            end,
        );
    }
    if let Some(hint) = functions::left_out(name) {
        return Problem::new(
            UNKNOWN_METHOD,
            format!("there is no method `{name}`: {hint}"),
            start,
            end,
        );
    }
    Problem::new(
        UNKNOWN_METHOD,
        format!("there is no method `{name}`"),
        start,
        end,
    )
    .suggest(name, functions::method_names())
}
