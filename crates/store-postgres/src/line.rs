//! Small calls that share a statement (group commit). The first caller is served at once; those
//! that come while a statement is on its way wait for it, and then go together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use windlass_core::RunId;
use windlass_store::{AuditEntry, Error, ItemOutcome, LeaseAnswer, Offer, Pending, WorkItem};

use crate::connect::Kind;
use crate::error::Fault;
use crate::inbox::Offered;
use crate::query::ReadRow;
use crate::settle::Settled;
use crate::store::{ANSWER, Inner, PostgresStore, Session, blockable, closed};
use crate::work::Completion;
use crate::{audit, inbox, query, settle, work};

/// The most callers, and bytes, of one statement; a single caller may bring more.
const MOST_CALLERS: usize = 1_000;
const MOST_BYTES: usize = 8 << 20;

/// How often a statement that lost a race is sent.
const MOST_TRIES: usize = 8;

/// Sends the items of some callers; the answers are those of the items, in order.
type Statement<T, A> = fn(Session, Arc<Vec<T>>) -> Pending<'static, Result<Vec<A>, Fault>>;

/// The lines of a store, one for each kind of call.
pub(crate) struct Lines {
    pub(crate) audit: Line<AuditEntry, ()>,
    /// Whether the statement rang for the item.
    pub(crate) pushes: Line<WorkItem, bool>,
    pub(crate) outcomes: Line<ItemOutcome, Settled>,
    pub(crate) completions: Line<Completion, LeaseAnswer>,
    pub(crate) offers: Line<Offer, Offered>,
    pub(crate) rows: Line<RunId, ReadRow>,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            // Its numbers have no gaps: one statement after the other.
            audit: Line::new(1, Kind::Pooled, audit::send, |entry| entry.detail.len()),
            pushes: Line::new(2, Kind::Queue, work::send_pushes, |it| it.payload.len()),
            outcomes: Line::new(2, Kind::Queue, settle::send, |it| it.offer.bytes.len()),
            completions: Line::new(2, Kind::Queue, work::send_completions, |_| 0),
            offers: Line::new(2, Kind::Queue, inbox::send, |offer| offer.bytes.len()),
            rows: Line::new(2, Kind::Pooled, query::send_rows, |_| 0),
        }
    }
}

/// Callers of one kind that wait for the next statement.
pub(crate) struct Line<T, A> {
    state: Mutex<State<T, A>>,
    most_senders: usize,
    /// The connections of its statements.
    kind: Kind,
    send: Statement<T, A>,
    bytes: fn(&T) -> usize,
}

struct State<T, A> {
    waiting: VecDeque<Waiting<T, A>>,
    /// Tasks that send what waits.
    senders: usize,
}

struct Waiting<T, A> {
    items: Vec<T>,
    reply: oneshot::Sender<Result<Vec<A>, Error>>,
}

