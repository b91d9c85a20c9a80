//! What a connection is doing, and until when it may go on with it.
//!
//! | phase | begins with | may last |
//! | --- | --- | --- |
//! | opening | the connection | the header timeout, handshake included |
//! | serving | the head of a request | as long as the request |
//! | idle | the end of the last answer | the idle timeout |
//! | head | the first byte after that, HTTP/1 only | the header timeout |
//!
//! A client that does not read what is written to it may go on so for the write timeout,
//! in any phase. On HTTP/2 that is true of each answer by itself: the connection may be quick
//! while the client gives one of its streams no room.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::options::ServerOptions;

/// How long a connection of the reserve may take for its head, and rest.
const BRIEF: Duration = Duration::from_secs(2);

/// How long each phase may last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    header: Duration,
    idle: Duration,
    write: Duration,
}

impl Patience {
    pub(super) fn new(options: &ServerOptions) -> Self {
        Self {
            header: options.header_timeout,
            idle: options.idle_timeout,
            write: options.write_timeout,
        }
    }

    /// As long as a connection gets that is there for a probe.
    pub(super) fn brief(self) -> Self {
        Self {
            header: self.header.min(BRIEF),
            idle: self.idle.min(BRIEF),
            write: self.write,
        }
    }

    /// How often to look again whether a phase has begun that ends sooner.
    fn interval(self) -> Duration {
        self.header.min(self.idle).min(self.write) / 2
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening(Instant),
    Serving,
    Idle(Instant),
    Head(Instant),
}

/// Shared by the connection's reader and writer, its requests, and its watch.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Debug)]
struct State {
    patience: Patience,
    phase: Phase,
    /// Requests under way, their answers included.
    requests: usize,
    http2: bool,
    /// Since when the client has not read what it was sent.
    stalled: Option<Instant>,
    /// Answers that wait for the client to take a piece of them, and since when.
    unsent: BTreeMap<u64, Instant>,
    /// Counts requests.
    last: u64,
}

impl Activity {
    pub(super) fn new(patience: Patience) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                patience,
                phase: Phase::Opening(Instant::now()),
                requests: 0,
                http2: false,
                stalled: None,
                unsent: BTreeMap::new(),
                last: 0,
            }),
            opened: Notify::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request's head has arrived; the request ends when the guard is dropped.
    pub(super) fn request(&self, http2: bool) -> UnderWay {
        let mut state = self.state();
        let opening = matches!(state.phase, Phase::Opening(_));
        state.phase = Phase::Serving;
        state.requests += 1;
        state.http2 = http2;
        state.last += 1;
        let number = state.last;
        drop(state);
        if opening {
            self.0.opened.notify_one();
        }
        UnderWay {
            activity: self.clone(),
            number,
        }
    }

    /// Uses other timeouts from here on.
    pub(super) fn set_patience(&self, patience: Patience) {
        self.state().patience = patience;
    }

    /// Whether other requests than this one are under way.
    pub(super) fn is_shared(&self) -> bool {
        self.state().requests > 1
    }

    /// Bytes came from the client.
    pub(super) fn read(&self) {
        let mut state = self.state();
        // On HTTP/2 bytes come for many reasons, and a connection of it is let be while
        // idle for as long as one that sends none.
        if matches!(state.phase, Phase::Idle(_)) && !state.http2 {
            state.phase = Phase::Head(Instant::now());
        }
    }

    /// Whether bytes to the client had to wait.
    pub(super) fn wrote(&self, stalled: bool) {
        let mut state = self.state();
        match (stalled, state.stalled) {
            (true, None) => state.stalled = Some(Instant::now()),
            (false, Some(_)) => state.stalled = None,
            _ => {}
        }
    }

    /// Whether there has been a request.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state().phase, Phase::Opening(_))
    }

    /// Whether it rests between two requests.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        matches!(state.phase, Phase::Idle(_)) && state.stalled.is_none()
    }

    /// Waits for the first request.
    pub(super) async fn opened(&self) {
        if !self.is_open() {
            self.0.opened.notified().await;
        }
    }

    /// The deadline of the current phase, if it has one.
    fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        let patience = state.patience;
        let phase = match state.phase {
            Phase::Opening(since) | Phase::Head(since) => Some(since + patience.header),
            Phase::Idle(since) => Some(since + patience.idle),
            Phase::Serving => None,
        };
        let unsent = state.unsent.values().min().copied();
        let stalled = [state.stalled, unsent].into_iter().flatten().min();
        let stall = stalled.map(|since| since + patience.write);
        [phase, stall].into_iter().flatten().min()
    }

    /// Waits until the deadline has passed.
    pub(super) async fn expired(&self) {
        loop {
            let now = Instant::now();
            let queries = now + self.state().patience.interval();
            match self.deadline() {
                Some(deadline) if deadline <= now => return,
                Some(deadline) => tokio::time::sleep_until(deadline.min(queries)).await,
                None => tokio::time::sleep_until(queries).await,
            }
        }
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct UnderWay {
    activity: Activity,
    number: u64,
}

impl UnderWay {
    /// A piece of the answer waits to be taken, or the next is asked for.
    pub(super) fn waits(&self, waits: bool) {
        let mut state = self.activity.state();
        match waits {
            true => drop(state.unsent.insert(self.number, Instant::now())),
            false => drop(state.unsent.remove(&self.number)),
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.unsent.remove(&self.number);
        state.requests -= 1;
        if state.requests == 0 {
            state.phase = Phase::Idle(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity() -> Activity {
        Activity::new(Patience {
            header: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            write: Duration::from_secs(30),
        })
    }

    async fn after(activity: &Activity) -> u64 {
        let start = Instant::now();
        activity.expired().await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_time() {
        let activity = activity();
        assert_eq!(after(&activity).await, 10);
        drop(activity.request(false));
        assert_eq!(after(&activity).await, 60);
        drop(activity.request(false));
        activity.read();
        assert_eq!(after(&activity).await, 10);
        let request = activity.request(false);
        activity.wrote(true);
        assert_eq!(after(&activity).await, 30);
        activity.wrote(false);
        let endless = tokio::time::timeout(Duration::from_secs(9999), activity.expired());
        assert!(endless.await.is_err());
        drop(request);
        assert_eq!(after(&activity).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_ends_the_connection() {
        let activity = activity();
        let (slow, quick) = (activity.request(true), activity.request(true));
        for _ in 0..10 {
            slow.waits(true);
            quick.waits(true);
            tokio::time::sleep(Duration::from_secs(20)).await;
            slow.waits(false);
            quick.waits(false);
        }
        let endless = tokio::time::timeout(Duration::from_secs(9999), activity.expired());
        assert!(endless.await.is_err(), "each piece was taken in time");
        slow.waits(true);
        tokio::time::sleep(Duration::from_secs(10)).await;
        quick.waits(true);
        quick.waits(false);
        assert_eq!(after(&activity).await, 20);
    }

    #[tokio::test(start_paused = true)]
    async fn pings_do_not_shorten_the_rest_of_http2() {
        let activity = activity();
        drop(activity.request(true));
        activity.read();
        assert_eq!(after(&activity).await, 60);
    }
}
