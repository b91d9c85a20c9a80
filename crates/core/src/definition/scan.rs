//! Reads JSON text without recursion and tells a [`Sink`] what is where.
//!
//! Every other pass over the text (structure, places) is a sink of this one
//! scanner, so that they cannot disagree about what is valid. Depth is counted
//! before anything is opened: a hostile document ends in an error, not in a
//! stack overflow.

use std::borrow::Cow;
use std::ops::Range;

/// Receives the parts of a document in the order they stand in the text.
pub(crate) trait Sink<'t> {
    /// A list or an object begins at this byte.
    fn open(&mut self, at: usize, container: Container);
    /// The innermost list or object ends before this byte.
    fn close(&mut self, end: usize);
    /// A key of the innermost object.
    fn key(&mut self, key: KeyToken<'t>);
    /// A value that holds no others; a text's range includes its quotes.
    fn scalar(&mut self, scalar: Scalar, span: Range<usize>);
}

/// The two kinds of values that hold others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    /// `[…]`
    List,
    /// `{…}`
    Object,
}

/// The kinds of values that hold no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// A string.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
}

/// A key as it stands in the text.
#[derive(Clone, Debug)]
pub(crate) struct KeyToken<'t> {
    /// The key without its escapes.
    pub(crate) text: Cow<'t, str>,
    /// Its range in the text, quotes included.
    pub(crate) span: Range<usize>,
}

/// Why the text is not an acceptable JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// The byte at which it was noticed.
    pub(crate) at: usize,
    /// What was expected or found.
    pub(crate) message: String,
    /// Whether the document is merely nested too deep.
    pub(crate) nesting: bool,
}

/// Scans one document.
pub(crate) fn scan<'t, S: Sink<'t>>(
    text: &'t str,
    nesting: usize,
    sink: &mut S,
) -> Result<(), SyntaxError> {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        nesting,
        open: Vec::new(),
    };
    scanner.document(sink)
}

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    nesting: usize,
    open: Vec<Container>,
}

