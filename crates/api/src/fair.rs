//! A bounded amount of something (bytes of bodies, connections), shared fairly between clients.
//!
//! One rule decides, the dynamic threshold of switch buffers (Choudhury and Hahne, 1998): a
//! client may hold at most a fixed multiple of what is free. A client alone gets its share of
//! the whole; every further client finds something free, and the more clients hold, the less
//! each may. It must not know what is shared.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::limit::BucketKey;

/// An amount that is shared.
#[derive(Debug)]
pub(crate) struct Fair {
    total: u64,
    /// The percentage of the total that one client may hold while no other holds any.
    share: u64,
    held: AtomicU64,
    /// What each client holds; clients that hold nothing are absent.
    clients: Mutex<HashMap<BucketKey, u64>>,
    freed: Notify,
    refused: AtomicU64,
}

impl Fair {
    pub(crate) fn new(total: u64, share: u8) -> Arc<Self> {
        Arc::new(Self {
            total,
            share: u64::from(share.clamp(1, 100)),
            held: AtomicU64::new(0),
            clients: Mutex::default(),
            freed: Notify::new(),
            refused: AtomicU64::new(0),
        })
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Takes a little for a client that is not counted, by one atomic operation: only while
    /// less than an eighth of all is held, so that it decides nothing about fairness.
    pub(crate) fn take_little(self: &Arc<Self>, amount: u64) -> Option<Share> {
        let before = self.held.fetch_add(amount, Ordering::AcqRel);
        if before.saturating_add(amount) <= self.total / 8 {
            return Some(Share::new(self, None, amount));
        }
        self.release(None, amount);
        None
    }

    /// Takes an amount for a client, if its share and the total allow.
    pub(crate) fn take(self: &Arc<Self>, client: BucketKey, amount: u64) -> Option<Share> {
        let taken = self.add(client, amount);
        if !taken {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken.then(|| Share::new(self, Some(client), amount))
    }

    /// Takes an amount for a client, and waits for it up to a time.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        client: BucketKey,
        amount: u64,
        patience: Duration,
    ) -> Option<Share> {
        let waiting = async {
            loop {
                // Registered before the look, so that no release in between is missed.
                let mut freed = std::pin::pin!(self.freed.notified());
                freed.as_mut().enable();
                if self.add(client, amount) {
                    return Share::new(self, Some(client), amount);
                }
                freed.await;
            }
        };
        let share = tokio::time::timeout(patience, waiting).await.ok();
        if share.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        share
    }

    fn add(&self, client: BucketKey, amount: u64) -> bool {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let own = clients.get(&client).copied().unwrap_or(0);
        let Some(wanted) = own.checked_add(amount) else {
            return false;
        };
        let grant = |held: u64| {
            // With the last unit of the amount itself, so that of few units none is left over.
            let left = self.total.checked_sub(held)?.checked_sub(amount)? + 1;
            let fair = u128::from(wanted) * u128::from(100 - self.share)
                <= u128::from(left) * u128::from(self.share);
            // An amount above the share is granted while the client holds nothing; otherwise it
            // could never be granted.
            (held == 0 || fair).then(|| held + amount)
        };
        let granted = self
            .held
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, grant)
            .is_ok();
        if granted && wanted > 0 {
            clients.insert(client, wanted);
        }
        granted
    }

    fn release(&self, client: Option<BucketKey>, amount: u64) {
        if let Some(client) = client {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(own) = clients.get_mut(&client) {
                *own = own.saturating_sub(amount);
                if *own == 0 {
                    clients.remove(&client);
                }
            }
        }
        self.held.fetch_sub(amount, Ordering::AcqRel);
        self.freed.notify_waiters();
    }
}

/// What a client holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Fair>,
    client: Option<BucketKey>,
    amount: u64,
}

impl Share {
    fn new(of: &Arc<Fair>, client: Option<BucketKey>, amount: u64) -> Self {
        Self {
            of: Arc::clone(of),
            client,
            amount,
        }
    }

    pub(crate) fn amount(&self) -> u64 {
        self.amount
    }

