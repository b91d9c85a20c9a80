//! Deletes runs that ended long ago, so that the store stays within its bounds.
//!
//! A run and the runs that it started are one family: they go together, once all of them
//! have ended, and never one without the others.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::time::Duration;

use windlass_core::{Millis, RunId};
use windlass_store::{Error, RunRow};

use crate::engine::{Engine, Inner};

/// The lease of the process that applies retention.
const LEASE: &str = "retention";

/// How often retention runs.
const EVERY: Duration = Duration::from_secs(3600);

/// How often a process that is not the scheduler looks whether it is.
const STAND_BY: Duration = Duration::from_secs(60);

/// How many runs are looked at together, at first and at most: those that cannot go yet
/// stand before those that can.
const PAGE: usize = 256;
const LARGEST_PAGE: usize = 16 * 1024;

/// Which ended runs are kept. Without any limit, all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retain {
    /// For this long after their end, in milliseconds.
    pub age_ms: Option<u64>,
    /// At most this many.
    pub count: Option<u64>,
    /// As many as fit into this many bytes, together with everything else that is stored.
    pub bytes: Option<u64>,
    /// Whether their request ids stay taken.
    pub keep_request_ids: bool,
}

impl Retain {
    fn is_bounded(&self) -> bool {
        self.age_ms.is_some() || self.count.is_some() || self.bytes.is_some()
    }
}

/// Applies retention now, and every hour, until the engine is gone.
pub(crate) async fn retain_always(engine: Weak<Inner>, retain: Retain) {
    if !retain.is_bounded() {
        return;
    }
    loop {
        let Some(inner) = engine.upgrade() else {
            return;
        };
        let engine = Engine::of(inner);
        let stop = engine.stop_token();
        // What cannot be deleted now is tried again in an hour.
        let lease = engine.take_lease(LEASE).await;
        let wait = match lease {
            Ok(Some(_)) => {
                let _ = engine.forget_old(&retain).await;
                EVERY
            }
            // Another process does it; or this one does not know yet.
            Ok(None) | Err(_) => STAND_BY,
        };
        drop(engine);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl Engine {
    /// Forgets runs that ended and are to be kept no longer, with all that they started;
    /// says how many. What has not ended is never touched.
    ///
    /// # Errors
    /// The store failed; what was forgotten until then is.
    pub async fn forget_old(&self, retain: &Retain) -> Result<u64, Error> {
        let mut forgotten = 0;
        if let Some(age) = retain.age_ms {
            let age = i64::try_from(age).unwrap_or(i64::MAX);
            let before = Millis(self.now().0.saturating_sub(age));
            forgotten += self.forget_before(before, u64::MAX, retain).await?;
        }
        if let Some(most) = retain.count {
            let spare = self.store().ended_count().await?.saturating_sub(most);
            forgotten += self.forget_before(END, spare, retain).await?;
        }
        if let Some(most) = retain.bytes {
            while self.store().bytes().await? > most {
                let now = self.forget_before(END, PAGE as u64, retain).await?;
                if now == 0 {
                    break;
                }
                forgotten += now;
                self.store().vacuum().await?;
            }
        }
        if forgotten > 0 {
            self.store().vacuum().await?;
        }
        Ok(forgotten)
    }

    /// Forgets families that ended before a moment, longest ended first, until there are
    /// none or at least this many runs are gone.
    async fn forget_before(
        &self,
        before: Millis,
        spare: u64,
        retain: &Retain,
    ) -> Result<u64, Error> {
        let mut forgotten = 0;
        let mut page = PAGE;
        while forgotten < spare && page <= LARGEST_PAGE && !self.stop_token().is_cancelled() {
            let rows = self.store().ended(before, page).await?;
            let seen = rows.len();
            let mut gone = BTreeSet::new();
            for row in rows {
                if forgotten + gone.len() as u64 >= spare {
                    break;
                }
                if !gone.contains(&row.run) {
                    gone.extend(self.family(row, before).await?);
                }
            }
            let now = match gone.is_empty() {
                true => 0,
                false => {
                    let gone = gone.into_iter().collect();
                    self.store().forget(gone, retain.keep_request_ids).await?
                }
            };
            forgotten += now;
            match now {
                0 if seen < page => break,
                // Behind those that stay there may be some that go.
                0 => page *= 4,
                _ => page = PAGE,
            }
        }
        Ok(forgotten)
    }

    /// The run that a run descends from, with all its descendants, if all of them have
    /// ended and it did so before a moment; else nothing.
    async fn family(&self, row: RunRow, before: Millis) -> Result<Vec<RunId>, Error> {
        let mut root = row;
        while let Some(parent) = root.parent {
            match self.store().run(parent).await? {
                Some(parent) => root = parent,
                // It is gone: what is left of the family goes with the eldest there is.
                None => break,
            }
        }
        if root.ended_at.is_none_or(|at| at >= before) {
            return Ok(Vec::new());
        }
        let mut family = Vec::new();
        let mut members = vec![root];
        while let Some(member) = members.pop() {
            if !member.status.is_final() && !member.dead {
                return Ok(Vec::new());
            }
            family.push(member.run);
            members.extend(self.store().children(member.run).await?);
        }
        Ok(family)
    }
}

/// After everything.
const END: Millis = Millis(i64::MAX);
