//! Primary expressions: names, constants, arrays, objects, template literals, parentheses.

use super::{Parsed, Parser, word_hint};
use crate::ast::{Chunk, Element, Kind, Literal, Node, Property};
use crate::lexer::{ChunkEnd, Token};

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Parsed<Node> {
        let start = self.start;
        match &mut self.token {
            Token::Number(number) => {
                let kind = Kind::Number(*number);
                self.constant(kind)
            }
            Token::String(literal) => {
                let kind = Kind::String(std::mem::replace(literal, Literal::Wide([].into())));
                self.constant(kind)
            }
            Token::Name(_) => self.name(),
            Token::Punctuator("(") => {
                self.advance()?;
                let mut node = self.nested(Self::expression)?;
                self.expect(")")?;
                node.parenthesized = true;
                Ok(node)
            }
            Token::Punctuator("[") => self.array(start),
            Token::Punctuator("{") => self.object(start),
            Token::Punctuator("`") => self.template(start),
            _ => Err(self.unexpected()),
        }
    }

    fn constant(&mut self, kind: Kind) -> Parsed<Node> {
        let start = self.start;
        self.advance()?;
        Ok(self.node(kind, start))
    }

    fn name(&mut self) -> Parsed<Node> {
        let Token::Name(name) = &self.token else {
            return Err(self.unexpected());
        };
        let kind = match &**name {
            "undefined" => Kind::Undefined,
            "null" => Kind::Null,
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            "NaN" => Kind::Number(f64::NAN),
            "Infinity" => Kind::Number(f64::INFINITY),
            "in" | "typeof" => return Err(self.unexpected()),
            word if word_hint(word).is_some() => return Err(self.unexpected()),
            word => Kind::Name(word.into()),
        };
        self.constant(kind)
    }

    fn array(&mut self, start: usize) -> Parsed<Node> {
        self.advance()?;
        let mut elements = Vec::new();
        while !self.is("]") {
            if self.is(",") {
                return Err(self.not_allowed("holes in arrays are not allowed; write `undefined`"));
            }
            let spread = self.eat("...")?;
            let node = self.nested(Self::expression)?;
            elements.push(Element { node, spread });
            if !self.is("]") {
                self.expect(",")?;
            }
        }
        self.advance()?;
        Ok(self.node(Kind::Array(elements), start))
    }

    fn object(&mut self, start: usize) -> Parsed<Node> {
        self.advance()?;
        let mut properties = Vec::new();
        while !self.is("}") {
            let property = self.property()?;
            properties.push(property);
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        self.advance()?;
        Ok(self.node(Kind::Object(properties), start))
    }

    fn property(&mut self) -> Parsed<Property> {
        if self.eat("...")? {
            return Ok(Property::Spread(self.nested(Self::expression)?));
        }
        if self.eat("[")? {
            let key = self.nested(Self::expression)?;
            self.expect("]")?;
            self.refuse_method()?;
            self.expect(":")?;
            return Ok(Property::Computed(key, self.nested(Self::expression)?));
        }
        let shorthand = matches!(self.token, Token::Name(_)).then(|| self.lexer.clone());
        let (token, start) = (self.token.clone(), self.start);
        let key = self.literal_key()?;
        self.refuse_method()?;
        if self.eat(":")? {
            if key == Literal::Plain("__proto__".into()) {
                return Err(self.not_allowed("`__proto__` is not part of the language"));
            }
            return Ok(Property::Named(key, self.nested(Self::expression)?));
        }
        // Not followed by a colon: the key is a name that stands for itself.
        let Some(lexer) = shorthand else {
            return Err(self.unexpected());
        };
        if !self.is(",") && !self.is("}") {
            return Err(self.unexpected());
        }
        (self.lexer, self.token, self.start) = (lexer, token, start);
        Ok(Property::Named(key, self.name()?))
    }

    fn refuse_method(&self) -> Parsed<()> {
        if self.is("(") {
            return Err(
                self.not_allowed("methods in objects are not part of the language; write a value")
            );
        }
        Ok(())
    }

    /// A name, string or number before a colon.
    pub(super) fn literal_key(&mut self) -> Parsed<Literal> {
        let key = match &self.token {
            Token::Name(name) => Literal::Plain(name.clone()),
            Token::String(literal) => literal.clone(),
            Token::Number(number) => Literal::Plain(crate::number::to_text(*number).into()),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(key)
    }

    fn template(&mut self, start: usize) -> Parsed<Node> {
        let mut chunks = Vec::new();
        loop {
            let (text, end) = self.lexer.template_chunk()?;
            if text != Literal::Plain("".into()) {
                chunks.push(Chunk::Text(text));
            }
            self.advance()?;
            if end == ChunkEnd::Backtick {
                return Ok(self.node(Kind::Template(chunks), start));
            }
            let value = self.nested(Self::expression)?;
            chunks.push(Chunk::Value(value));
            if !self.is("}") {
                return Err(self.unexpected());
            }
        }
    }
}
