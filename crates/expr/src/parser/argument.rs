//! Arguments of calls, among them arrow functions and what their parameters bind.

use super::{Parsed, Parser, word_hint};
use crate::ast::{
    Arguments, Arrow, Callback, CallbackKind, Element, Kind, Literal, Pattern, PatternKey, Target,
};
use crate::lexer::{ChunkEnd, Token};
use crate::problem::{NOT_ALLOWED, Problem};

impl Parser<'_> {
    /// `(a, ...b, x => c)`.
    pub(super) fn arguments(&mut self) -> Parsed<Arguments> {
        self.advance()?;
        let mut arguments = Arguments::default();
        while !self.is(")") {
            if self.starts_arrow() {
                self.callback(&mut arguments)?;
            } else {
                let spread = self.eat("...")?;
                let node = self.nested(Self::expression)?;
                arguments.values.push(Element { node, spread });
            }
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        self.advance()?;
        Ok(arguments)
    }

    fn callback(&mut self, arguments: &mut Arguments) -> Parsed<()> {
        let start = self.start;
        let arrow = self.nested(Self::arrow)?;
        if arguments.callback.is_some() {
            let message = "a method takes one function at most";
            return Err(Problem::new(NOT_ALLOWED, message, start, self.end));
        }
        let kind = CallbackKind::Arrow(Box::new(arrow));
        arguments.callback = Some(Callback {
            position: arguments.values.len(),
            start,
            kind,
        });
        arguments.values.push(Element {
            node: self.node(Kind::Undefined, start),
            spread: false,
        });
        Ok(())
    }

    /// Whether the tokens from here on are `name =>` or `( … ) =>`; reads ahead, moves nothing.
    fn starts_arrow(&self) -> bool {
        let mut lexer = self.lexer.clone();
        let closed = match &self.token {
            Token::Name(_) => true,
            Token::Punctuator("(") => skip_to_matching(&mut lexer).is_some(),
            _ => false,
        };
        closed && matches!(lexer.next(), Ok((Token::Punctuator("=>"), _)))
    }

    fn arrow(&mut self) -> Parsed<Arrow> {
        let mut arrow_rest = None;
        let mut parameters = Vec::new();
        if self.eat("(")? {
            while !self.is(")") {
                if self.eat("...")? {
                    arrow_rest = Some(self.pattern()?);
                    break;
                }
                let parameter = self.target()?;
                parameters.push(parameter);
                if !self.is(")") {
                    self.expect(",")?;
                }
            }
            self.expect(")")?;
        } else {
            parameters.push(Target {
                pattern: self.name_pattern()?,
                default: None,
            });
        }
        self.expect("=>")?;
        if self.is("{") {
            let message = "an arrow function's body is an expression here; put an object in parentheses: `=> ({ … })`";
            return Err(self.not_allowed(message));
        }
        Ok(Arrow {
            parameters,
            rest: arrow_rest,
            body: self.expression()?,
        })
    }

    fn target(&mut self) -> Parsed<Target> {
        let pattern = self.pattern()?;
        let default = if self.eat("=")? {
            Some(self.nested(Self::expression)?)
        } else {
            None
        };
        Ok(Target { pattern, default })
    }

    fn pattern(&mut self) -> Parsed<Pattern> {
        match self.token {
            Token::Punctuator("{") => self.nested(Self::object_pattern),
            Token::Punctuator("[") => self.nested(Self::array_pattern),
            _ => self.name_pattern(),
        }
    }

    fn name_pattern(&mut self) -> Parsed<Pattern> {
        let Token::Name(name) = &self.token else {
            return Err(self.unexpected());
        };
        let constant = matches!(
            &**name,
            "undefined" | "NaN" | "Infinity" | "null" | "true" | "false" | "in" | "typeof"
        );
        if constant || word_hint(name).is_some() {
            return Err(self.not_allowed(format!("`{name}` cannot name a parameter")));
        }
        let pattern = Pattern::Name {
            name: name.clone(),
            slot: 0,
            start: self.start,
        };
        self.advance()?;
        Ok(pattern)
    }

    fn object_pattern(&mut self) -> Parsed<Pattern> {
        self.advance()?;
        let mut properties = Vec::new();
        let mut rest = None;
        while !self.is("}") {
            if self.eat("...")? {
                rest = Some(Box::new(self.name_pattern()?));
                break;
            }
            let property = self.property_pattern()?;
            properties.push(property);
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        self.expect("}")?;
        Ok(Pattern::Object { properties, rest })
    }

    fn property_pattern(&mut self) -> Parsed<(PatternKey, Target)> {
        if self.eat("[")? {
            let key = self.nested(Self::expression)?;
            self.expect("]")?;
            self.expect(":")?;
            return Ok((PatternKey::Computed(key), self.target()?));
        }
        let is_name = matches!(self.token, Token::Name(_));
        let before = (self.lexer.clone(), self.token.clone(), self.start);
        let key = self.literal_key()?;
        if self.eat(":")? {
            return Ok((PatternKey::Named(key), self.target()?));
        }
        if !is_name {
            return Err(self.unexpected());
        }
        (self.lexer, self.token, self.start) = before;
        Ok((PatternKey::Named(key), self.target()?))
    }

    fn array_pattern(&mut self) -> Parsed<Pattern> {
        self.advance()?;
        let mut elements = Vec::new();
        let mut rest = None;
        while !self.is("]") {
            if self.eat(",")? {
                elements.push(None);
                continue;
            }
            if self.eat("...")? {
                rest = Some(Box::new(self.pattern()?));
                break;
            }
            elements.push(Some(self.target()?));
            if !self.is("]") {
                self.expect(",")?;
            }
        }
        self.expect("]")?;
        Ok(Pattern::Array { elements, rest })
    }
}

/// Moves past the bracket that closes the one just read.
fn skip_to_matching(lexer: &mut crate::lexer::Lexer<'_>) -> Option<()> {
    // Closing tokens still to come; a backtick stands for the rest of a template literal.
    let mut open = vec![")"];
    while let Some(expected) = open.last() {
        let (token, _) = lexer.next().ok()?;
        let Token::Punctuator(text) = token else {
            if token == Token::End {
                return None;
            }
            continue;
        };
        match text {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            "`" => skip_template(lexer, &mut open)?,
            "}" if *expected == "`" => {
                open.pop();
                skip_template(lexer, &mut open)?;
            }
            ")" | "]" | "}" if text == *expected => {
                open.pop();
            }
            ")" | "]" | "}" => return None,
            _ => {}
        }
    }
    Some(())
}

fn skip_template(lexer: &mut crate::lexer::Lexer<'_>, open: &mut Vec<&'static str>) -> Option<()> {
    let (_, end): (Literal, ChunkEnd) = lexer.template_chunk().ok()?;
    if end == ChunkEnd::Hole {
        open.push("`");
    }
    Some(())
}
