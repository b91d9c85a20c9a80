//! What the client does by itself with the same server and the same stream settings: fenced
//! publishes, one after the other and many at once. Appends are measured against it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use futures_util::future::try_join_all;
use windlass_core::{Millis, RunId};
use windlass_store::{Error, Pending};

use crate::catch_up::last_sequence;
use crate::error::{PublishFault, unavailable};
use crate::store::{Inner, NatsStore};
use crate::table::publish_after;

/// A message's size.
const BYTES: usize = 256;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct RawPublishes {
    /// One publish, acknowledged before the next.
    pub single: Duration,
    /// Publishes a second, so many at once, each on a subject of its own.
    pub per_second: f64,
}

/// What was asked of JetStream so far.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// Requests of the account to JetStream's API.
    pub requests: u64,
    /// Messages in the bucket of leases, those that were replaced too.
    pub leases: u64,
    /// Records.
    pub logs: u64,
}

impl NatsStore {
    /// Counts what was asked of JetStream so far.
    #[doc(hidden)]
    pub fn measure_requests(&self) -> Pending<'_, Result<Requests, Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move {
            let account = inner.js.query_account().await;
            let account = account.map_err(|error| unavailable("JetStream", &error))?;
            let leases = inner.leases.stream.get_info().await;
            let leases = leases.map_err(|error| unavailable("the bucket of leases", &error))?;
            let mut logs = 0;
            for log in &inner.logs {
                logs += last_sequence(log).await?;
            }
            Ok(Requests {
                requests: account.requests.total,
                leases: leases.state.last_sequence,
                logs,
            })
        })
    }

    /// Publishes plain messages on subjects of their own, fenced as appends are.
    #[doc(hidden)]
    pub fn measure_publishes(
        &self,
        count: u64,
        at_once: u64,
    ) -> Pending<'_, Result<RawPublishes, Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move {
            let begun = Instant::now();
            inner.publish_plainly(0, count).await?;
            let single = begun.elapsed().div_f64(count.max(1) as f64);
            let begun = Instant::now();
            let each = (1..=at_once).map(|number| inner.publish_plainly(number, count));
            try_join_all(each).await?;
            let per_second = (count * at_once) as f64 / begun.elapsed().as_secs_f64();
            Ok(RawPublishes { single, per_second })
        })
    }

    /// Removes every stream and bucket of this store: for stores that only measured.
    #[doc(hidden)]
    pub fn remove_streams(&self) -> Pending<'_, Result<(), Error>> {
        let inner = Arc::clone(&self.inner);
        self.answer(async move {
            let tables = [&inner.inbox, &inner.leases, &inner.claims, &inner.index];
            let names = tables.iter().map(|table| table.name.clone());
            let logs = inner.logs.iter().map(|log| log.name.clone());
            for name in names.chain(logs).chain([inner.names.work_stream()]) {
                let _ = inner.js.delete_stream(name).await;
            }
            let _ = inner
                .js
                .delete_object_store(inner.names.blob_bucket())
                .await;
            Ok(())
        })
    }
}

impl Inner {
    /// One message after the other on the subject of a run that is none.
    async fn publish_plainly(&self, number: u64, count: u64) -> Result<(), Error> {
        let mut random = [0xff; 10];
        random[2..].copy_from_slice(&number.to_be_bytes());
        let run = RunId::new(Millis(1), random);
        let subject = self.log_subject(run);
        let mut last = 0;
        for _ in 0..count {
            let message = PublishMessage::build().payload(Bytes::from_static(&[b'x'; BYTES]));
            let sent = publish_after(&self.js, subject.clone(), last, message).await;
            last = sent.map_err(PublishFault::into_error)?;
        }
        Ok(())
    }
}
