//! Claims: a bucket with one key for each, made before the first record of the run that holds it.
//!
//! A process may end between the two. Then the claim names a run without a log. Another run that
//! wants the claim first makes sure that the named run never begins (a message of kind `void` on
//! its subject, which must be the first), and takes the claim over afterwards: of two runs with
//! the same request at most one begins.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_core::RunId;
use windlass_store::{Append, AppendError, Claim, Error, Head, Log as _, StoredClaim};

use crate::codec::{Kind, LogMeta};
use crate::error::PublishFault;
use crate::head::End;
use crate::names::{bucket_key, hash};
use crate::store::Inner;
use crate::table::Row;

/// A record is published within this time after its run's claims are made, or they are given up: a
/// bucket that is filled after it was deleted counts on it (`keeper.rs`).
pub(crate) const MOST_TIME: Duration = Duration::from_secs(5);

/// How often a claim is tried that changes meanwhile.
const MOST_TRIES: usize = 8;

/// What is noted with a claim; the value is the payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClaimMeta {
    pub(crate) namespace: Box<str>,
    pub(crate) key: Box<str>,
    /// The run that holds it.
    pub(crate) run: Option<RunId>,
}

impl Inner {
    fn claim_subject(&self, namespace: &str, key: &str) -> String {
        bucket_key(&self.names.claim_bucket(), &hash(&[namespace, key]))
    }

