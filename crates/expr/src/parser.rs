//! From source to tree, one function a rule of the grammar.
//!
//! Operators are parsed with an explicit stack and accesses with a loop, so the parser
//! recurses only where the source nests, and counts the depth before it does. The checker
//! looks names up, not the parser.

mod argument;
mod literal;
mod operator;

use crate::ast::{Access, Call, Kind, Link, LinkKind, Literal, MethodCall, Node, Unary};
use crate::lexer::{Lexer, Token};
use crate::limits::ExpressionLimits;
use crate::problem::{LIMIT, NOT_ALLOWED, Problem, SYNTAX};
use crate::text::is_space;

pub(crate) type Parsed<T> = Result<T, Problem>;

/// Parses all of `source`.
pub(crate) fn parse(source: &str, limits: &ExpressionLimits) -> Parsed<Node> {
    if source.len() > limits.source_bytes {
        let message = format!(
            "the expression is longer than {} bytes",
            limits.source_bytes
        );
        return Err(Problem::new(
            LIMIT,
            message,
            limits.source_bytes,
            source.len(),
        ));
    }
    let mut parser = Parser::new(Lexer::new(source, 0, limits.source_bytes), limits)?;
    let node = parser.expression()?;
    match parser.token {
        Token::End => Ok(node),
        _ => Err(parser.unexpected()),
    }
}

/// Parses the expression at byte `start` of a text up to its `}}`; gives the byte after that too.
/// The space around it is not part of its source, and does not count as such.
pub(crate) fn parse_template(
    text: &str,
    start: usize,
    limits: &ExpressionLimits,
) -> Parsed<(Node, usize)> {
    let parsed = template_at(text, start, limits);
    match parsed {
        // What follows is then read as if it belonged to the expression.
        Err(_) if !text[start..].contains("}}") => Err(unclosed(start)),
        parsed => parsed,
    }
}

fn unclosed(start: usize) -> Problem {
    Problem::new(SYNTAX, "this `{{` is not closed by `}}`", start - 2, start)
        .remedy("close it with `}}`, or write `{{ '{{' }}` for the braces themselves")
}

fn template_at(text: &str, start: usize, limits: &ExpressionLimits) -> Parsed<(Node, usize)> {
    let first = text.len() - text[start..].trim_start_matches(is_space).len();
    let mut parser = Parser::new(Lexer::new(text, first, limits.source_bytes), limits)?;
    let node = parser.expression()?;
    parser.lexer.check_end(parser.end)?;
    if parser.is("}") && parser.lexer.follows("}") {
        return Ok((node, parser.lexer.position() + 1));
    }
    if parser.token == Token::End {
        return Err(unclosed(start));
    }
    Err(parser.unexpected())
}

pub(crate) struct Parser<'s> {
    lexer: Lexer<'s>,
    token: Token,
    /// First byte of `token`.
    start: usize,
    /// One past the last byte of the token before.
    end: usize,
    depth: usize,
    nesting: usize,
}

impl<'s> Parser<'s> {
    fn new(lexer: Lexer<'s>, limits: &ExpressionLimits) -> Parsed<Self> {
        let end = lexer.position();
        let token = Token::End;
        let mut parser = Self {
            lexer,
            token,
            start: end,
            end,
            depth: 0,
            nesting: limits.nesting,
        };
        parser.advance()?;
        parser.end = parser.start;
        Ok(parser)
    }

    /// A whole expression, as it stands between parentheses or as an argument.
    fn expression(&mut self) -> Parsed<Node> {
        let start = self.start;
        let condition = self.operators()?;
        if !self.eat("?")? {
            self.refuse_assignment()?;
            return Ok(condition);
        }
        let then = self.nested(Self::expression)?;
        self.expect(":")?;
        let otherwise = self.nested(Self::expression)?;
        Ok(self.node(
            Kind::Conditional(Box::new([condition, then, otherwise])),
            start,
        ))
    }

