//! What an evaluation reports about its cost, and how another thread stops it.
//!
//! Knows no clock: a caller that has a deadline sets the flag when it passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that stops evaluations. Clones share it, so one thread sets it while another
/// evaluates; it is looked at every thousand steps or so.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every evaluation that listens to this flag, those that have not begun included.
    pub fn interrupt(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The meter of one evaluation or rendering: the caller puts in what stops it, and gets out
/// what it cost, also when it fails.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// Stops the evaluation with `EXPRESSION_INTERRUPTED`.
    pub interrupt: Option<Interrupt>,
    /// Steps taken.
    pub steps: u64,
    /// Bytes built.
    pub built_bytes: usize,
}

impl Meter {
    /// A meter of an evaluation that ends early once `interrupt` is set.
    pub fn interrupted_by(interrupt: &Interrupt) -> Self {
        Self {
            interrupt: Some(interrupt.clone()),
            ..Self::default()
        }
    }
}
