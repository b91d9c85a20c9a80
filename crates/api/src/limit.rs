//! Rate limits of tokens and workflows: token buckets that fill at a rate.
//!
//! Memory is bounded. A bucket that is full again carries no information, so it is dropped
//! first; a token whose bucket was dropped starts with a full one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use sha2::{Digest, Sha256};

/// Buckets that are kept at most; at about 64 bytes each, some megabytes.
const MAX_BUCKETS: usize = 65_536;

/// Buckets that are looked at to find one to drop when none is full.
const SAMPLE: usize = 16;

/// A walk over all buckets is made at most so often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How often something may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How many a minute, on average; 0 for no limit.
    pub per_minute: u32,
    /// How many at once.
    pub burst: u32,
}

impl Budget {
    /// No limit.
    pub const OFF: Self = Self {
        per_minute: 0,
        burst: 0,
    };

    /// So many a minute, and so many at once.
    #[must_use]
    pub const fn per_minute(per_minute: u32, burst: u32) -> Self {
        Self { per_minute, burst }
    }

    fn capacity(self) -> u128 {
        u128::from(self.burst.max(1)) * ONE
    }
}

/// One request, in the units of a bucket: as many as nanoseconds in a minute, so that a
/// bucket fills by its rate times the nanoseconds passed, without rounding.
const ONE: u128 = 60_000_000_000;

/// The owner of a bucket; a digest, so that no token stays in memory.
pub type BucketKey = [u8; 16];

/// The key of something with these parts.
pub(crate) fn key(parts: &[&[u8]]) -> BucketKey {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let mut key = [0; 16];
    key.copy_from_slice(&digest.finalize()[..16]);
    key
}

/// What came of counting a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateDecision {
    /// How many at once.
    pub(crate) limit: u32,
    /// How many more right now.
    pub(crate) remaining: u32,
    /// Seconds until the next; 0 where this one may go on.
    pub(crate) retry_after: u32,
}

impl RateDecision {
    pub(crate) fn is_refused(&self) -> bool {
        self.retry_after > 0
    }
}

/// What a request of a token is: reading has a budget of its own, so that looking at runs does not
/// keep a client from acting on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Change,
}

impl RequestKind {
    pub(crate) fn of(method: &Method) -> Self {
        match method.is_safe() {
            true => Self::Read,
            false => Self::Change,
        }
    }
}

/// The budgets of tokens and workflows.
#[derive(Debug)]
pub(crate) struct Limiter {
    reads: Buckets,
    tokens: Buckets,
    workflows: Buckets,
}

impl Limiter {
    pub(crate) fn new(read: Budget, token: Budget, workflow: Budget) -> Self {
        Self {
            reads: Buckets::new(read, MAX_BUCKETS),
            tokens: Buckets::new(token, MAX_BUCKETS),
            workflows: Buckets::new(workflow, MAX_BUCKETS),
        }
    }

    pub(crate) fn token(&self, kind: RequestKind, key: &BucketKey) -> Option<RateDecision> {
        self.of(kind).take(*key, Instant::now())
    }

    fn of(&self, kind: RequestKind) -> &Buckets {
        match kind {
            RequestKind::Read => &self.reads,
            RequestKind::Change => &self.tokens,
        }
    }

    /// The limit of a token that has made no request. Callers that are not counted get it, too,
    /// since every response carries the limit.
    pub(crate) fn untouched(&self, kind: RequestKind) -> Option<RateDecision> {
        let budget = self.of(kind).budget;
        (budget.per_minute > 0).then(|| RateDecision {
            limit: budget.burst.max(1),
            remaining: budget.burst.max(1),
            retry_after: 0,
        })
    }

    /// A hook counts as a token of its own.
    pub(crate) fn hook(&self, token: &str) -> Option<RateDecision> {
        self.token(RequestKind::Change, &key(&[b"hook", token.as_bytes()]))
    }

    pub(crate) fn workflow(&self, tenant: Option<&str>, id: &str) -> Option<RateDecision> {
        if self.workflows.budget == Budget::OFF {
            return None;
        }
        // No tenant and an empty name are two things.
        let tenant = tenant.map_or_else(Vec::new, |tenant| [b"=", tenant.as_bytes()].concat());
        let key = key(&[&tenant, id.as_bytes()]);
        self.workflows.take(key, Instant::now())
    }
}

#[derive(Debug)]
struct Buckets {
    budget: Budget,
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    buckets: HashMap<BucketKey, Bucket>,
    swept: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    level: u128,
    at: Instant,
}

impl Bucket {
    fn level(&self, budget: Budget, now: Instant) -> u128 {
        let passed = now.saturating_duration_since(self.at).as_nanos();
        (self.level + passed * u128::from(budget.per_minute)).min(budget.capacity())
    }
}

impl Buckets {
    fn new(budget: Budget, max: usize) -> Self {
        Self {
            budget,
            max,
            state: Mutex::default(),
        }
    }

