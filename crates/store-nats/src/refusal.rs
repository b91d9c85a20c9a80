//! Refusing an offer so that no record consumes it: the inbox and the log are two streams, and no
//! message changes both at once.
//!
//! ```text
//! refuser                                 a process that appends a record that consumes it
//! 1. offer: waiting ─▶ refusing           a. learns the last message of the run's log
//! 2. a fence on the run's log             b. looks at the offer: it must wait (a refusal that is
//! 3. was it consumed before the fence?       under way is stopped: refusing ─▶ waiting)
//! 4. offer: refusing ─▶ refused           c. publishes behind the message of step a
//! ```
//!
//! A record whose process looked (b) before step 1 knows no later message than that, so the fence
//! of step 2 refuses it, or it came before the fence and step 3 finds it. A process that looks
//! after step 1 stops the refusal, and step 4 fails; or it comes after step 4 and finds the offer
//! refused. Each step is a compare-and-set, so there is no third case. A refusal that a crash left
//! in the middle counts as waiting.

use bytes::Bytes;
use windlass_core::RunId;
use windlass_store::{Error, Head};

use crate::codec::{Kind, LogMeta};
use crate::error::PublishFault;
use crate::head::End;
use crate::inbox_state::{OfferMeta, OfferState};
use crate::store::Inner;

/// How often a refusal is tried while the log goes on.
const MOST_TRIES: usize = 16;

impl Inner {
    /// Refuses an offer that waits; `false` if none does.
    pub(crate) async fn refuse_offer(
        &self,
        run: RunId,
        key: &str,
        reason: Bytes,
    ) -> Result<bool, Error> {
        for _ in 0..MOST_TRIES {
            // Step 1.
            let Some((row, meta)) = self.offer_row(run, key).await? else {
                return Ok(false);
            };
            if meta.state == OfferState::Refused {
                return Ok(false);
            }
            let refusing = OfferMeta {
                state: OfferState::Refusing,
                number: meta.number_in(&row),
                ..meta
            };
            let put = self.put_offer(row.subject.clone(), row.sequence, &refusing, row.payload);
            let sequence = match put.await {
                Ok(sequence) => sequence,
                Err(PublishFault::Conflict) => continue,
                Err(fault) => return Err(fault.into_error()),
            };
            // Steps 2 and 3.
            self.fence(run).await?;
            self.settle_offers(run).await?;
            // Step 4. An offer that was consumed is gone, and a put in its place is refused too.
            let refused = OfferMeta {
                state: OfferState::Refused,
                ..refusing
            };
            let put = self.put_offer(row.subject, sequence, &refused, reason.clone());
            match put.await {
                Ok(_) => return Ok(true),
                Err(PublishFault::Conflict) => {}
                Err(fault) => return Err(fault.into_error()),
            }
        }
        Err(Error::Unavailable(
            "the offer is being consumed and refused at once; try again".into(),
        ))
    }

    /// Publishes a message that every append which is on its way must have known.
    async fn fence(&self, run: RunId) -> Result<(), Error> {
        for _ in 0..MOST_TRIES {
            let (head, sequence) = match self.end(run).await? {
                End::Nothing => (Head::NONE, 0),
                End::At(head, sequence) => (head, sequence),
                // No record follows.
                End::Void | End::Forgotten(_) => return Ok(()),
            };
            let known = self.known_head(run).filter(|known| known.head == head);
            let mut meta = LogMeta::mark(Kind::Fence, &head);
            meta.row_at = known.map_or(0, |known| known.row_at);
            match self.publish_mark(run, sequence, &meta).await {
                Ok(_) => return Ok(()),
                Err(PublishFault::Conflict) => {}
                Err(fault) => return Err(fault.into_error()),
            }
        }
        Err(Error::Unavailable(
            "the run goes on too quickly to refuse the offer; try again".into(),
        ))
    }

    /// Applies the run's log up to its end, which removes the offers that its records consumed.
    async fn settle_offers(&self, run: RunId) -> Result<(), Error> {
        self.settle(run).await.map(|_| ())
    }
}
