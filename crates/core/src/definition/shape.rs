//! The shape of a definition, read from its generated JSON Schema.
//!
//! The types are the only description of the document. This turns the schema
//! that schemars makes of them into a small table that the structural check can
//! walk without looking anything up by name twice.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::repair::STAND_IN;
use super::schema::schema;
use crate::name::{KEY_PATTERN, TEXT_PATTERN, is_key_name};

/// What is expected at one place of the document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Which kind, by its place in the table.
    kind: usize,
    /// Whether `null` stands for "not given".
    pub(crate) nullable: bool,
}

impl Shape {
    /// Anything at all; its kind is always the first of the table.
    pub(crate) const ANY: Self = Self {
        kind: 0,
        nullable: true,
    };
}

/// The kinds of shapes that the types make use of.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Free-form JSON.
    Any,
    /// A text.
    Text(Text),
    /// A whole number.
    Integer {
        /// The least allowed.
        min: u64,
        /// The greatest allowed.
        max: u64,
        /// The greatest that the type can hold.
        capacity: u64,
    },
    /// Any number.
    Number {
        /// The least allowed.
        min: f64,
        /// The greatest allowed.
        max: f64,
    },
    /// `true` or `false`.
    Bool,
    /// A list.
    List {
        /// What its elements look like.
        item: Shape,
        /// Whether it may be empty.
        may_be_empty: bool,
        /// How many there may be.
        most: usize,
    },
    /// An object with keys of the author's choice.
    Map {
        /// What its keys must be.
        key: Text,
        /// What its values look like.
        value: Shape,
        /// How many there may be.
        most: usize,
    },
    /// An object with known keys.
    Object {
        /// What people call it.
        name: String,
        /// Its keys.
        fields: Vec<Field>,
        /// The bits of the fields that must be given.
        required: u64,
    },
    /// One of several words, or an object.
    Choice {
        /// The words.
        words: Vec<String>,
        /// The object, if one is allowed.
        object: Option<Shape>,
    },
}

/// A known key of an object.
#[derive(Debug)]
pub(crate) struct Field {
    /// The key.
    pub(crate) name: String,
    /// What its value looks like.
    pub(crate) shape: Shape,
}

/// What a text must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    /// What it must match.
    pub(crate) pattern: Option<Pattern>,
    /// Whether it may be empty.
    pub(crate) may_be_empty: bool,
    /// How many bytes it may have.
    pub(crate) most_bytes: usize,
}

impl Text {
    fn read(schema: &Value) -> Self {
        let most = schema["maxLength"].as_u64();
        Self {
            pattern: Pattern::ALL
                .into_iter()
                .find(|pattern| schema["pattern"] == pattern.as_str()),
            may_be_empty: schema["minLength"].as_u64().unwrap_or(0) == 0,
            most_bytes: most.map_or(usize::MAX, |most| {
                usize::try_from(most).unwrap_or(usize::MAX)
            }),
        }
    }

    /// Says what a text must be if it is not that: whether a name or any other value, and how.
    pub(crate) fn refusal(&self, text: &str) -> Option<(bool, String)> {
        match self.pattern {
            Some(Pattern::Line) if !Pattern::Line.matches(text) || text.len() > self.most_bytes => {
                let most = self.most_bytes;
                let must = format!("have at most {most} bytes and no control characters");
                Some((true, must))
            }
            Some(pattern) if !pattern.matches(text) => {
                Some((true, format!("match {}", pattern.as_str())))
            }
            _ if text.len() > self.most_bytes => {
                Some((true, format!("have at most {} bytes", self.most_bytes)))
            }
            _ if text.is_empty() && !self.may_be_empty => Some((false, "not be empty".to_owned())),
            _ => None,
        }
    }
}

/// The patterns that the schema uses, checked without a regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// `^[a-z0-9-]{1,128}$`
    WorkflowId,
    /// `^[A-Za-z0-9_-]{1,128}$`
    NodeId,
    /// `^[A-Za-z_$][A-Za-z0-9_$]{0,127}$`
    Name,
    /// Names that become keys.
    Key,
    /// Names for people: no control characters.
    Line,
}

impl Pattern {
    const ALL: [Self; 5] = [
        Self::WorkflowId,
        Self::NodeId,
        Self::Name,
        Self::Key,
        Self::Line,
    ];