    /// Makes all claims of an append, or none; gives the places of those that were made now.
    pub(crate) async fn claim_all(&self, append: &Append) -> Result<Vec<u64>, AppendError> {
        let mut made = Vec::new();
        for claim in &append.claims {
            match self.claim(append.run, claim).await {
                Ok(sequence) => made.extend(sequence),
                Err(error) => {
                    self.unclaim(&made).await;
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Gives up claims of an append that was not written. One that stays names a run without a
    /// log, and is taken over.
    pub(crate) async fn unclaim(&self, made: &[u64]) {
        for sequence in made {
            let _ = self.claims.remove(*sequence).await;
        }
    }

    /// Makes a claim; `None` if the run holds it already.
    async fn claim(&self, run: RunId, claim: &Claim) -> Result<Option<u64>, AppendError> {
        let failed = AppendError::Failed;
        let subject = self.claim_subject(claim.namespace, &claim.key);
        let meta = ClaimMeta {
            namespace: claim.namespace.into(),
            key: claim.key.clone(),
            run: Some(run),
        };
        let value = Bytes::copy_from_slice(&claim.value);
        let mut after = 0;
        for _ in 0..MOST_TRIES {
            let put = self
                .claims
                .put(subject.clone(), after, &meta, value.clone());
            match put.await {
                Ok(sequence) => return Ok(Some(sequence)),
                Err(PublishFault::Conflict) => {}
                Err(fault) => return Err(failed(fault.into_error())),
            }
            let row = self.claims.row(&subject).await.map_err(failed)?;
            let Some(row) = row else {
                after = 0;
                continue;
            };
            let found: ClaimMeta = row.meta().map_err(failed)?;
            if found.run == Some(run) {
                return Ok(None);
            }
            let stands = self.stands(&found, &row).await.map_err(failed)?;
            if stands || !self.void(found.run).await.map_err(failed)? {
                self.acknowledge_holder(found.run).await.map_err(failed)?;
                return Err(AppendError::Held {
                    namespace: claim.namespace,
                    value: row.payload.to_vec(),
                });
            }
            after = row.sequence;
        }
        let raced = "a claim changes too often; try again";
        Err(failed(Error::Unavailable(raced.into())))
    }

    /// Whether the run that holds a claim has begun, or had and was forgotten since.
    async fn stands(&self, found: &ClaimMeta, row: &Row) -> Result<bool, Error> {
        let Some(run) = found.run else {
            return Ok(true);
        };
        if self.head_now(run).await? != Head::NONE {
            return Ok(true);
        }
        let kept = self.postgres.claimed(&found.namespace, &found.key).await?;
        Ok(kept.is_some_and(|value| value[..] == row.payload[..]))
    }

    /// The refusal of a repeated start names the run that holds the claim, as an answer of success
    /// does: it is given when the run may be acknowledged.
    async fn acknowledge_holder(&self, run: Option<RunId>) -> Result<(), Error> {
        let Some(run) = run.filter(|_| self.settings.ack_projected) else {
            return Ok(());
        };
        let head = self.head_now(run).await?;
        self.acknowledge_run(run, head).await
    }

    /// Makes sure that a run without a log never begins; `false` if it has begun.
    async fn void(&self, run: Option<RunId>) -> Result<bool, Error> {
        let Some(run) = run else {
            return Ok(false);
        };
        let mut after = 0;
        for _ in 0..MOST_TRIES {
            let meta = LogMeta::mark(Kind::Void, &Head::NONE);
            match self.publish_mark(run, after, &meta).await {
                Ok(_) => return Ok(true),
                Err(PublishFault::Conflict) => match self.end(run).await? {
                    End::Void => return Ok(true),
                    End::Nothing => after = 0,
                    // A fence before the first record.
                    End::At(Head::NONE, sequence) => after = sequence,
                    End::At(..) | End::Forgotten(_) => return Ok(false),
                },
                Err(fault) => return Err(fault.into_error()),
            }
        }
        Ok(false)
    }

    /// The value of a claim whose run has begun.
    pub(crate) async fn claimed_value(
        &self,
        namespace: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        let row = self.claims.row(&self.claim_subject(namespace, key)).await?;
        let Some(row) = row else {
            // Requests by SQL claim in the database before their runs begin.
            return self.postgres.claimed(namespace, key).await;
        };
        let found: ClaimMeta = row.meta()?;
        let stands = self.stands(&found, &row).await?;
        Ok(stands.then(|| row.payload.to_vec()))
    }

    /// Whether a run holds a claim.
    pub(crate) async fn holds_claim(
        &self,
        run: RunId,
        namespace: &str,
        key: &str,
    ) -> Result<bool, Error> {
        let row = self.claims.row(&self.claim_subject(namespace, key)).await?;
        let Some(row) = row else { return Ok(false) };
        Ok(row.meta::<ClaimMeta>()?.run == Some(run))
    }

    /// Removes the claim of a run that is forgotten.
    pub(crate) async fn remove_claim(
        &self,
        run: RunId,
        namespace: &str,
        key: &str,
    ) -> Result<(), Error> {
        let row = self.claims.row(&self.claim_subject(namespace, key)).await?;
        if let Some(row) = row
            && row.meta::<ClaimMeta>()?.run == Some(run)
        {
            self.claims.remove(row.sequence).await?;
        }
        Ok(())
    }

    /// Keeps claims that come from another store; one whose key is taken is left as it is.
    pub(crate) async fn keep_claims(&self, claims: &[StoredClaim]) -> Result<(), Error> {
        for claim in claims {
            let (subject, meta) = self.claim_row(claim);
            let value = Bytes::copy_from_slice(&claim.value);
            match self.claims.put(subject, 0, &meta, value).await {
                Ok(_) | Err(PublishFault::Conflict) => {}
                Err(fault) => return Err(fault.into_error()),
            }
        }
        Ok(())
    }

    /// Where a claim of the database stands here, and what is noted with it.
    pub(crate) fn claim_row(&self, claim: &StoredClaim) -> (String, ClaimMeta) {
        let holder = claim.value.get(..36);
        let holder = holder.and_then(|it| std::str::from_utf8(it).ok());
        let meta = ClaimMeta {
            namespace: claim.namespace.clone(),
            key: claim.key.clone(),
            run: holder.and_then(|it| it.parse().ok()),
        };
        (self.claim_subject(&claim.namespace, &claim.key), meta)
    }
}
