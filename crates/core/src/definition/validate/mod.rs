//! What a definition must fulfil beyond its shape (semantics §1).
//!
//! Everything is checked and every problem is collected. A definition or body
//! is one level: a graph of its own, with the levels around it readable.

mod level;
mod links;
mod node;
mod order;
mod parameters;
mod sources;
mod variables;

use std::collections::{BTreeSet, HashMap, HashSet};

use super::codes;
use super::expressions::{Checker, Site};
use super::path::Path;
use super::problem::Findings;
use super::repair::LeftOut;
use super::source::{Options, SCHEMA_COST, SchemaProblem};
use super::suggest::Suggester;
use super::types::{Definition, JsonText};
use crate::run::var_bytes;

use level::{Level, Scene};
use order::Budget;
use sources::Moment;

/// Checks a definition. Problems that may only follow from what was left out of it
/// are not reported.
pub(crate) fn validate(
    definition: &Definition,
    options: &Options<'_>,
    left_out: LeftOut,
    findings: &mut Findings,
) {
    let mut validator = Validator {
        options,
        left_out,
        findings,
        suggester: Suggester::default(),
        checker: Checker::new(options.limits.expressions),
        nodes: 0,
        budget: Budget::default(),
        schemas: HashMap::new(),
        schema_cost: 0,
        variables: variables::set_anywhere(definition),
        fitting: HashSet::new(),
    };
    validator.definition(definition);
}

/// The state of one validation. `'d` is the definition.
struct Validator<'d, 'o> {
    options: &'o Options<'o>,
    left_out: LeftOut,
    findings: &'o mut Findings,
    suggester: Suggester,
    checker: Checker<'d>,
    /// Nodes seen so far, bodies included.
    nodes: usize,
    budget: Budget,
    /// The JSON Schemas that were checked: equal ones are compiled once.
    schemas: HashMap<&'d str, Result<(), SchemaProblem>>,
    /// What compiling those takes together.
    schema_cost: u64,
    /// The variables that something in the definition sets.
    variables: BTreeSet<&'d str>,
    /// Actions with parameters that fit: equal ones are checked once.
    fitting: HashSet<(&'d str, &'d str)>,
}

impl<'d> Validator<'d, '_> {
    fn definition(&mut self, definition: &'d Definition) {
        let root = Path::ROOT;
        if let Some(schema) = &definition.trigger_schema {
            self.schema(schema, &root.key("triggerSchema"));
        }
        self.start_vars(definition, &root);
        let scene = Scene {
            nodes: &definition.nodes,
            start_node: definition.start_node.as_deref(),
            output: definition.output.as_ref(),
            names: Checker::TOP,
            depth: 0,
        };
        let concurrency = definition.concurrency.as_ref();
        if let Some(key) = concurrency.and_then(|concurrency| concurrency.key.as_ref()) {
            let path = root.key("concurrency");
            let empty = Level::empty();
            let path = path.key("key");
            self.template(&empty, Moment::End, Site::ConcurrencyKey, key.get(), &path);
        }
        self.level(&scene, &root, None);
    }

    /// The variables at the start obey the limit that those of a run have together.
    fn start_vars(&mut self, definition: &Definition, root: &Path<'_>) {
        let vars = definition.vars.iter();
        let bytes: u64 = vars
            .map(|(name, value)| var_bytes(name, value.get().len() as u64))
            .sum();
        let limit = self.options.limits.vars_bytes;
        if bytes > limit {
            let message =
                format!("the variables have {bytes} bytes together; they may have {limit}");
            let pointer = root.key("vars").pointer();
            self.findings.error(codes::VARS_LIMIT, message, pointer);
        }
    }

    /// A JSON Schema is an object or a boolean that the engine can compile. Those of one
    /// definition take no more together than one alone may.
    fn schema(&mut self, schema: &'d JsonText, path: &Path<'_>) {
        let text = schema.get();
        if !text.starts_with('{') && text != "true" && text != "false" {
            let message = "a JSON Schema must be an object, or true or false".to_owned();
            self.findings
                .error(codes::INVALID_SCHEMA, message, path.pointer());
            return;
        }
        let Some(check) = self.options.check_schema else {
            return;
        };
        let checked = match self.schemas.get(text) {
            Some(checked) => checked.clone(),
            None if self.schema_cost > SCHEMA_COST => return,
            None => {
                let checked = check(text).and_then(|cost| self.charge_schema(cost));
                self.schemas.insert(text, checked.clone());
                checked
            }
        };
        let (code, message) = match checked {
            Ok(()) => return,
            Err(SchemaProblem::Invalid(reason)) => {
                let message = format!("this is not a usable JSON Schema: {reason}");
                (codes::INVALID_SCHEMA, message)
            }
            Err(SchemaProblem::Limit(reason)) => (codes::SCHEMA_LIMIT, reason),
        };
        self.findings.error(code, message, path.pointer());
    }

    fn charge_schema(&mut self, cost: u64) -> Result<(), SchemaProblem> {
        self.schema_cost += cost;
        if self.schema_cost <= SCHEMA_COST {
            return Ok(());
        }
        let message = "the JSON Schemas of this definition are too many, or too large together";
        Err(SchemaProblem::Limit(message.to_owned()))
    }
}