    /// Takes more to what is held; false if that is not allowed.
    pub(crate) fn grow(&mut self, amount: u64) -> bool {
        let grown = self
            .client
            .is_some_and(|client| self.of.add(client, amount));
        match grown {
            true => self.amount += amount,
            false => drop(self.of.refused.fetch_add(1, Ordering::Relaxed)),
        }
        grown
    }
}

impl Share {
    /// Gives back all but so much.
    pub(crate) fn shrink(&mut self, left: u64) {
        let spare = self.amount.saturating_sub(left);
        if spare > 0 {
            self.of.release(self.client, spare);
            self.amount -= spare;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.release(self.client, self.amount);
    }
}

/// The client that an address stands for. A client of IPv6 has a whole network of 64 bits, so
/// that is what counts.
pub(crate) fn address(ip: IpAddr) -> BucketKey {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => {
            let bits = u128::from(ip) >> 64 << 64;
            Ipv6Addr::from(bits).octets()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(byte: u8) -> BucketKey {
        [byte; 16]
    }

    /// How many of one a client gets.
    fn most(fair: &Arc<Fair>, key: BucketKey) -> Vec<Share> {
        std::iter::from_fn(|| fair.take(key, 1)).collect()
    }

    #[test]
    fn a_client_alone_gets_its_share_and_others_find_something() {
        let fair = Fair::new(8, 75);
        let first = most(&fair, client(1));
        assert_eq!(first.len(), 6);
        let second = most(&fair, client(2));
        assert_eq!(second.len(), 2);
        assert_eq!(fair.held(), 8);
        drop(first);
        assert_eq!(most(&fair, client(3)).len(), 5, "less, while another holds");
        drop(second);
        assert_eq!(fair.held(), 0);
        assert!(fair.clients.lock().unwrap().is_empty());
        assert_eq!(most(&Fair::new(1, 75), client(1)).len(), 1);
        assert_eq!(most(&Fair::new(9, 100), client(1)).len(), 9);
    }

    #[test]
    fn many_greedy_clients_leave_something_for_the_next() {
        let fair = Fair::new(1 << 28, 50);
        let mut held = Vec::new();
        for number in 0..20 {
            let before = held.len();
            let mut amount = 1 << 26;
            while amount > 0 {
                match fair.take(client(number), amount) {
                    Some(share) => held.push(share),
                    None => amount /= 2,
                }
            }
            assert!(held.len() > before, "{number}");
        }
    }

    #[test]
    fn growing_is_held_to_the_same_share() {
        let fair = Fair::new(100, 50);
        let mut share = fair.take(client(1), 30).unwrap();
        assert!(share.grow(20));
        assert!(!share.grow(1));
        assert_eq!((share.amount(), fair.held()), (50, 50));
        share.shrink(10);
        assert_eq!((share.amount(), fair.held()), (10, 10));
        assert!(share.grow(40));
        assert!(fair.take(client(2), 51).is_none());
        drop(share);
        assert_eq!(fair.held(), 0);
        assert_eq!(fair.refused(), 2);
    }

    #[test]
    fn a_little_is_taken_without_a_client_while_almost_all_is_free() {
        let fair = Fair::new(800, 50);
        let little = fair.take_little(100).unwrap();
        assert!(fair.take_little(1).is_none());
        assert_eq!(fair.held(), 100);
        drop(little);
        assert_eq!(fair.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_gets_its_amount_when_it_is_free() {
        let fair = Fair::new(2, 50);
        let share = fair.take(client(1), 1).unwrap();
        let waiting = tokio::spawn({
            let fair = Arc::clone(&fair);
            async move {
                fair.wait(client(1), 1, Duration::from_secs(9))
                    .await
                    .is_some()
            }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(share);
        assert!(waiting.await.unwrap());
        let _share = fair.take(client(1), 1).unwrap();
        let late = fair.wait(client(1), 1, Duration::from_secs(9)).await;
        assert!(late.is_none());
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let key = |text: &str| address(text.parse().unwrap());
        assert_eq!(key("2001:db8::1"), key("2001:db8::2"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_ne!(key("127.0.0.1"), key("127.0.0.2"));
        assert_eq!(key("::ffff:127.0.0.1"), key("127.0.0.1"));
        assert_eq!(key("::1"), key("::1"));
    }
}