    /// Runs `rule` one level deeper.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= self.nesting {
            let message = format!("the expression is nested deeper than {}", self.nesting);
            return Err(Problem::new(
                LIMIT,
                message,
                self.start,
                self.lexer.position(),
            ));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn unary(&mut self) -> Parsed<Node> {
        let start = self.start;
        let operator = match &self.token {
            Token::Punctuator("+") => Unary::Plus,
            Token::Punctuator("-") => Unary::Minus,
            Token::Punctuator("!") => Unary::Not,
            Token::Punctuator("~") => Unary::BitNot,
            Token::Name(name) if **name == *"typeof" => Unary::TypeOf,
            _ => return self.access(),
        };
        self.advance()?;
        let operand = self.nested(Self::unary)?;
        Ok(self.node(Kind::Unary(operator, Box::new(operand)), start))
    }

    /// A primary expression and everything read from it.
    fn access(&mut self) -> Parsed<Node> {
        let start = self.start;
        let base = self.primary()?;
        let mut links: Vec<Link> = Vec::new();
        let mut base = base;
        loop {
            let link_start = self.start;
            match self.token {
                Token::Punctuator(".") => {
                    self.advance()?;
                    let name = self.property_name()?;
                    links.push(self.link(LinkKind::Field(name), false, link_start));
                }
                Token::Punctuator("[") => {
                    let link = self.index(false)?;
                    links.push(link);
                }
                Token::Punctuator("?.") => self.optional_link(&mut base, &mut links)?,
                Token::Punctuator("(") => self.call(&mut base, &mut links, false)?,
                Token::Punctuator("`") => {
                    return Err(self.not_allowed(
                        "tagged templates are not part of the language; call a function",
                    ));
                }
                _ => break,
            }
        }
        if links.is_empty() {
            return Ok(base);
        }
        Ok(self.node(Kind::Access(Box::new(Access { base, links })), start))
    }

    fn link(&self, kind: LinkKind, optional: bool, start: usize) -> Link {
        Link {
            kind,
            optional,
            start,
            end: self.end,
        }
    }

    fn optional_link(&mut self, base: &mut Node, links: &mut Vec<Link>) -> Parsed<()> {
        let start = self.start;
        self.advance()?;
        match self.token {
            Token::Punctuator("(") => self.call(base, links, true),
            Token::Punctuator("[") => {
                let link = self.index(true)?;
                links.push(link);
                Ok(())
            }
            _ => {
                let name = self.property_name()?;
                links.push(self.link(LinkKind::Field(name), true, start));
                Ok(())
            }
        }
    }

    fn index(&mut self, optional: bool) -> Parsed<Link> {
        let start = self.start;
        self.advance()?;
        let key = self.nested(Self::expression)?;
        self.expect("]")?;
        // A constant key is a field, however it is written.
        let kind = match key.kind {
            Kind::String(literal) => LinkKind::Field(literal),
            _ => LinkKind::Index(key),
        };
        Ok(self.link(kind, optional, start))
    }