impl<'t> Scanner<'t> {
    fn document<S: Sink<'t>>(&mut self, sink: &mut S) -> Result<(), SyntaxError> {
        self.value(sink)?;
        while let Some(&container) = self.open.last() {
            match (self.peek(), container) {
                (Some(b','), _) => {
                    self.at += 1;
                    self.member(container, sink)?;
                }
                (Some(b']'), Container::List) | (Some(b'}'), Container::Object) => self.close(sink),
                (None, Container::List) => {
                    return self.fail("the list is not closed: expected ']'");
                }
                (None, Container::Object) => {
                    return self.fail("the object is not closed: expected '}'");
                }
                (Some(_), Container::List) => return self.fail("expected ',' or ']'"),
                (Some(_), Container::Object) => return self.fail("expected ',' or '}'"),
            }
        }
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail("expected nothing more after the document"),
        }
    }

    /// The next element of a list, or the next key and value of an object.
    fn member<S: Sink<'t>>(
        &mut self,
        container: Container,
        sink: &mut S,
    ) -> Result<(), SyntaxError> {
        if container == Container::Object {
            match self.peek() {
                Some(b'"') => {}
                Some(b'}') => return self.fail("a comma stands before '}'"),
                Some(b'\'') => return self.fail("keys are written in double quotes"),
                Some(b'/' | b'#') => return self.fail("JSON has no comments"),
                _ => return self.fail("expected a key in double quotes"),
            }
            let (span, escaped) = self.text()?;
            let raw = &self.text[span.start + 1..span.end - 1];
            let text = if escaped {
                Cow::Owned(unescape(raw))
            } else {
                Cow::Borrowed(raw)
            };
            sink.key(KeyToken { text, span });
            if self.peek() != Some(b':') {
                return self.fail("expected ':' after the key");
            }
            self.at += 1;
        } else if self.peek() == Some(b']') {
            return self.fail("a comma stands before ']'");
        }
        self.value(sink)
    }

    /// Reads a scalar whole, or opens a container and reads its first member.
    fn value<S: Sink<'t>>(&mut self, sink: &mut S) -> Result<(), SyntaxError> {
        // A loop, because the first member of a container may be a container.
        loop {
            let start = match self.peek() {
                Some(_) => self.at,
                None => return self.fail("expected a value"),
            };
            let container = match self.bytes[start] {
                b'{' => Container::Object,
                b'[' => Container::List,
                b'"' => {
                    let (span, _) = self.text()?;
                    sink.scalar(Scalar::Text, span);
                    return Ok(());
                }
                b'-' | b'0'..=b'9' => {
                    self.number()?;
                    sink.scalar(Scalar::Number, start..self.at);
                    return Ok(());
                }
                _ => {
                    let scalar = self.word()?;
                    sink.scalar(scalar, start..self.at);
                    return Ok(());
                }
            };
            if self.open.len() >= self.nesting {
                return Err(SyntaxError {
                    at: start,
                    message: format!("values are nested deeper than {}", self.nesting),
                    nesting: true,
                });
            }
            self.open.push(container);
            sink.open(start, container);
            self.at += 1;
            match (self.peek(), container) {
                (Some(b']'), Container::List) | (Some(b'}'), Container::Object) => {
                    self.close(sink);
                    return Ok(());
                }
                (_, Container::Object) => return self.member(container, sink),
                (_, Container::List) => {}
            }
        }
    }

    fn close<S: Sink<'t>>(&mut self, sink: &mut S) {
        self.at += 1;
        self.open.pop();
        sink.close(self.at);
    }

    fn word(&mut self) -> Result<Scalar, SyntaxError> {
        let rest = &self.bytes[self.at..];
        for (word, scalar) in [
            ("true", Scalar::Bool),
            ("false", Scalar::Bool),
            ("null", Scalar::Null),
        ] {
            let ends = rest
                .get(word.len())
                .is_none_or(|byte| !byte.is_ascii_alphanumeric());
            if rest.starts_with(word.as_bytes()) && ends {
                self.at += word.len();
                return Ok(scalar);
            }
        }
        match rest.first() {
            Some(b'\'') => self.fail("texts are written in double quotes"),
            Some(b'/' | b'#') => self.fail("JSON has no comments"),
            _ => self.fail("expected a value"),
        }
    }

    /// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`, RFC 8259, section 6.
    fn number(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        let first = self.bytes.get(self.at).copied();
        let whole = self.digits()?;
        if first == Some(b'0') && whole > 1 {
            self.at = start;
            return self.fail("a number does not begin with 0");
        }
        let mut wide = whole > 300;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            wide = true;
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let finite = || {
            self.text[start..self.at]
                .parse::<f64>()
                .is_ok_and(f64::is_finite)
        };
        if wide && !finite() {
            self.at = start;
            return self.fail("the number is out of range");
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<usize, SyntaxError> {
        let count = self.bytes[self.at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count == 0 {
            return self.fail("expected a digit");
        }
        self.at += count;
        Ok(count)
    }

    /// The range of a text with its quotes, and whether it holds escapes.
    fn text(&mut self) -> Result<(Range<usize>, bool), SyntaxError> {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((start..self.at, escaped));
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(b'\n' | b'\r') => {
                    return self.fail("the text is not closed on its line: expected '\"'");
                }
                Some(0..0x20) => return self.fail("control characters in a text are escaped"),
                Some(_) => self.at += 1,
                None => return self.fail("the text is not closed: expected '\"'"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let unit = self.unit(self.at)?;
                match unit {
                    0xD800..0xDC00 => {
                        let low = self.bytes.get(self.at + 6) == Some(&b'\\')
                            && self.bytes.get(self.at + 7) == Some(&b'u')
                            && (0xDC00..0xE000).contains(&self.unit(self.at + 6)?);
                        if !low {
                            return self.fail("half of a surrogate pair");
                        }
                        self.at += 12;
                    }
                    0xDC00..0xE000 => return self.fail("half of a surrogate pair"),
                    _ => self.at += 6,
                }
                Ok(())
            }
            _ => self.fail("unknown escape"),
        }
    }

    /// The code unit of the `\uXXXX` that begins at this byte.
    fn unit(&self, at: usize) -> Result<u32, SyntaxError> {
        let digits = self.bytes.get(at + 2..at + 6).unwrap_or_default();
        let hexadecimal = digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(digits).unwrap_or_default();
        match u32::from_str_radix(text, 16) {
            Ok(unit) if hexadecimal => Ok(unit),
            _ => Err(SyntaxError {
                at,
                message: "expected four hexadecimal digits after \\u".to_owned(),
                nesting: false,
            }),
        }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn fail<T>(&self, message: &str) -> Result<T, SyntaxError> {
        Err(SyntaxError {
            at: self.at,
            message: message.to_owned(),
            nesting: false,
        })
    }
}

/// The text that a valid raw text (without its quotes) stands for.
pub(crate) fn unescape(raw: &str) -> String {
    Pieces::new(raw).map(|piece| piece.character).collect()
}

/// The raw offset of a byte of the unescaped text; the end, if it is past it.
pub(crate) fn raw_offset(raw: &str, unescaped: usize) -> usize {
    let mut seen = 0;
    for piece in Pieces::new(raw) {
        if seen >= unescaped {
            return piece.start;
        }
        seen += piece.character.len_utf8();
    }
    raw.len()
}

/// One character of a raw text, and where its first byte or escape begins.
struct Piece {
    character: char,
    start: usize,
}

struct Pieces<'t> {
    raw: &'t str,
    at: usize,
}

impl<'t> Pieces<'t> {
    fn new(raw: &'t str) -> Self {
        Self { raw, at: 0 }
    }

    fn unit(&self, at: usize) -> Option<u32> {
        u32::from_str_radix(self.raw.get(at..at + 4)?, 16).ok()
    }

    fn unicode(&self) -> Option<(char, usize)> {
        let high = self.unit(self.at + 2)?;
        if (0xD800..0xDC00).contains(&high) {
            let low = self.unit(self.at + 8)?;
            let code = 0x10000 + ((high - 0xD800) << 10) + low.checked_sub(0xDC00)?;
            return Some((char::from_u32(code)?, 12));
        }
        Some((char::from_u32(high)?, 6))
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let start = self.at;
        let first = self.raw.get(start..)?.chars().next()?;
        let (character, length) = if first != '\\' {
            (first, first.len_utf8())
        } else {
            match self.raw.as_bytes().get(start + 1)? {
                b'b' => ('\u{8}', 2),
                b'f' => ('\u{c}', 2),
                b'n' => ('\n', 2),
                b'r' => ('\r', 2),
                b't' => ('\t', 2),
                b'u' => self.unicode()?,
                other => (char::from(*other), 2),
            }
        };
        self.at += length;
        Some(Piece { character, start })
    }
}
