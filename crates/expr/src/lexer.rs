//! Tokens, read on demand: the text after a template's `}}` does not belong to the language.
//!
//! Knows characters and literals; knows nothing of what tokens mean together.

use crate::ast::Literal;
use crate::problem::{LIMIT, NOT_ALLOWED, Problem, SYNTAX};
use crate::text::is_space;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Number(f64),
    String(Literal),
    Name(Box<str>),
    Punctuator(&'static str),
    End,
}

/// How a chunk of a template literal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkEnd {
    Backtick,
    Hole,
}

/// Longest first, so that the first match is the right one.
const PUNCTUATORS: &[&str] = &[
    ">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "=>", "==", "!=",
    "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
    "<<", ">>", "**", "{", "}", "(", ")", "[", "]", ".", ";", ",", "<", ">", "+", "-", "*", "/",
    "%", "&", "|", "^", "!", "~", "?", ":", "=", "`",
];

/// Reads tokens from a source.
#[derive(Clone)]
pub(crate) struct Lexer<'s> {
    source: &'s str,
    position: usize,
    /// The expression may not go on past this byte.
    bound: usize,
}

type Lexed<T> = Result<T, Problem>;

impl<'s> Lexer<'s> {
    /// Starts at byte `start` of `source` and reads `limit` bytes at most.
    pub(crate) fn new(source: &'s str, start: usize, limit: usize) -> Self {
        Self {
            source,
            position: start,
            bound: start.saturating_add(limit),
        }
    }

