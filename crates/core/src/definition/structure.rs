//! Checks a document against the shape of the types while it is scanned.
//!
//! Every problem is collected, with its byte range. So that the document can still
//! be read and checked further, what can be left out without changing what the rest
//! means (an unknown key, an optional value of the wrong type) is cut, and what the
//! rest cannot do without gets a stand-in that later checks pass over.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::codes;
use super::path::{push_index, push_key};
use super::problem::{Findings, SourceLocation};
use super::repair::{Edit, LeftOut};
use super::scan::{Container, KeyToken, Scalar, Sink, unescape};
use super::shape::{Kind, Shape, Shapes};
use super::suggest::Suggester;
use crate::name::TEXT_BYTES;

/// Past this many keys an object's keys are looked up by hash.
const FEW_KEYS: usize = 16;

/// The structural check, a sink of the scanner.
pub(crate) struct Structure<'t, 'f> {
    text: &'t str,
    shapes: &'static Shapes,
    frames: Vec<Frame<'t>>,
    findings: &'f mut Findings,
    suggester: Suggester,
    edits: Vec<Edit>,
    left_out: LeftOut,
    /// Whether something is wrong that cannot be mended.
    broken: bool,
}

/// What the structural check left for the checks after it.
pub(crate) struct Outcome {
    /// How the document is mended before it can be read, in the order of its text.
    pub(crate) edits: Vec<Edit>,
    /// Where something is missing then.
    pub(crate) left_out: LeftOut,
    /// Whether it cannot be read even then.
    pub(crate) broken: bool,
}

struct Frame<'t> {
    shape: Shape,
    container: Container,
    start: usize,
    /// The shape of the value that comes next.
    expected: Shape,
    key: Option<KeyToken<'t>>,
    index: usize,
    /// The known fields seen so far, by their bits.
    seen: u64,
    /// The other keys seen so far.
    keys: Vec<Cow<'t, str>>,
    many_keys: HashSet<Cow<'t, str>>,
    /// Whether the member that is being read is to be left out.
    cut: bool,
    /// Where the value that is being read begins, if it gets a stand-in.
    stand_in: Option<usize>,
    /// The known key that an unknown one may have been meant to be.
    meant: Option<String>,
    /// Whether the member may be left out.
    optional: bool,
    /// Whether the container itself is of the wrong type.
    mistyped: bool,
}

impl<'t, 'f> Structure<'t, 'f> {
    /// A check of this text.
    pub(crate) fn new(text: &'t str, findings: &'f mut Findings) -> Self {
        Self {
            text,
            shapes: Shapes::of_definition(),
            frames: Vec::new(),
            findings,
            suggester: Suggester::default(),
            edits: Vec::new(),
            left_out: LeftOut::default(),
            broken: false,
        }
    }

    /// What is left to do once the document was scanned.
    pub(crate) fn finish(mut self) -> Outcome {
        // A missing member is noticed at an object's end, and written at its beginning.
        self.edits
            .sort_by_key(|edit| (edit.range.start, edit.range.end));
        Outcome {
            edits: self.edits,
            left_out: self.left_out,
            broken: self.broken,
        }
    }

    fn expected(&self) -> Shape {
        self.frames
            .last()
            .map_or(self.shapes.root(), |frame| frame.expected)
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for frame in &self.frames {
            match (&frame.key, frame.container) {
                // A key may be as long as the document, and each problem inside it names it.
                (Some(key), Container::Object) if key.text.len() > TEXT_BYTES => {
                    push_key(&mut pointer, &shortened(&key.text));
                }
                (Some(key), Container::Object) => push_key(&mut pointer, &key.text),
                (None, Container::Object) => {}
                (_, Container::List) => push_index(&mut pointer, frame.index),
            }
        }
        pointer
    }

    /// The value that is being read and begins here cannot be used.
    fn refuse(&mut self, start: usize) {
        match self.frames.last_mut() {
            Some(frame) if frame.container == Container::Object && frame.optional => {
                frame.cut = true;
            }
            Some(frame) => frame.stand_in = Some(start),
            None => self.broken = true,
        }
    }

