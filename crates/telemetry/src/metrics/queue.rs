//! Items of the work queue by the labels that they require of a worker. The number of series is
//! bounded: definitions choose labels.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;
use windlass_core::name::KEY_BYTES;

use super::bounded::OTHER;
use super::page::Page;
use crate::observer::TENANTS;

/// Items of one kind in the work queue, at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueReading {
    /// Whether they are of runs that have a tenant.
    pub of_tenant: bool,
    /// The labels that a worker needs for them.
    pub labels: Vec<Box<str>>,
    /// How many wait for a worker.
    pub waiting: u64,
    /// How many a worker has.
    pub leased: u64,
}

/// How many items of some labels wait, and how many workers have.
type Counts = [u64; 2];

/// The series of the page, largest first until the limit; the rest is one, as `other`.
pub(crate) fn series(
    kinds: Vec<QueueReading>,
    name_tenants: bool,
    limit: usize,
) -> Vec<(String, Counts)> {
    // An empty queue has a series too.
    let mut by_labels: BTreeMap<String, Counts> = BTreeMap::from([(String::new(), [0, 0])]);
    for kind in kinds {
        let mut labels = kind.labels;
        labels.sort_unstable();
        let name = match kind.of_tenant && !name_tenants {
            true => TENANTS.to_owned(),
            false => labels.join(","),
        };
        let name = match name.len() > KEY_BYTES {
            true => OTHER.to_owned(),
            false => name,
        };
        add(
            by_labels.entry(name).or_default(),
            [kind.waiting, kind.leased],
        );
    }
    let mut series: Vec<(String, Counts)> = by_labels.into_iter().collect();
    series.sort_by_key(|(_, [waiting, leased])| Reverse(waiting.saturating_add(*leased)));
    let rest = series.split_off(series.len().min(limit));
    for (_, counts) in rest {
        match series.iter_mut().find(|(name, _)| name == OTHER) {
            Some((_, other)) => add(other, counts),
            None => series.push((OTHER.to_owned(), counts)),
        }
    }
    series.sort_unstable();
    series
}

fn add(sum: &mut Counts, counts: Counts) {
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum = sum.saturating_add(count);
    }
}

pub(super) fn show(series: &[(String, Counts)], page: &mut Page<'_>) -> fmt::Result {
    let gauges = series.iter().flat_map(|(labels, counts)| {
        let states = ["waiting", "leased"].into_iter().zip(counts);
        states.map(move |(state, count)| {
            let gauge = ConstGauge::new(i64::try_from(*count).unwrap_or(i64::MAX));
            (
                [("labels", labels.clone()), ("state", state.to_owned())],
                gauge,
            )
        })
    });
    let gauges: Vec<_> = gauges.collect();
    page.family(
        "windlass_work_queue_items",
        "Attempts in the work queue by the labels that they require.",
        gauges.iter().map(|(labels, gauge)| (labels.clone(), gauge)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(of_tenant: bool, labels: &[&str], waiting: u64) -> QueueReading {
        QueueReading {
            of_tenant,
            labels: labels.iter().map(|it| Box::from(*it)).collect(),
            waiting,
            leased: 1,
        }
    }

    fn named(series: &[(String, Counts)]) -> Vec<(&str, Counts)> {
        series.iter().map(|(name, it)| (&**name, *it)).collect()
    }

    #[test]
    fn actions_with_the_same_labels_are_counted_together() {
        let kinds = || {
            vec![
                kind(false, &["gpu", "eu"], 2),
                kind(false, &["eu", "gpu"], 3),
                kind(false, &[], 1),
                kind(true, &["secret"], 7),
            ]
        };
        let shown = series(kinds(), false, 10);
        let expected = [("", [1, 1]), ("(tenants)", [7, 1]), ("eu,gpu", [5, 2])];
        assert_eq!(named(&shown), expected);
        let shown = series(kinds(), true, 10);
        assert!(shown.iter().any(|(name, _)| name == "secret"));
    }

    #[test]
    fn labels_past_the_limit_and_long_ones_share_a_series() {
        let mut kinds: Vec<_> = (0..100)
            .map(|n| kind(false, &[&format!("l{n}")], n))
            .collect();
        kinds.push(kind(false, &[&"x".repeat(KEY_BYTES + 1)], 1));
        let shown = series(kinds, false, 2);
        let sum: u64 = (0..98).sum();
        let expected = [("l98", [98, 1]), ("l99", [99, 1]), ("other", [sum + 1, 99])];
        assert_eq!(named(&shown), expected);
    }
}
