//! Where output goes and how it looks: data on stdout, everything else on stderr,
//! colour only where a terminal wants it.

use std::io::{self, IsTerminal as _, Write as _};

use crate::exit::{Exit, Failure};

/// What was asked for, and what the terminals can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// JSON instead of tables.
    pub(crate) json: bool,
    /// Whether stdout may be coloured.
    pub(crate) color: bool,
    /// Whether stdout is a terminal, whose width matters.
    pub(crate) terminal: bool,
    /// Whether stderr is a terminal that can be drawn on.
    pub(crate) live: bool,
    /// Whether what is drawn there may be coloured.
    pub(crate) live_color: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let live = io::stderr().is_terminal() && !dumb;
        Self {
            json,
            color: io::stdout().is_terminal() && !no_color && !dumb,
            terminal: io::stdout().is_terminal(),
            live,
            live_color: live && !no_color,
        }
    }

    /// Writes data. A reader that went away ends the program quietly.
    pub(crate) fn data(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| {
            if text.ends_with('\n') {
                Ok(())
            } else {
                stdout.write_all(b"\n")
            }
        });
        written.and_then(|()| stdout.flush()).or_else(closed_pipe)
    }

    /// Writes a value as JSON, indented for people.
    pub(crate) fn json(&self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::new(Exit::Storage, "OUTPUT_FAILED", error))?;
        self.data(&text)
    }

    /// Says that a run was left before its end: to people in a sentence, to programs as a
    /// failure.
    pub(crate) fn left(&self, exit: Exit, message: &str) -> Result<Exit, Failure> {
        if self.json {
            return Err(Failure::new(exit, "RUN_NOT_ENDED", message));
        }
        self.say(message);
        Ok(exit)
    }

    /// Says something to people.
    pub(crate) fn say(&self, text: &str) {
        // Nobody reads it if it cannot be written.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// A closed pipe is not a failure: `windlass events … | head` ends well.
pub(crate) fn closed_pipe(error: io::Error) -> Result<(), Failure> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Storage,
        "OUTPUT_FAILED",
        format!("cannot write: {error}"),
    ))
}
