//! JSON documents whose strings may hold `{{ expression }}`s.
//!
//! A template is its own text with holes in it: everything but the strings that hold
//! expressions is copied as it was written, so constants keep their digits, their order and
//! their spelling. The value of a hole is not searched for expressions again.

use std::sync::Arc;

use crate::ast::Node;
use crate::check::{References, check};
use crate::eval::Evaluator;
use crate::json::{self, Account, Reader};
use crate::limits::{Budget, Price};
use crate::parser;
use crate::problem::{Fallible, SYNTAX, TEMPLATE_UNDEFINED, failure};
use crate::text::Text;
use crate::{
    Document, Error, ExpressionLimits, Field, Mention, Meter, Problem, Reference, Scope,
    TemplateProblem, Value,
};

/// A JSON document whose strings may hold `{{ expression }}`s. Object keys are not templates.
#[derive(Clone, Debug)]
pub struct Template {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    holes: Vec<Hole>,
    /// The document after the last hole; all of it when there is none.
    tail: Box<str>,
    references: References,
}

/// A string that holds expressions.
#[derive(Debug)]
struct Hole {
    /// The document between the hole before and this one.
    before: Box<str>,
    pointer: Box<str>,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Text(Box<str>),
    Value(Hosted),
}

/// An expression in a string.
#[derive(Debug)]
struct Hosted {
    source: Box<str>,
    root: Node,
    locals: usize,
    /// The slots of the inputs that it reads.
    reads: Box<[usize]>,
}

/// What a reader may not see.
#[derive(Clone, Copy)]
pub struct Hidden<'a> {
    /// By slot, whether expressions that read it are hidden.
    pub slots: &'a [bool],
    /// What stands for the value of such an expression.
    pub stand_in: &'a str,
}

impl Hidden<'_> {
    /// What to write in place of an expression's value.
    fn instead_of(&self, hosted: &Hosted) -> Option<&str> {
        let hides = |&slot: &usize| self.slots.get(slot).is_some_and(|&hidden| hidden);
        hosted.reads.iter().any(hides).then_some(self.stand_in)
    }
}