    fn wrong_type(&mut self, shape: Shape, found: &str, span: Range<usize>) {
        if self.findings.only_counts() {
            return self.refuse(span.start);
        }
        let expected = expectation(self.shapes.kind(shape));
        let message = match self.frames.last() {
            Some(Frame { key: Some(key), .. }) => {
                format!("'{}' must be {expected}, not {found}", shortened(&key.text))
            }
            Some(_) => format!("an element here must be {expected}, not {found}"),
            None => format!("a definition must be {expected}, not {found}"),
        };
        let pointer = self.pointer();
        let start = span.start;
        self.findings
            .error(codes::WRONG_TYPE, message, pointer)
            .at(SourceLocation::At(span));
        self.refuse(start);
    }

    fn invalid(&mut self, code: &'static str, message: String, span: Range<usize>) {
        if self.findings.only_counts() {
            return;
        }
        let pointer = self.pointer();
        self.findings
            .error(code, message, pointer)
            .at(SourceLocation::At(span));
    }

    /// The name of the member that is being read, for messages.
    fn member(&self) -> String {
        match self.frames.last().and_then(|frame| frame.key.as_ref()) {
            Some(key) => format!("'{}'", shortened(&key.text)),
            None => "an element here".to_owned(),
        }
    }

    fn text_value(&mut self, shape: Shape, span: Range<usize>) {
        let raw = &self.text[span.start + 1..span.end - 1];
        let text = if raw.contains('\\') {
            Cow::Owned(unescape(raw))
        } else {
            Cow::Borrowed(raw)
        };
        match self.shapes.kind(shape) {
            Kind::Any => {}
            Kind::Text(rule) => {
                if let Some((is_name, must)) = rule.refusal(&text) {
                    let message = format!("{} must {must}", self.member());
                    let code = match is_name {
                        true => codes::INVALID_ID,
                        false => codes::INVALID_VALUE,
                    };
                    self.invalid(code, message, span);
                }
            }
            kind @ Kind::Choice { words, .. } => {
                if words.iter().any(|word| *word == *text) {
                    return;
                }
                let message = format!("{} must be {}", self.member(), expectation(kind));
                let suggestion = self
                    .suggester
                    .did_you_mean(&text, words.iter().map(String::as_str));
                let pointer = self.pointer();
                let start = span.start;
                self.findings
                    .error(codes::INVALID_VALUE, message, pointer)
                    .at(SourceLocation::At(span))
                    .suggest(suggestion);
                self.refuse(start);
            }
            _ => self.wrong_type(shape, "a text", span),
        }
    }

    fn number_value(&mut self, shape: Shape, span: Range<usize>) {
        let text = &self.text[span.clone()];
        let (allowed, usable) = match self.shapes.kind(shape) {
            Kind::Any => return,
            Kind::Integer { min, max, capacity } => {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let value = text.parse::<u64>().ok().filter(|_| digits);
                if value.is_some_and(|value| (*min..=*max).contains(&value)) {
                    return;
                }
                if text.contains(['.', 'e', 'E']) {
                    return self.wrong_type(shape, "a fraction", span);
                }
                let usable = value.is_some_and(|value| value <= *capacity);
                (range(*min, *max, *capacity), usable)
            }
            Kind::Number { min, max } => {
                let value = text.parse::<f64>().unwrap_or(f64::NAN);
                if (*min..=*max).contains(&value) {
                    return;
                }
                (format!("between {min} and {max}"), true)
            }
            _ => return self.wrong_type(shape, "a number", span),
        };
        let message = format!("{} must be {allowed}", self.member());
        let start = span.start;
        self.invalid(codes::INVALID_VALUE, message, span);
        if !usable {
            self.refuse(start);
        }
    }

    /// Remembers that what is being read, or a member of it, is missing. When there are so many
    /// problems that they are only counted, it does not matter any more.
    fn note(&mut self, member: Option<&str>) {
        if self.findings.only_counts() {
            return;
        }
        let mut pointer = self.pointer();
        let meant = self.frames.last_mut().and_then(|frame| frame.meant.take());
        if let Some(member) = member {
            push_key(&mut pointer, member);
        }
        self.left_out.note(&pointer, meant.as_deref());
    }