    /// The byte after the last token.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn source(&self) -> &'s str {
        self.source
    }

    /// Whether `text` follows directly.
    pub(crate) fn follows(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Reads one token and the byte it starts at.
    pub(crate) fn next(&mut self) -> Lexed<(Token, usize)> {
        self.skip_space()?;
        let start = self.position;
        let token = match self.peek() {
            None => Token::End,
            Some('\'' | '"') => Token::String(self.string()?),
            Some(digit) if digit.is_ascii_digit() => Token::Number(self.number()?),
            Some('.') if self.rest()[1..].starts_with(|next: char| next.is_ascii_digit()) => {
                Token::Number(self.number()?)
            }
            Some(letter) if is_name_start(letter) => Token::Name(self.name()),
            Some(other) => self.punctuator(other)?,
        };
        // The end of an expression is not part of it. A brace may be, and the parser decides.
        let is_end = matches!(token, Token::End | Token::Punctuator("}"));
        if self.position > self.bound && !is_end {
            return Err(self.too_long(self.position));
        }
        Ok((token, start))
    }

    /// Reads a template literal's text up to its end or to the next `${`.
    pub(crate) fn template_chunk(&mut self) -> Lexed<(Literal, ChunkEnd)> {
        let start = self.position;
        let mut units = Units::default();
        loop {
            if self.position > self.bound {
                return Err(self.too_long(self.position));
            }
            let Some(next) = self.bump() else {
                return Err(self.syntax("this template literal is not closed", start));
            };
            match next {
                '`' => return Ok((units.finish(), ChunkEnd::Backtick)),
                '$' if self.eat("{") => return Ok((units.finish(), ChunkEnd::Hole)),
                '\\' => self.escape(&mut units)?,
                // A template literal's line ends are always line feeds.
                '\r' => {
                    self.eat("\n");
                    units.push('\n');
                }
                other => units.push(other),
            }
        }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.position += next.len_utf8();
        Some(next)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.follows(text);
        if found {
            self.position += text.len();
        }
        found
    }

    fn syntax(&self, message: impl Into<String>, start: usize) -> Problem {
        Problem::new(SYNTAX, message, start, self.position.max(start))
    }

    /// Refuses an expression that ends at this byte if it is too long.
    pub(crate) fn check_end(&self, end: usize) -> Lexed<()> {
        if end > self.bound {
            return Err(self.too_long(end));
        }
        Ok(())
    }

    fn too_long(&self, at: usize) -> Problem {
        Problem::new(LIMIT, "the expression is too long", at, at)
    }

    fn skip_space(&mut self) -> Lexed<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(is_space);
            self.position += rest.len() - trimmed.len();
            if trimmed.starts_with("//") || trimmed.starts_with("/*") {
                let message = "comments are not part of the language";
                return Err(Problem::new(
                    NOT_ALLOWED,
                    message,
                    self.position,
                    self.position + 2,
                ));
            }
            if rest.len() == trimmed.len() {
                return Ok(());
            }
        }
    }

    fn name(&mut self) -> Box<str> {
        let rest = self.rest();
        let length = rest
            .find(|letter| !is_name_part(letter))
            .unwrap_or(rest.len());
        self.position += length;
        rest[..length].into()
    }

    fn punctuator(&mut self, first: char) -> Lexed<Token> {
        let start = self.position;
        // `a?.5:b` is a conditional.
        let conditional =
            self.follows("?.") && self.rest()[2..].starts_with(|next: char| next.is_ascii_digit());
        if conditional {
            self.position += 1;
            return Ok(Token::Punctuator("?"));
        }
        if let Some(found) = PUNCTUATORS.iter().find(|text| self.eat(text)) {
            return Ok(Token::Punctuator(found));
        }
        let message = match first {
            '\\' => "escapes are allowed in strings only".to_owned(),
            '#' | '@' => format!("`{first}` is not part of the language"),
            _ => format!("unexpected character `{first}`"),
        };
        Err(Problem::new(
            SYNTAX,
            message,
            start,
            start + first.len_utf8(),
        ))
    }

    fn string(&mut self) -> Lexed<Literal> {
        let start = self.position;
        let quote = self.bump();
        let mut units = Units::default();
        loop {
            if self.position > self.bound {
                return Err(self.too_long(self.position));
            }
            match self.bump() {
                next if next == quote => return Ok(units.finish()),
                None | Some('\n' | '\r') => {
                    return Err(self.syntax("this string is not closed", start));
                }
                Some('\\') => self.escape(&mut units)?,
                Some(other) => units.push(other),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self, units: &mut Units) -> Lexed<()> {
        let start = self.position - 1;
        let Some(letter) = self.bump() else {
            return Err(self.syntax("the source ends in an escape", start));
        };
        match letter {
            'n' => units.push('\n'),
            't' => units.push('\t'),
            'r' => units.push('\r'),
            'b' => units.push('\u{8}'),
            'f' => units.push('\u{c}'),
            'v' => units.push('\u{b}'),
            '0' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => units.push('\0'),
            '0'..='9' => return Err(self.syntax("octal escapes are not allowed", start)),
            'x' => {
                let unit = self.hexadecimal(2, start)?;
                units.push_unit(unit);
            }
            'u' if self.eat("{") => {
                let digits = self.rest().find('}').map(|length| &self.rest()[..length]);
                let code = digits.and_then(code_point);
                let (Some(digits), Some(code)) = (digits, code) else {
                    return Err(self.syntax("this is not a code point", start));
                };
                self.position += digits.len() + 1;
                units.push_code_point(code);
            }
            'u' => {
                let unit = self.hexadecimal(4, start)?;
                units.push_unit(unit);
            }
            '\r' => {
                self.eat("\n");
            }
            '\n' | '\u{2028}' | '\u{2029}' => {}
            other => units.push(other),
        }
        Ok(())
    }

    fn hexadecimal(&mut self, count: usize, start: usize) -> Lexed<u16> {
        let unit = self
            .rest()
            .get(..count)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u16::from_str_radix(digits, 16).ok());
        self.position += unit.map_or(0, |_| count);
        unit.ok_or_else(|| self.syntax("this escape needs hexadecimal digits", start))
    }

    fn number(&mut self) -> Lexed<f64> {
        let start = self.position;
        let value = match self.rest().get(..2) {
            Some("0x" | "0X") => self.radix(16)?,
            Some("0o" | "0O") => self.radix(8)?,
            Some("0b" | "0B") => self.radix(2)?,
            _ => self.decimal()?,
        };
        match self.peek() {
            Some('n') => {
                let message = "BigInt numbers are not part of the language; use a plain number";
                Err(Problem::new(NOT_ALLOWED, message, start, self.position + 1))
            }
            Some(letter) if is_name_part(letter) => {
                Err(self.syntax("a number runs into a name", start))
            }
            _ => Ok(value),
        }
    }

    fn radix(&mut self, radix: u32) -> Lexed<f64> {
        let start = self.position;
        self.position += 2;
        let digits = self.digits(radix)?;
        if digits.is_empty() {
            return Err(self.syntax("a number needs digits", start));
        }
        Ok(crate::number::from_digits(&digits, radix))
    }

    fn decimal(&mut self) -> Lexed<f64> {
        let start = self.position;
        let mut text = self.digits(10)?;
        if text.len() > 1 && text.starts_with('0') {
            return Err(self.syntax("a number cannot start with 0", start));
        }
        if self.eat(".") {
            text.push('.');
            if !self.follows("_") {
                text.push_str(&self.digits(10)?);
            }
        }
        if self.eat("e") || self.eat("E") {
            text.push('e');
            if self.eat("-") {
                text.push('-');
            } else {
                self.eat("+");
            }
            let exponent = self.digits(10)?;
            if exponent.is_empty() {
                return Err(self.syntax("an exponent needs digits", start));
            }
            text.push_str(&exponent);
        }
        text.parse()
            .map_err(|_| self.syntax("this is not a number", start))
    }

    /// Digits with single underscores between them.
    fn digits(&mut self, radix: u32) -> Lexed<String> {
        let start = self.position;
        let rest = self.rest();
        let length = rest
            .find(|next: char| next != '_' && !next.is_digit(radix))
            .unwrap_or(rest.len());
        self.position += length;
        let digits = &rest[..length];
        if digits.starts_with('_') || digits.ends_with('_') || digits.contains("__") {
            return Err(self.syntax("an underscore must stand between two digits", start));
        }
        if length > 1 && digits.starts_with("0_") && radix == 10 {
            return Err(self.syntax("a number cannot start with 0", start));
        }
        Ok(digits.replace('_', ""))
    }
}

