//! A JSON Schema as a graph of subschemas: which of them see the same value (`allOf`, `$ref`,
//! `if` …) and which see a part of it (`properties`, `items` …). Built from the text alone,
//! whatever draft it names: keywords that one draft would ignore are counted all the same. Must
//! not know how a value is checked.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::pattern;
use super::resolve::{Names, Target};
use windlass_core::definition::SchemaProblem;

/// A subschema, by its place in the graph.
pub(super) type SubschemaIndex = usize;

/// What a subschema asks of a value.
#[derive(Debug, Default)]
pub(super) struct Subschema {
    /// What comparing a value with it takes: its keywords and their constants.
    pub(super) own: u64,
    /// Subschemas written here that see the same value.
    pub(super) inline: Vec<SubschemaIndex>,
    /// Subschemas referred to that see the same value.
    pub(super) references: Vec<SubschemaIndex>,
    /// How many of `unevaluatedProperties` and `unevaluatedItems` there are.
    pub(super) unevaluated: u64,
    /// Members by name.
    pub(super) properties: HashMap<String, SubschemaIndex>,
    /// Members whose names match, each with the states of its pattern.
    pub(super) patterns: Vec<(u64, SubschemaIndex)>,
    /// Members that are not among the above.
    pub(super) additional: Vec<SubschemaIndex>,
    /// Every member.
    pub(super) members: Vec<SubschemaIndex>,
    /// The names of members.
    pub(super) names: Vec<SubschemaIndex>,
    /// The first items, each by itself.
    pub(super) prefix: Vec<SubschemaIndex>,
    /// The items after those.
    pub(super) rest: Vec<SubschemaIndex>,
    /// Every item.
    pub(super) items: Vec<SubschemaIndex>,
    /// The states of `pattern`.
    pub(super) pattern: u64,
    /// Whether `uniqueItems` compares the items.
    pub(super) unique: bool,
    /// Whether every byte of a text is looked at.
    pub(super) reads_text: bool,
}

impl Subschema {
    /// Subschemas that see the same value.
    pub(super) fn same_value(&self) -> impl Iterator<Item = SubschemaIndex> {
        self.inline.iter().chain(&self.references).copied()
    }

    /// Subschemas that see a part of the value.
    pub(super) fn parts(&self) -> impl Iterator<Item = SubschemaIndex> {
        let patterns = self.patterns.iter().map(|(_, place)| place);
        let lists = [&self.additional, &self.members, &self.names];
        let more = [&self.prefix, &self.rest, &self.items];
        let lists = lists.into_iter().chain(more).flatten();
        self.properties
            .values()
            .chain(patterns)
            .chain(lists)
            .copied()
    }
}

/// The subschemas that checking a value can come to; the first is the whole schema.
#[derive(Debug, Default)]
pub(super) struct SchemaGraph {
    pub(super) subschemas: Vec<Subschema>,
    /// Whether reporting problems tries several branches.
    pub(super) branches: bool,
    /// What compiling all patterns takes.
    pub(super) pattern_work: u64,
}

/// Reads a schema.
///
/// # Errors
/// It refers to what is not in it, or has more subschemas than `most`.
pub(super) fn read(schema: &Value, most: usize) -> Result<SchemaGraph, SchemaProblem> {
    let mut reader = Reader {
        names: Names::of(schema),
        places: HashMap::new(),
        waiting: Vec::new(),
        graph: SchemaGraph::default(),
        meta: None,
    };
    reader.place(schema);
    while let Some((place, schema)) = reader.waiting.pop() {
        if reader.graph.subschemas.len() > most {
            let message = format!("the schema has more than {most} subschemas");
            return Err(SchemaProblem::Limit(message));
        }
        let read = reader.subschema(schema)?;
        reader.graph.subschemas[place] = read;
    }
    Ok(reader.graph)
}

struct Reader<'s> {
    names: Names<'s>,
    /// By address: the same part of the document is the same subschema.
    places: HashMap<*const Value, SubschemaIndex>,
    waiting: Vec<(SubschemaIndex, &'s Value)>,
    graph: SchemaGraph,
    /// Stands for the schemas of schemas, which are known to every validator.
    meta: Option<SubschemaIndex>,
}

/// Keywords that say nothing about a value.
const SILENT: [&str; 9] = [
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "$comment",
    "$id",
    "$schema",
];

/// What a schema of schemas takes for each part of a value.
const META_WORK: u64 = 500;

impl<'s> Reader<'s> {
    fn place(&mut self, schema: &'s Value) -> SubschemaIndex {
        let next = self.graph.subschemas.len();
        let place = *self.places.entry(schema).or_insert(next);
        if place == next {
            self.graph.subschemas.push(Subschema::default());
            self.waiting.push((place, schema));
        }
        place
    }

