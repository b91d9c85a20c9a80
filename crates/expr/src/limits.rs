//! How much one compilation, evaluation or rendering may cost, and the account of it.
//!
//! Every operation pays before it works, so an evaluation ends however hostile it is.

use crate::meter::{Interrupt, Meter};
use crate::problem::{Fallible, INTERRUPTED, failure, limit};

/// How deep a value may be nested, built or read. It keeps every walk over a value, and
/// dropping it, within a small stack.
pub(crate) const VALUE_DEPTH: usize = 200;

/// How many bytes one step pays for. Slower operations on bytes cost more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Price(usize);

impl Price {
    /// Reading, comparing, copying.
    pub(crate) const READ: Self = Self(64);
    /// Hashing a key and finding it.
    pub(crate) const KEY: Self = Self(32);
    /// Looking for one text in another: each byte of the text.
    pub(crate) const SEARCH: Self = Self(32);
    /// Getting ready to look for a text: each of its bytes.
    pub(crate) const NEEDLE: Self = Self(16);
    /// Reading numbers, encoding and decoding.
    pub(crate) const CONVERT: Self = Self(16);
}

/// Limits of one compilation, evaluation or rendering as a whole.
#[derive(Clone, Copy, Debug)]
pub struct ExpressionLimits {
    /// Bytes of one expression's source.
    pub source_bytes: usize,
    /// How deep operands may sit inside one another.
    pub nesting: usize,
    /// Steps of one evaluation or rendering.
    pub steps: u64,
    /// Bytes that one evaluation or rendering may build; values only read cost steps alone.
    pub built_bytes: usize,
}

impl ExpressionLimits {
    /// The limits that apply unless the caller sets others.
    pub const DEFAULT: Self = Self {
        source_bytes: 16 * 1024,
        nesting: Self::MAX_NESTING,
        steps: 1_000_000,
        built_bytes: 16 * 1024 * 1024,
    };

    /// Bytes that the tables of one [`Document`](crate::Document) may take beside its text. A
    /// text takes at most 4.8 times its own size, so those up to 13 MiB always fit.
    pub const DOCUMENT_BYTES: usize = 64 * 1024 * 1024;

    /// No setting allows deeper nesting: reading recurses once for each level.
    pub const MAX_NESTING: usize = 64;

    /// Steps of an evaluation that may run where nothing may wait for long: well below a
    /// millisecond.
    pub const INLINE_STEPS: u64 = 5_000;

    /// These limits, but with no more than [`INLINE_STEPS`](Self::INLINE_STEPS). An evaluation
    /// that exceeds them belongs where evaluations may take long, with the limits as they are.
    #[must_use]
    pub fn inline(&self) -> Self {
        Self {
            steps: self.steps.min(Self::INLINE_STEPS),
            ..*self
        }
    }

    /// For an expression that was checked when it was published, perhaps under larger limits.
    pub const CHECKED: Self = Self {
        source_bytes: usize::MAX,
        ..Self::DEFAULT
    };
}

impl Default for ExpressionLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Steps between two looks at the interrupt.
const STEPS_PER_LOOK: u64 = 1024;

/// The account of one evaluation: what is left of the limits.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Steps until the next look at the interrupt.
    steps: u64,
    /// Steps after those.
    reserve: u64,
    bytes: usize,
    /// Bytes of output that may still be written.
    written: usize,
    /// Bytes of many small writes that are not paid for with a step yet.
    small: usize,
    interrupt: Option<Interrupt>,
}

impl Budget {
    pub(crate) fn new(limits: &ExpressionLimits) -> Self {
        Self::of(limits.steps, limits.built_bytes)
    }

    /// The limits, and an interrupt that ends the evaluation before it reaches them.
    pub(crate) fn metered(limits: &ExpressionLimits, meter: &Meter) -> Self {
        let mut budget = Self::new(limits);
        if meter.interrupt.is_some() {
            // The first step checks the interrupt, so an evaluation that was stopped before it
            // began does nothing.
            budget.reserve = std::mem::take(&mut budget.steps);
            budget.interrupt = meter.interrupt.clone();
        }
        budget
    }

    fn of(steps: u64, bytes: usize) -> Self {
        Self {
            steps,
            reserve: 0,
            bytes,
            written: bytes.saturating_mul(2),
            small: 0,
            interrupt: None,
        }
    }

    /// Reports on the meter how much of `limits` was used.
    pub(crate) fn report(&self, limits: &ExpressionLimits, meter: &mut Meter) {
        meter.steps = limits.steps - self.steps - self.reserve;
        meter.built_bytes = limits.built_bytes - self.bytes;
    }

    /// The limits for a value that leaves the language when the caller gives none. A value
    /// taken unchanged from an input may cost what it does; a built value may share its parts,
    /// and its text must not grow without bound.
    pub(crate) fn for_output(built: bool) -> Self {
        if built {
            return Self::new(&ExpressionLimits::DEFAULT);
        }
        Self::of(u64::MAX, usize::MAX)
    }

    /// Pays for `count` steps.
    #[inline]
    pub(crate) fn steps(&mut self, count: u64) -> Fallible<()> {
        match self.steps.checked_sub(count) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => self.steps_from_reserve(count),
        }
    }

    #[cold]
    fn steps_from_reserve(&mut self, count: u64) -> Fallible<()> {
        if let Some(interrupt) = &self.interrupt
            && interrupt.is_interrupted()
        {
            let message = "the evaluation was interrupted before it ended";
            return Err(failure(INTERRUPTED, message.to_owned()));
        }
        match (self.steps + self.reserve).checked_sub(count) {
            Some(left) => {
                self.steps = left.min(STEPS_PER_LOOK);
                self.reserve = left - self.steps;
                Ok(())
            }
            None => {
                (self.steps, self.reserve) = (0, 0);
                Err(limit("the expression takes too many steps"))
            }
        }
    }

    /// Pays for reading `bytes`.
    #[inline]
    pub(crate) fn read(&mut self, bytes: usize) -> Fallible<()> {
        self.read_at(bytes, Price::READ)
    }

    /// Pays for going over `bytes` at a price.
    #[inline]
    pub(crate) fn read_at(&mut self, bytes: usize, price: Price) -> Fallible<()> {
        self.steps((bytes / price.0) as u64)
    }

    /// Pays for building `bytes`.
    #[inline]
    pub(crate) fn build(&mut self, bytes: usize) -> Fallible<()> {
        self.hold(bytes)?;
        self.read(bytes)
    }

    /// Pays for one of many pieces, each of which may be too small for a step of its own.
    #[inline]
    pub(crate) fn trickle(&mut self, bytes: usize) -> Fallible<()> {
        let bytes = self.small.saturating_add(bytes);
        self.small = bytes % Price::READ.0;
        self.read(bytes)
    }

    /// Pays for memory that takes no time to fill.
    #[inline]
    pub(crate) fn hold(&mut self, bytes: usize) -> Fallible<()> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => Err(limit("the expression builds too much")),
        }
    }

    /// Pays for writing `bytes` of output. It is an account of its own: what an expression may
    /// build can also be written. A built value may share its parts, and its text must not
    /// grow without bound.
    pub(crate) fn write(&mut self, bytes: usize) -> Fallible<()> {
        match self.written.checked_sub(bytes) {
            Some(left) => {
                self.written = left;
                self.trickle(bytes)
            }
            None => Err(limit("the rendered text is too large")),
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
