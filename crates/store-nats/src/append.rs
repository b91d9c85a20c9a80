//! Appending: a message on the run's subject that must follow the one that the caller knows. Its
//! acknowledgement is the commit point; rows follow (`projector.rs`).
//!
//! What a record needs beside the fence is made sure before it is published, in this order: the
//! place in the stream, the offers that it consumes, its values, its claims. The place comes
//! first, so that everything that is looked at later is at least as new as the fence: an offer
//! that is refused after the look moves the subject's last sequence, and the publish is refused
//! (`refusal.rs`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use windlass_core::RunId;
use windlass_store::{Append, AppendError, Appended, Error, Head, checksum};

use crate::claim;
use crate::codec::{Kind, LogMeta, reference};
use crate::error::PublishFault;
use crate::head::End;
use crate::projector::{Change, ChangeKind};
use crate::store::{Inner, KnownHead, closed};
use crate::table::{message, publish_after};

/// How often an append is tried that lost against something that was no record.
const MOST_TRIES: usize = 8;

/// An append that took longer than this before its publish is given up: the sweep of values counts
/// on it (`blob.rs`).
const MOST_TIME: Duration = Duration::from_secs(60);

pub(crate) type Answer = Result<Appended, AppendError>;

/// Where an append goes.
enum Base {
    /// Behind this.
    After(KnownHead),
    /// Nowhere.
    Refused(AppendError),
}

/// Appends in rounds: a round has a run, and a claim, once.
pub(crate) async fn append(inner: Arc<Inner>, appends: Vec<Append>) -> Vec<Answer> {
    let mut open: Vec<Option<Append>> = appends.into_iter().map(Some).collect();
    let mut answers: Vec<Option<Answer>> = open.iter().map(|_| None).collect();
    loop {
        let round = next_round(&open);
        if round.is_empty() {
            break;
        }
        let each = round.iter().filter_map(|&at| Some((at, open[at].take()?)));
        let each = each.map(|(at, append)| {
            let inner = &inner;
            async move { (at, inner.append_one(append).await) }
        });
        let each: Vec<_> = each.collect();
        for (at, answer) in join_all(each).await {
            answers[at] = Some(answer);
        }
    }
    let answers = answers.into_iter();
    answers
        .map(|answer| answer.unwrap_or_else(|| Err(AppendError::Failed(closed()))))
        .collect()
}

/// Of each run and claim the first that is open.
fn next_round(open: &[Option<Append>]) -> Vec<usize> {
    let mut runs: HashSet<RunId> = HashSet::new();
    let mut claims: HashSet<(&str, &str)> = HashSet::new();
    let mut round = Vec::new();
    for (at, append) in open.iter().enumerate() {
        let Some(append) = append else { continue };
        let first = runs.insert(append.run);
        let keys = append.claims.iter().map(|it| (it.namespace, &*it.key));
        let keys: Vec<_> = keys.collect();
        let free = keys.iter().all(|key| !claims.contains(key));
        claims.extend(keys);
        if first && free {
            round.push(at);
        }
    }
    round
}

impl Inner {
    async fn append_one(&self, append: Append) -> Answer {
        self.has_room().map_err(AppendError::Failed)?;
        self.is_fit().map_err(AppendError::Failed)?;
        let stream = self.stream_number(append.run);
        let trusted = self.watermarks.trusted(stream);
        trusted.map_err(AppendError::Failed)?;
        let begun = Instant::now();
        // An unknown head with this place is looked up; a first record needs no look.
        let mut is_fresh = false;
        for _ in 0..MOST_TRIES {
            let mut before = match self.base(&append, is_fresh).await? {
                Base::After(known) => known,
                Base::Refused(error) => return Err(error),
            };
            if !append.consumed.is_empty() && !before.has_inbox {
                self.offers.catch_up().await.map_err(AppendError::Failed)?;
                before.has_inbox = true;
            }
            let consumed = self.consumable(append.run, &append.consumed).await;
            let consumed = consumed.map_err(AppendError::Failed)?;
            self.put_values(&append)
                .await
                .map_err(AppendError::Failed)?;
            let claiming = Instant::now();
            let made = self.claim_all(&append).await?;
            let is_late = !append.claims.is_empty() && claiming.elapsed() > claim::MOST_TIME;
            if is_late || begun.elapsed() > MOST_TIME {
                self.unclaim(&made).await;
                let late = "the append took too long to prepare; try again";
                return Err(AppendError::Failed(Error::Unavailable(late.into())));
            }
            let meta = LogMeta::of(&append, consumed, before.row_at);
            let (published, reached) = (Instant::now(), self.watermarks.reached(stream));
            match self.publish(&append, before.sequence, &meta).await {
                Ok(sequence) => {
                    self.look_at_place(append.run, sequence, reached);
                    let known = KnownHead {
                        head: checksum::next_head(&append),
                        sequence,
                        has_inbox: before.has_inbox,
                        row_at: meta.row_at,
                    };
                    return Ok(self.appended(append, known, meta, published));
                }
                Err(PublishFault::Conflict) => {
                    self.forget_head(append.run);
                    self.unclaim(&made).await;
                    is_fresh = true;
                }
                // No other server can have stored it.
                Err(PublishFault::Unknown(error @ Error::Full(_)))
                    if self.client.server_info().cluster.is_none() =>
                {
                    self.unclaim(&made).await;
                    return Err(AppendError::Failed(error));
                }
                Err(PublishFault::Unknown(error)) => {
                    self.forget_head(append.run);
                    let append = Some(Box::new(append));
                    return Err(AppendError::Unknown { error, append });
                }
                Err(PublishFault::Failed(error)) => {
                    self.unclaim(&made).await;
                    return Err(AppendError::Failed(error));
                }
            }
        }
        let raced = "the append lost against others too often; try again";
        Err(AppendError::Failed(Error::Unavailable(raced.into())))
    }

