//! How much one compilation, evaluation or rendering may cost, and the account of it.
//!
//! Every operation pays before it works, so an evaluation ends however hostile it is.

use crate::problem::{Fallible, limit};

/// How deep a value may be nested, built or read. It keeps every walk over a value, and
/// dropping it, within a small stack.
pub(crate) const VALUE_DEPTH: usize = 200;

/// Bytes that are read for the price of one step.
const BYTES_PER_STEP: usize = 256;

/// Limits of one compilation, evaluation or rendering as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one expression's source.
    pub source_bytes: usize,
    /// How deep operands may sit inside one another.
    pub nesting: usize,
    /// Steps of one evaluation or rendering.
    pub steps: u64,
    /// Bytes that one evaluation or rendering may build; values only read cost nothing.
    pub built_bytes: usize,
}

impl Limits {
    /// Those that hold unless somebody says otherwise.
    pub const DEFAULT: Self = Self {
        source_bytes: 16 * 1024,
        nesting: Self::MAX_NESTING,
        steps: 1_000_000,
        built_bytes: 16 * 1024 * 1024,
    };

    /// No setting allows deeper nesting: reading recurses once for each level.
    pub const MAX_NESTING: usize = 64;

    /// For what was checked when it was published, maybe by larger limits than those of now.
    pub const CHECKED: Self = Self {
        source_bytes: usize::MAX,
        ..Self::DEFAULT
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: u64,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            steps: limits.steps,
            bytes: limits.built_bytes,
        }
    }

    /// What writing down the values of a rendering may cost. It is an account of its own: what
    /// an expression may build can also be written. A built value may share its parts, and
    /// its text must not grow without bound.
    pub(crate) fn for_writing(limits: &Limits) -> Self {
        Self {
            steps: limits.steps,
            bytes: limits.built_bytes.saturating_mul(4),
        }
    }

    /// What a value may cost that leaves the language without any limits given. One that comes
    /// from an input as it is may cost what it does; one that was built may share its parts and
    /// must not grow without bound.
    pub(crate) fn for_output(built: bool) -> Self {
        let bytes = if built { 64 * 1024 * 1024 } else { usize::MAX };
        Self {
            steps: u64::MAX,
            bytes,
        }
    }

    /// Pays for `count` steps.
    #[inline]
    pub(crate) fn steps(&mut self, count: u64) -> Fallible<()> {
        match self.steps.checked_sub(count) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => {
                self.steps = 0;
                Err(limit("the expression takes too many steps"))
            }
        }
    }

    /// Pays for reading `bytes`.
    #[inline]
    pub(crate) fn scan(&mut self, bytes: usize) -> Fallible<()> {
        self.steps((bytes / BYTES_PER_STEP) as u64)
    }

    /// Pays for building `bytes`.
    #[inline]
    pub(crate) fn build(&mut self, bytes: usize) -> Fallible<()> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                self.scan(bytes)
            }
            None => Err(limit("the expression builds too much")),
        }
    }

    /// Pays for `count` things of `size` bytes, which may be absurdly many.
    pub(crate) fn build_many(&mut self, count: usize, size: usize) -> Fallible<()> {
        self.build(count.saturating_mul(size))
    }
}

/// Refuses a depth that would need too much stack.
pub(crate) fn check_depth(depth: usize) -> Fallible<()> {
    if depth > VALUE_DEPTH {
        return Err(limit("the value is nested too deep"));
    }
    Ok(())
}
