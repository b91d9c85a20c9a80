//! YAML, converted to JSON text with a map back to its lines.
//!
//! Only what a definition needs: one document, the core schema's scalars,
//! anchors with a bounded expansion. Tags and merge keys are refused by name.
//! Nothing recurses; depth is counted as the events come.

mod map;
mod scalar;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::codes;
use super::place::Position;
use super::source::DefinitionLimits;

pub(crate) use map::Map;
use map::Mark;

/// Why a YAML document is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
    pub(crate) position: Position,
}

/// Converts a document; the map holds its JSON text.
pub(crate) fn convert<'t>(
    text: &'t str,
    nesting: usize,
    limits: &DefinitionLimits,
) -> Result<Map<'t>, Refusal> {
    let mut converter = Converter {
        text,
        nesting,
        limits,
        json: String::with_capacity(text.len()),
        marks: Vec::new(),
        open: Vec::new(),
        anchors: Vec::new(),
        repeated: 0,
        documents: 0,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        match next {
            Ok((event, span)) => converter.event(event, span)?,
            Err(error) => return Err(converter.syntax(&error)),
        }
    }
    if converter.json.is_empty() {
        let message = "the document is empty".to_owned();
        return Err(converter.refuse(codes::YAML_SYNTAX, message, Span::default()));
    }
    Ok(Map::new(text, converter.json, converter.marks))
}

struct Converter<'t, 'l> {
    text: &'t str,
    nesting: usize,
    limits: &'l DefinitionLimits,
    json: String,
    marks: Vec<Mark>,
    open: Vec<Open>,
    /// The JSON range of each anchored value, once it has ended.
    anchors: Vec<Option<std::ops::Range<usize>>>,
    repeated: usize,
    documents: usize,
}

/// A list or map that has begun.
struct Open {
    map: bool,
    /// Whether a map waits for a key.
    at_key: bool,
    empty: bool,
    start: usize,
    span: Span,
    anchor: usize,
}

