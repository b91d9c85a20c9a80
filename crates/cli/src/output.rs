//! Where output goes and how it looks: data on stdout, everything else on stderr,
//! colour only where a terminal wants it.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use windlass_core::printable;
use windlass_engine::view;

use crate::exit::{Exit, Failure};
use crate::{paint, screen};

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

    /// Writes one line of data; control characters in names and messages are made printable.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        match self.json {
            true => self.data(text),
            false => self.data(&printable::one_line(text)),
        }
    }

    /// Writes data: lines whose parts are printable already. A closed pipe ends the program
    /// quietly.
    pub(crate) fn data(&self, text: &str) -> Result<(), Failure> {
        let text = &*self.shown(text);
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

    /// Writes JSON as it is stored, indented, digit by digit. For people, control characters
    /// are written as JSON escapes: it is the same JSON.
    pub(crate) fn pretty(&self, json: &[u8]) -> Result<(), Failure> {
        let mut text = Vec::with_capacity(json.len() + json.len() / 4);
        view::Pretty::new(&mut text)
            .write_all(json)
            .map_err(|error| Failure::new(Exit::Storage, "OUTPUT_UNREADABLE", error))?;
        self.data(&String::from_utf8_lossy(&text))
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

    /// Says something to people, on one line.
    pub(crate) fn say(&self, text: &str) {
        self.say_lines(&printable::one_line(text));
    }

    /// Says something that has several lines, put together of printable parts.
    pub(crate) fn say_lines(&self, text: &str) {
        say(text);
    }

    /// Says something that has several lines and the program's own styles.
    pub(crate) fn say_styled(&self, text: &str) {
        // A message that cannot be written to standard error has no reader.
        let _ = writeln!(io::stderr().lock(), "{}", paint::shown(text.trim_end()));
    }

    /// Standard output, for what is written in parts.
    pub(crate) fn stdout(&self) -> impl Write + use<> {
        screen::stdout(self.terminal)
    }

    /// The text unchanged for programs; for people without control characters, except the
    /// program's own styles.
    pub(crate) fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match (self.json, self.terminal) {
            (true, true) => printable::lines(text),
            (true, false) => Cow::Borrowed(text),
            (false, _) => paint::shown(text),
        }
    }
}

/// Says something that has several lines, where the settings are not at hand.
pub(crate) fn say(text: &str) {
    // A message that cannot be written to standard error has no reader.
    let _ = writeln!(io::stderr().lock(), "{}", printable::lines(text));
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