fn code_point(digits: &str) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let significant = digits.trim_start_matches('0');
    if !plain || significant.len() > 6 {
        return None;
    }
    let code = if significant.is_empty() {
        0
    } else {
        u32::from_str_radix(significant, 16).ok()?
    };
    (code <= 0x10_FFFF).then_some(code)
}

fn is_name_start(letter: char) -> bool {
    letter == '$' || letter == '_' || letter.is_alphabetic()
}

fn is_name_part(letter: char) -> bool {
    is_name_start(letter) || letter.is_alphanumeric() || matches!(letter, '\u{200c}' | '\u{200d}')
}

/// Collects a string that may turn out to hold lone surrogates.
#[derive(Default)]
struct Units {
    text: String,
    /// Set once a surrogate came in as an escape; `text` is then empty.
    wide: Vec<u16>,
}

impl Units {
    fn push(&mut self, letter: char) {
        if self.wide.is_empty() {
            self.text.push(letter);
        } else {
            self.wide
                .extend_from_slice(letter.encode_utf16(&mut [0; 2]));
        }
    }

    fn push_unit(&mut self, unit: u16) {
        match char::from_u32(u32::from(unit)) {
            Some(letter) => self.push(letter),
            None => {
                if self.wide.is_empty() {
                    self.wide = std::mem::take(&mut self.text).encode_utf16().collect();
                }
                self.wide.push(unit);
            }
        }
    }

    fn push_code_point(&mut self, code: u32) {
        match (char::from_u32(code), u16::try_from(code)) {
            (Some(letter), _) => self.push(letter),
            (None, Ok(unit)) => self.push_unit(unit),
            (None, Err(_)) => {}
        }
    }

    fn finish(self) -> Literal {
        if self.wide.is_empty() {
            return Literal::Plain(self.text.into());
        }
        match String::from_utf16(&self.wide) {
            Ok(text) => Literal::Plain(text.into()),
            Err(_) => Literal::Wide(self.wide.into()),
        }
    }
}
