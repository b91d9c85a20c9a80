//! Public events of a run as they become durable, for many readers at once.
//!
//! A reader first reads what there is, by itself and at its own pace. At the end of the log it
//! joins the other readers of the run: one follower folds new records, once for all readers,
//! and keeps the last events for readers that are a little behind. A reader that falls further
//! behind is notified, and reads the log by itself again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use windlass_core::RunId;

use crate::engine::{Engine, Inner};
use crate::history::{Follow, PublicEvent};
use crate::load::LoadError;
use crate::watched::Watch;

/// How many of the last events a follower keeps.
const KEPT: usize = 1024;

/// How many events a reader takes at once.
const TAKEN: usize = 64;

/// How long a follower waits for a reader to come back after the last has gone: a reader that
/// lost its connection asks again soon, and then need not read the whole log.
const LINGER: Duration = Duration::from_secs(60);

/// How many node instances the runs of waiting followers may have together; each is about a
/// kibibyte.
const MOST_LINGERING: usize = 200_000;

/// Of how many runs that have ended it is remembered where their events end.
const ENDS: usize = 1024;

/// How much of a log is read at once.
const PAGE_BYTES: usize = 64 * 1024;

/// What a feed gives.
#[derive(Clone, Debug)]
pub enum StreamItem {
    /// The next event.
    Event(Arc<PublicEvent>),
    /// The reader was so slow that events were dropped which waited for it. A reader that asks
    /// again loses nothing: the events are read from the log.
    Lagged,
    /// The run has ended, and all of it was given.
    Ended,
    /// The run cannot be read; the sentence says why.
    Failed(String),
}

/// The followers of an engine, by their runs.
#[derive(Default)]
pub(crate) struct RunEventStreams {
    followers: Mutex<HashMap<RunId, Arc<Follower>>>,
    /// How many followers there are: at zero, an append need not take the lock.
    count: AtomicUsize,
    /// How many node instances are kept by followers without readers.
    lingering: AtomicUsize,
    /// The last events of runs that have ended.
    ends: Mutex<HashMap<RunId, End>>,
}

/// Where the events of a run end, and the log that they are in.
#[derive(Clone, Copy)]
struct End {
    position: u64,
    records: u64,
}

impl RunEventStreams {
    /// A record of a run is durable.
    pub(crate) fn recorded(&self, run: RunId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(follower) = self.followers().get(&run) {
            follower.recorded.notify_one();
        }
    }

    /// The owner of a run rang for it: it knows that the run is watched here.
    pub(crate) fn rung(&self, run: RunId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(follower) = self.followers().get(&run) {
            follower.is_answered.store(true, Ordering::Release);
            follower.recorded.notify_one();
        }
    }

    /// Bells may have been lost, or runs have got another owner: all followers look.
    pub(crate) fn look(&self) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for follower in self.followers().values() {
            follower.is_answered.store(false, Ordering::Release);
            follower.recorded.notify_one();
        }
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<RunId, End>> {
        self.ends
            .lock()
            .expect("nothing panics while it holds the ends")
    }

    /// How many runs are followed for readers, or have been until a moment ago.
    pub(crate) fn count(&self) -> usize {
        self.followers().len()
    }

    fn followers(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Follower>>> {
        self.followers
            .lock()
            .expect("nothing panics while it holds the followers")
    }
}

/// Follows a run for all its readers.
struct Follower {
    recorded: Notify,
    /// Whether the owner of the run, another process, has rung for it.
    is_answered: AtomicBool,
    kept: Mutex<RecentEvents>,
    /// Changes when there are new events, or when none will come any more.
    updates: watch::Sender<u64>,
    /// Rings when the fastest reader has gone on.
    taken: Notify,
    /// Rings when a reader has come.
    joined: Notify,
}

/// The last events of a run.
struct RecentEvents {
    events: VecDeque<Arc<PublicEvent>>,
    /// The last event that was read.
    position: u64,
    /// The last event that a reader has taken.
    taken: u64,
    end: Option<StreamItem>,
}

impl RecentEvents {
    /// What comes after a position; none if some of it is kept no more.
    fn after(&self, position: u64) -> Option<Vec<Arc<PublicEvent>>> {
        let missing = self.position.saturating_sub(position);
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        let first = self.events.len().checked_sub(missing)?;
        Some(
            self.events
                .iter()
                .skip(first)
                .take(TAKEN)
                .cloned()
                .collect(),
        )
    }
}

impl RecentEvents {
    fn untaken(&self) -> usize {
        let untaken = self.position.saturating_sub(self.taken);
        usize::try_from(untaken).unwrap_or(usize::MAX)
    }

