//! Indents JSON while it passes through: two spaces a level, nothing kept but the depth.

use std::io::{self, Write};

/// Runs of at most this many nodes are indented for people; larger ones have a line a node.
pub const PRETTY_NODES: usize = 200;

/// A writer that indents the valid JSON written to it.
pub struct Pretty<W> {
    out: W,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// An opening bracket was written and nothing after it.
    opened: bool,
}

impl<W: Write> Pretty<W> {
    /// Writes indented JSON to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            depth: 0,
            in_string: false,
            escaped: false,
            opened: false,
        }
    }

    fn line(&mut self) -> io::Result<()> {
        const SPACES: &[u8; 64] = &[b' '; 64];
        self.out.write_all(b"\n")?;
        let mut left = self.depth * 2;
        while left > 0 {
            let part = left.min(SPACES.len());
            self.out.write_all(&SPACES[..part])?;
            left -= part;
        }
        Ok(())
    }

    fn structural(&mut self, byte: u8) -> io::Result<()> {
        if matches!(byte, b'}' | b']') {
            self.depth = self.depth.saturating_sub(1);
            if !self.opened {
                self.line()?;
            }
            self.opened = false;
            return self.out.write_all(&[byte]);
        }
        if self.opened {
            self.opened = false;
            self.line()?;
        }
        self.out.write_all(&[byte])?;
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.opened = true;
            }
            b',' => self.line()?,
            b':' => self.out.write_all(b" ")?,
            b'"' => self.in_string = true,
            _ => {}
        }
        Ok(())
    }

    /// How much of the bytes is inside the present string, its end included.
    fn string(&mut self, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    return at + 1;
                }
                _ => {}
            }
        }
        bytes.len()
    }
}

impl<W: Write> Write for Pretty<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.in_string {
                let length = self.string(rest);
                self.out.write_all(&rest[..length])?;
                rest = &rest[length..];
                continue;
            }
            rest = after;
            if !byte.is_ascii_whitespace() {
                self.structural(byte)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        for step in [1, 3, text.len()] {
            let mut out = Vec::new();
            let mut pretty = Pretty::new(&mut out);
            for part in text.as_bytes().chunks(step) {
                pretty.write_all(part).expect("memory takes everything");
            }
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }

    #[test]
    fn indents_as_people_do() {
        check("[]", "[]");
        check(
            r#"{"a":[1, {"b":"x,{\"\\"}],"c":{ },"d":null}"#,
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,{\\\"\\\\\"\n    }\n  ],\n  \
             \"c\": {},\n  \"d\": null\n}",
        );
    }
}