impl Template {
    /// Compiles valid JSON text, or returns everything that is wrong with its expressions.
    /// Byte ranges of problems count in the decoded string that the pointer leads to.
    pub fn compile(
        json: &str,
        scope: &Scope,
        limits: &ExpressionLimits,
    ) -> Result<Self, Vec<TemplateProblem>> {
        let mut compiler = Compiler::new(json, scope, limits);
        if let Err(error) = compiler.document() {
            let at = compiler.reader.position();
            let problem = Problem::new(SYNTAX, error.message, at, at);
            compiler.problems.push(TemplateProblem {
                pointer: String::new(),
                problem,
            });
        }
        if !compiler.problems.is_empty() {
            return Err(compiler.problems);
        }
        let tail = json[compiler.copied..].into();
        let inner = Inner {
            holes: compiler.holes,
            tail,
            references: compiler.references,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Valid JSON text that a quick look shows to hold no expression; `None` if it may hold
    /// one.
    pub fn constant(json: &str) -> Option<Self> {
        // An escape may stand for a brace.
        if json.contains('\\') || json.contains("{{") {
            return None;
        }
        Some(Self {
            inner: Arc::new(Inner {
                holes: Vec::new(),
                tail: json.into(),
                references: References::default(),
            }),
        })
    }

    /// What the document's expressions refer to, as far as they can be read, whatever else is
    /// wrong with them: in each string, each once.
    pub fn mentions(json: &str, scope: &Scope, limits: &ExpressionLimits) -> Vec<Mention> {
        let mut compiler = Compiler::new(json, scope, limits);
        compiler.mentions = Some(Vec::new());
        // Compiling has already reported the problems.
        let _ = compiler.document();
        compiler.mentions.unwrap_or_default()
    }

    /// The fields of plain values that the document's expressions read by name, as far as they
    /// can be read.
    pub fn fields(json: &str, scope: &Scope, limits: &ExpressionLimits) -> Vec<Field> {
        let mut compiler = Compiler::new(json, scope, limits);
        compiler.fields = Some(Vec::new());
        // Compiling has already reported the problems.
        let _ = compiler.document();
        compiler.fields.unwrap_or_default()
    }

    /// Whether the document holds no expression at all.
    pub fn is_constant(&self) -> bool {
        self.inner.holes.is_empty()
    }

    /// The document that it was made of, up to white space around expressions: compiled again
    /// in a scope with the same names, it is the same template.
    pub fn source(&self) -> String {
        let mut source = String::new();
        for hole in &self.inner.holes {
            source.push_str(&hole.before);
            let mut text = String::new();
            for part in &hole.parts {
                match part {
                    Part::Text(part) => text.push_str(part),
                    Part::Value(hosted) => {
                        text.push_str("{{ ");
                        text.push_str(&hosted.source);
                        text.push_str(" }}");
                    }
                }
            }
            source.push_str(&serde_json::Value::from(text).to_string());
        }
        source.push_str(&self.inner.tail);
        source
    }

    /// What the document's expressions refer to, each once; slot order of [`render`](Self::render).
    pub fn references(&self) -> &[Reference] {
        &self.inner.references.list
    }

    /// Renders to JSON text. The limits hold for the whole document.
    pub fn render(
        &self,
        inputs: &[Option<&Document>],
        limits: &ExpressionLimits,
    ) -> Result<String, Error> {
        self.render_metered(inputs, limits, &mut Meter::default())
    }

    /// Renders as [`render`](Self::render) does, ends early when the meter's interrupt is set,
    /// and leaves on the meter what it cost.
    pub fn render_metered(
        &self,
        inputs: &[Option<&Document>],
        limits: &ExpressionLimits,
        meter: &mut Meter,
    ) -> Result<String, Error> {
        let nothing = Hidden {
            slots: &[],
            stand_in: "",
        };
        self.render_hiding(inputs, nothing, limits, meter)
    }

    /// Renders as [`render_metered`](Self::render_metered) does, without the values of
    /// expressions that read what is hidden: they are not evaluated.
    pub fn render_hiding(
        &self,
        inputs: &[Option<&Document>],
        hidden: Hidden<'_>,
        limits: &ExpressionLimits,
        meter: &mut Meter,
    ) -> Result<String, Error> {
        if self.is_constant() {
            return Ok(self.inner.tail.to_string());
        }
        let mut budget = Budget::metered(limits, meter);
        let result = self.fill(inputs, hidden, &mut budget);
        budget.report(limits, meter);
        result
    }

    fn fill(
        &self,
        inputs: &[Option<&Document>],
        hidden: Hidden<'_>,
        budget: &mut Budget,
    ) -> Result<String, Error> {
        let mut out = String::new();
        for hole in &self.inner.holes {
            // The document's own text is no larger than the document; copying it takes time.
            budget
                .read(hole.before.len())
                .map_err(|error| *error.at(0))?;
            out.push_str(&hole.before);
            let filled = hole.render((inputs, hidden), &mut out, budget);
            filled.map_err(|mut error| {
                error.pointer = Some(hole.pointer.to_string());
                *error.at(0)
            })?;
        }
        out.push_str(&self.inner.tail);
        Ok(out)
    }
}

impl Hole {
    fn render(
        &self,
        (inputs, hidden): (&[Option<&Document>], Hidden<'_>),
        out: &mut String,
        budget: &mut Budget,
    ) -> Fallible<()> {
        // One expression alone keeps its type.
        if let [Part::Value(hosted)] = &self.parts[..] {
            if let Some(stand_in) = hidden.instead_of(hosted) {
                return json::write_string(stand_in, out, Account::Written, budget);
            }
            let value = hosted.evaluate(inputs, &self.pointer, budget)?;
            return json::write_output(&value, out, Account::Written, budget)
                .map_err(|error| error.at(hosted.root.start));
        }
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => {
                    budget.build(plain.len())?;
                    text.push_str(plain);
                }
                Part::Value(hosted) => {
                    if let Some(stand_in) = hidden.instead_of(hosted) {
                        budget.build(stand_in.len())?;
                        text.push_str(stand_in);
                        continue;
                    }
                    let value = hosted.evaluate(inputs, &self.pointer, budget)?;
                    append(&value, &mut text, budget)
                        .map_err(|error| error.at(hosted.root.start))?;
                }
            }
        }
        json::write_string(&text, out, Account::Written, budget)
    }
}

impl Hosted {
    fn evaluate<'a>(
        &'a self,
        inputs: &[Option<&'a Document>],
        pointer: &str,
        budget: &mut Budget,
    ) -> Fallible<Value<'a>> {
        let value = Evaluator::new(inputs, self.locals, budget).value(&self.root)?;
        if value.is_undefined() {
            let place = if pointer.is_empty() {
                String::new()
            } else {
                format!(" at {pointer}")
            };
            let message = format!(
                "`{}`{place} is undefined; allow it with `??` or `?.`",
                self.source
            );
            return Err(failure(TEMPLATE_UNDEFINED, message).at(self.root.start));
        }
        Ok(value)
    }
}