    /// Drops old events, except those that no reader has taken.
    fn drop_spare(&mut self) {
        let keep = KEPT.max(self.untaken());
        let spare = self.events.len().saturating_sub(keep);
        self.events.drain(..spare);
    }
}

impl Follower {
    /// Ends when the fastest reader is not far behind.
    async fn has_room(&self) {
        while self.kept().untaken() > KEPT / 2 {
            self.taken.notified().await;
        }
    }

    /// A reader has come this far.
    fn take(&self, position: u64) {
        let mut kept = self.kept();
        if position > kept.taken {
            kept.taken = position;
            kept.drop_spare();
            drop(kept);
            self.taken.notify_one();
        }
    }

    fn new(position: u64) -> Self {
        Self {
            recorded: Notify::new(),
            is_answered: AtomicBool::new(false),
            kept: Mutex::new(RecentEvents {
                events: VecDeque::new(),
                position,
                taken: position,
                end: None,
            }),
            updates: watch::Sender::new(position),
            taken: Notify::new(),
            joined: Notify::new(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, RecentEvents> {
        self.kept
            .lock()
            .expect("nothing panics while it holds the events")
    }

    /// Keeps new events; how the run ended, if it did.
    fn keep(&self, events: Vec<Arc<PublicEvent>>, end: Option<StreamItem>) {
        if events.is_empty() && end.is_none() {
            return;
        }
        let mut kept = self.kept();
        kept.position += events.len() as u64;
        kept.events.extend(events);
        kept.drop_spare();
        kept.end = end;
        drop(kept);
        self.updates.send_modify(|count| *count += 1);
    }
}

/// How far a follower has come with what there is.
enum FollowStep {
    /// There may be more.
    More,
    /// It is at the end of the log.
    AtEnd,
    /// Nothing more will come.
    Over,
}

/// Folds new records until the run has ended or has no reader.
async fn follow(engine: Weak<Inner>, run: RunId, follower: Arc<Follower>, mut follow: Box<Follow>) {
    let mut watch = Watch::new(run);
    loop {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine_now = Engine::of(inner);
        let stop = engine_now.stop_token();
        let keeper = Arc::clone(&follower);
        let reading = tokio::task::spawn_blocking(move || {
            let step = read_page(&engine_now, &mut follow, &keeper);
            (follow, step, engine_now)
        });
        let Ok((followed, step, engine_now)) = reading.await else {
            follower.keep(Vec::new(), Some(StreamItem::Ended));
            return;
        };
        follow = followed;
        if let FollowStep::Over = step {
            engine_now.shared().event_streams.leave(run, &follower);
            return;
        }
        let look = match step {
            FollowStep::AtEnd if engine_now.shared().owned.is_shared() => {
                let answered = follower.is_answered.load(Ordering::Acquire);
                Some(watch.begin(&engine_now, answered).await)
            }
            _ => None,
        };
        drop(engine_now);
        let wake = async {
            match (step, look) {
                // The follower goes as fast as the fastest reader.
                (FollowStep::More, _) => follower.has_room().await,
                // Another process may append, and its bell may be lost.
                (_, Some(look)) => {
                    let recorded = follower.recorded.notified();
                    let _ = tokio::time::timeout(look, recorded).await;
                }
                (_, None) => follower.recorded.notified().await,
            }
        };
        tokio::select! {
            () = wake => {}
            () = follower.updates.closed() => {
                let weight = follow.run().map_or(0, |run| run.plan().total());
                if !linger(&engine, &follower, weight).await {
                    let Some(inner) = engine.upgrade() else { return };
                    if Engine::of(inner).shared().event_streams.leave_if_alone(run, &follower) {
                        return;
                    }
                }
            }
            () = stop.cancelled() => {
                follower.keep(Vec::new(), Some(StreamItem::Ended));
                return;
            }
        }
    }
}

/// Waits a while for a reader to come back; `false` if none did, or there is no room to wait.
async fn linger(engine: &Weak<Inner>, follower: &Follower, weight: usize) -> bool {
    let Some(inner) = engine.upgrade() else {
        return false;
    };
    let engine = Engine::of(inner);
    let (shared, stop) = (Arc::clone(engine.shared()), engine.stop_token());
    drop(engine);
    let event_streams = &shared.event_streams;
    let before = event_streams.lingering.fetch_add(weight, Ordering::AcqRel);
    let came = before.saturating_add(weight) <= MOST_LINGERING
        && tokio::select! {
            () = follower.joined.notified() => true,
            () = tokio::time::sleep(LINGER) => false,
            () = stop.cancelled() => false,
        };
    event_streams.lingering.fetch_sub(weight, Ordering::AcqRel);
    came
}

fn read_page(engine: &Engine, follow: &mut Follow, follower: &Follower) -> FollowStep {
    match follow.step(&**engine.store(), engine.plans(), PAGE_BYTES) {
        Ok((events, true)) => {
            follower.keep(events, None);
            FollowStep::More
        }
        Ok((_, false)) if follow.has_ended() => {
            follower.keep(Vec::new(), Some(StreamItem::Ended));
            FollowStep::Over
        }
        Ok((_, false)) => FollowStep::AtEnd,
        Err(error) => {
            follower.keep(Vec::new(), Some(StreamItem::Failed(error.to_string())));
            FollowStep::Over
        }
    }
}

impl RunEventStreams {
    /// Removes a follower, so that no reader joins it any more.
    fn leave(&self, run: RunId, follower: &Arc<Follower>) {
        let mut followers = self.followers();
        if followers
            .get(&run)
            .is_some_and(|one| Arc::ptr_eq(one, follower))
        {
            followers.remove(&run);
            self.count.store(followers.len(), Ordering::Release);
        }
    }

    /// The same, unless a reader has joined meanwhile.
    fn leave_if_alone(&self, run: RunId, follower: &Arc<Follower>) -> bool {
        let mut followers = self.followers();
        if follower.updates.receiver_count() > 0 {
            return false;
        }
        followers.remove(&run);
        self.count.store(followers.len(), Ordering::Release);
        true
    }

    /// Joins the follower of a run, if it still keeps the events after a position.
    fn join(&self, run: RunId, position: u64) -> Option<Watching> {
        let followers = self.followers();
        let follower = Arc::clone(followers.get(&run)?);
        follower.kept().after(position)?;
        Some(Watching::new(follower))
    }

    /// Joins the follower of a run, or starts one from what this reader has read.
    fn join_with(
        &self,
        engine: &Engine,
        run: RunId,
        read: Box<Follow>,
    ) -> Result<Watching, Box<Follow>> {
        let mut followers = self.followers();
        if let Some(follower) = followers.get(&run) {
            return match follower.kept().after(read.position()) {
                Some(_) => Ok(Watching::new(Arc::clone(follower))),
                None => Err(read),
            };
        }
        let follower = Arc::new(Follower::new(read.position()));
        followers.insert(run, Arc::clone(&follower));
        self.count.store(followers.len(), Ordering::Release);
        let watching = Watching::new(Arc::clone(&follower));
        let inner = Arc::downgrade(engine.inner());
        tokio::spawn(follow(inner, run, follower, read));
        Ok(watching)
    }
}

/// A reader that has joined a follower.
struct Watching {
    follower: Arc<Follower>,
    updates: watch::Receiver<u64>,
}

impl Watching {
    fn new(follower: Arc<Follower>) -> Self {
        let updates = follower.updates.subscribe();
        follower.joined.notify_one();
        Self { follower, updates }
    }
}

type Page = Result<(Vec<Arc<PublicEvent>>, bool), LoadError>;

/// Where a reader is.
enum Reader {
    /// It has read nothing yet.
    New,
    /// It reads by itself.
    Own(Box<Follow>),
    /// A page is being read.
    Reading(JoinHandle<(Box<Follow>, Page)>),
    Watching(Watching),
    Done(StreamItem),
}

/// The events of one run for one reader. Dropping a call of [`RunEventStream::next`] loses nothing.
pub struct RunEventStream {
    engine: Engine,
    run: RunId,
    /// The last event that was given.
    position: u64,
    ready: VecDeque<Arc<PublicEvent>>,
    reader: Reader,
}

impl Engine {
    /// Public events of a run after a position (0 is the beginning), as they become
    /// durable: those there are, then those that come, whether or not the run is in
    /// memory, until it has ended.
    pub fn event_stream(&self, run: RunId, after: u64) -> RunEventStream {
        RunEventStream {
            engine: self.clone(),
            run,
            position: after,
            ready: VecDeque::new(),
            reader: Reader::New,
        }
    }
}

/// What a reader does next.
enum Next {
    Give(StreamItem),
    Again,
}

impl RunEventStream {
    /// The run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The next event, once there is one.
    pub async fn next(&mut self) -> StreamItem {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.position = event.position;
                return StreamItem::Event(event);
            }
            if let Next::Give(item) = self.go_on().await {
                return item;
            }
        }
    }

    async fn go_on(&mut self) -> Next {
        match &mut self.reader {
            Reader::Done(item) => return Next::Give(item.clone()),
            Reader::Watching(_) => return self.watch().await,
            Reader::Reading(reading) => {
                // Kept until it is read, so that dropping this call loses nothing.
                let read = reading.await;
                self.read(read.ok());
                return Next::Again;
            }
            Reader::New | Reader::Own(_) => {}
        }
        let reader = std::mem::replace(&mut self.reader, Reader::New);
        let mut follow = match reader {
            Reader::Own(follow) => follow,
            _ => match self
                .engine
                .shared()
                .event_streams
                .join(self.run, self.position)
            {
                Some(watching) => {
                    self.reader = Reader::Watching(watching);
                    return Next::Again;
                }
                None if self.has_all().await => {
                    self.reader = Reader::Done(StreamItem::Ended);
                    return Next::Again;
                }
                None => Box::new(Follow::new(self.run)),
            },
        };
        let engine = self.engine.clone();
        self.reader = Reader::Reading(tokio::task::spawn_blocking(move || {
            let page = follow.step(&**engine.store(), engine.plans(), PAGE_BYTES);
            (follow, page)
        }));
        Next::Again
    }

    /// Remembers where the events of a run end that has ended.
    fn remember_end(&self, follow: &Follow) {
        let mut ends = self.engine.shared().event_streams.ends();
        if ends.len() >= ENDS {
            ends.clear();
        }
        let end = End {
            position: follow.position(),
            records: follow.run().map_or(0, |run| run.records()),
        };
        ends.insert(self.run, end);
    }

    /// Whether the run has ended, was not opened again, and this reader has everything.
    async fn has_all(&self) -> bool {
        let end = self
            .engine
            .shared()
            .event_streams
            .ends()
            .get(&self.run)
            .copied();
        let Some(end) = end.filter(|end| self.position >= end.position) else {
            return false;
        };
        let head = self.engine.store().head(self.run).await;
        head.is_ok_and(|head| head.sequence == end.records)
    }

    /// Takes in a page that was read.
    fn read(&mut self, read: Option<(Box<Follow>, Page)>) {
        let Some((follow, page)) = read else {
            self.reader = Reader::Done(StreamItem::Ended);
            return;
        };
        let (events, more) = match page {
            Ok(page) => page,
            Err(error) => {
                self.reader = Reader::Done(StreamItem::Failed(error.to_string()));
                return;
            }
        };
        let position = self.position;
        let new = events.into_iter().filter(|event| event.position > position);
        self.ready.extend(new);
        self.reader = if more {
            Reader::Own(follow)
        } else if follow.has_ended() {
            self.remember_end(&follow);
            Reader::Done(StreamItem::Ended)
        } else if follow.position() == 0 {
            let error = LoadError::NotFound(self.run);
            Reader::Done(StreamItem::Failed(error.to_string()))
        } else {
            let event_streams = &self.engine.shared().event_streams;
            match event_streams.join_with(&self.engine, self.run, follow) {
                Ok(watching) => Reader::Watching(watching),
                Err(follow) => Reader::Own(follow),
            }
        };
    }

    async fn watch(&mut self) -> Next {
        let Reader::Watching(watching) = &mut self.reader else {
            return Next::Again;
        };
        // Seen before the look, so that what comes after it is not missed.
        watching.updates.borrow_and_update();
        let (events, end) = {
            let kept = watching.follower.kept();
            (kept.after(self.position), kept.end.clone())
        };
        match (events, end) {
            (None, _) => {
                self.reader = Reader::New;
                Next::Give(StreamItem::Lagged)
            }
            (Some(events), end) if events.is_empty() => {
                if let Some(end) = end {
                    self.reader = Reader::Done(end);
                } else {
                    // The sender lives in the follower, which is held here.
                    let _ = watching.updates.changed().await;
                }
                Next::Again
            }
            (Some(events), _) => {
                if let Some(last) = events.last() {
                    watching.follower.take(last.position);
                }
                self.ready.extend(events);
                Next::Again
            }
        }
    }
}
