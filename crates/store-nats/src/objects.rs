//! The objects that hold values, as the object store lists them, and the removal of those that
//! nothing leads to: a process ended between storing an object and its row in the index, or
//! between removing the row and the object.

use std::collections::HashSet;
use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::Info;
use serde::Deserialize;
use windlass_core::Digest;
use windlass_store::Error;

use crate::OpenError;
use crate::blob::IndexMeta;
use crate::error::unavailable;
use crate::layout::{self, values_deleted};
use crate::names::{object_notes, object_stream};
use crate::store::Inner;
use crate::table::{reading, scan};

/// What the store notes of an object.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedObject {
    pub(crate) name: String,
    #[serde(default)]
    nuid: String,
    #[serde(default)]
    pub(crate) size: u64,
    /// Its bytes are gone, and only this note is left.
    #[serde(default)]
    pub(crate) deleted: bool,
    #[serde(skip)]
    subject: String,
    /// When it was noted, by the server's clock.
    #[serde(skip)]
    stored_ms: i64,
}

impl ListedObject {
    /// The value that it holds.
    pub(crate) fn value(&self) -> Option<Digest> {
        self.name.split('.').next()?.parse().ok()
    }
}

impl Inner {
    /// Fails if the object store was deleted.
    pub(crate) async fn has_objects(&self) -> Result<(), Error> {
        self.objects_now().await.map(|_| ())
    }

    /// How the stream of the object store is now.
    pub(crate) async fn objects_now(&self) -> Result<Info, Error> {
        let bucket = self.names.blob_bucket();
        let found = layout::info(&self.js, &object_stream(&bucket)).await;
        let found = found.map_err(OpenError::into_error)?;
        found.ok_or_else(|| Error::Unavailable(values_deleted(&bucket)))
    }

    /// Every object, also those whose bytes were removed.
    pub(crate) async fn listed_objects(&self) -> Result<Vec<ListedObject>, Error> {
        self.has_objects().await?;
        let bucket = self.names.blob_bucket();
        let stream = self.js.get_stream_no_info(object_stream(&bucket)).await;
        let stream = stream.map_err(|error| unavailable("the object store", &error))?;
        let config = pull::Config {
            filter_subject: object_notes(&bucket),
            ..reading(DeliverPolicy::All)
        };
        let rows = scan(&stream, config).await?;
        // A note of another program is passed over.
        let listed = rows.into_iter().filter_map(|row| {
            let object: ListedObject = serde_json::from_slice(&row.payload).ok()?;
            Some(ListedObject {
                subject: row.subject,
                stored_ms: row.stored_ms,
                ..object
            })
        });
        Ok(listed.collect())
    }

    /// Removes objects that no row of the index names, and notes of removed ones, once they are
    /// older than a value without a log may be; says how many. `later` is for tests.
    pub(crate) async fn sweep_objects(&self, later: Duration) -> Result<u64, Error> {
        // Objects first: one that a row names by now may not have had it when it was listed.
        let objects = self.listed_objects().await?;
        if objects.is_empty() {
            return Ok(0);
        }
        let mut named = HashSet::new();
        for (_, row) in self.indexed().await? {
            named.insert(row.meta::<IndexMeta>()?.object);
        }
        let now = i128::from(self.server_now().await?) + millis(later);
        let is_old =
            |it: &ListedObject| now - i128::from(it.stored_ms) >= millis(windlass_store::HOLD);
        let bucket = self.names.blob_bucket();
        let stream = self.js.get_stream_no_info(object_stream(&bucket)).await;
        let stream = stream.map_err(|error| unavailable("the object store", &error))?;
        let mut removed = 0;
        for object in objects {
            if named.contains(&object.name) || !is_old(&object) {
                continue;
            }
            // The bytes first: without the note, nothing leads to them.
            let bytes = format!("$O.{bucket}.C.{}", object.nuid);
            for subject in [bytes, object.subject] {
                let purged = stream.purge().filter(subject).await;
                purged.map_err(|error| unavailable("an object cannot be removed", &error))?;
            }
            removed += u64::from(!object.deleted);
        }
        Ok(removed)
    }
}

fn millis(time: Duration) -> i128 {
    i128::try_from(time.as_millis()).unwrap_or(i128::MAX)
}