/// Appends a value that stands inside text.
fn append(value: &Value<'_>, text: &mut String, budget: &mut Budget) -> Fallible<()> {
    match value {
        Value::Null => Ok(()),
        Value::Array(_) | Value::Object(_) => {
            json::write_output(value, text, Account::Built, budget)
        }
        _ => {
            let shown = match json::number_text(value) {
                Some(number) => Text::built(&number),
                None => value.to_text(budget)?,
            };
            budget.build(shown.size())?;
            text.push_str(&shown.lossy(Price::READ, budget)?);
            Ok(())
        }
    }
}

/// Where in the document a compiler stands: a step of the pointer.
enum Step {
    Key(String),
    Index(usize),
}

struct Compiler<'c> {
    reader: Reader<'c>,
    json: &'c str,
    scope: &'c Scope,
    limits: &'c ExpressionLimits,
    /// One step for each array or object that is open; it is kept on the heap, so depth costs
    /// no stack.
    path: Vec<Step>,
    /// How much of the document the holes cover.
    copied: usize,
    holes: Vec<Hole>,
    references: References,
    /// The references of each string, if only these are asked for.
    mentions: Option<Vec<Mention>>,
    /// The fields that each string reads, if only these are asked for.
    fields: Option<Vec<Field>>,
    problems: Vec<TemplateProblem>,
}

impl<'c> Compiler<'c> {
    fn new(json: &'c str, scope: &'c Scope, limits: &'c ExpressionLimits) -> Self {
        Self {
            reader: Reader::new(json),
            json,
            scope,
            limits,
            path: Vec::new(),
            copied: 0,
            holes: Vec::new(),
            references: References::default(),
            mentions: None,
            fields: None,
            problems: Vec::new(),
        }
    }

    fn document(&mut self) -> Fallible<()> {
        loop {
            if self.value()? {
                continue;
            }
            if !self.next()? {
                break;
            }
        }
        match self.reader.peek() {
            None => Ok(()),
            Some(_) => Err(self.reader.unexpected()),
        }
    }

    /// Reads a value, or opens an array or object that is not empty: then a value follows.
    fn value(&mut self) -> Fallible<bool> {
        match self.reader.peek() {
            Some(b'{') => {
                self.reader.eat(b'{');
                if self.reader.eat(b'}') {
                    return Ok(false);
                }
                let key = self.key()?;
                self.path.push(Step::Key(key));
                Ok(true)
            }
            Some(b'[') => {
                self.reader.eat(b'[');
                if self.reader.eat(b']') {
                    return Ok(false);
                }
                self.path.push(Step::Index(0));
                Ok(true)
            }
            Some(b'"') => self.string().map(|()| false),
            _ => self.reader.scalar().map(|_| false),
        }
    }