    pub(crate) async fn publish(
        &self,
        append: &Append,
        after: u64,
        meta: &LogMeta,
    ) -> Result<u64, PublishFault> {
        let payload = Bytes::copy_from_slice(&append.record);
        let message = message(meta, payload).map_err(PublishFault::Failed)?;
        publish_after(&self.log, self.log_subject(append.run), after, message).await
    }

    /// Remembers the new head, and lets the database follow. `published` is before the server took
    /// the record.
    fn appended(
        &self,
        mut append: Append,
        known: KnownHead,
        meta: LogMeta,
        published: Instant,
    ) -> Appended {
        let (run, head, sequence) = (append.run, known.head, known.sequence);
        self.note_head(run, known);
        self.note_consumed(&meta.consumed);
        let uses = std::mem::take(&mut append.uses);
        let blobs = std::mem::take(&mut append.blobs);
        let mut values: Vec<_> = blobs.iter().map(|it| it.digest).chain(uses).collect();
        values.sort_unstable();
        values.dedup();
        append.blobs = values.into_iter().map(reference).collect();
        append.consumed.clear();
        self.projector.enqueue(Change {
            run,
            sequence,
            kind: ChangeKind::Record(Box::new(append), head, meta.consumed),
            published: Some(published),
        });
        Appended { head }
    }

    /// The place in the stream of the head that the caller knows.
    async fn base(&self, append: &Append, is_fresh: bool) -> Result<Base, AppendError> {
        let (run, head) = (append.run, append.head);
        if !is_fresh {
            match self.known_head(run) {
                Some(known) if known.head == head => return Ok(Base::After(known)),
                None if head == Head::NONE => return Ok(Base::After(KnownHead::NOTHING)),
                _ => {}
            }
        }
        let end = self.end(run).await.map_err(AppendError::Failed)?;
        let found = match end {
            End::At(head, sequence) => KnownHead {
                head,
                sequence,
                has_inbox: false,
                row_at: self.known_head(run).map_or(0, |known| known.row_at),
            },
            End::Nothing => KnownHead::NOTHING,
            End::Forgotten(message) => {
                let done = self.finish_forgetting(&[&message]).await;
                done.map_err(AppendError::Failed)?;
                KnownHead::NOTHING
            }
            End::Void => {
                let taken = "another run has taken over the request of this one; try again";
                let error = Error::Unavailable(taken.into());
                return Ok(Base::Refused(AppendError::Failed(error)));
            }
        };
        Ok(match found.head == head {
            true => Base::After(found),
            false => Base::Refused(AppendError::Conflict(found.head)),
        })
    }

    /// Publishes a message that is no record behind the given one; gives its sequence.
    pub(crate) async fn publish_mark(
        &self,
        run: RunId,
        after: u64,
        meta: &LogMeta,
    ) -> Result<u64, PublishFault> {
        let marked = message(meta, Bytes::new()).map_err(PublishFault::Failed)?;
        let subject = self.log_subject(run);
        let sequence = publish_after(&self.js, subject, after, marked).await?;
        if meta.kind == Kind::Fence
            && let Some(head) = meta.head.head()
        {
            let known = KnownHead {
                head,
                sequence,
                has_inbox: false,
                row_at: meta.row_at,
            };
            self.note_head(run, known);
        }
        if meta.kind != Kind::Forgotten {
            self.projector.enqueue(Change {
                run,
                sequence,
                kind: ChangeKind::Nothing,
                published: Some(Instant::now()),
            });
        }
        Ok(sequence)
    }
}
