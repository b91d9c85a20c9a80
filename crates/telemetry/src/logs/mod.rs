//! Logs: one line for each event, JSON for programs and plain text on a terminal.
//!
//! A thread of its own writes the lines, so that the engine does not wait for a slow reader. Of
//! other libraries only warnings and errors are logged: at finer levels some of them print what
//! they send, and that may hold secrets.

mod lines;
pub mod say;

use std::fmt;
use std::io::{self, IsTerminal as _, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt as format};

use crate::metrics::Counter;
pub(crate) use lines::Lines;

/// How an event is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As text on a terminal, as JSON elsewhere.
    #[default]
    Auto,
    /// As one JSON object.
    Json,
    /// As text.
    Text,
}

/// Where lines go.
#[derive(Default)]
pub enum LogSink {
    /// Standard error.
    #[default]
    Stderr,
    /// Somewhere else.
    Writer(Box<dyn Write + Send>),
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stderr => "Stderr",
            Self::Writer(_) => "Writer",
        })
    }
}

/// What is logged, how and where.
#[derive(Debug)]
pub struct LogOptions {
    /// The least important level that is written.
    pub level: LevelFilter,
    /// How an event is written.
    pub format: Format,
    /// Where lines go.
    pub sink: LogSink,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            level: LevelFilter::INFO,
            format: Format::Auto,
            sink: LogSink::Stderr,
        }
    }
}

impl LogOptions {
    /// The default, with the level that `WINDLASS_LOG` names, if it is set.
    ///
    /// # Errors
    /// A sentence, if it is not a level.
    pub fn from_environment() -> Result<Self, String> {
        match std::env::var("WINDLASS_LOG") {
            Ok(level) if !level.trim().is_empty() => Self::with_level(&level),
            _ => Ok(Self::default()),
        }
    }

    /// The default, with the level that a setting such as `WINDLASS_LOG` names.
    ///
    /// # Errors
    /// A sentence, if it is not a level.
    pub fn with_level(level: &str) -> Result<Self, String> {
        let level = level.trim().parse().map_err(|_| {
            format!("'{level}' is not a log level: off, error, warn, info, debug or trace")
        })?;
        Ok(Self {
            level,
            ..Self::default()
        })
    }
}

/// Starts writing and makes this program's events go there; the first call wins.
pub(crate) fn start(options: LogOptions, dropped: Counter) -> io::Result<Lines> {
    let is_terminal = matches!(options.sink, LogSink::Stderr) && io::stderr().is_terminal();
    let text = match options.format {
        Format::Auto => is_terminal,
        Format::Json => false,
        Format::Text => true,
    };
    let sink: Box<dyn Write + Send> = match options.sink {
        LogSink::Stderr => Box::new(io::stderr()),
        LogSink::Writer(writer) => writer,
    };
    let lines = Lines::start(sink, dropped)?;
    let layer = format::layer().with_writer(lines.clone());
    let layer = if text {
        let colour = is_terminal && std::env::var_os("NO_COLOR").is_none();
        layer.with_ansi(colour).with_target(false).boxed()
    } else {
        let json = layer.json().flatten_event(true).with_target(false);
        let json = json.with_current_span(false).with_span_list(false);
        json.boxed()
    };
    let subscriber = Registry::default().with(layer.with_filter(filter(options.level)));
    // An earlier subscriber stays: Windlass may be used inside a program that logs.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(lines)
}

fn filter(level: LevelFilter) -> Targets {
    Targets::new()
        .with_target("windlass", level)
        .with_default(level.min(LevelFilter::WARN))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn other_libraries_never_say_more_than_warnings() {
        let filter = filter(LevelFilter::TRACE);
        assert!(filter.would_enable("windlass", &Level::TRACE));
        assert!(filter.would_enable("windlass_api::router", &Level::TRACE));
        assert!(filter.would_enable("h2::codec", &Level::WARN));
        assert!(!filter.would_enable("h2::codec", &Level::INFO));
        let filter = super::filter(LevelFilter::ERROR);
        assert!(!filter.would_enable("h2::codec", &Level::WARN));
    }

    #[test]
    fn a_level_is_one_of_six() {
        for level in ["off", "error", "warn", "info", "debug", "TRACE", " info "] {
            assert!(LogOptions::with_level(level).is_ok(), "{level}");
        }
        let error = LogOptions::with_level("loud").unwrap_err();
        assert!(error.contains("'loud'"), "{error}");
    }
}