    /// A member or element was read to its end.
    fn ended(&mut self, end: usize) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        let (cut, stand_in) = (std::mem::take(&mut frame.cut), frame.stand_in.take());
        let start = frame.key.as_ref().map_or(end, |key| key.span.start);
        let expected = frame.expected;
        if cut {
            self.note(None);
            self.edits.push(Edit::cut(start..end));
        } else if let Some(start) = stand_in {
            let text = self.shapes.stand_in(expected);
            self.note(None);
            self.edits.push(Edit::replace(start..end, text));
        }
        if let Some(frame) = self.frames.last_mut()
            && frame.container == Container::List
        {
            frame.index += 1;
        }
    }

    fn unknown_key(&mut self, key: &KeyToken<'t>) {
        if self.findings.only_counts() {
            return;
        }
        let Some(frame) = self.frames.last() else {
            return;
        };
        let Kind::Object { name, fields, .. } = self.shapes.kind(frame.shape) else {
            return;
        };
        let message = format!("unknown key '{}' in {name}", shortened(&key.text));
        let known = fields.iter().map(|field| field.name.as_str());
        let meant = self.suggester.nearest(&key.text, known.clone());
        let meant = meant.map(str::to_owned);
        let inside = self.shapes.places_inside(frame.shape, &key.text);
        let suggestion = match &meant {
            Some(name) => format!("did you mean '{name}'?"),
            None if !inside.is_empty() => {
                let places: Vec<_> = inside.iter().map(|place| format!("'{place}'")).collect();
                format!("did you mean {}?", places.join(" or "))
            }
            None => format!("known keys: {}", known.collect::<Vec<_>>().join(", ")),
        };
        let pointer = self.pointer();
        self.findings
            .error(codes::UNKNOWN_KEY, message, pointer)
            .at(SourceLocation::At(key.span.clone()))
            .suggest(Some(suggestion));
        if let Some(frame) = self.frames.last_mut() {
            frame.meant = meant;
        }
    }

    fn duplicate_key(&mut self, key: &KeyToken<'t>) {
        if self.findings.only_counts() {
            return;
        }
        let message = format!("the key '{}' is given twice", shortened(&key.text));
        let pointer = self.pointer();
        self.findings
            .error(codes::DUPLICATE_KEY, message, pointer)
            .at(SourceLocation::At(key.span.clone()));
    }
}

impl<'t> Sink<'t> for Structure<'t, '_> {
    fn open(&mut self, at: usize, container: Container) {
        let shape = self.expected();
        let (inner, expected, mistyped) = match (self.shapes.kind(shape), container) {
            (Kind::Any, _) => (Shape::ANY, Shape::ANY, false),
            (Kind::List { item, .. }, Container::List) => (shape, *item, false),
            (Kind::Map { value, .. }, Container::Object) => (shape, *value, false),
            (Kind::Object { .. }, Container::Object) => (shape, Shape::ANY, false),
            (
                Kind::Choice {
                    object: Some(object),
                    ..
                },
                Container::Object,
            ) => (*object, Shape::ANY, false),
            _ => (Shape::ANY, Shape::ANY, true),
        };
        if mistyped {
            let found = match container {
                Container::List => "a list",
                Container::Object => "an object",
            };
            self.wrong_type(shape, found, at..at + 1);
        }
        self.frames.push(Frame {
            shape: inner,
            container,
            start: at,
            expected,
            key: None,
            index: 0,
            seen: 0,
            keys: Vec::new(),
            many_keys: HashSet::new(),
            cut: false,
            stand_in: None,
            meant: None,
            optional: false,
            mistyped,
        });
    }

