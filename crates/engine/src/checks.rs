//! Limits how many checks of values run at once, and how much memory they take together.
//!
//! Tenants take turns. The one whose turn it is waits until there is room for it, and the others
//! wait behind it, so that a large check comes to its turn like a small one. Knows nothing of
//! what is checked.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::turns::{Tenant, Turns};

/// Bytes of memory that all checks of this process may take together.
pub(crate) const CHECK_BYTES: usize = 256 * 1024 * 1024;

/// Checks that run at the same time, so that they leave processors to everything else.
const CHECKS: usize = 4;

/// The checks of this process.
static OF_THIS_PROCESS: LazyLock<Arc<Checks>> =
    LazyLock::new(|| Arc::new(Checks::new(CHECKS, CHECK_BYTES)));

/// Waits for a turn of a tenant and for so many bytes.
pub(crate) async fn enter(tenant: Tenant, bytes: usize) -> Option<Permit> {
    OF_THIS_PROCESS.enter(tenant, bytes).await
}

#[derive(Debug)]
struct Checks {
    room: Mutex<Room>,
}

/// What is free, and the checks that wait for it.
#[derive(Debug)]
struct Room {
    seats: usize,
    bytes: usize,
    waiting: Turns<(), Waiter>,
    /// The one whose turn it is, for which there was no room yet.
    next: Option<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    reply: oneshot::Sender<Permit>,
}

/// A permit to check, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    of: Arc<Checks>,
    bytes: usize,
}

impl Checks {
    fn new(seats: usize, bytes: usize) -> Self {
        Self {
            room: Mutex::new(Room {
                seats,
                bytes,
                waiting: Turns::default(),
                next: None,
            }),
        }
    }

    async fn enter(self: &Arc<Self>, tenant: Tenant, bytes: usize) -> Option<Permit> {
        self.queue(tenant, bytes).await.ok()
    }

    fn queue(self: &Arc<Self>, tenant: Tenant, bytes: usize) -> oneshot::Receiver<Permit> {
        let (reply, answer) = oneshot::channel();
        let mut room = self.lock();
        room.waiting.push(tenant, (), Waiter { bytes, reply });
        self.admit(room);
        answer
    }

    /// Lets in every waiter there is room for, in the order of turns.
    fn admit(self: &Arc<Self>, mut room: MutexGuard<'_, Room>) {
        let mut admitted = Vec::new();
        while let Some(waiter) = room.take_next() {
            if waiter.reply.is_closed() {
                continue;
            }
            if room.seats == 0 || room.bytes < waiter.bytes {
                room.next = Some(waiter);
                break;
            }
            room.seats -= 1;
            room.bytes -= waiter.bytes;
            admitted.push(waiter);
        }
        drop(room);
        for Waiter { bytes, reply } in admitted {
            let of = Arc::clone(self);
            // If the caller has gone, its permit comes back.
            let _ = reply.send(Permit { of, bytes });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    fn take_next(&mut self) -> Option<Waiter> {
        let next = self.next.take();
        next.or_else(|| self.waiting.pop().map(|(.., waiter)| waiter))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let of = Arc::clone(&self.of);
        let mut room = of.lock();
        room.seats += 1;
        room.bytes += self.bytes;
        of.admit(room);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    type Entering<'a> = Pin<Box<dyn Future<Output = Option<Permit>> + 'a>>;

    /// Asks for a permit, and waits for it until it would have to wait.
    fn ask<'a>(
        checks: &'a Arc<Checks>,
        tenant: &str,
        bytes: usize,
    ) -> (Entering<'a>, Option<Permit>) {
        let mut entering: Entering<'a> = Box::pin(checks.enter(Some(tenant.into()), bytes));
        let permit = now(&mut entering);
        (entering, permit)
    }

    fn now(entering: &mut Entering<'_>) -> Option<Permit> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match entering.as_mut().poll(&mut context) {
            std::task::Poll::Ready(permit) => permit,
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn checks_share_seats_and_bytes() {
        let checks = Arc::new(Checks::new(2, 100));
        let (_, first) = ask(&checks, "a", 60);
        let (mut second, none) = ask(&checks, "a", 60);
        assert!(first.is_some() && none.is_none(), "there are 40 bytes left");
        drop(first);
        let second = now(&mut second).expect("there is room now");
        let (_, third) = ask(&checks, "b", 40);
        let (mut fourth, none) = ask(&checks, "b", 0);
        assert!(third.is_some() && none.is_none(), "there is no seat left");
        drop(second);
        assert!(now(&mut fourth).is_some());
        drop((third, fourth));
        let room = checks.lock();
        assert_eq!((room.seats, room.bytes), (2, 100));
    }

    #[test]
    fn a_tenant_that_asks_for_much_waits_for_itself_alone() {
        let checks = Arc::new(Checks::new(1, 100));
        let (_, mut held) = ask(&checks, "greedy", 100);
        let mut greedy: Vec<_> = (0..50).map(|_| ask(&checks, "greedy", 100).0).collect();
        let (mut other, _) = ask(&checks, "other", 1);
        let mut rounds = 0;
        while now(&mut other).is_none() {
            rounds += 1;
            assert!(rounds <= 3, "it waits for two of the others at most");
            // The one that is checked ends, and the one whose turn it is begins.
            drop(held.take());
            greedy.retain_mut(|entering| {
                let permit = now(entering);
                let waits = permit.is_none();
                held = held.take().or(permit);
                waits
            });
        }
    }

    #[test]
    fn one_that_needs_much_room_is_not_passed_by() {
        let checks = Arc::new(Checks::new(4, 100));
        let (_, held) = ask(&checks, "a", 50);
        let (mut large, _) = ask(&checks, "b", 100);
        let (mut small, none) = ask(&checks, "c", 1);
        assert!(none.is_none(), "it is behind the large one");
        drop(held);
        let large = now(&mut large).expect("all is free");
        assert!(now(&mut small).is_none());
        drop(large);
        assert!(now(&mut small).is_some());
    }

    #[test]
    fn a_caller_that_goes_away_leaves_nothing_behind() {
        let checks = Arc::new(Checks::new(1, 100));
        let (_, held) = ask(&checks, "a", 1);
        let (waiting, _) = ask(&checks, "a", 100);
        let (admitted, _) = ask(&checks, "a", 1);
        drop(waiting);
        drop(held);
        // It was let in, and never asked again.
        drop(admitted);
        let room = checks.lock();
        assert_eq!((room.seats, room.bytes), (1, 100));
    }
}
