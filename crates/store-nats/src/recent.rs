//! What is remembered for a while: a map whose entries go after some time, oldest first.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// How long an entry stays.
const LASTS: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: HashMap<K, V>,
    order: VecDeque<(Instant, K)>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let now = Instant::now();
        while let Some((since, _)) = self.order.front()
            && now.duration_since(*since) > LASTS
        {
            // An entry that was put in again goes with its first place: early, never late.
            if let Some((_, key)) = self.order.pop_front() {
                self.entries.remove(&key);
            }
        }
        self.order.push_back((now, key.clone()));
        self.entries.insert(key, value);
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key)
    }

    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key);
    }
}
