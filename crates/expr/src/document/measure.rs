//! How large the tables of a text become: one pass that counts, before anything is allocated.
//!
//! It checks nothing but the depth. Up to the first place that is not JSON, it counts at least
//! what the builder uses, so the builder never runs out of room before it finds the error.

use super::keys::FEW_KEYS;
use super::word::MOST_WORDS;
use super::{DOCUMENT_DEPTH, InterruptCheck, Stopped};
use crate::ExpressionLimits;

/// What the tables hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// Words for values, keys and indexes of keys.
    pub(super) words: usize,
    /// Bytes of strings that are spelled with escapes, decoded, at most.
    pub(super) decoded: usize,
}

impl Size {
    /// The bytes of memory that the tables take.
    pub(super) fn bytes(self) -> usize {
        let words = self.words.saturating_mul(size_of::<u64>());
        words.saturating_add(self.decoded)
    }
}

// So every word of a document within its limit can be numbered.
const _: () = assert!(ExpressionLimits::DOCUMENT_BYTES / size_of::<u64>() <= MOST_WORDS);

/// Counts what the tables of a text will hold.
pub(super) fn measure(text: &str, interrupt_check: InterruptCheck<'_>) -> Result<Size, Stopped> {
    let mut counter = Counter {
        bytes: text.as_bytes(),
        at: 0,
        size: Size {
            words: 1,
            decoded: 0,
        },
        keys: [0; DOCUMENT_DEPTH + 1],
        depth: 0,
        interrupt_check,
    };
    counter.count()?;
    Ok(counter.size)
}

struct Counter<'t> {
    bytes: &'t [u8],
    at: usize,
    size: Size,
    /// For each open object how many keys it has so far; 0 for an array.
    keys: [u32; DOCUMENT_DEPTH + 1],
    depth: usize,
    interrupt_check: InterruptCheck<'t>,
}

impl Counter<'_> {
    fn count(&mut self) -> Result<(), Stopped> {
        self.interrupt_check.at(0)?;
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => self.string(),
                b'[' => self.open(0, b']')?,
                b'{' => self.open(1, b'}')?,
                b',' => self.next()?,
                b']' | b'}' => self.close(),
                _ => {}
            }
        }
        Ok(())
    }

    fn open(&mut self, keys: u32, closing: u8) -> Result<(), Stopped> {
        self.interrupt_check.at(self.at)?;
        if self.depth == DOCUMENT_DEPTH {
            return Err(Stopped::Malformed);
        }
        self.depth += 1;
        self.keys[self.depth] = keys;
        let rest = &self.bytes[self.at..];
        let next = rest
            .iter()
            .find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        if next != Some(&closing) {
            self.size.words += 1 + keys as usize;
        }
        Ok(())
    }

    /// Another element, or another key and value.
    fn next(&mut self) -> Result<(), Stopped> {
        self.interrupt_check.at(self.at)?;
        let keys = &mut self.keys[self.depth];
        if *keys > 0 {
            *keys += 1;
            self.size.words += 1;
        }
        self.size.words += 1;
        Ok(())
    }

    fn close(&mut self) {
        let keys = self.keys[self.depth] as usize;
        if keys > FEW_KEYS {
            self.size.words += keys;
        }
        self.depth = self.depth.saturating_sub(1);
    }

    fn string(&mut self) {
        let start = self.at;
        let (mut saved, mut is_plain) = (0, true);
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => {
                    // An escape of two bytes becomes one byte, and one of six becomes three at
                    // most.
                    is_plain = false;
                    saved += match self.bytes.get(self.at) {
                        Some(b'u') => 3,
                        _ => 1,
                    };
                    self.at += 1;
                }
                _ => {}
            }
        }
        if !is_plain {
            self.size.decoded += (self.at - start).saturating_sub(saved);
        }
    }
}
