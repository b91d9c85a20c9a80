//! Standard output for what is written in parts. On a terminal, control characters are written
//! as JSON escapes, which leaves the JSON the same; programs get every byte.

use std::io::{self, BufWriter, StdoutLock, Write};

use windlass_core::printable;

/// Collects small parts before they are looked at.
const PARTS: usize = 64 * 1024;

/// Standard output, which may be a terminal.
pub(crate) fn stdout(is_terminal: bool) -> BufWriter<Screen<StdoutLock<'static>>> {
    let screen = Screen {
        inner: io::stdout().lock(),
        is_terminal,
        begun: Vec::new(),
    };
    BufWriter::with_capacity(PARTS, screen)
}

/// Escapes control characters.
pub(crate) struct Screen<W> {
    inner: W,
    is_terminal: bool,
    /// The first bytes of a character whose other bytes have not come yet.
    begun: Vec<u8>,
}

impl<W: Write> Screen<W> {
    fn show(&mut self, bytes: &[u8]) -> io::Result<()> {
        let whole = match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // What is not UTF-8 in the middle becomes U+FFFD.
            _ => bytes.len(),
        };
        let text = String::from_utf8_lossy(&bytes[..whole]);
        self.inner.write_all(printable::lines(&text).as_bytes())?;
        self.begun = bytes[whole..].to_vec();
        Ok(())
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.inner.write(bytes);
        }
        if self.begun.is_empty() {
            self.show(bytes)?;
        } else {
            let mut all = std::mem::take(&mut self.begun);
            all.extend_from_slice(bytes);
            self.show(&all)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "{\"a\":\"\u{9b}2J é \u{202e}\u{1F600}\u{7f}\"}\n";

    fn written(is_terminal: bool, parts: usize) -> String {
        let mut screen = Screen {
            inner: Vec::new(),
            is_terminal,
            begun: Vec::new(),
        };
        for part in HOSTILE.as_bytes().chunks(parts) {
            screen.write_all(part).expect("written");
        }
        String::from_utf8(screen.inner).expect("text")
    }

    #[test]
    fn a_terminal_gets_the_same_json_in_letters_that_it_shows_however_it_is_cut() {
        for parts in 1..=HOSTILE.len() {
            let shown = written(true, parts);
            let unprintable = |letter| letter != '\n' && printable::is_unprintable(letter);
            assert!(!shown.contains(unprintable), "{shown:?}");
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
            assert_eq!(json(&shown), json(HOSTILE));
            assert_eq!(written(false, parts), HOSTILE);
        }
    }
}
