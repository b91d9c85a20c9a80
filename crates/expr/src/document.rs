//! JSON values as expressions read them: the text, and beside it tables that say where its
//! parts are.
//!
//! A word of 8 bytes stands for each value and for each key, so that the memory of a document
//! is in proportion to its text, whatever its shape: at most 4.8 bytes for each byte of text.
//! The words are counted before they are allocated. This module does not know expressions or
//! what they cost.

mod build;
mod keys;
mod measure;
mod syntax;
#[cfg(test)]
mod tests;
mod word;

use std::fmt;
use std::sync::Arc;

use build::Builder;
use word::Word;

pub use syntax::check_syntax;

use crate::problem::{ERROR, INTERRUPTED, LIMIT};
use crate::{Error, ExpressionLimits, Interrupt};

/// How deep a document's arrays and objects may sit in one another.
pub(crate) const DOCUMENT_DEPTH: usize = 127;

/// The longest text: a word has 28 bits for where a string begins.
const TEXT_BYTES: usize = 1 << 28;

/// A JSON text that was read, or a part of one. Clones share it.
#[derive(Clone)]
pub struct Document {
    tables: Arc<Tables>,
    at: u32,
}

/// The text and the tables of one document.
pub(crate) struct Tables {
    text: Arc<str>,
    /// A word for each value, at 0 that of the document itself. The values of an array stand
    /// side by side, and so do the keys and values of an object, followed by an index of its
    /// keys if there are many.
    words: Vec<u64>,
    /// Strings that are spelled with escapes, one after the other.
    decoded: String,
    /// Where strings are that are too long for a word.
    spans: Vec<(u32, u32)>,
}

/// A value within a document, borrowed.
#[derive(Clone, Copy)]
pub struct DocumentPart<'a> {
    tables: &'a Tables,
    at: u32,
}

/// What a part is.
pub(crate) enum Shape<'a> {
    Null,
    Bool(bool),
    Number(f64),
    /// An integer that no JavaScript number holds exactly, with the digits of the text.
    Exact(&'a str),
    Text(&'a str),
    Array,
    Object,
}

/// Why a text cannot become a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// It is not JSON, or one of its strings or numbers has no value; says where.
    Syntax(String),
    /// Its tables would take more memory than the limit.
    TooLarge {
        /// The bytes that they would take.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// The caller interrupted it.
    Interrupted,
}

impl Document {
    /// Reads a JSON text.
    ///
    /// # Errors
    /// The text is not JSON, or its tables would take more than [`ExpressionLimits::DOCUMENT_BYTES`].
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, DocumentError> {
        Self::parse_within(text.into(), ExpressionLimits::DOCUMENT_BYTES, None)
    }

    /// Reads a JSON text whose tables may take this many bytes; ends early once `interrupt` is
    /// set.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse), or it was interrupted.
    pub fn parse_within(
        text: Arc<str>,
        most: usize,
        interrupt: Option<&Interrupt>,
    ) -> Result<Self, DocumentError> {
        let most = most.min(ExpressionLimits::DOCUMENT_BYTES);
        let refused = |stopped| match stopped {
            Stopped::Interrupted => DocumentError::Interrupted,
            Stopped::Malformed => {
                let reason = check_syntax(&text).err();
                DocumentError::Syntax(reason.unwrap_or_else(|| "it is not JSON".to_owned()))
            }
        };
        let size = measure::measure(&text, InterruptCheck::new(interrupt)).map_err(refused)?;
        let bytes = size.bytes();
        if bytes > most {
            return Err(DocumentError::TooLarge { bytes, most });
        }
        if text.len() > TEXT_BYTES {
            return Err(DocumentError::TooLarge {
                bytes: text.len(),
                most: TEXT_BYTES,
            });
        }
        let builder = Builder::new(&text, size, InterruptCheck::new(interrupt));
        let (words, decoded, spans) = builder.document().map_err(refused)?;
        let tables = Arc::new(Tables {
            text,
            words,
            decoded,
            spans,
        });
        Ok(Self { tables, at: 0 })
    }

    /// `null`.
    pub fn null() -> Self {
        Self::parse("null").expect("null is JSON")
    }

    /// An element, if this is an array that has it. It keeps the whole document in memory.
    pub fn item(&self, index: usize) -> Option<Self> {
        let part = match self.root().shape() {
            Shape::Array => self.root().item(index)?,
            _ => return None,
        };
        Some(Self {
            tables: Arc::clone(&self.tables),
            at: part.at,
        })
    }

    /// The bytes of memory that the tables take, without the text.
    pub fn table_bytes(&self) -> usize {
        let tables = &*self.tables;
        tables.words.capacity() * size_of::<u64>()
            + tables.decoded.capacity()
            + tables.spans.capacity() * size_of::<(u32, u32)>()
    }

    /// The bytes of memory that the document takes, with its text.
    pub fn bytes(&self) -> usize {
        self.table_bytes() + self.tables.text.len()
    }

    pub(crate) fn root(&self) -> DocumentPart<'_> {
        DocumentPart {
            tables: &self.tables,
            at: self.at,
        }
    }
}