    /// The pattern as the schema writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::WorkflowId => "^[a-z0-9-]{1,128}$",
            Self::NodeId => "^[A-Za-z0-9_-]{1,128}$",
            Self::Name => "^[A-Za-z_$][A-Za-z0-9_$]{0,127}$",
            Self::Key => KEY_PATTERN,
            Self::Line => TEXT_PATTERN,
        }
    }

    /// Whether the text matches.
    pub(crate) fn matches(self, text: &str) -> bool {
        match self {
            Self::Key => return is_key_name(text),
            Self::Line => return !text.contains(char::is_control),
            Self::WorkflowId | Self::NodeId | Self::Name => {}
        }
        let fits = |byte: u8| match self {
            Self::WorkflowId => matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'),
            Self::NodeId => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            _ => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'),
        };
        let begins = self != Self::Name || !text.starts_with(|c: char| c.is_ascii_digit());
        (1..=128).contains(&text.len()) && begins && text.bytes().all(fits)
    }
}

/// All shapes of a definition.
#[derive(Debug)]
pub(crate) struct Shapes {
    kinds: Vec<Kind>,
    root: Shape,
}

impl Shapes {
    /// JSON that fits a shape and says nothing: for what a document should have and has not.
    pub(crate) fn stand_in(&self, shape: Shape) -> String {
        match self.kind(shape) {
            Kind::Any => "null".to_owned(),
            Kind::Text(_) => serde_json::json!(STAND_IN).to_string(),
            Kind::Integer { min, .. } => min.to_string(),
            Kind::Number { min, .. } => min.to_string(),
            Kind::Bool => "false".to_owned(),
            Kind::List { .. } => "[]".to_owned(),
            Kind::Map { .. } => "{}".to_owned(),
            Kind::Object {
                fields, required, ..
            } => {
                let needed = fields.iter().enumerate();
                let needed = needed.filter(|(bit, _)| required & (1 << bit) != 0);
                let members: Vec<_> = needed
                    .map(|(_, field)| format!("\"{}\":{}", field.name, self.stand_in(field.shape)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
            Kind::Choice { words, object } => match (words.first(), object) {
                (Some(word), _) => serde_json::json!(word).to_string(),
                (None, Some(object)) => self.stand_in(*object),
                (None, None) => "null".to_owned(),
            },
        }
    }
}

impl Shapes {
    /// The shapes, read once.
    pub(crate) fn of_definition() -> &'static Self {
        static SHAPES: OnceLock<Shapes> = OnceLock::new();
        SHAPES.get_or_init(|| Self::read(&schema()))
    }

    /// The shape of the document.
    pub(crate) fn root(&self) -> Shape {
        self.root
    }

    /// What a shape asks for.
    pub(crate) fn kind(&self, shape: Shape) -> &Kind {
        &self.kinds[shape.kind]
    }

    /// Where a key belongs that an object does not have but something inside it has: `retry` of a
    /// node is `policies.retry`. At most two levels down, the nearest first.
    pub(crate) fn places_inside(&self, shape: Shape, key: &str) -> Vec<String> {
        let mut places: Vec<String> = Vec::new();
        let mut level = self.members(shape, "");
        for _ in 0..2 {
            let objects = level.iter();
            let below: Vec<_> = objects
                .flat_map(|(path, shape)| self.members(*shape, path))
                .collect();
            for (path, _) in &below {
                let is_key = path.rsplit('.').next() == Some(key);
                // What compensates a node takes the same policies as the node.
                let is_told = places.iter().any(|place| path.ends_with(&**place));
                if is_key && !is_told {
                    places.push(path.clone());
                }
            }
            level = below;
        }
        places
    }

    /// The members of an object, of the object that a choice allows, or of a list's items, by path.
    fn members(&self, shape: Shape, path: &str) -> Vec<(String, Shape)> {
        match self.kind(shape) {
            Kind::Object { fields, .. } => {
                let dot = if path.is_empty() { "" } else { "." };
                let fields = fields.iter();
                fields
                    .map(|field| (format!("{path}{dot}{}", field.name), field.shape))
                    .collect()
            }
            Kind::Choice {
                object: Some(object),
                ..
            } => self.members(*object, path),
            Kind::List { item, .. } => self.members(*item, &format!("{path}[]")),
            _ => Vec::new(),
        }
    }

    fn read(schema: &Value) -> Self {
        let mut reader = Reader {
            schema,
            kinds: vec![Kind::Any],
            named: HashMap::new(),
        };
        let root = reader.shape(schema, "Definition");
        Self {
            kinds: reader.kinds,
            root,
        }
    }
}

struct Reader<'s> {
    schema: &'s Value,
    kinds: Vec<Kind>,
    named: HashMap<String, Shape>,
}

impl Reader<'_> {
    fn shape(&mut self, schema: &Value, name: &str) -> Shape {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.named(reference.trim_start_matches("#/$defs/"));
        }
        if let Some(options) = schema["anyOf"].as_array() {
            // An optional struct: `anyOf: [{$ref}, {type: null}]`.
            return Shape {
                nullable: true,
                ..self.shape(&options[0], name)
            };
        }
        let (word, nullable) = match &schema["type"] {
            Value::String(kind) => (kind.as_str(), false),
            Value::Array(kinds) => (kinds[0].as_str().unwrap_or_default(), true),
            _ if schema["oneOf"].is_array() => ("choice", false),
            _ => return Shape::ANY,
        };
        let kind = match word {
            "choice" => self.choice(&schema["oneOf"], name),
            "string" => Kind::Text(Text::read(schema)),
            "integer" => integer(schema),
            "number" => Kind::Number {
                min: schema["minimum"].as_f64().unwrap_or(f64::MIN),
                max: schema["maximum"].as_f64().unwrap_or(f64::MAX),
            },
            "boolean" => Kind::Bool,
            "array" => Kind::List {
                item: self.shape(&schema["items"], name),
                may_be_empty: schema["minItems"].as_u64().unwrap_or(0) == 0,
                most: most(&schema["maxItems"]),
            },
            _ if schema["properties"].is_object() => self.object(schema, name),
            _ => Kind::Map {
                key: Text::read(&schema["propertyNames"]),
                value: self.shape(&schema["additionalProperties"], name),
                most: most(&schema["maxProperties"]),
            },
        };
        self.kinds.push(kind);
        Shape {
            kind: self.kinds.len() - 1,
            nullable,
        }
    }

    fn named(&mut self, name: &str) -> Shape {
        if let Some(shape) = self.named.get(name) {
            return *shape;
        }
        // The place is taken before the shape is read: a node holds bodies of nodes.
        self.kinds.push(Kind::Any);
        let shape = Shape {
            kind: self.kinds.len() - 1,
            nullable: false,
        };
        self.named.insert(name.to_owned(), shape);
        let schema = self.schema;
        let read = self.shape(&schema["$defs"][name], name);
        self.kinds.swap(shape.kind, read.kind);
        shape
    }

    fn object(&mut self, schema: &Value, name: &str) -> Kind {
        let mut fields = Vec::new();
        let mut required = 0u64;
        let needed = schema["required"].as_array();
        for (key, value) in schema["properties"].as_object().into_iter().flatten() {
            let shape = self.shape(value, key);
            if needed.is_some_and(|needed| needed.iter().any(|name| name == key)) {
                required |= 1 << fields.len();
            }
            fields.push(Field {
                name: key.clone(),
                shape,
            });
        }
        Kind::Object {
            name: spoken(name),
            fields,
            required,
        }
    }

    fn choice(&mut self, options: &Value, name: &str) -> Kind {
        let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
        let words = options
            .iter()
            .filter_map(|option| option["const"].as_str().map(str::to_owned))
            .collect();
        let object = options
            .iter()
            .find(|option| option["type"] == "object")
            .map(|option| self.shape(option, name));
        Kind::Choice { words, object }
    }
}

/// A bound on a count, where the schema has one.
fn most(bound: &Value) -> usize {
    let bound = bound.as_u64().and_then(|most| usize::try_from(most).ok());
    bound.unwrap_or(usize::MAX)
}

fn integer(schema: &Value) -> Kind {
    let capacity = match schema["format"].as_str() {
        Some("uint8") => u64::from(u8::MAX),
        Some("uint32") => u64::from(u32::MAX),
        _ => u64::MAX,
    };
    Kind::Integer {
        min: schema["minimum"].as_u64().unwrap_or(0),
        max: schema["maximum"].as_u64().unwrap_or(capacity),
        capacity,
    }
}

/// What people call an object of this type.
fn spoken(name: &str) -> String {
    match name {
        "Definition" => "the definition".to_owned(),
        "Node" => "a node".to_owned(),
        "Edge" => "an edge".to_owned(),
        "Body" => "a body".to_owned(),
        other => {
            let mut characters = other.chars();
            let first = characters.next().map(|c| c.to_ascii_lowercase());
            format!(
                "'{}'",
                first.into_iter().chain(characters).collect::<String>()
            )
        }
    }
}
