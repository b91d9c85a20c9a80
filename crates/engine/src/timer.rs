//! A clock that rings once, and can be set earlier.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A timer that is set again only to ring earlier. Setting tokio's timer wakes another
/// thread, which at every turn of the loop would cost more than the turn.
#[derive(Default)]
pub(crate) struct Timer {
    at: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    pub(crate) fn ring_within(mut self: Pin<&mut Self>, wait: Duration) {
        let at = Instant::now() + wait;
        if self.at.is_some_and(|set| set <= at) {
            return;
        }
        self.at = Some(at);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(at))),
        }
    }

    /// Returns when the alarm rings, which may be too early; never, if it is not set.
    pub(crate) async fn rung(mut self: Pin<&mut Self>) {
        match (self.at, &mut self.sleep) {
            (Some(_), Some(sleep)) => sleep.as_mut().await,
            _ => std::future::pending().await,
        }
        self.at = None;
    }
}
