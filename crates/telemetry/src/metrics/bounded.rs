//! Series by the value of a label, bounded in number and in bytes: clients that name workflows
//! must not decide how much memory a server takes, nor how long its page is. A value without a
//! series of its own counts as `other`. Names that the program itself knows can be given a
//! series beforehand.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use windlass_core::name::KEY_BYTES;

/// The series of all values without a series of their own.
pub(crate) const OTHER: &str = "other";

/// How long the names of all series may be on average.
const MEAN_BYTES: usize = 32;

/// Series by the value of a label.
#[derive(Debug)]
pub(crate) struct Bounded<T> {
    series: RwLock<Series<T>>,
    limit: usize,
    /// The only names that have a series; without it, the names that come first.
    reserved: Option<BTreeSet<Box<str>>>,
    make: fn() -> T,
}

#[derive(Debug)]
struct Series<T> {
    by_label: HashMap<Box<str>, Arc<T>>,
    /// Bytes of all labels together.
    bytes: usize,
}

impl<T> Bounded<T> {
    /// At most so many series, for the names that come first.
    pub(crate) fn new(limit: usize, make: fn() -> T) -> Self {
        Self {
            series: RwLock::new(Series {
                by_label: HashMap::new(),
                bytes: 0,
            }),
            limit,
            reserved: None,
            make,
        }
    }

    /// A series for each of these names, and no other.
    pub(crate) fn reserved(names: BTreeSet<Box<str>>, make: fn() -> T) -> Self {
        Self {
            reserved: Some(names),
            ..Self::new(usize::MAX, make)
        }
    }

    /// The series of a label's value. One that is known costs a look into a table.
    pub(crate) fn of(&self, label: &str) -> Arc<T> {
        let label = if self.may_have_place(label) {
            label
        } else {
            OTHER
        };
        {
            let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = series.by_label.get(label) {
                return Arc::clone(known);
            }
            if !self.has_room(&series, label)
                && let Some(other) = series.by_label.get(OTHER)
            {
                return Arc::clone(other);
            }
        }
        self.make(label)
    }

    fn may_have_place(&self, label: &str) -> bool {
        let reserved = self.reserved.as_ref();
        label.len() <= KEY_BYTES && reserved.is_none_or(|reserved| reserved.contains(label))
    }

    fn has_room(&self, series: &Series<T>, label: &str) -> bool {
        let most_bytes = self.limit.saturating_mul(MEAN_BYTES);
        let bytes = series.bytes + label.len();
        // The last place is that of `other`.
        series.by_label.len() < self.limit && bytes <= most_bytes
    }

    fn make(&self, label: &str) -> Arc<T> {
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = self.has_room(&series, label) || series.by_label.contains_key(label);
        let label = if has_room { label } else { OTHER };
        let Series { by_label, bytes } = &mut *series;
        let entry = by_label.entry(label.into());
        Arc::clone(entry.or_insert_with(|| {
            *bytes += label.len();
            Arc::new((self.make)())
        }))
    }

    /// All series, in the order of their labels.
    pub(crate) fn all(&self) -> Vec<(Box<str>, Arc<T>)> {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = series
            .by_label
            .iter()
            .map(|(label, series)| (label.clone(), Arc::clone(series)))
            .collect();
        all.sort_by(|(one, _), (two, _)| one.cmp(two));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::Counter;
    use super::*;

    fn counts(bounded: &Bounded<Counter>) -> Vec<(Box<str>, u64)> {
        let all = bounded.all().into_iter();
        all.map(|(label, counter)| (label, counter.get())).collect()
    }

    #[test]
    fn labels_past_the_limit_share_a_series() {
        let bounded = Bounded::new(3, Counter::default);
        for round in 0..2 {
            for label in 0..100 {
                bounded.of(&format!("w{label}")).inc_by(1);
            }
            assert_eq!(bounded.all().len(), 4, "round {round}");
        }
        let expected = [("other", 194), ("w0", 2), ("w1", 2), ("w2", 2)];
        let expected = expected.map(|(label, count)| (Box::from(label), count));
        assert_eq!(counts(&bounded), expected);
    }

    #[test]
    fn long_labels_share_a_series_and_all_labels_are_bounded_in_bytes() {
        let bounded = Bounded::new(100, Counter::default);
        bounded.of(&"x".repeat(KEY_BYTES + 1)).inc_by(1);
        assert_eq!(counts(&bounded), [(Box::from(OTHER), 1)]);
        for label in 0..1000 {
            bounded.of(&format!("{label:0>128}")).inc_by(1);
        }
        let bytes: usize = bounded.all().iter().map(|(label, _)| label.len()).sum();
        assert!(bytes <= 100 * MEAN_BYTES + OTHER.len(), "{bytes}");
    }

    #[test]
    fn reserved_names_keep_their_series_whatever_comes_first() {
        let names = BTreeSet::from(["core.echo".into()]);
        let bounded = Bounded::reserved(names, Counter::default);
        for label in 0..10_000 {
            bounded.of(&format!("made.up{label}")).inc_by(1);
        }
        bounded.of("core.echo").inc_by(1);
        let expected = [(Box::from("core.echo"), 1), (Box::from(OTHER), 10_000)];
        assert_eq!(counts(&bounded), expected);
    }
}
