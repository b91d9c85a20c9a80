//! One word of a document's tables: a value in 8 bytes.
//!
//! A number is itself. JSON has no infinity and no NaN, so their bit patterns are free for
//! everything else: 16 bits for the kind, 48 bits for the place.

/// A value, or a key.
#[derive(Clone, Copy)]
pub(super) struct Word(pub(super) u64);

const TAG_SHIFT: u32 = 48;

/// The length of a string that fits into a word has so many bits, its start the other 28.
const LENGTH_BITS: u32 = 20;

/// The count of an array or object has so many bits, and so has the place of its parts.
const COUNT_BITS: u32 = 24;

/// Strings up to here fit into a word.
pub(super) const SHORT_TEXT: usize = (1 << LENGTH_BITS) - 1;

/// Words that a document may have, so that a place fits.
pub(super) const MOST_WORDS: usize = (1 << COUNT_BITS) - 1;

impl Word {
    pub(super) const NULL: u64 = 0xFFF1;
    pub(super) const FALSE: u64 = 0xFFF2;
    pub(super) const TRUE: u64 = 0xFFF3;
    /// A part of the text.
    pub(super) const TEXT: u64 = 0xFFF4;
    /// A part of the decoded strings.
    pub(super) const DECODED: u64 = 0xFFF5;
    /// A part of the text whose place stands among the spans.
    pub(super) const LONG_TEXT: u64 = 0xFFF6;
    /// A part of the decoded strings whose place stands among the spans.
    pub(super) const LONG_DECODED: u64 = 0xFFF7;
    /// Digits in the text.
    pub(super) const EXACT: u64 = 0xFFF8;
    pub(super) const ARRAY: u64 = 0xFFF9;
    pub(super) const OBJECT: u64 = 0xFFFA;

    /// A finite number.
    #[inline]
    pub(super) fn of_number(number: f64) -> Self {
        Self(number.to_bits())
    }

    /// `null`, `true` or `false`.
    pub(super) fn constant(tag: u64) -> Self {
        Self(tag << TAG_SHIFT)
    }

    /// A short part of a text.
    #[inline]
    pub(super) fn of_range(tag: u64, start: usize, length: usize) -> Self {
        Self(tag << TAG_SHIFT | (start as u64) << LENGTH_BITS | length as u64)
    }

    /// A place among the spans.
    pub(super) fn of_index(tag: u64, index: usize) -> Self {
        Self(tag << TAG_SHIFT | index as u64)
    }

    /// An array or object: where its parts are, and how many.
    #[inline]
    pub(super) fn of_block(tag: u64, first: usize, count: usize) -> Self {
        Self(tag << TAG_SHIFT | (first as u64) << COUNT_BITS | count as u64)
    }

    /// Its kind; a word without a tag is a number.
    #[inline]
    pub(super) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    #[inline]
    pub(super) fn number(self) -> f64 {
        f64::from_bits(self.0)
    }

    fn payload(self) -> usize {
        (self.0 & ((1 << TAG_SHIFT) - 1)) as usize
    }

    /// Start and length.
    #[inline]
    pub(super) fn range(self) -> (usize, usize) {
        (self.payload() >> LENGTH_BITS, self.payload() & SHORT_TEXT)
    }

    pub(super) fn index(self) -> usize {
        self.payload()
    }

    /// Place and count.
    #[inline]
    pub(super) fn block(self) -> (usize, usize) {
        (self.payload() >> COUNT_BITS, self.payload() & MOST_WORDS)
    }
}
