//! The Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write as _};

use super::cell::Histogram;

/// A page being written.
#[derive(Default)]
pub(crate) struct Page(String);

/// Names of labels with their values.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    /// What the following samples are.
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        self.labels(labels, None);
        let _ = writeln!(self.0, " {value}");
    }

    pub(crate) fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let (bounds, all) = histogram.cumulative();
        for (bound, count) in bounds {
            let _ = write!(self.0, "{name}_bucket");
            self.labels(labels, Some(&bound.to_string()));
            let _ = writeln!(self.0, " {count}");
        }
        let _ = write!(self.0, "{name}_bucket");
        self.labels(labels, Some("+Inf"));
        let _ = writeln!(self.0, " {all}");
        self.sample(&format!("{name}_sum"), labels, histogram.sum_seconds());
        self.sample(&format!("{name}_count"), labels, all);
    }

    fn labels(&mut self, labels: Labels<'_>, bound: Option<&str>) {
        let bound = bound.map(|bound| ("le", bound));
        let mut separator = '{';
        for (name, value) in labels.iter().copied().chain(bound) {
            let _ = write!(self.0, "{separator}{name}=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    letter => self.0.push(letter),
                }
            }
            self.0.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.0.push('}');
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_page_reads_as_the_format_says() {
        let histogram = Histogram::new(&[0.5]);
        histogram.observe(Duration::from_millis(250));
        histogram.observe(Duration::from_secs(2));
        let mut page = Page::default();
        page.family("a_seconds", "histogram", "Times.");
        page.histogram("a_seconds", &[("x", "y")], &histogram);
        page.sample("b", &[], 7);
        page.sample("c", &[("l", "a\"b\\c\nd")], 1);
        let expected = "# HELP a_seconds Times.\n\
            # TYPE a_seconds histogram\n\
            a_seconds_bucket{x=\"y\",le=\"0.5\"} 1\n\
            a_seconds_bucket{x=\"y\",le=\"+Inf\"} 2\n\
            a_seconds_sum{x=\"y\"} 2.25\n\
            a_seconds_count{x=\"y\"} 2\n\
            b 7\n\
            c{l=\"a\\\"b\\\\c\\nd\"} 1\n";
        assert_eq!(page.finish(), expected);
    }
}
