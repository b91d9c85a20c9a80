//! How much one compilation, evaluation or rendering may cost.

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

impl Default for Limits {
    fn default() -> Self {
        Self {
            source_bytes: 16 * 1024,
            nesting: 64,
            steps: 1_000_000,
            built_bytes: 16 * 1024 * 1024,
        }
    }
}
