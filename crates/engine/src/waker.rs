//! Waking sleeping runs when their time has come. A sleeping run is a row: only the
//! earliest time is known here, and what is due is read in pages.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::mpsc;
use windlass_core::{Millis, RunId};

use crate::engine::{Engine, Inner};

/// How many runs are woken together.
const PAGE: usize = 256;

/// While more runs than this are awake, sleeping ones wait for room.
const MOST_AWAKE: usize = 4096;

/// How soon to look again while there is no room.
const NO_ROOM_MS: u64 = 20;

/// Wakes what is due until the engine is gone. The channel brings the wake-up times of
/// runs that have gone to sleep; closing it ends the waker.
pub(crate) async fn wake_all(engine: Weak<Inner>, mut asleep: mpsc::UnboundedReceiver<Millis>) {
    let mut next = match engine.upgrade() {
        Some(inner) => Engine::of(inner).next_wake().await,
        None => return,
    };
    loop {
        let wait = match (next, engine.upgrade()) {
            (_, None) => return,
            (None, _) => None,
            (Some(at), Some(inner)) => Some(until(at, Engine::of(inner).now())),
        };
        let told = tokio::select! {
            told = asleep.recv() => match told {
                Some(at) => Some(at),
                None => return,
            },
            () = sleep(wait) => None,
        };
        match told {
            Some(at) => next = Some(next.map_or(at, |known: Millis| known.min(at))),
            None => match engine.upgrade() {
                Some(inner) => next = Engine::of(inner).wake_due().await,
                None => return,
            },
        }
    }
}

fn until(at: Millis, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(at.0 - now.0).unwrap_or(0))
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

impl Engine {
    /// Wakes everything that is due, and says when to look again.
    async fn wake_due(&self) -> Option<Millis> {
        let now = self.now();
        let mut after: Option<(Millis, RunId)> = None;
        loop {
            if self.shared().isolation.is_closed() || self.held().await > MOST_AWAKE {
                return Some(now.plus(NO_ROOM_MS));
            }
            let page = self
                .store()
                .due(&self.shared().owned.partitions(), after, now, PAGE)
                .await
                .unwrap_or_default();
            let Some(&(run, at)) = page.last() else {
                break;
            };
            after = Some((at, run));
            for (run, _) in page {
                // One that cannot be read stays asleep; `doctor` finds it.
                let _ = self.wake(run).await;
            }
        }
        // What is due is awake now: its rows say otherwise until it has gone on.
        let later = self
            .store()
            .due(
                &self.shared().owned.partitions(),
                after,
                Millis(i64::MAX),
                1,
            )
            .await
            .ok()?;
        later.first().map(|&(_, at)| at)
    }

    async fn next_wake(&self) -> Option<Millis> {
        self.store()
            .next_wake(&self.shared().owned.partitions())
            .await
            .ok()
            .flatten()
    }
}
