//! What is counted: a number that grows, and how a time is distributed. Recording is a
//! few relaxed additions, without a lock and without an allocation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a time is distributed over fixed bounds.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// Upper bounds in seconds, ascending.
    bounds: &'static [f64],
    /// One for each bound, and one for what is above all.
    counts: Box<[AtomicU64]>,
    /// A u64 of nanoseconds holds centuries.
    sum_nanoseconds: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_nanoseconds: AtomicU64::new(0),
        }
    }

    pub(crate) fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let place = self.bounds.partition_point(|&bound| bound < seconds);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanoseconds
            .fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Each bound with the count of all up to it, then the count of all.
    pub(crate) fn cumulative(&self) -> (Vec<(f64, u64)>, u64) {
        let mut total = 0;
        let mut counts = self.counts.iter().map(|count| {
            total += count.load(Ordering::Relaxed);
            total
        });
        let bounds = self.bounds.iter().copied().zip(counts.by_ref()).collect();
        let all = counts.next().unwrap_or_default();
        (bounds, all)
    }

    pub(crate) fn sum_seconds(&self) -> f64 {
        let nanoseconds = self.sum_nanoseconds.load(Ordering::Relaxed);
        Duration::from_nanos(nanoseconds).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_at_a_bound_belongs_to_it() {
        let histogram = Histogram::new(&[0.5, 1.0]);
        for millis in [500, 501, 1000, 1001] {
            histogram.observe(Duration::from_millis(millis));
        }
        let (bounds, all) = histogram.cumulative();
        assert_eq!(bounds, [(0.5, 1), (1.0, 3)]);
        assert_eq!(all, 4);
        assert!((histogram.sum_seconds() - 3.002).abs() < 1e-9);
    }
}
