//! A queue in which tenants take turns, and within a tenant its keys: a tenant that asks for much
//! waits for its own work, and no other tenant waits for it. Knows nothing of what waits.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Work that belongs to no tenant has a turn of its own.
pub(crate) type Tenant = Option<Box<str>>;

/// What waits, in the order of turns.
#[derive(Debug)]
pub(crate) struct Turns<K, T> {
    tenants: HashMap<Tenant, Lane<K, T>>,
    order: VecDeque<Tenant>,
}

#[derive(Debug)]
struct Lane<K, T> {
    waiting: HashMap<K, VecDeque<T>>,
    order: VecDeque<K>,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self {
            tenants: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, T> Turns<K, T> {
    /// Queues something for its tenant's turn, and within it for its key's.
    pub(crate) fn push(&mut self, tenant: Tenant, key: K, item: T) {
        let lane = self.tenants.entry(tenant.clone());
        let lane = lane.or_insert_with(|| Lane {
            waiting: HashMap::new(),
            order: VecDeque::new(),
        });
        if lane.order.is_empty() {
            self.order.push_back(tenant);
        }
        let waiting = lane.waiting.entry(key.clone()).or_default();
        if waiting.is_empty() {
            lane.order.push_back(key);
        }
        waiting.push_back(item);
    }

    /// Takes what has its turn.
    pub(crate) fn pop(&mut self) -> Option<(Tenant, K, T)> {
        let tenant = self.order.pop_front()?;
        let lane = self.tenants.get_mut(&tenant)?;
        let key = lane.order.pop_front()?;
        let waiting = lane.waiting.get_mut(&key)?;
        let item = waiting.pop_front()?;
        if waiting.is_empty() {
            lane.waiting.remove(&key);
        } else {
            lane.order.push_back(key.clone());
        }
        if lane.order.is_empty() {
            self.tenants.remove(&tenant);
        } else {
            self.order.push_back(tenant.clone());
        }
        Some((tenant, key, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_take_turns_and_so_do_their_keys() {
        let mut turns = Turns::default();
        for (tenant, key, item) in [
            ("a", 1, "a1"),
            ("a", 1, "a1 again"),
            ("a", 1, "a1 once more"),
            ("a", 2, "a2"),
            ("b", 1, "b1"),
            ("c", 1, "c1"),
        ] {
            turns.push(Some(tenant.into()), key, item);
        }
        let order: Vec<_> = std::iter::from_fn(|| turns.pop())
            .map(|(.., item)| item)
            .collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "a1 again", "a1 once more"]);
        assert!(turns.tenants.is_empty() && turns.order.is_empty());
    }
}