impl<T: Clone, A> Line<T, A> {
    fn new(most_senders: usize, kind: Kind, send: Statement<T, A>, bytes: fn(&T) -> usize) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                senders: 0,
            }),
            most_senders,
            kind,
            send,
            bytes,
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T, A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines items up: where their answers will be, and whether one more sender is to begin.
    fn join(&self, items: Vec<T>) -> (oneshot::Receiver<Result<Vec<A>, Error>>, bool) {
        let (reply, answers) = oneshot::channel();
        let mut state = self.state();
        state.waiting.push_back(Waiting { items, reply });
        let begins = state.senders < self.most_senders;
        state.senders += usize::from(begins);
        (answers, begins)
    }

    /// Whatever waits, up to the bounds. If nothing does, the sender that asks is over.
    fn take(&self) -> Vec<Waiting<T, A>> {
        let mut state = self.state();
        let (mut taken, mut size) = (Vec::new(), 0);
        while let Some(next) = state.waiting.front() {
            size += next.items.iter().map(self.bytes).sum::<usize>();
            if taken.len() == MOST_CALLERS || (size > MOST_BYTES && !taken.is_empty()) {
                break;
            }
            taken.extend(state.waiting.pop_front());
        }
        if taken.is_empty() {
            state.senders -= 1;
        }
        taken
    }

    /// Sends what callers wait for and answers them. If something of one of them makes the
    /// statement fail, each is served by itself, so that only that one fails.
    async fn serve(&self, inner: &Inner, mut taken: Vec<Waiting<T, A>>) {
        let counts: Vec<usize> = taken.iter().map(|it| it.items.len()).collect();
        let items = taken
            .iter_mut()
            .flat_map(|it| std::mem::take(&mut it.items));
        let items: Arc<Vec<T>> = Arc::new(items.collect());
        let mut first = 0;
        let told = match self.attempt(inner, &items).await {
            Ok(Ok(answers)) => {
                let mut answers = answers.into_iter();
                for (waiting, count) in taken.into_iter().zip(counts) {
                    // A caller that is gone needs no answer.
                    let _ = waiting
                        .reply
                        .send(Ok(answers.by_ref().take(count).collect()));
                }
                return;
            }
            Ok(Err(_)) if taken.len() > 1 => {
                for (waiting, count) in taken.into_iter().zip(counts) {
                    let own = Arc::new(items[first..first + count].to_vec());
                    first += count;
                    let answer = self.attempt(inner, &own).await;
                    let _ = waiting.reply.send(answer.unwrap_or_else(Err));
                }
                return;
            }
            Ok(Err(error)) | Err(error) => error,
        };
        for waiting in taken {
            let _ = waiting.reply.send(Err(told.clone()));
        }
    }

    /// Sends one statement. The inner error is about something in it, the outer one about the
    /// database.
    async fn attempt(
        &self,
        inner: &Inner,
        items: &Arc<Vec<T>>,
    ) -> Result<Result<Vec<A>, Error>, Error> {
        let answer = async {
            let mut tries = 0;
            loop {
                tries += 1;
                let session = match self.kind {
                    Kind::Queue => inner.queue_session().await?,
                    _ => inner.session().await?,
                };
                match (self.send)(session, Arc::clone(items)).await {
                    Err(fault) if fault.is_race() && tries < MOST_TRIES => {}
                    Err(fault) if fault.is_culprit() => return Ok(Err(fault.into_error())),
                    answer => return answer.map(Ok).map_err(Fault::into_error),
                }
            }
        };
        inner.answered_within(ANSWER, answer).await
    }
}

impl PostgresStore {
    /// Does something with items, together with those of other callers.
    pub(crate) fn together<'a, T, A>(
        &self,
        line: fn(&Lines) -> &Line<T, A>,
        items: Vec<T>,
    ) -> Pending<'a, Result<Vec<A>, Error>>
    where
        T: Clone + Send + Sync + 'static,
        A: Send + 'static,
    {
        if items.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let (answers, begins) = line(&self.inner.lines).join(items);
        if begins {
            let inner = Arc::clone(&self.inner);
            let sending = Box::pin(async move {
                let line = line(&inner.lines);
                loop {
                    let taken = line.take();
                    if taken.is_empty() {
                        break;
                    }
                    line.serve(&inner, taken).await;
                }
            });
            self.inner.spawn(line(&self.inner.lines).kind, sending);
        }
        blockable(async move { answers.await.unwrap_or_else(|_| Err(closed())) })
    }

    /// The same for one item.
    pub(crate) fn one_together<'a, T, A>(
        &self,
        line: fn(&Lines) -> &Line<T, A>,
        item: T,
    ) -> Pending<'a, Result<A, Error>>
    where
        T: Clone + Send + Sync + 'static,
        A: Send + 'static,
    {
        let answers = self.together(line, vec![item]);
        blockable(async move { answers.await?.pop().ok_or_else(closed) })
    }
}
