//! What happens in a world, line by line, for a developer who repeats a seed. Costs nothing
//! unless it is asked for.

use windlass_core::Millis;

/// The lines, kept only if they are wanted.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    wanted: bool,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        let lines = Vec::new();
        Self { wanted, lines }
    }

    /// Adds a line; the text is only made if it is wanted.
    pub(crate) fn say(&mut self, at: Millis, text: impl FnOnce() -> String) {
        if self.wanted {
            self.lines.push(format!("{:>7} {}", at.0, text()));
        }
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines
    }
}