impl Converter<'_, '_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Refusal> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a file holds one definition, not several documents".to_owned();
                    return Err(self.refuse(codes::YAML_SYNTAX, message, span));
                }
                Ok(())
            }
            Event::Scalar(value, style, anchor, tag) => {
                self.no_tag(tag.is_some(), span)?;
                self.scalar(&value, style, anchor, span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.no_tag(tag.is_some(), span)?;
                self.open(false, anchor, span)
            }
            Event::MappingStart(anchor, tag) => {
                self.no_tag(tag.is_some(), span)?;
                self.open(true, anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.close();
                self.grown(span)
            }
            Event::Alias(anchor) => self.alias(anchor, span),
        }
    }

    fn scalar(
        &mut self,
        value: &str,
        style: ScalarStyle,
        anchor: usize,
        span: Span,
    ) -> Result<(), Refusal> {
        let start = self.begin(span);
        if self.is_key() {
            if value == "<<" && style == ScalarStyle::Plain {
                let message = "merge keys are not supported: write the keys out".to_owned();
                return Err(self.refuse(codes::YAML_SYNTAX, message, span));
            }
            if value.is_empty() && style == ScalarStyle::Plain {
                let message = "a key is missing before ':'".to_owned();
                return Err(self.refuse(codes::YAML_SYNTAX, message, span));
            }
            scalar::push_text(&mut self.json, value);
        } else if style == ScalarStyle::Plain {
            if let Err(message) = scalar::push_plain(&mut self.json, value) {
                return Err(self.refuse(codes::YAML_SYNTAX, message.to_owned(), span));
            }
        } else {
            scalar::push_text(&mut self.json, value);
        }
        self.end(anchor, start);
        self.grown(span)
    }

    fn open(&mut self, map: bool, anchor: usize, span: Span) -> Result<(), Refusal> {
        if self.is_key() {
            return Err(self.complex_key(span));
        }
        if self.open.len() >= self.nesting {
            let message = format!("values are nested deeper than {}", self.nesting);
            return Err(self.refuse(codes::NESTING_LIMIT, message, span));
        }
        let start = self.begin(span);
        self.json.push(if map { '{' } else { '[' });
        self.open.push(Open {
            map,
            at_key: map,
            empty: true,
            start,
            span,
            anchor,
        });
        Ok(())
    }

    fn close(&mut self) {
        if let Some(open) = self.open.pop() {
            self.json.push(if open.map { '}' } else { ']' });
            self.end(open.anchor, open.start);
        }
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Refusal> {
        if self.is_key() {
            return Err(self.complex_key(span));
        }
        let Some(Some(range)) = self.anchors.get(anchor).cloned() else {
            let message = "an alias stands inside the value that it names".to_owned();
            return Err(self.refuse(codes::YAML_SYNTAX, message, span));
        };
        self.repeated += range.len();
        if self.repeated > self.limits.alias_bytes {
            let message = format!("aliases repeat more than {} bytes", self.limits.alias_bytes);
            return Err(self.refuse(codes::YAML_ALIAS_LIMIT, message, span));
        }
        let start = self.begin(span);
        self.json.extend_from_within(range);
        self.end(0, start);
        self.grown(span)
    }

    fn is_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.at_key)
    }

    /// Writes what separates a value from what stands before it, and marks its place.
    fn begin(&mut self, span: Span) -> usize {
        if let Some(open) = self.open.last_mut() {
            if open.map && !open.at_key {
                self.json.push(':');
            } else if !std::mem::replace(&mut open.empty, false) {
                self.json.push(',');
            }
        }
        self.marks.push(Mark::new(self.json.len(), span));
        self.json.len()
    }

    fn end(&mut self, anchor: usize, start: usize) {
        if anchor > 0 {
            if self.anchors.len() <= anchor {
                self.anchors.resize(anchor + 1, None);
            }
            self.anchors[anchor] = Some(start..self.json.len());
        }
        if let Some(open) = self.open.last_mut().filter(|open| open.map) {
            open.at_key = !open.at_key;
        }
    }

    fn grown(&self, span: Span) -> Result<(), Refusal> {
        if self.json.len() > self.limits.bytes {
            let message = format!(
                "the definition is larger than the limit of {} bytes",
                self.limits.bytes
            );
            return Err(self.refuse(codes::DEFINITION_TOO_LARGE, message, span));
        }
        Ok(())
    }

    fn no_tag(&self, tagged: bool, span: Span) -> Result<(), Refusal> {
        if !tagged {
            return Ok(());
        }
        let message = "tags are not used in definitions".to_owned();
        Err(self.refuse(codes::YAML_SYNTAX, message, span))
    }

    /// A map or a list as a key; most often it was meant to be a template.
    fn complex_key(&self, span: Span) -> Refusal {
        if let Some(open) = self.open.last() {
            let line = map::line(self.text, open.span.start.line());
            let rest = line.chars().skip(open.span.start.col());
            if rest.take(2).eq("{{".chars()) {
                return self.unquoted(open.span);
            }
        }
        let message = "a key must be a plain value".to_owned();
        self.refuse(codes::YAML_SYNTAX, message, span)
    }

    fn unquoted(&self, span: Span) -> Refusal {
        let message = "YAML reads '{{' as the beginning of a map".to_owned();
        let mut refusal = self.refuse(codes::UNQUOTED_TEMPLATE, message, span);
        refusal.suggestion = Some("quote the template: \"{{ … }}\"".to_owned());
        refusal.position.length = 2;
        refusal
    }

    fn syntax(&self, error: &saphyr_parser::ScanError) -> Refusal {
        let marker = *error.marker();
        // `key: {{ a }} text` is no map and no text: the parser stops somewhere after it.
        for number in [marker.line(), marker.line().saturating_sub(1)] {
            let line = map::line(self.text, number);
            let value = line.trim_start().trim_start_matches("- ");
            let value = value.split_once(": ").map_or(value, |(_, value)| value);
            if value.trim_start().starts_with("{{") {
                let before = line.find("{{").unwrap_or_default();
                let column = line[..before].chars().count();
                let at = saphyr_parser::Marker::new(0, number, column);
                return self.unquoted(Span::empty(at));
            }
        }
        // The parser has a limit of its own, and reads ahead of its events.
        let code = match error.info() {
            "recursion limit exceeded" => codes::NESTING_LIMIT,
            _ => codes::YAML_SYNTAX,
        };
        self.refuse(code, error.info().to_owned(), Span::empty(marker))
    }

    fn refuse(&self, code: &'static str, message: String, span: Span) -> Refusal {
        Refusal {
            code,
            message,
            suggestion: None,
            position: map::position(span),
        }
    }
}