    /// The name after a dot, where every word is a name.
    fn property_name(&mut self) -> Parsed<Literal> {
        match &self.token {
            Token::Name(name) => {
                let literal = Literal::Plain(name.clone());
                self.advance()?;
                Ok(literal)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Arguments after a name or after the last link.
    fn call(&mut self, base: &mut Node, links: &mut Vec<Link>, optional_call: bool) -> Parsed<()> {
        let start = self.start;
        let arguments = self.arguments()?;
        match links.pop() {
            None => {
                if let Kind::Name(name) = &mut base.kind
                    && !base.parenthesized
                {
                    let name = std::mem::take(name);
                    base.kind = Kind::Call(Box::new(Call {
                        name,
                        function: None,
                        arguments,
                    }));
                    base.end = self.end;
                    return Ok(());
                }
            }
            Some(Link {
                kind: LinkKind::Field(Literal::Plain(name)),
                optional,
                start,
                ..
            }) => {
                let call = MethodCall {
                    name,
                    methods: None,
                    arguments,
                    optional_call,
                };
                links.push(self.link(LinkKind::Method(Box::new(call)), optional, start));
                return Ok(());
            }
            Some(Link {
                kind: LinkKind::Index(_),
                ..
            }) => {
                let message = "a method's name must be written out: `value.method(…)`";
                return Err(Problem::new(NOT_ALLOWED, message, start, self.end));
            }
            Some(_) => {}
        }
        let message = "only functions and methods of the language can be called";
        Err(Problem::new(NOT_ALLOWED, message, start, self.end))
    }

    fn node(&self, kind: Kind, start: usize) -> Node {
        Node {
            kind,
            start,
            end: self.end,
            parenthesized: false,
        }
    }

    fn is(&self, punctuator: &str) -> bool {
        matches!(self.token, Token::Punctuator(found) if found == punctuator)
    }

    fn advance(&mut self) -> Parsed<()> {
        self.end = self.lexer.position();
        (self.token, self.start) = self.lexer.next()?;
        Ok(())
    }

    fn eat(&mut self, punctuator: &str) -> Parsed<bool> {
        let found = self.is(punctuator);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, punctuator: &str) -> Parsed<()> {
        if self.eat(punctuator)? {
            return Ok(());
        }
        let mut problem = self.unexpected();
        if problem.code == SYNTAX {
            problem.message = format!("expected `{punctuator}`, found {}", self.found());
        }
        Err(problem)
    }

    fn found(&self) -> String {
        match &self.token {
            Token::End => "the end".to_owned(),
            _ => format!(
                "`{}`",
                &self.lexer.source()[self.start..self.lexer.position()]
            ),
        }
    }

    fn not_allowed(&self, message: impl Into<String>) -> Problem {
        Problem::new(NOT_ALLOWED, message, self.start, self.lexer.position())
    }

    /// Says why the current token cannot stand where it does.
    fn unexpected(&self) -> Problem {
        let hint = match &self.token {
            Token::Punctuator(text) => punctuator_hint(text),
            Token::Name(name) => word_hint(name),
            _ => None,
        };
        match hint {
            Some(hint) => self.not_allowed(hint),
            None => {
                let message = format!("unexpected {}", self.found());
                Problem::new(SYNTAX, message, self.start, self.lexer.position())
            }
        }
    }

    fn refuse_assignment(&self) -> Parsed<()> {
        let Token::Punctuator(text) = self.token else {
            return Ok(());
        };
        match text {
            "," | "}" | ")" | "]" | ":" => Ok(()),
            _ if punctuator_hint(text).is_some() => Err(self.unexpected()),
            _ => Ok(()),
        }
    }
}

fn punctuator_hint(text: &str) -> Option<&'static str> {
    Some(match text {
        "=" => "assignment is not part of the language; compare with `===`",
        "++" | "--" => "assignment is not part of the language; use `+ 1` or `- 1`",
        "=>" => "an arrow function can only be an argument of a method such as `.map(…)`",
        ";" => "statements are not part of the language; write one expression",
        "," => "the comma operator is not part of the language; write one expression",
        "/" | "/=" => {
            "regular expressions are not part of the language; use `includes`, `split` or `replaceAll`"
        }
        ">>>=" | "**=" | "<<=" | ">>=" | "&&=" | "||=" | "??=" | "+=" | "-=" | "*=" | "%="
        | "&=" | "|=" | "^=" => {
            "assignment is not part of the language; write the operation itself"
        }
        _ => return None,
    })
}

/// Why a reserved word is refused; `None` for a word that may be a name.
fn word_hint(word: &str) -> Option<&'static str> {
    Some(match word {
        "if" | "else" | "switch" | "case" => {
            "statements are not part of the language; use `condition ? a : b`"
        }
        "for" | "while" | "do" | "break" | "continue" => {
            "loops are not part of the language; use `map`, `filter` or `reduce`"
        }
        "return" | "throw" | "try" | "catch" | "finally" | "debugger" | "with" | "import"
        | "export" => "statements are not part of the language; write one expression",
        "var" | "let" | "const" | "enum" => {
            "declarations are not part of the language; write the value itself"
        }
        "function" | "class" | "async" | "await" | "yield" | "extends" => {
            "functions are not part of the language; give a method an arrow function"
        }
        "new" => "`new` is not part of the language; for dates use `now` and `date.*`",
        "this" | "super" | "arguments" => {
            "there is no `this` in the language; use the names in scope"
        }
        "delete" => {
            "values cannot be changed; leave a key out with `Object.fromEntries` and `filter`"
        }
        "void" => "`void` is not part of the language; write `undefined`",
        "instanceof" => "`instanceof` is not part of the language; use `typeof` or `Array.isArray`",
        "eval" | "Function" => "code cannot be made from text here; write the expression itself",
        _ => return None,
    })
}
