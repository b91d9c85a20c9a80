//! Where progress is written: the block at the bottom of a terminal, redrawn in place,
//! or plain lines. The cursor is hidden while a block is drawn, and given back.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_core::printable::one_line;

use super::frame::{Terminal, frame, permanent};
use super::model::Model;
use super::{Style, plain};

/// How often a large run says how far it is without live progress.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// How often the times of running nodes are drawn anew when nothing else changes.
const TICK: Duration = Duration::from_secs(1);

/// A run that ends sooner is not drawn at all.
const FIRST_FRAME: Duration = Duration::from_millis(150);

/// Whether the cursor is hidden now: the code that ends the process must show it again.
static HIDDEN: AtomicBool = AtomicBool::new(false);

/// Shows the cursor again; also called from the task that handles signals.
pub(crate) fn restore() {
    if HIDDEN.swap(false, Ordering::SeqCst) {
        let _ = io::stderr().lock().write_all(b"\x1b[?25h\x1b[?7h");
    }
}

pub(super) struct Screen {
    style: Style,
    began: Instant,
    /// When the last frame was drawn, or the last plain summary written.
    last: Instant,
    /// How many lines of the terminal hold the last frame.
    drawn: usize,
}

impl Screen {
    pub(super) fn new(style: Style) -> Self {
        let now = Instant::now();
        Self {
            style,
            began: now,
            last: now,
            drawn: 0,
        }
    }

    /// Whether it is time to write although nothing changed.
    pub(super) fn wants_tick(&self) -> bool {
        self.last.elapsed() >= self.period()
    }

    /// How long to wait for a change.
    pub(super) fn next_tick(&self) -> Duration {
        let period = self.period();
        period
            .checked_sub(self.last.elapsed())
            .unwrap_or(period)
            .max(Duration::from_millis(10))
    }

    fn period(&self) -> Duration {
        match self.style {
            Style::Live { .. } if self.drawn == 0 => FIRST_FRAME,
            Style::Live { .. } => TICK,
            _ => PLAIN_EVERY,
        }
    }

    pub(super) fn show(&mut self, model: &mut Model) {
        match self.style {
            Style::Quiet => {}
            Style::Plain { end } => self.show_plain(model, end),
            Style::Live { color } => self.show_live(model, color),
        }
    }

    fn show_plain(&mut self, model: &mut Model, end: bool) {
        let mut text = String::new();
        for said in std::mem::take(&mut model.said) {
            if let Some(line) = plain::line(&said) {
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(text, "{}", one_line(&line));
            }
        }
        if self.last.elapsed() >= PLAIN_EVERY && !model.ended {
            self.last = Instant::now();
            for line in plain::summary(model) {
                let _ = writeln!(text, "{}", one_line(&line));
            }
        }
        if let Some(status) = model.status.filter(|_| end && model.ended) {
            let seconds = model.began.elapsed().as_secs_f64();
            let _ = writeln!(text, "{status} after {seconds:.1} s");
        }
        write(&text);
    }

    fn show_live(&mut self, model: &mut Model, color: bool) {
        let (width, height) = size();
        let terminal = Terminal {
            width: width.max(10),
            height: height.max(6),
            color,
        };
        let early = self.began.elapsed() < FIRST_FRAME;
        if early && model.said.is_empty() && !model.ended {
            return;
        }
        // One write a frame, without wrapping: nothing flickers and nothing scrolls.
        let mut text = String::from("\x1b[?7l");
        if self.drawn > 0 {
            let _ = write!(text, "\x1b[{}A\r", self.drawn);
        }
        for said in std::mem::take(&mut model.said) {
            let lines = permanent(&said).map(|line| line.wrapped(terminal.width, color));
            for line in lines.into_iter().flatten() {
                let _ = writeln!(text, "\x1b[2K{line}");
            }
        }
        self.drawn = 0;
        if !model.ended && !early {
            if !HIDDEN.swap(true, Ordering::SeqCst) {
                text.push_str("\x1b[?25l");
            }
            for line in frame(model, terminal, Instant::now()) {
                let _ = writeln!(text, "\x1b[2K{line}");
                self.drawn += 1;
            }
        }
        text.push_str("\x1b[J\x1b[?7h");
        self.last = Instant::now();
        write(&text);
        if model.ended {
            restore();
        }
    }
}

/// The columns and lines of the terminal that stderr is.
pub(crate) fn size() -> (usize, usize) {
    let size = terminal_size::terminal_size_of(io::stderr());
    // A pseudo-terminal without a window may report zero columns.
    let size = size.filter(|(width, height)| width.0 > 0 && height.0 > 0);
    size.map_or((80, 24), |(width, height)| {
        (usize::from(width.0), usize::from(height.0))
    })
}

/// Writes lines whose parts are printable.
pub(super) fn write(text: &str) {
    if !text.is_empty() {
        // Progress that cannot be written to standard error has no reader.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}