/// Reads the documents of one evaluation: together they may take what one alone may.
#[derive(Debug)]
pub struct DocumentReader<'i> {
    left: usize,
    interrupt: Option<&'i Interrupt>,
}

impl<'i> DocumentReader<'i> {
    /// A reader for one evaluation; reading ends early once `interrupt` is set.
    pub fn new(interrupt: Option<&'i Interrupt>) -> Self {
        Self {
            left: ExpressionLimits::DOCUMENT_BYTES,
            interrupt,
        }
    }

    /// Reads another document of the evaluation.
    ///
    /// # Errors
    /// As for [`Document::parse`], or it was interrupted, or the tables of all the evaluation's
    /// documents would take more than [`ExpressionLimits::DOCUMENT_BYTES`].
    pub fn read(&mut self, text: Arc<str>) -> Result<Document, DocumentError> {
        let read = Document::parse_within(text, self.left, self.interrupt);
        let document = read.map_err(|error| self.together(error))?;
        self.left = self.left.saturating_sub(document.table_bytes());
        Ok(document)
    }

    /// Counts a document that was read earlier against the limit.
    ///
    /// # Errors
    /// The tables of all documents take too much.
    pub fn count(&mut self, document: &Document) -> Result<(), DocumentError> {
        let bytes = document.table_bytes();
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.together(DocumentError::TooLarge { bytes, most: 0 })),
        }
    }

    /// The error with the figures of all documents of the evaluation.
    fn together(&self, error: DocumentError) -> DocumentError {
        match error {
            DocumentError::TooLarge { bytes, .. } => DocumentError::TooLarge {
                bytes: ExpressionLimits::DOCUMENT_BYTES - self.left + bytes,
                most: ExpressionLimits::DOCUMENT_BYTES,
            },
            other => other,
        }
    }
}

/// The document of a value that a program built.
impl From<&serde_json::Value> for Document {
    fn from(value: &serde_json::Value) -> Self {
        // A value too large for a document is larger than any value that a program builds.
        Self::parse(value.to_string()).unwrap_or_else(|_| Self::null())
    }
}

impl From<serde_json::Value> for Document {
    fn from(value: serde_json::Value) -> Self {
        Self::from(&value)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root().fmt(f)
    }
}

impl fmt::Debug for DocumentPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape() {
            Shape::Null => f.write_str("null"),
            Shape::Bool(value) => value.fmt(f),
            Shape::Number(number) => number.fmt(f),
            Shape::Exact(digits) => f.write_str(digits),
            Shape::Text(text) => text.fmt(f),
            Shape::Array => write!(f, "an array of {}", self.len()),
            Shape::Object => write!(f, "an object of {}", self.len()),
        }
    }
}

impl<'a> DocumentPart<'a> {
    fn word(self) -> Word {
        Word(self.tables.words[self.at as usize])
    }

    fn at(self, at: usize) -> Self {
        Self {
            at: at as u32,
            ..self
        }
    }

