//! Compiles the expressions and templates of a definition to see what is wrong
//! with them and which nodes they name. Expressions and short templates that are
//! written again and again are compiled once.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use windlass_expr::{Expression, ExpressionLimits, Field, Problem, Reference, Scope, Template};

use super::codes;
use super::scope::{self, BodyNames, DATA, VARS};

/// Where in a definition a source stands, which decides the names it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Site {
    Plain,
    Edge,
    SetVars,
    Parameters,
    Compensate,
    SubworkflowOutput,
    LoopCondition,
    ConcurrencyKey,
}

/// What the compiler found in a source.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The nodes that it names.
    pub(crate) nodes: Vec<Named>,
    /// What is wrong with it.
    pub(crate) problems: Vec<Wrong>,
    /// The variables that it reads by name.
    pub(crate) variables: Vec<Field>,
}

/// A node that a source names.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) node: Box<str>,
    /// The pointer from the template to the text that names it; empty for an expression.
    pub(crate) pointer: String,
    /// Where in that text.
    pub(crate) span: Option<Range<usize>>,
}

/// A problem of a source.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// The pointer from the template to its text; empty for an expression.
    pub(crate) pointer: String,
    pub(crate) problem: Problem,
}

/// Longer templates are hardly ever written twice, and remembering them costs
/// more than it saves.
const SHORT: usize = 96;

/// How many expressions one template may hold. Each may be wrong, and a document
/// of nothing else must not become gigabytes of problems.
const MAX_EXPRESSIONS: usize = 10_000;

/// Names of bodies by their number, so that comparing two sources is cheap.
pub(crate) type NamesId = usize;

