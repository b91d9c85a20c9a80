//! Numbers of the server that the metrics page shows. The page itself is made elsewhere: this
//! crate knows no format of metrics.

/// A number of the server at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The metric's name; that of a number that only grows ends with `_total`.
    pub name: &'static str,
    /// What it counts or measures, for the reader of the page.
    pub help: &'static str,
    /// Whether it only grows.
    pub only_grows: bool,
    /// The number.
    pub value: u64,
}

impl Figure {
    pub(crate) fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self {
            name,
            help,
            only_grows: true,
            value,
        }
    }

    pub(crate) fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self {
            only_grows: false,
            ..Self::counter(name, help, value)
        }
    }
}
