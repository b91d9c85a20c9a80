//! What is given to the parser: the text, its format, and the limits.

use std::collections::BTreeSet;
use std::path::Path;

/// A definition's text and where it came from.
#[derive(Clone, Debug)]
pub struct DefinitionSource<'a> {
    /// The file name for messages.
    pub name: String,
    /// The text as it was read.
    pub text: &'a [u8],
    /// How it is written.
    pub format: DefinitionFormat,
}

impl<'a> DefinitionSource<'a> {
    /// A source whose format follows from its file name, or else from its text.
    pub fn new(name: impl Into<String>, text: &'a [u8]) -> Self {
        let name = name.into();
        let format =
            DefinitionFormat::of_path(&name).unwrap_or_else(|| DefinitionFormat::of_text(text));
        Self { name, text, format }
    }
}

/// How a definition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionFormat {
    /// JSON, which is also what is stored.
    Json,
    /// YAML, for authoring.
    Yaml,
}

impl DefinitionFormat {
    /// The format of a file by its extension: `.json`, `.yaml`, `.yml`.
    pub fn of_path(path: &str) -> Option<Self> {
        let extension = Path::new(path).extension()?.to_str()?;
        match extension.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// JSON if the text begins with `{`, else YAML.
    pub fn of_text(text: &[u8]) -> Self {
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        match text.trim_ascii_start().first() {
            Some(b'{') => Self::Json,
            _ => Self::Yaml,
        }
    }
}

/// The limits of a definition. Past each comes an error with its own code.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionLimits {
    /// Bytes of the document.
    pub bytes: usize,
    /// How deep values may sit inside one another; at most [`DefinitionLimits::MAX_NESTING`].
    pub nesting: usize,
    /// Nodes, those of bodies included.
    pub nodes: usize,
    /// Bodies inside bodies.
    pub body_depth: usize,
    /// Bytes of all variables together, their names included.
    pub vars_bytes: u64,
    /// Bytes that YAML aliases may repeat.
    pub alias_bytes: usize,
    /// The limits of each expression and template.
    pub expressions: windlass_expr::ExpressionLimits,
}

impl DefinitionLimits {
    /// No setting allows deeper nesting: reading recurses once for each typed level.
    pub const MAX_NESTING: usize = 64;

    /// The limits that apply unless the caller sets others.
    pub const DEFAULT: Self = Self {
        bytes: 64 * 1024 * 1024,
        nesting: Self::MAX_NESTING,
        nodes: 100_000,
        body_depth: 8,
        vars_bytes: 16 * 1024 * 1024,
        alias_bytes: 1024 * 1024,
        expressions: windlass_expr::ExpressionLimits::DEFAULT,
    };
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What compiling the JSON Schemas of one definition may cost together.
pub const SCHEMA_COST: u64 = 100_000;

/// Says what compiling a JSON Schema costs, or what is wrong with it.
pub type SchemaCheck = fn(&str) -> Result<u64, SchemaProblem>;

/// Why a JSON Schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaProblem {
    /// It is no JSON Schema, or uses what is not supported.
    Invalid(String),
    /// It expands to more than a schema may.
    Limit(String),
}

impl std::fmt::Display for SchemaProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Invalid(reason) | Self::Limit(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for SchemaProblem {}

/// What is wrong with a literal parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterProblem {
    /// RFC 6901 pointer from the parameters to the value that is wrong.
    pub pointer: String,
    /// What is wrong with it.
    pub message: String,
    /// Of a key that the action does not know: the keys that it does.
    pub unknown_key: Option<Vec<String>>,
}

/// Checks literal parameters against what actions take. A value with a template in it fits
/// whatever its type, since the type is known only when it is rendered.
pub trait ParameterCheck: std::fmt::Debug {
    /// What is wrong with the parameters of an action, as JSON text; nothing where the action is
    /// not known.
    fn problems(&self, action: &str, parameters: &str) -> Vec<ParameterProblem>;
}

/// The subworkflows of a definition that the catalogue lacks.
#[derive(Clone, Debug, Default)]
pub struct UnknownWorkflows {
    /// Each with its version, where one is named.
    pub missing: BTreeSet<(Box<str>, Option<u32>)>,
    /// The workflows that there are, for suggestions.
    pub known: Vec<Box<str>>,
    /// Whether the definition is refused for it.
    pub refused: bool,
}

/// What the parser may know beyond the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The limits in force.
    pub limits: DefinitionLimits,
    /// The known actions; an action that is not among them is a warning.
    pub known_actions: Option<&'a BTreeSet<String>>,
    /// Checks a JSON Schema.
    pub check_schema: Option<SchemaCheck>,
    /// Checks literal parameters of actions.
    pub check_parameters: Option<&'a dyn ParameterCheck>,
    /// The subworkflows that the catalogue lacks, where one is at hand.
    pub unknown_workflows: Option<&'a UnknownWorkflows>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_from_the_name_or_else_the_text() {
        for (name, text, format) in [
            ("flow.json", "id: a", DefinitionFormat::Json),
            ("a/flow.YAML", "{}", DefinitionFormat::Yaml),
            ("flow.yml", "{}", DefinitionFormat::Yaml),
            ("-", " \n{ \"id\": 1 }", DefinitionFormat::Json),
            ("-", "\u{FEFF}{}", DefinitionFormat::Json),
            ("flow.txt", "id: a", DefinitionFormat::Yaml),
            ("json", "", DefinitionFormat::Yaml),
        ] {
            assert_eq!(
                DefinitionSource::new(name, text.as_bytes()).format,
                format,
                "{name}"
            );
        }
    }
}