    #[inline]
    pub(crate) fn shape(self) -> Shape<'a> {
        let word = self.word();
        match word.tag() {
            Word::NULL => Shape::Null,
            Word::FALSE => Shape::Bool(false),
            Word::TRUE => Shape::Bool(true),
            Word::EXACT => Shape::Exact(self.tables.texts().of(word)),
            Word::ARRAY => Shape::Array,
            Word::OBJECT => Shape::Object,
            Word::TEXT | Word::DECODED | Word::LONG_TEXT | Word::LONG_DECODED => {
                Shape::Text(self.tables.texts().of(word))
            }
            _ => Shape::Number(word.number()),
        }
    }

    /// How many elements or properties an array or object has.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.word().block().1
    }

    /// An element of an array.
    #[inline]
    pub(crate) fn item(self, index: usize) -> Option<Self> {
        let (first, count) = self.word().block();
        (index < count).then(|| self.at(first + index))
    }

    /// A property of an object, by its place.
    #[inline]
    pub(crate) fn entry(self, index: usize) -> Option<(&'a str, Self)> {
        let (first, count) = self.word().block();
        (index < count).then(|| {
            let at = first + 2 * index;
            let key = Word(self.tables.words[at]);
            (self.tables.texts().of(key), self.at(at + 1))
        })
    }

    /// The properties of an object in the order of the text.
    pub(crate) fn entries(self) -> impl DoubleEndedIterator<Item = (&'a str, Self)> {
        (0..self.len()).filter_map(move |index| self.entry(index))
    }

    /// A property of an object, by its key.
    pub(crate) fn find(self, key: &str) -> Option<Self> {
        let (first, count) = self.word().block();
        let found = keys::find(self.tables.texts(), &self.tables.words, (first, count), key)?;
        Some(self.at(first + 2 * found + 1))
    }

    /// Whether this is the same part of the same document.
    pub(crate) fn is_same(self, other: DocumentPart<'_>) -> bool {
        std::ptr::from_ref(self.tables).addr() == std::ptr::from_ref(other.tables).addr()
            && self.at == other.at
    }
}

impl Tables {
    fn texts(&self) -> Texts<'_> {
        Texts {
            text: &self.text,
            decoded: &self.decoded,
            spans: &self.spans,
        }
    }
}

/// Where strings are looked up.
#[derive(Clone, Copy)]
struct Texts<'t> {
    text: &'t str,
    decoded: &'t str,
    spans: &'t [(u32, u32)],
}

impl<'t> Texts<'t> {
    /// The text that a word stands for.
    #[inline]
    fn of(self, word: Word) -> &'t str {
        let span = || {
            let (start, length) = self.spans[word.index()];
            (start as usize, length as usize)
        };
        let (source, (start, length)) = match word.tag() {
            Word::TEXT | Word::EXACT => (self.text, word.range()),
            Word::DECODED => (self.decoded, word.range()),
            Word::LONG_TEXT => (self.text, span()),
            _ => (self.decoded, span()),
        };
        &source[start..start + length]
    }
}

/// Why reading ended.
enum Stopped {
    Malformed,
    Interrupted,
}

/// Bytes of text between two looks at the interrupt.
const BYTES_PER_LOOK: usize = 32 * 1024;

/// Looks at an interrupt now and then.
struct InterruptCheck<'i> {
    interrupt: Option<&'i Interrupt>,
    next: usize,
}

impl<'i> InterruptCheck<'i> {
    fn new(interrupt: Option<&'i Interrupt>) -> Self {
        let next = if interrupt.is_some() { 0 } else { usize::MAX };
        Self { interrupt, next }
    }

    /// Looks, if the reader has come far enough since the last time.
    #[inline]
    fn at(&mut self, position: usize) -> Result<(), Stopped> {
        if position < self.next {
            return Ok(());
        }
        self.next = position.saturating_add(BYTES_PER_LOOK);
        self.now()
    }

    fn now(&self) -> Result<(), Stopped> {
        match self.interrupt {
            Some(interrupt) if interrupt.is_interrupted() => Err(Stopped::Interrupted),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(reason) => f.write_str(reason),
            Self::TooLarge { bytes, most } => write!(
                f,
                "the values it reads take {bytes} bytes of memory beside their text, and {most} are \
                 allowed; pass on smaller values, or values with fewer parts"
            ),
            Self::Interrupted => f.write_str("the value was not read to its end"),
        }
    }
}

impl std::error::Error for DocumentError {}

/// The value that an expression which names this part evaluates to.
impl From<DocumentError> for Error {
    fn from(error: DocumentError) -> Self {
        Self {
            code: match error {
                DocumentError::Syntax(_) => ERROR,
                DocumentError::TooLarge { .. } => LIMIT,
                DocumentError::Interrupted => INTERRUPTED,
            },
            message: error.to_string(),
            offset: 0,
            pointer: None,
        }
    }
}
