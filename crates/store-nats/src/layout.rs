//! The streams and buckets of an installation: made when they are missing, checked when they are
//! there, and changed where settings or a newer program ask for it. How many partitions and
//! streams there are is fixed by the first process.

use std::collections::HashMap;

use async_nats::jetstream::context::Context;
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType, Stream};

use crate::OpenError;
use crate::names::{self, Names};
use crate::settings::Settings;
use crate::table::Table;

/// The layout that this program makes.
const VERSION: u32 = 1;
const VERSION_KEY: &str = "windlass.version";
const PARTITIONS_KEY: &str = "windlass.partitions";
const STREAMS_KEY: &str = "windlass.streams";

/// The most bytes of the work queue, which is in memory.
const WORK_BYTES: i64 = 64 << 20;

/// A stream of logs.
#[derive(Clone, Debug)]
pub(crate) struct LogStream {
    pub(crate) stream: Stream<()>,
    pub(crate) name: String,
    /// When it was made: one that was lost and made again has another moment.
    pub(crate) created: String,
}

/// Everything that was found or made.
pub(crate) struct Layout {
    pub(crate) logs: Vec<LogStream>,
    pub(crate) partitions: u32,
    pub(crate) inbox: Table,
    pub(crate) leases: Table,
    pub(crate) claims: Table,
    pub(crate) index: Table,
    pub(crate) objects: ObjectStore,
    pub(crate) work: Config,
}

/// Finds or makes everything.
pub(crate) async fn open(
    js: &Context,
    names: &Names,
    settings: &Settings,
) -> Result<Layout, OpenError> {
    let table = |name: String, subject: String| Config {
        name,
        subjects: vec![subject],
        max_messages_per_subject: 1,
        ..plain(settings)
    };
    let bucket = |bucket: &str| {
        let config = table(names::bucket_stream(bucket), names::bucket_key(bucket, ">"));
        Config {
            allow_rollup: true,
            ..config
        }
    };
    let (partitions, streams) = counts(js, names, settings).await?;
    let mut logs = Vec::new();
    for number in 0..streams {
        let name = names.log_stream(number);
        let subjects = (0..partitions).filter(|it| it % streams == number);
        let subjects = subjects.map(|it| names.logs_of(it)).collect();
        let mut config = Config {
            name: name.clone(),
            subjects,
            ..plain(settings)
        };
        let counts = [(PARTITIONS_KEY, partitions), (STREAMS_KEY, streams)];
        for (key, count) in counts {
            config.metadata.insert(key.into(), count.to_string());
        }
        let created = ensure(js, config).await?;
        logs.push(LogStream {
            stream: stream(js, &name).await?,
            name,
            created,
        });
    }
    let objects = objects(js, names, settings).await?;
    Ok(Layout {
        logs,
        partitions,
        inbox: made(js, table(names.inbox_stream(), names.inbox_all())).await?,
        leases: made(js, bucket(&names.lease_bucket())).await?,
        claims: made(js, bucket(&names.claim_bucket())).await?,
        index: made(js, bucket(&names.index_bucket())).await?,
        objects,
        work: Config {
            storage: StorageType::Memory,
            max_bytes: WORK_BYTES,
            ..table(names.work_stream(), names.work_all())
        },
    })
}

/// What all streams have in common. New messages are refused at a limit: old ones are never
/// dropped for them.
fn plain(settings: &Settings) -> Config {
    Config {
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: settings.replicas,
        allow_direct: true,
        metadata: HashMap::from([(VERSION_KEY.to_owned(), VERSION.to_string())]),
        ..Config::default()
    }
}

/// How many partitions and streams there are, or are to be.
async fn counts(js: &Context, names: &Names, settings: &Settings) -> Result<(u32, u32), OpenError> {
    let name = names.log_stream(0);
    let Some(found) = config(js, &name).await? else {
        return Ok((settings.partitions, settings.stream_count()));
    };
    let number = |key: &str| {
        let text = found.metadata.get(key).and_then(|it| it.parse().ok());
        text.ok_or_else(|| {
            OpenError::refused(format!(
                "the stream {name} is of another program; name another prefix with nats_prefix"
            ))
        })
    };
    Ok((number(PARTITIONS_KEY)?, number(STREAMS_KEY)?))
}

