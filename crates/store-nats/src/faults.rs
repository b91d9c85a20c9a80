//! What tests do to a store that no caller would: publish as a process that ends before the
//! database follows, and lose messages as a damaged server does.

use std::sync::Arc;

use windlass_core::RunId;
use windlass_store::{Append, Error, Pending};

use crate::codec::LogMeta;
use crate::error::{PublishFault, unavailable};
use crate::store::NatsStore;

impl NatsStore {
    /// Publishes a first record and lets nothing follow.
    #[doc(hidden)]
    pub fn publish_without_rows(&self, append: Append) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move {
            let meta = LogMeta::of(&append, Vec::new());
            let published = inner.publish(&append, 0, &meta).await;
            published.map_err(PublishFault::into_error)?;
            Ok(())
        })
    }

    /// Removes the messages of a run.
    #[doc(hidden)]
    pub fn lose_log_for_tests(&self, run: RunId) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move {
            inner.barrier().await?;
            inner.forget_head(run);
            let purging = inner.log_stream(run).stream.purge();
            let purged = purging.filter(inner.log_subject(run)).await;
            purged.map_err(|error| unavailable("messages cannot be removed", &error))?;
            Ok(())
        })
    }

    /// Sweeps values, and lets something happen between the look at the index and the removal;
    /// says how many were removed.
    #[doc(hidden)]
    pub fn sweep_with(
        &self,
        between: impl FnOnce() + Send + 'static,
    ) -> Pending<'_, Result<u64, Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move {
            let rows = inner.indexed().await?;
            let happened = tokio::task::spawn_blocking(between).await;
            happened.map_err(|error| unavailable("what happens between failed", &error))?;
            inner.sweep(rows).await
        })
    }

    /// Waits until the database has what this process published.
    #[doc(hidden)]
    pub fn settled_for_tests(&self) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move { inner.barrier().await })
    }

    /// Brings the database to the ends of all streams, and writes the watermarks.
    #[doc(hidden)]
    pub fn catch_up_for_tests(&self) -> Pending<'_, Result<(), Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move { inner.catch_up().await })
    }
}