/// The compiler with its memory.
pub(crate) struct Checker<'d> {
    limits: ExpressionLimits,
    names: Vec<BodyNames>,
    scopes: HashMap<(NamesId, Site), Scope>,
    expressions: HashMap<(NamesId, Site, &'d str), Rc<Checked>>,
    templates: HashMap<(NamesId, Site, &'d str), Rc<Checked>>,
    constant: Rc<Checked>,
}

impl<'d> Checker<'d> {
    pub(crate) fn new(limits: ExpressionLimits) -> Self {
        Self {
            limits,
            names: vec![BodyNames::top()],
            scopes: HashMap::new(),
            expressions: HashMap::new(),
            templates: HashMap::new(),
            constant: Rc::default(),
        }
    }

    /// The names outside of every body.
    pub(crate) const TOP: NamesId = 0;

    /// The names inside a body at a place with these names.
    pub(crate) fn body(&mut self, outer: NamesId, item_name: Option<&str>) -> NamesId {
        let names = self.names[outer].body(item_name);
        match self.names.iter().position(|known| *known == names) {
            Some(known) => known,
            None => {
                self.names.push(names);
                self.names.len() - 1
            }
        }
    }

    /// Checks a bare expression.
    pub(crate) fn expression(
        &mut self,
        names: NamesId,
        site: Site,
        source: &'d str,
    ) -> Rc<Checked> {
        let key = (names, site, source);
        if let Some(known) = self.expressions.get(&key) {
            return Rc::clone(known);
        }
        let checked = self.compile(names, site, source);
        let checked = Rc::new(checked);
        self.expressions.insert(key, Rc::clone(&checked));
        checked
    }

    /// Checks a bare expression that stands nowhere in the definition as it is, such as one
    /// that was written with escapes. It is not remembered.
    pub(crate) fn compile(&mut self, names: NamesId, site: Site, source: &str) -> Checked {
        let scope = scope_of(&mut self.scopes, &self.names, names, site);
        let named = |reference: &Reference, offset: usize| {
            let node = node_of(reference)?;
            let span = key_in(source, offset, &node);
            Some(Named {
                node,
                pointer: String::new(),
                span,
            })
        };
        let variables = match reads_variables(source) {
            true => variables(Expression::fields(source, scope, &self.limits)),
            false => Vec::new(),
        };
        match Expression::compile(source, scope, &self.limits) {
            Ok(expression) => Checked {
                variables,
                nodes: expression
                    .references()
                    .iter()
                    .zip(expression.reference_offsets())
                    .filter_map(|(reference, offset)| named(reference, *offset))
                    .collect(),
                problems: Vec::new(),
            },
            Err(problems) => Checked {
                variables,
                nodes: Expression::mentions(source, scope, &self.limits)
                    .iter()
                    .filter_map(|mention| named(&mention.reference, mention.offset))
                    .collect(),
                problems: problems
                    .into_iter()
                    .map(|problem| Wrong {
                        pointer: String::new(),
                        problem,
                    })
                    .collect(),
            },
        }
    }

    /// Checks a template: JSON text that may hold expressions.
    pub(crate) fn template(&mut self, names: NamesId, site: Site, json: &'d str) -> Rc<Checked> {
        if !may_hold_expressions(json) {
            return Rc::clone(&self.constant);
        }
        let key = (names, site, json);
        let remember = json.len() <= SHORT;
        if remember && let Some(known) = self.templates.get(&key) {
            return Rc::clone(known);
        }
        if json.matches("{{").count() > MAX_EXPRESSIONS {
            return Rc::new(too_many());
        }
        let scope = scope_of(&mut self.scopes, &self.names, names, site);
        let variables = match reads_variables(json) {
            true => variables(Template::fields(json, scope, &self.limits)),
            false => Vec::new(),
        };
        let checked = match Template::compile(json, scope, &self.limits) {
            Ok(template) => Checked {
                variables,
                nodes: template
                    .references()
                    .iter()
                    .filter_map(|reference| {
                        Some(Named {
                            node: node_of(reference)?,
                            pointer: String::new(),
                            span: None,
                        })
                    })
                    .collect(),
                problems: Vec::new(),
            },
            Err(problems) => Checked {
                variables,
                nodes: mentioned(json, scope, &self.limits),
                problems: problems
                    .into_iter()
                    .map(|wrong| Wrong {
                        pointer: wrong.pointer,
                        problem: wrong.problem,
                    })
                    .collect(),
            },
        };
        let checked = Rc::new(checked);
        if remember {
            self.templates.insert(key, Rc::clone(&checked));
        }
        checked
    }

    /// What [`template`](Self::template) tells, with the place of each name.
    pub(crate) fn placed(&mut self, names: NamesId, site: Site, json: &'d str) -> Rc<Checked> {
        let checked = self.template(names, site, json);
        if !checked.problems.is_empty() {
            return checked;
        }
        let scope = scope_of(&mut self.scopes, &self.names, names, site);
        Rc::new(Checked {
            nodes: mentioned(json, scope, &self.limits),
            problems: Vec::new(),
            variables: checked.variables.clone(),
        })
    }
}

/// The nodes that a template names, each at its first mention in each of its texts.
fn mentioned(json: &str, scope: &Scope, limits: &ExpressionLimits) -> Vec<Named> {
    let document: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let mentions = Template::mentions(json, scope, limits);
    let named = mentions.into_iter().filter_map(|mention| {
        let node = node_of(&mention.reference)?;
        let text = document.pointer(&mention.pointer)?.as_str()?;
        Some(Named {
            span: key_in(text, mention.offset, &node),
            pointer: mention.pointer,
            node,
        })
    });
    named.collect()
}

/// Whether the text of a `core.script` is an expression, and not a template: braces in its texts
/// and objects make none of it.
pub(crate) fn is_bare(text: &str) -> bool {
    !text.contains("{{") || Expression::parses(text, &ExpressionLimits::CHECKED)
}

fn too_many() -> Checked {
    Checked {
        nodes: Vec::new(),
        variables: Vec::new(),
        problems: vec![Wrong {
            pointer: String::new(),
            problem: Problem {
                code: codes::EXPRESSION_LIMIT,
                message: format!("the template holds more than {MAX_EXPRESSIONS} expressions"),
                start: 0,
                end: 1,
                suggestion: None,
                remedy: None,
            },
        }],
    }
}

fn scope_of<'s>(
    scopes: &'s mut HashMap<(NamesId, Site), Scope>,
    names: &[BodyNames],
    id: NamesId,
    site: Site,
) -> &'s Scope {
    scopes.entry((id, site)).or_insert_with(|| {
        let names = &names[id];
        match site {
            Site::Plain => scope::plain(names),
            Site::Edge => scope::edge(names),
            Site::SetVars => scope::set_vars(names),
            Site::Parameters => scope::parameters(names),
            Site::Compensate => scope::compensate(names),
            Site::SubworkflowOutput => scope::subworkflow_output(names),
            Site::LoopCondition => scope::loop_condition(names),
            Site::ConcurrencyKey => scope::concurrency_key(),
        }
    })
}

/// Most values are constants, and finding that out must cost next to nothing.
fn may_hold_expressions(json: &str) -> bool {
    json.contains("{{") || json.contains("\\u007")
}

/// Whether a source may read a variable; most do not, and reading them again has a price.
fn reads_variables(source: &str) -> bool {
    source.contains(VARS)
}

fn variables(mut fields: Vec<Field>) -> Vec<Field> {
    fields.retain(|field| *field.value == *VARS);
    fields
}

fn node_of(reference: &Reference) -> Option<Box<str>> {
    match reference {
        Reference::Entry { table, key } if **table == *DATA => Some(key.clone()),
        _ => None,
    }
}

/// Where a source names a node, from here on: the first mention of its table that is followed by
/// the name. Where that cannot be seen, nothing is claimed.
fn key_in(source: &str, from: usize, node: &str) -> Option<Range<usize>> {
    let source = source.get(from..)?;
    source.match_indices(DATA).find_map(|(at, _)| {
        let after = &source[at + DATA.len()..];
        let name = after.trim_start_matches(['[', '\'', '"', '\\', '.', '?', ' ', '`']);
        let ends =
            |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-');
        let rest = name.strip_prefix(node)?;
        let start = from + source.len() - name.len();
        ends(rest).then_some(start..start + node.len())
    })
}