    /// Moves to the next value; `false` when the document is done.
    fn next(&mut self) -> Fallible<bool> {
        while let Some(step) = self.path.last_mut() {
            let more = self.reader.eat(b',');
            match step {
                Step::Index(index) if more => {
                    *index += 1;
                    return Ok(true);
                }
                Step::Key(_) if more => {
                    let key = self.key()?;
                    self.path.pop();
                    self.path.push(Step::Key(key));
                    return Ok(true);
                }
                Step::Index(_) if self.reader.eat(b']') => {}
                Step::Key(_) if self.reader.eat(b'}') => {}
                _ => return Err(self.reader.unexpected()),
            }
            self.path.pop();
        }
        Ok(false)
    }

    fn key(&mut self) -> Fallible<String> {
        self.reader.skip_space();
        let key = self.reader.string()?.lossy_unpaid().into_owned();
        if self.reader.eat(b':') {
            Ok(key)
        } else {
            Err(self.reader.unexpected())
        }
    }

    fn string(&mut self) -> Fallible<()> {
        let start = self.reader.position();
        let text = self.reader.string()?;
        let text = text.lossy_unpaid();
        if !text.contains("{{") {
            return Ok(());
        }
        let pointer = self.pointer();
        if self.fields.is_some() {
            self.references = References::with_fields();
        }
        let parts = self.parts(&text, &pointer);
        if let Some(fields) = &mut self.fields {
            let read = std::mem::take(&mut self.references).fields;
            fields.extend(read.into_iter().flatten().map(|field| Field {
                pointer: pointer.clone(),
                ..field
            }));
        } else if let Some(mentions) = &mut self.mentions {
            let references = std::mem::take(&mut self.references);
            mentions.extend(references.into_mentions(&pointer));
        } else if let Some(parts) = parts {
            let before = self.json[self.copied..start].into();
            self.copied = self.reader.position();
            self.holes.push(Hole {
                before,
                pointer: pointer.into(),
                parts,
            });
        }
        Ok(())
    }

    /// Takes a string apart; `None` when there is a problem with it.
    fn parts(&mut self, text: &str, pointer: &str) -> Option<Vec<Part>> {
        let known = self.problems.len();
        let mut parts = Vec::new();
        let mut rest = 0;
        while let Some(open) = text[rest..].find("{{") {
            if open > 0 {
                parts.push(Part::Text(text[rest..rest + open].into()));
            }
            let start = rest + open + 2;
            let (mut root, end) = match parser::parse_template(text, start, self.limits) {
                Ok(parsed) => parsed,
                Err(problem) => {
                    // It is unknown where the expression would end, so the rest of the string
                    // is skipped.
                    self.problems.push(TemplateProblem {
                        pointer: pointer.to_owned(),
                        problem,
                    });
                    return None;
                }
            };
            match check(&mut root, self.scope, self.limits, &mut self.references) {
                Ok(locals) => {
                    let source = text[start..end - 2].trim().into();
                    parts.push(Part::Value(Hosted {
                        source,
                        root,
                        locals,
                        reads: self.references.take_read(),
                    }));
                }
                Err(problems) => {
                    let located = |problem| TemplateProblem {
                        pointer: pointer.to_owned(),
                        problem,
                    };
                    self.problems.extend(problems.into_iter().map(located));
                }
            }
            rest = end;
        }
        if rest < text.len() {
            parts.push(Part::Text(text[rest..].into()));
        }
        (self.problems.len() == known).then_some(parts)
    }

    /// The RFC 6901 pointer of the value being read.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            pointer.push('/');
            match step {
                Step::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
                Step::Index(index) => pointer.push_str(&index.to_string()),
            }
        }
        pointer
    }
}
