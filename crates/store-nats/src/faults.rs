//! What tests do to a store that no caller would: publish as a process that ends before the
//! database follows, and lose messages as a damaged server does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::stream::Config;
use futures_util::TryStreamExt as _;
use windlass_core::RunId;
use windlass_store::{Append, Blob, Error, Pending};

use crate::codec::LogMeta;
use crate::error::{PublishFault, unavailable};
use crate::store::NatsStore;

impl NatsStore {
    /// Publishes a first record and lets nothing follow.
    #[doc(hidden)]
    pub fn publish_without_rows(&self, append: Append) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move {
            let meta = LogMeta::of(&append, Vec::new(), 0);
            let published = inner.publish(&append, 0, &meta).await;
            published.map_err(PublishFault::into_error)?;
            Ok(())
        })
    }

    /// Makes the claims of a record and does not publish it.
    #[doc(hidden)]
    pub fn claim_for_tests(&self, append: Append) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move {
            let made = inner.claim_all(&append).await;
            made.map_err(|error| Error::Unavailable(format!("{error:?}")))?;
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

    /// Waits until the copies of the inbox and of the work queue have what the server has.
    #[doc(hidden)]
    pub fn copies_caught_up_for_tests(&self) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move {
            inner.offers.catch_up().await?;
            inner.items.catch_up().await
        })
    }

    /// Brings the database to the ends of all streams, and writes the watermarks.
    #[doc(hidden)]
    pub fn catch_up_for_tests(&self) -> Pending<'_, Result<(), Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move { inner.catch_up().await })
    }

    /// Deletes a stream of the store as an operator could; `name` is what follows the prefix, as
    /// in `LOG_0`, `KV_LEASES` or `OBJ_BLOBS`.
    #[doc(hidden)]
    pub fn delete_stream_for_tests(&self, name: &str) -> Pending<'_, Result<(), Error>> {
        let name = self.inner.names.full(name);
        self.task(move |inner| async move {
            let deleted = inner.js.delete_stream(&name).await;
            deleted.map_err(|error| unavailable(&name, &error))?;
            Ok(())
        })
    }

    /// Limits the bytes of a stream, named in the same way; -1 for no limit.
    #[doc(hidden)]
    pub fn limit_stream_for_tests(
        &self,
        name: &str,
        most_bytes: i64,
    ) -> Pending<'_, Result<(), Error>> {
        self.change_stream(name, move |config| config.max_bytes = most_bytes)
    }

    /// The limit of a stream's bytes, named in the same way.
    #[doc(hidden)]
    pub fn stream_limit_for_tests(&self, name: &str) -> Pending<'_, Result<i64, Error>> {
        let name = self.inner.names.full(name);
        self.task(move |inner| async move {
            let stream = inner.js.get_stream(&name).await;
            let stream = stream.map_err(|error| unavailable(&name, &error))?;
            Ok(stream.cached_info().config.max_bytes)
        })
    }

    /// Lets a stream drop messages that are older than this, as an operator could.
    #[doc(hidden)]
    pub fn age_stream_for_tests(
        &self,
        name: &str,
        most: Duration,
    ) -> Pending<'_, Result<(), Error>> {
        self.change_stream(name, move |config| config.max_age = most)
    }

    fn change_stream(
        &self,
        name: &str,
        change: impl FnOnce(&mut Config) + Send + 'static,
    ) -> Pending<'_, Result<(), Error>> {
        let name = self.inner.names.full(name);
        self.task(move |inner| async move {
            let stream = inner.js.get_stream(&name).await;
            let stream = stream.map_err(|error| unavailable(&name, &error))?;
            let mut config = stream.cached_info().config.clone();
            change(&mut config);
            let changed = inner.js.update_stream(&config).await;
            changed.map_err(|error| unavailable(&name, &error))?;
            Ok(())
        })
    }

    /// How many replicas each stream and bucket of the account has, by name.
    #[doc(hidden)]
    pub fn replicas_for_tests(&self) -> Pending<'_, Result<Vec<(String, usize)>, Error>> {
        self.task(move |inner| async move {
            let streams = inner.js.streams().try_collect::<Vec<_>>().await;
            let streams = streams.map_err(|error| unavailable("the streams", &error))?;
            let streams = streams.into_iter().map(|it| it.config);
            Ok(streams.map(|it| (it.name, it.num_replicas)).collect())
        })
    }

    /// Lets the leaders of all streams of logs step down; says how many did.
    #[doc(hidden)]
    pub fn move_leaders_for_tests(&self) -> Pending<'_, Result<u64, Error>> {
        self.task(move |inner| async move {
            let mut count = 0;
            for log in &inner.logs {
                let subject = format!("STREAM.LEADER.STEPDOWN.{}", log.name);
                let moved: Result<serde_json::Value, _> = inner.js.request(subject, &()).await;
                let moved = moved.map_err(|error| unavailable(&log.name, &error))?;
                count += u64::from(moved["success"] == true);
            }
            Ok(count)
        })
    }

    /// Asks that a server of the cluster leads a stream; an error until it does.
    #[doc(hidden)]
    pub fn lead_for_tests(&self, name: &str, server: &str) -> Pending<'_, Result<(), Error>> {
        let (name, server) = (self.inner.names.full(name), server.to_owned());
        self.task(move |inner| async move {
            let stream = inner.js.get_stream(&name).await;
            let stream = stream.map_err(|error| unavailable(&name, &error))?;
            let cluster = stream.cached_info().cluster.clone();
            if cluster.and_then(|it| it.leader).as_ref() == Some(&server) {
                return Ok(());
            }
            let asked = serde_json::json!({"placement": {"preferred": server}});
            let subject = format!("STREAM.LEADER.STEPDOWN.{name}");
            let moved: Result<serde_json::Value, _> = inner.js.request(subject, &asked).await;
            moved.map_err(|error| unavailable(&name, &error))?;
            Err(Error::Unavailable(format!("{name} chooses a leader")))
        })
    }

    /// Stores an object and ends before anything leads to it.
    #[doc(hidden)]
    pub fn orphan_object_for_tests(&self, blob: Blob) -> Pending<'_, Result<(), Error>> {
        self.task(move |inner| async move {
            let name = format!("{}.orphan", blob.digest);
            inner.put_object(&name, &blob.bytes).await
        })
    }

    /// Sweeps objects as so much later; says how many were removed.
    #[doc(hidden)]
    pub fn sweep_objects_later(&self, later: Duration) -> Pending<'_, Result<u64, Error>> {
        self.task(move |inner| async move { inner.sweep_objects(later).await })
    }

    /// Lets objects count as so much older from now on.
    #[doc(hidden)]
    pub fn age_objects_for_tests(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.inner.later_ms.store(millis, Ordering::Relaxed);
    }

    /// How many objects there are, and how many notes of objects.
    #[doc(hidden)]
    pub fn objects_for_tests(&self) -> Pending<'_, Result<(usize, usize), Error>> {
        self.task(move |inner| async move {
            let listed = inner.listed_objects().await?;
            let there = listed.iter().filter(|it| !it.deleted).count();
            Ok((there, listed.len()))
        })
    }
}
