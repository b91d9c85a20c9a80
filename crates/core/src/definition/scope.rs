//! Which names an expression may use, by where it stands in a definition.
//!
//! Validation and the plan compile the same sources; taking the scopes from
//! here is what makes them agree.

use windlass_expr::Scope;

/// The table of node outputs.
pub const DATA: &str = "context.data";
/// The object of variables.
pub const VARS: &str = "vars";
/// The table of secrets, where a worker renders.
pub const SECRETS: &str = "secrets";

/// Names that mean something of their own, so that no `itemName` can take them.
pub const RESERVED: &[&str] = &[
    "trigger",
    "$",
    "context",
    "vars",
    "run",
    "now",
    "uuid",
    "secrets",
    "output",
    "error",
    "parameters",
    "index",
    "iteration",
    "last",
    "true",
    "false",
    "null",
    "undefined",
    "NaN",
    "Infinity",
    "Object",
    "Array",
    "JSON",
    "Math",
    "Number",
    "String",
    "Boolean",
    "isNaN",
    "parseInt",
    "parseFloat",
    "encodeURIComponent",
    "duration",
    "date",
    "typeof",
    "in",
    "this",
    "new",
    "function",
];

const COMMON: [&str; 5] = ["trigger", VARS, "run", "now", "uuid"];

/// The names that the loops around a place add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BodyNames {
    names: Vec<Box<str>>,
}

impl BodyNames {
    /// Outside of every body.
    pub fn top() -> Self {
        Self::default()
    }

    /// Inside a body at this place: `item`, `index`, `iteration`, `last`, and the
    /// loop's own name for its item. Names of loops further out stay readable.
    #[must_use]
    pub fn body(&self, item_name: Option<&str>) -> Self {
        let mut names = self.names.clone();
        for name in ["item", "index", "iteration", "last"]
            .into_iter()
            .chain(item_name)
        {
            if !names.iter().any(|known| **known == *name) {
                names.push(name.into());
            }
        }
        Self { names }
    }

    fn scope(&self, more: &[&str], tables: &[&str]) -> Scope {
        let mut values = COMMON.to_vec();
        values.extend(self.names.iter().map(|name| &**name));
        values.extend(more);
        Scope::new(&values, tables).with_alias("$", "trigger")
    }
}

/// `items`, `input`, `delay.until`, a run's and a body's `output`.
pub fn plain(names: &BodyNames) -> Scope {
    names.scope(&[], &[DATA])
}

/// An edge's `condition` and `switch.on`: also the parent's `output` and `error`.
pub fn edge(names: &BodyNames) -> Scope {
    names.scope(&["output", "error"], &[DATA])
}

/// `setVars`: also the node's `output`.
pub fn set_vars(names: &BodyNames) -> Scope {
    names.scope(&["output"], &[DATA])
}

/// A node's `parameters`: also `secrets`.
pub fn parameters(names: &BodyNames) -> Scope {
    names.scope(&[], &[DATA, SECRETS])
}

/// `compensate.parameters`: also the node's `output` and `parameters`, and `secrets`.
pub fn compensate(names: &BodyNames) -> Scope {
    names.scope(&["output", "parameters"], &[DATA, SECRETS])
}

/// `subworkflow.output`: also the child's `output`.
pub fn subworkflow_output(names: &BodyNames) -> Scope {
    names.scope(&["output"], &[DATA])
}

/// `while.condition` and `retryUntil.until`: also `iteration` and `last` of that loop.
pub fn loop_condition(names: &BodyNames) -> Scope {
    names.scope(&["iteration", "last"], &[DATA])
}

/// `concurrency.key`: what is known before a run starts.
pub fn concurrency_key() -> Scope {
    Scope::new(&["trigger", "vars", "run"], &[]).with_alias("$", "trigger")
}