    /// Takes one out of the bucket, if it is there.
    fn take(&self, key: BucketKey, now: Instant) -> Option<RateDecision> {
        let budget = self.budget;
        if budget.per_minute == 0 {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.buckets.len() >= self.max && !state.buckets.contains_key(&key) {
            state.make_room(budget, now);
        }
        let bucket = match state.buckets.entry(key) {
            Entry::Occupied(bucket) => bucket.into_mut(),
            Entry::Vacant(place) => place.insert(Bucket {
                level: budget.capacity(),
                at: now,
            }),
        };
        let level = bucket.level(budget, now);
        let left = level.checked_sub(ONE);
        *bucket = Bucket {
            level: left.unwrap_or(level),
            at: now,
        };
        let retry_after = match left {
            Some(_) => 0,
            None => (ONE - level)
                .div_ceil(u128::from(budget.per_minute))
                .div_ceil(1_000_000_000) as u32,
        };
        Some(RateDecision {
            limit: budget.burst.max(1),
            remaining: left.map_or(0, |left| (left / ONE) as u32),
            retry_after,
        })
    }
}

impl State {
    fn make_room(&mut self, budget: Budget, now: Instant) {
        let due = self
            .swept
            .is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_INTERVAL);
        if due {
            self.swept = Some(now);
            let before = self.buckets.len();
            self.buckets
                .retain(|_, bucket| bucket.level(budget, now) < budget.capacity());
            if self.buckets.len() < before {
                return;
            }
        }
        let fullest = self
            .buckets
            .iter()
            .take(SAMPLE)
            .max_by_key(|(_, bucket)| bucket.level(budget, now))
            .map(|(key, _)| *key);
        if let Some(key) = fullest {
            self.buckets.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(remaining: u32, retry_after: u32) -> Option<RateDecision> {
        Some(RateDecision {
            limit: 2,
            remaining,
            retry_after,
        })
    }

    #[test]
    fn a_bucket_empties_and_fills() {
        let buckets = Buckets::new(Budget::per_minute(60, 2), 10);
        let (one, now) = (key(&[b"one"]), Instant::now());
        assert_eq!(buckets.take(one, now), verdict(1, 0));
        assert_eq!(buckets.take(one, now), verdict(0, 0));
        assert_eq!(buckets.take(one, now), verdict(0, 1));
        assert_eq!(buckets.take(key(&[b"other"]), now), verdict(1, 0));
        let later = now + Duration::from_secs(1);
        assert_eq!(buckets.take(one, later), verdict(0, 0));
        assert_eq!(buckets.take(one, later), verdict(0, 1));
        let much_later = now + Duration::from_secs(1000);
        assert_eq!(buckets.take(one, much_later), verdict(1, 0));
    }

    #[test]
    fn a_slow_budget_says_how_long_to_wait() {
        let buckets = Buckets::new(Budget::per_minute(1, 1), 10);
        let (one, now) = (key(&[b"one"]), Instant::now());
        assert!(!buckets.take(one, now).unwrap().is_refused());
        assert_eq!(buckets.take(one, now).unwrap().retry_after, 60);
        let later = now + Duration::from_secs(59);
        assert_eq!(buckets.take(one, later).unwrap().retry_after, 1);
    }

    #[test]
    fn memory_is_bounded_and_full_buckets_go_first() {
        let buckets = Buckets::new(Budget::per_minute(60, 2), 100);
        let now = Instant::now();
        let poor = key(&[b"poor"]);
        for index in 0_u32..100 {
            buckets.take(key(&[&index.to_be_bytes()]), now);
        }
        // It is empty while the others have filled.
        let later = now + Duration::from_secs(10);
        for _ in 0..5 {
            buckets.take(poor, later);
        }
        for index in 1000_u32..1098 {
            buckets.take(key(&[&index.to_be_bytes()]), later);
        }
        assert!(buckets.state.lock().unwrap().buckets.len() <= 100);
        assert!(buckets.take(poor, later).unwrap().is_refused());
        for index in 2000_u32..12_000 {
            buckets.take(key(&[&index.to_be_bytes()]), later);
        }
        assert!(buckets.state.lock().unwrap().buckets.len() <= 100);
    }

    #[test]
    fn workflows_of_two_tenants_are_two() {
        let limiter = Limiter::new(Budget::OFF, Budget::OFF, Budget::per_minute(60, 1));
        assert!(!limiter.workflow(Some("a"), "w").unwrap().is_refused());
        assert!(!limiter.workflow(Some("b"), "w").unwrap().is_refused());
        assert!(!limiter.workflow(None, "w").unwrap().is_refused());
        assert!(!limiter.workflow(Some(""), "w").unwrap().is_refused());
        assert!(limiter.workflow(Some("a"), "w").unwrap().is_refused());
        assert_eq!(limiter.token(RequestKind::Change, &key(&[b"t"])), None);
    }

    #[test]
    fn reads_have_a_budget_of_their_own() {
        let (read, change) = (Budget::per_minute(60, 2), Budget::per_minute(60, 1));
        let limiter = Limiter::new(read, change, Budget::OFF);
        let one = key(&[b"one"]);
        let refused = |kind| limiter.token(kind, &one).unwrap().is_refused();
        assert!(!refused(RequestKind::Change));
        assert!(refused(RequestKind::Change));
        assert!(!refused(RequestKind::Read));
        assert!(!refused(RequestKind::Read));
        assert!(refused(RequestKind::Read));
        assert_eq!(limiter.untouched(RequestKind::Read).unwrap().limit, 2);
    }
}
