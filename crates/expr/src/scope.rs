//! The names an expression may use, and the references it makes to them.

/// Names an expression may use. The crate knows nothing of workflows.
#[derive(Clone, Debug)]
pub struct Scope {
    values: Vec<Box<str>>,
    tables: Vec<Box<str>>,
    /// A second name and the first.
    aliases: Vec<(Box<str>, Box<str>)>,
}

impl Scope {
    /// A scope of plain root names (`values`) and of dotted paths whose next key must be a
    /// constant (`tables`, for example `context.data`).
    pub fn new(values: &[&str], tables: &[&str]) -> Self {
        let boxed = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        Self {
            values: boxed(values),
            tables: boxed(tables),
            aliases: Vec::new(),
        }
    }

    /// Adds one more plain root name.
    #[must_use]
    pub fn with_value(mut self, name: &str) -> Self {
        if !self.has_value(name) {
            self.values.push(name.into());
        }
        self
    }

    /// Makes one plain root name another name of the same value.
    #[must_use]
    pub fn with_alias(mut self, alias: &str, name: &str) -> Self {
        self = self.with_value(alias);
        self.aliases.push((alias.into(), name.into()));
        self
    }

    /// The name under which the caller provides a value.
    pub(crate) fn first_name<'n>(&'n self, name: &'n str) -> &'n str {
        let alias = self.aliases.iter().find(|(alias, _)| **alias == *name);
        alias.map_or(name, |(_, first)| first)
    }

    pub(crate) fn has_value(&self, name: &str) -> bool {
        self.values.iter().any(|value| **value == *name)
    }

    /// Whether some table's path starts with the segments of `path`, and whether it is a table itself.
    pub(crate) fn tables(&self) -> &[Box<str>] {
        &self.tables
    }

    /// Every root name, for suggestions.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &str> {
        let tables = self
            .tables
            .iter()
            .map(|table| table.split('.').next().unwrap_or(table));
        self.values.iter().map(AsRef::as_ref).chain(tables)
    }
}

/// A static reference. Two occurrences of the same reference share one slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reference {
    /// A plain root name.
    Value(Box<str>),
    /// One entry of a table.
    Entry {
        /// The table's dotted path.
        table: Box<str>,
        /// The constant key.
        key: Box<str>,
    },
}

/// Where a source reads a field of a plain value by its name: `vars.region`, `vars['region']`.
#[derive(Clone, Debug)]
pub struct Field {
    /// The pointer from a template to the string; empty for a bare expression.
    pub pointer: String,
    /// The plain root name.
    pub value: Box<str>,
    /// The field.
    pub key: Box<str>,
    /// First byte of the field in the source or decoded string.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

/// Where a source refers to something.
#[derive(Clone, Debug)]
pub struct Mention {
    /// The pointer from a template to the string; empty for a bare expression.
    pub pointer: String,
    /// What it refers to.
    pub reference: Reference,
    /// The byte offset of the first occurrence in the source or decoded string.
    pub offset: usize,
}
