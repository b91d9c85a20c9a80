//! The metrics page in Prometheus' text format, version 0.0.4.
//!
//! `prometheus-client` encodes OpenMetrics, whose comments name a counter without `_total`.
//! Readers of the older format, which every scraper and `promtool` understand, would find a
//! counter without type and help, so the comments get the suffix back.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

use super::Metrics;

/// A number that another part of the program keeps, read when the page is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The metric's name; that of a counter ends with `_total`.
    pub name: &'static str,
    /// What it counts or measures.
    pub help: &'static str,
    /// Whether it can fall.
    pub kind: ReadingKind,
    /// The number now.
    pub value: u64,
}

/// Whether a number can fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingKind {
    /// It only grows while the process lives.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// The suffix of a counter's name.
const TOTAL: &str = "_total";

/// The families of a page while they are encoded.
pub(super) struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    /// A metric with a series for each set of labels.
    pub(super) fn family<'m, L, M>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (L, &'m M)>,
    ) -> fmt::Result
    where
        L: EncodeLabelSet,
        M: EncodeMetric + TypedMetric + 'm,
    {
        let name = name.strip_suffix(TOTAL).unwrap_or(name);
        let mut family = self.0.encode_descriptor(name, help, None, M::TYPE)?;
        for (labels, metric) in series {
            metric.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A metric without labels.
    pub(super) fn single<M>(&mut self, name: &str, help: &str, metric: &M) -> fmt::Result
    where
        M: EncodeMetric + TypedMetric,
    {
        let name = name.strip_suffix(TOTAL).unwrap_or(name);
        metric.encode(self.0.encode_descriptor(name, help, None, M::TYPE)?)
    }

    fn reading(&mut self, reading: &Reading) -> fmt::Result {
        let Reading {
            name,
            help,
            kind,
            value,
        } = *reading;
        match kind {
            ReadingKind::Counter => self.single(name, help, &ConstCounter::new(value)),
            ReadingKind::Gauge => {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                self.single(name, help, &ConstGauge::new(value))
            }
        }
    }
}

/// All metrics at one moment.
#[derive(Debug)]
struct Snapshot {
    metrics: Arc<Metrics>,
    readings: Vec<Reading>,
    queue: Vec<(String, [u64; 2])>,
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.metrics.show(&mut page)?;
        super::queue::show(&self.queue, &mut page)?;
        let mut readings = self.readings.iter();
        readings.try_for_each(|reading| page.reading(reading))
    }
}

/// The page as Prometheus reads it.
pub(crate) fn render(
    metrics: &Arc<Metrics>,
    readings: Vec<Reading>,
    queue: Vec<(String, [u64; 2])>,
) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot {
        metrics: Arc::clone(metrics),
        readings,
        queue,
    }));
    let mut text = String::new();
    encode_registry(&mut text, &registry).expect("writing to a string cannot fail");
    classic(&text)
}

/// Gives the comments of counters their suffix.
fn classic(openmetrics: &str) -> String {
    let mut page = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
            continue;
        }
        // Writing to a string cannot fail.
        let _ = match line
            .strip_prefix("# TYPE ")
            .and_then(|it| it.split_once(' '))
        {
            None => writeln!(page, "{line}"),
            Some((name, kind)) => {
                let is_counter = kind == MetricType::Counter.as_str();
                let suffix = if is_counter { TOTAL } else { "" };
                let help = help.take().map_or("", |(_, help)| help);
                writeln!(
                    page,
                    "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}"
                )
            }
        };
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_counters_as_their_samples_do() {
        let metrics = Arc::new(Metrics::new(2, None));
        metrics.workflow("a\"b\\c\nd").started.inc();
        let page = render(
            &metrics,
            vec![
                Reading {
                    name: "r_total",
                    help: "Refused.",
                    kind: ReadingKind::Counter,
                    value: 3,
                },
                Reading {
                    name: "g",
                    help: "Held.",
                    kind: ReadingKind::Gauge,
                    value: 4,
                },
            ],
            Vec::new(),
        );
        for text in [
            "# HELP windlass_workflow_started_total Runs that began.\n\
             # TYPE windlass_workflow_started_total counter\n\
             windlass_workflow_started_total{workflowId=\"a\\\"b\\\\c\\nd\"} 1\n",
            "# HELP workflow_duration_seconds Time from a run's start to its end.\n\
             # TYPE workflow_duration_seconds histogram\n",
            "# HELP r_total Refused.\n# TYPE r_total counter\nr_total 3\n",
            "# HELP g Held.\n# TYPE g gauge\ng 4\n",
        ] {
            assert!(page.contains(text), "{text}\n{page}");
        }
        assert!(!page.contains("EOF"), "{page}");
    }
}
