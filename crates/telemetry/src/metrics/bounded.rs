//! Series by the value of a label, at most so many: whoever names workflows must not
//! decide how much memory a server takes. What comes after the last place counts as
//! `other`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Where what has no place of its own is counted.
pub(crate) const OTHER: &str = "other";

/// Series by the value of a label.
pub(crate) struct Bounded<T> {
    series: RwLock<HashMap<Box<str>, Arc<T>>>,
    limit: usize,
    make: fn() -> T,
}

impl<T> Bounded<T> {
    pub(crate) fn new(limit: usize, make: fn() -> T) -> Self {
        Self {
            series: RwLock::default(),
            limit,
            make,
        }
    }

    /// The series of a label's value. One that is known costs a look into a table.
    pub(crate) fn of(&self, label: &str) -> Arc<T> {
        {
            let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = series.get(label) {
                return Arc::clone(known);
            }
            if series.len() >= self.limit
                && let Some(other) = series.get(OTHER)
            {
                return Arc::clone(other);
            }
        }
        self.make(label)
    }

    fn make(&self, label: &str) -> Arc<T> {
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = series.len() < self.limit || series.contains_key(label);
        let label = if has_room { label } else { OTHER };
        let entry = series.entry(label.into());
        Arc::clone(entry.or_insert_with(|| Arc::new((self.make)())))
    }

    /// All series, in the order of their labels.
    pub(crate) fn all(&self) -> Vec<(Box<str>, Arc<T>)> {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = series
            .iter()
            .map(|(label, series)| (label.clone(), Arc::clone(series)))
            .collect();
        all.sort_by(|(one, _), (two, _)| one.cmp(two));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::Counter;
    use super::*;

    #[test]
    fn what_comes_late_shares_a_place() {
        let bounded = Bounded::new(3, Counter::default);
        for round in 0..2 {
            for label in 0..100 {
                bounded.of(&format!("w{label}")).add(1);
            }
            assert_eq!(bounded.all().len(), 4, "round {round}");
        }
        let counts: Vec<_> = bounded
            .all()
            .into_iter()
            .map(|(label, counter)| (label, counter.value()))
            .collect();
        let expected = [("other", 194), ("w0", 2), ("w1", 2), ("w2", 2)];
        let expected = expected.map(|(label, count)| (Box::from(label), count));
        assert_eq!(counts, expected);
    }
}