    fn meta(&mut self) -> SubschemaIndex {
        if let Some(place) = self.meta {
            return place;
        }
        let place = self.graph.subschemas.len();
        self.graph.subschemas.push(Subschema {
            own: META_WORK,
            members: vec![place],
            items: vec![place],
            names: vec![place],
            ..Subschema::default()
        });
        self.meta = Some(place);
        place
    }

    fn subschema(&mut self, schema: &'s Value) -> Result<Subschema, SchemaProblem> {
        let mut read = Subschema {
            own: 1,
            ..Subschema::default()
        };
        let Value::Object(keywords) = schema else {
            return Ok(read);
        };
        for (keyword, value) in keywords {
            if !SILENT.contains(&keyword.as_str()) {
                read.own += 1;
                self.keyword(keyword, value, &mut read)?;
            }
        }
        Ok(read)
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'s Value,
        read: &mut Subschema,
    ) -> Result<(), SchemaProblem> {
        match keyword {
            "allOf" | "anyOf" | "oneOf" => {
                self.graph.branches |= keyword != "allOf";
                read.inline.extend(self.list(value));
            }
            "not" | "if" | "then" | "else" => read.inline.push(self.place(value)),
            "dependentSchemas" => read.inline.extend(self.map(value)),
            "dependencies" => {
                read.own += weight(value);
                read.inline.extend(self.map(value));
            }
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                for target in self.names.targets(keyword, value)? {
                    let place = match target {
                        Target::Schema(schema) => self.place(schema),
                        Target::Meta => self.meta(),
                    };
                    read.references.push(place);
                }
            }
            "properties" => {
                let members = value.as_object().into_iter().flatten();
                for (name, schema) in members {
                    let place = self.place(schema);
                    read.properties.insert(name.clone(), place);
                }
            }
            "patternProperties" => {
                let members = value.as_object().into_iter().flatten();
                for (name, schema) in members {
                    let place = self.place(schema);
                    read.patterns.push((self.pattern(name)?, place));
                }
            }
            "additionalProperties" => read.additional.push(self.place(value)),
            "unevaluatedProperties" => {
                read.unevaluated += 1;
                read.members.push(self.place(value));
            }
            "propertyNames" => read.names.push(self.place(value)),
            "prefixItems" => read.prefix.extend(self.list(value)),
            // Before 2020-12 a list of schemas is what `prefixItems` is now.
            "items" if value.is_array() => read.prefix.extend(self.list(value)),
            "items" | "additionalItems" => read.rest.push(self.place(value)),
            "contains" => read.items.push(self.place(value)),
            "unevaluatedItems" => {
                read.unevaluated += 1;
                read.items.push(self.place(value));
            }
            "pattern" => {
                let text = value.as_str().unwrap_or_default();
                read.pattern += self.pattern(text)?;
            }
            "uniqueItems" => read.unique = value == &Value::Bool(true),
            "format" | "minLength" | "maxLength" | "contentEncoding" | "contentMediaType" => {
                read.reads_text = true;
            }
            // Constants: `enum`, `const`, `required`, `type`, numbers.
            _ => read.own += weight(value),
        }
        Ok(())
    }

    /// The states of a pattern. Compiling patterns is bounded, too.
    fn pattern(&mut self, text: &str) -> Result<u64, SchemaProblem> {
        let states = pattern::states(text);
        self.graph.pattern_work += pattern::compiling(states);
        if self.graph.pattern_work > pattern::MOST_COMPILING {
            let message = format!(
                "the patterns of the schema take {} steps to compile together; they may take {}",
                self.graph.pattern_work,
                pattern::MOST_COMPILING
            );
            return Err(SchemaProblem::Limit(message));
        }
        Ok(states)
    }

    fn list(&mut self, value: &'s Value) -> Vec<SubschemaIndex> {
        let list = value.as_array().into_iter().flatten();
        list.map(|schema| self.place(schema)).collect()
    }

    fn map(&mut self, value: &'s Value) -> Vec<SubschemaIndex> {
        let members = value.as_object().into_iter().flat_map(Map::values);
        members.map(|schema| self.place(schema)).collect()
    }
}

/// What comparing with a constant takes at most: its values, and a unit for 32 bytes of text.
pub(super) fn weight(value: &Value) -> u64 {
    let text = |text: &str| text.len() as u64 / 32;
    1 + match value {
        Value::String(value) => text(value),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| text(name) + weight(value))
            .sum(),
        _ => 0,
    }
}
