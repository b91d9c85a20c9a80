//! Size limits of what reaches this process and of what its runs make. A process has one set of
//! limits: it is set once, before anything is read, and never changes.

use std::sync::OnceLock;

use windlass_core::definition;
use windlass_core::run::ValueLimits;

/// The limits of a process. A value past a limit is an error with its own code.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of definitions.
    pub definition: definition::DefinitionLimits,
    /// Bytes of a value from outside: a trigger, a signal, a result given by hand.
    pub payload_bytes: usize,
    /// Bytes of a file that an attempt stores beside its output.
    pub blob_bytes: u64,
    /// Subschemas that a JSON Schema may expand to for one value.
    pub schema: u64,
    /// Of what runs make.
    pub values: ValueLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            definition: definition::DefinitionLimits::DEFAULT,
            payload_bytes: 10 * 1024 * 1024,
            blob_bytes: 256 * 1024 * 1024,
            schema: 10_000,
            values: ValueLimits::DEFAULT,
        }
    }
}

static OF_THIS_PROCESS: OnceLock<Limits> = OnceLock::new();

/// The limits of this process: those that were given, or else the usual ones.
pub fn limits() -> &'static Limits {
    OF_THIS_PROCESS.get_or_init(Limits::default)
}

/// Gives this process its limits; false if it has some, or has asked for them before.
pub fn set_limits(limits: Limits) -> bool {
    OF_THIS_PROCESS.set(limits).is_ok()
}