/// A stream's configuration, if it exists.
async fn config(js: &Context, name: &str) -> Result<Option<Config>, OpenError> {
    use async_nats::jetstream::context::GetStreamErrorKind as Kind;
    match js.get_stream(name).await {
        Ok(stream) => Ok(Some(stream.cached_info().config.clone())),
        Err(error) => match error.kind() {
            Kind::JetStream(told)
                if told.error_code() == async_nats::jetstream::ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            Kind::JetStream(told) => Err(OpenError::refused(format!(
                "JetStream refuses to show the stream {name}: {told}"
            ))),
            _ => Err(OpenError::away(format!(
                "JetStream does not answer ({error}); check that it is on and that the account \
                 may use it"
            ))),
        },
    }
}

/// Makes a stream, or checks and changes the one that is there; gives when it was made.
async fn ensure(js: &Context, wanted: Config) -> Result<String, OpenError> {
    let name = wanted.name.clone();
    let refused = |error: &dyn std::fmt::Display| {
        OpenError::refused(format!(
            "JetStream refuses the stream {name}: {error}; check nats_replicas, the limits of \
             the account and the servers' storage"
        ))
    };
    if let Some(found) = config(js, &name).await? {
        check(&found, &wanted)?;
        if found.num_replicas != wanted.num_replicas {
            let changed = Config {
                num_replicas: wanted.num_replicas,
                ..found
            };
            js.update_stream(&changed)
                .await
                .map_err(|error| refused(&error))?;
        }
    } else if let Err(error) = js.create_stream(wanted.clone()).await {
        // Another process may have made it in between.
        match config(js, &name).await? {
            Some(found) => check(&found, &wanted)?,
            None => return Err(refused(&error)),
        }
    }
    let made = js
        .get_stream(&name)
        .await
        .map_err(|error| refused(&error))?;
    Ok(made.cached_info().created.to_string())
}

/// Whether a stream that is there can be worked with.
fn check(found: &Config, wanted: &Config) -> Result<(), OpenError> {
    let name = &wanted.name;
    let version = found.metadata.get(VERSION_KEY);
    let Some(version) = version.and_then(|it| it.parse::<u32>().ok()) else {
        return Err(OpenError::refused(format!(
            "the stream {name} is of another program; name another prefix with nats_prefix"
        )));
    };
    if version > VERSION {
        let text = format!("the stream {name} has layout {version}, of a newer program");
        return Err(OpenError::Refused(windlass_store::Error::TooNew(text)));
    }
    if found.subjects != wanted.subjects
        // The server writes "no limit" as -1.
        || found.max_messages_per_subject.max(0) != wanted.max_messages_per_subject.max(0)
        || found.storage != wanted.storage
        || found.discard != wanted.discard
    {
        return Err(OpenError::refused(format!(
            "the stream {name} was changed by another program: its subjects, limits or storage \
             are not those that Windlass made"
        )));
    }
    Ok(())
}

async fn stream(js: &Context, name: &str) -> Result<Stream<()>, OpenError> {
    let found = js.get_stream_no_info(name).await;
    found.map_err(|error| OpenError::away(format!("the stream {name}: {error}")))
}

async fn made(js: &Context, config: Config) -> Result<Table, OpenError> {
    let name = config.name.clone();
    ensure(js, config).await?;
    Ok(Table {
        js: js.clone(),
        stream: stream(js, &name).await?,
        name,
    })
}

/// The work queue is in memory, so it is gone after a restart of the server: it is made whenever
/// it is missing.
pub(crate) async fn work_table(js: &Context, config: &Config) -> Result<Table, OpenError> {
    made(js, config.clone()).await
}

async fn objects(
    js: &Context,
    names: &Names,
    settings: &Settings,
) -> Result<ObjectStore, OpenError> {
    let bucket = names.blob_bucket();
    let config = object_store::Config {
        bucket: bucket.clone(),
        num_replicas: settings.replicas,
        ..object_store::Config::default()
    };
    if let Err(error) = js.create_object_store(config).await {
        let found = js.get_object_store(&bucket).await;
        let refused = |_| {
            OpenError::refused(format!(
                "JetStream refuses the object store {bucket}: {error}"
            ))
        };
        return found.map_err(refused);
    }
    let found = js.get_object_store(&bucket).await;
    found.map_err(|error| OpenError::away(format!("the object store {bucket}: {error}")))
}