    fn close(&mut self, end: usize) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
        let span = frame.start..frame.start + 1;
        match self.shapes.kind(frame.shape) {
            Kind::Object {
                name,
                fields,
                required,
            } => {
                let missing = required & !frame.seen;
                for (bit, field) in fields.iter().enumerate() {
                    if missing & (1 << bit) != 0 {
                        let message = format!("{name} needs the key '{}'", field.name);
                        self.invalid(codes::MISSING_KEY, message, span.clone());
                        let value = self.shapes.stand_in(field.shape);
                        self.note(Some(&field.name));
                        let text = format!("\"{}\":{value},", field.name);
                        self.edits.push(Edit::insert(span.end, text));
                    }
                }
            }
            Kind::List {
                may_be_empty: false,
                ..
            } if frame.index == 0 && !frame.mistyped => {
                let message = "there are no nodes".to_owned();
                self.invalid(codes::NO_NODES, message, span);
            }
            Kind::List { most, .. } if frame.index > *most => {
                let message = format!("{} may have {most} elements", self.member());
                self.invalid(codes::INVALID_VALUE, message, span);
            }
            Kind::Map { most, .. } if frame.keys.len().max(frame.many_keys.len()) > *most => {
                let message = format!("{} may have {most} keys", self.member());
                self.invalid(codes::INVALID_VALUE, message, span);
            }
            _ => {}
        }
        self.ended(end);
    }

    fn key(&mut self, key: KeyToken<'t>) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        frame.key = Some(key.clone());
        frame.cut = false;
        let mut unknown = false;
        let mut twice = false;
        let field = match self.shapes.kind(frame.shape) {
            Kind::Object {
                fields, required, ..
            } => {
                let bit = fields.iter().position(|field| field.name == key.text);
                unknown = bit.is_none();
                bit.map(|bit| (bit, fields[bit].shape, required & (1 << bit) == 0))
            }
            _ => None,
        };
        if let Some((bit, shape, optional)) = field {
            twice = frame.seen & (1 << bit) != 0;
            frame.seen |= 1 << bit;
            frame.expected = shape;
            frame.optional = optional;
        } else {
            if unknown {
                frame.expected = Shape::ANY;
            }
            frame.optional = true;
            twice |= frame.is_repeated(key.text.clone());
        }
        frame.cut = unknown || twice;
        let refused = match self.shapes.kind(frame.shape) {
            Kind::Map { key: rule, .. } => rule.refusal(&key.text),
            _ => None,
        };
        if let Some((_, must)) = refused {
            let name = shortened(&key.text);
            let message = format!("the name '{}' must {must}", name.escape_debug());
            self.invalid(codes::INVALID_ID, message, key.span.clone());
        }
        if unknown {
            self.unknown_key(&key);
        }
        if twice {
            self.duplicate_key(&key);
        }
    }

    fn scalar(&mut self, scalar: Scalar, span: Range<usize>) {
        let shape = self.expected();
        let end = span.end;
        match (scalar, self.shapes.kind(shape)) {
            (Scalar::Null, _) if shape.nullable => {}
            (_, Kind::Any) | (Scalar::Bool, Kind::Bool) => {}
            (Scalar::Null, _) => self.wrong_type(shape, "null", span),
            (Scalar::Bool, _) => self.wrong_type(shape, "true or false", span),
            (Scalar::Text, _) => self.text_value(shape, span),
            (Scalar::Number, _) => self.number_value(shape, span),
        }
        self.ended(end);
    }
}

impl<'t> Frame<'t> {
    /// Remembers a key of a free object, and says whether it was there before.
    fn is_repeated(&mut self, key: Cow<'t, str>) -> bool {
        if self.many_keys.is_empty() {
            if self.keys.contains(&key) {
                return true;
            }
            self.keys.push(key);
            if self.keys.len() > FEW_KEYS {
                self.many_keys = self.keys.drain(..).collect();
            }
            return false;
        }
        !self.many_keys.insert(key)
    }
}

fn expectation(kind: &Kind) -> String {
    match kind {
        Kind::Any => "a value".to_owned(),
        Kind::Text { .. } => "a text".to_owned(),
        Kind::Integer { .. } => "a whole number".to_owned(),
        Kind::Number { .. } => "a number".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::List { .. } => "a list".to_owned(),
        Kind::Map { .. } | Kind::Object { .. } => "an object".to_owned(),
        Kind::Choice {
            words,
            object: None,
        } => format!("one of {}", listed(words)),
        Kind::Choice { words, .. } => format!("one of {}, or an object", listed(words)),
    }
}

fn range(min: u64, max: u64, capacity: u64) -> String {
    if max < capacity || min == 0 {
        format!("between {min} and {max}")
    } else {
        format!("at least {min} and at most {max}")
    }
}

fn listed(words: &[String]) -> String {
    words
        .iter()
        .map(|word| format!("'{word}'"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The first characters of a name that an author chose, for messages.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(64) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
