//! Wakes sleeping runs: carries out what the [`Waker`] decides.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::mpsc;
use windlass_core::Millis;
use windlass_orchestrator::supervisor::{DuePlace, WakeStep, Waker};

use crate::engine::{Engine, Inner};
use crate::load::LoadError;

/// While more runs than this are awake, sleeping ones wait for room.
const MOST_AWAKE: usize = 4096;

/// Wakes what is due until the engine is gone. The channel brings the wake-up times of
/// runs that have gone to sleep; closing it ends the waker.
pub(crate) async fn wake_all(engine: Weak<Inner>, mut asleep: mpsc::UnboundedReceiver<Millis>) {
    let mut waker = Waker::default();
    while let Some(engine) = engine.upgrade().map(Engine::of) {
        let now = engine.now();
        match waker.next_step(now) {
            WakeStep::Wake(run) => {
                // A damaged one stays asleep, and `doctor` finds it.
                if let Err(LoadError::Store(error)) = engine.wake(run).await {
                    engine.shared().interrupt(run, &error);
                }
            }
            WakeStep::ReadDue {
                after,
                until,
                limit,
            } => engine.read_due(&mut waker, after, until, limit).await,
            WakeStep::Sleep(at) => {
                drop(engine);
                tokio::select! {
                    told = asleep.recv() => match told {
                        Some(at) => waker.asleep(at),
                        None => return,
                    },
                    () = sleep(at.map(|at| until(at, now))) => {}
                }
            }
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
    async fn read_due(
        &self,
        waker: &mut Waker,
        after: Option<DuePlace>,
        until: Millis,
        limit: usize,
    ) {
        if self.shared().isolation.is_closed() || self.held().await > MOST_AWAKE {
            return waker.no_room(self.now());
        }
        let own = self.shared().owned.partitions();
        match self.store().due(&own, after, until, limit).await {
            Ok(page) => waker.page_read(&page),
            Err(_) => waker.read_failed(self.now()),
        }
    }
}
