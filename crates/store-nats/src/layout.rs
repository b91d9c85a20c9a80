//! The streams and buckets of an installation: made when they are missing, checked when they are
//! there, and changed where settings or a newer program ask for it. How many partitions and
//! streams there are is fixed by the first process.

use std::collections::HashMap;
use std::sync::Arc;

use async_nats::jetstream::context::Context;
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, StorageType, Stream, SubjectTransform,
};
use tokio::sync::Notify;
use windlass_store::Error;

use crate::OpenError;
use crate::alone::alone;
use crate::catch_up::StoredMark;
use crate::error::{REBUILD, names_no_stream, unavailable};
use crate::names::{self, Names};
use crate::replicas::Replicas;
use crate::settings::{MOST_STREAMS, Settings};
use crate::table::Table;

/// The layout that this program makes.
const VERSION: u32 = 1;
const VERSION_KEY: &str = "windlass.version";
const PARTITIONS_KEY: &str = "windlass.partitions";
const STREAMS_KEY: &str = "windlass.streams";

/// The most bytes of the work queue, which is in memory.
pub(crate) const WORK_BYTES: i64 = 64 << 20;

/// The most bytes of the inbox, of which every process has a copy; what is longer than a few KiB of
/// an offer is not in it. Servers reserve so much of their storage.
const INBOX_BYTES: i64 = 256 << 20;

/// A stream of logs.
#[derive(Clone, Debug)]
pub(crate) struct LogStream {
    pub(crate) stream: Stream<()>,
    pub(crate) name: String,
    /// When it was made: one that was lost and made again has another moment.
    pub(crate) created: String,
}

impl LogStream {
    /// How the stream is now. One that is gone, or was made again, has lost its messages.
    pub(crate) async fn info(&self) -> Result<Info, Error> {
        let info = self.stream.get_info().await;
        let told =
            |error| unavailable(&format!("the stream {} does not answer", self.name), &error);
        match info.map_err(told) {
            Ok(info) if info.created.to_string() == self.created => Ok(info),
            Ok(info) => Err(Error::Unavailable(format!(
                "the stream {} was lost and made again ({}, not {}); {REBUILD}",
                self.name, info.created, self.created
            ))),
            Err(error) if names_no_stream(&error) => Err(Error::Unavailable(deleted(&self.name))),
            Err(error) => Err(error),
        }
    }
}

/// What is said of a stream of logs that is not there.
fn deleted(name: &str) -> String {
    format!("the stream {name} was deleted; {REBUILD}")
}

/// What is said of an object store that is not there.
pub(crate) fn values_deleted(bucket: &str) -> String {
    format!(
        "the object store {bucket} was deleted, with the values in it; restore its stream from a \
         backup, or stop all servers and run `windlass rebuild --from postgres`, which makes an \
         empty one and names the values that are lost"
    )
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
    pub(crate) work: Table,
    /// Told when the stream of a table seems to be gone.
    pub(crate) missing: Arc<Notify>,
}

/// Finds or makes everything. What the database knows of and is not there was deleted: streams of
/// logs and objects are not made again, since runs would seem to have no records and values no
/// bytes; claims and the index of values are made when they can be filled (`keeper.rs`).
pub(crate) async fn open(
    js: &Context,
    names: &Names,
    settings: &Settings,
    known: &[StoredMark],
) -> Result<Layout, OpenError> {
    let missing = Arc::<Notify>::default();
    let (counts, replicas) = counts(js, names, settings).await?;
    let (partitions, streams) = counts;
    let leases = bucket(replicas, &names.lease_bucket());
    let had_leases = config(js, &leases.name).await?.is_some();
    let leases = made(js, leases, replicas, &missing).await?;
    if settings.rebuilding {
        alone(names, &leases, had_leases).await?;
    }
    let is_known = |name: &str| known.iter().any(|it| it.stream == name);
    let mut logs = Vec::new();
    for number in 0..streams {
        let name = names.log_stream(number);
        if !settings.rebuilding && is_known(&name) && config(js, &name).await?.is_none() {
            return Err(OpenError::refused(deleted(&name)));
        }
        let config = log_config(names, replicas, number, counts);
        let created = ensure(js, config, replicas).await?;
        logs.push(LogStream {
            stream: stream(js, &name).await?,
            name,
            created,
        });
    }
    let is_new = !(0..streams).any(|number| is_known(&names.log_stream(number)));
    let objects = objects(js, names, replicas, is_new || settings.rebuilding).await?;
    let claims = bucket(replicas, &names.claim_bucket());
    let index = bucket(replicas, &names.index_bucket());
    for wanted in [&claims, &index] {
        ensure_filled(js, names, wanted, replicas, is_new).await?;
    }
    let inbox = plain_table(replicas, names.inbox_stream(), names.inbox_all());
    let inbox = Config {
        max_bytes: INBOX_BYTES,
        allow_message_ttl: true,
        ..inbox
    };
    // In memory: it is gone after a restart of the server, and made again.
    let work = plain_table(replicas, names.work_stream(), names.work_all());
    let work = Config {
        storage: StorageType::Memory,
        max_bytes: WORK_BYTES,
        allow_message_ttl: true,
        ..work
    };
    Ok(Layout {
        logs,
        partitions,
        inbox: made(js, inbox, replicas, &missing).await?,
        leases,
        claims: table(js, claims, &missing).await?,
        index: table(js, index, &missing).await?,
        objects,
        work: made(js, work, replicas, &missing).await?,
        missing,
    })
}

fn log_config(
    names: &Names,
    replicas: Replicas,
    number: u32,
    (partitions, streams): (u32, u32),
) -> Config {
    let subjects = (0..partitions).filter(|it| it % streams == number);
    let mut config = Config {
        name: names.log_stream(number),
        subjects: subjects.map(|it| names.logs_of(it)).collect(),
        ..plain(replicas)
    };
    let counts = [(PARTITIONS_KEY, partitions), (STREAMS_KEY, streams)];
    for (key, count) in counts {
        config.metadata.insert(key.into(), count.to_string());
    }
    config
}

fn plain_table(replicas: Replicas, name: String, subject: String) -> Config {
    Config {
        name,
        subjects: vec![subject],
        max_messages_per_subject: 1,
        ..plain(replicas)
    }
}

fn bucket(replicas: Replicas, bucket: &str) -> Config {
    let (name, keys) = (names::bucket_stream(bucket), names::bucket_key(bucket, ">"));
    Config {
        allow_rollup: true,
        ..plain_table(replicas, name, keys)
    }
}

/// What all streams have in common. New messages are refused at a limit: old ones are never
/// dropped for them.
fn plain(replicas: Replicas) -> Config {
    Config {
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: replicas.of_new(),
        allow_direct: true,
        metadata: HashMap::from([(VERSION_KEY.to_owned(), VERSION.to_string())]),
        ..Config::default()
    }
}

/// How many partitions and streams there are, or are to be, and how many replicas streams are to
/// have. Any of the streams says it: some may be lost.
async fn counts(
    js: &Context,
    names: &Names,
    settings: &Settings,
) -> Result<((u32, u32), Replicas), OpenError> {
    for stream in 0..MOST_STREAMS {
        let name = names.log_stream(stream);
        let Some(found) = config(js, &name).await? else {
            continue;
        };
        let number = |key: &str| {
            let text = found.metadata.get(key).and_then(|it| it.parse().ok());
            text.ok_or_else(|| {
                OpenError::refused(format!(
                    "the stream {name} is of another program; name another prefix with nats_prefix"
                ))
            })
        };
        let replicas = Replicas::wanted(settings, Some(found.num_replicas));
        return Ok(((number(PARTITIONS_KEY)?, number(STREAMS_KEY)?), replicas));
    }
    let counts = (settings.partitions, settings.stream_count());
    Ok((counts, Replicas::wanted(settings, None)))
}

/// A stream's configuration, if it exists.
pub(crate) async fn config(js: &Context, name: &str) -> Result<Option<Config>, OpenError> {
    Ok(info(js, name).await?.map(|it| it.config))
}

/// How a stream is now, if it exists.
pub(crate) async fn info(js: &Context, name: &str) -> Result<Option<Info>, OpenError> {
    use async_nats::jetstream::context::GetStreamErrorKind as Kind;
    match js.get_stream(name).await {
        Ok(stream) => Ok(Some(stream.cached_info().clone())),
        Err(error) => match error.kind() {
            Kind::JetStream(told)
                if told.error_code() == async_nats::jetstream::ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            Kind::JetStream(told) => Err(OpenError::refused(format!(
                "JetStream refuses to show the stream {name}: {told}"
            ))),
            _ if is_off(js) => Err(OpenError::refused(
                "JetStream is off on the nats-server; add `jetstream {}` to its configuration",
            )),
            _ => Err(OpenError::away(format!(
                "JetStream does not answer ({error}); check that it is on and that the account \
                 may use it"
            ))),
        },
    }
}

/// Whether the only server there is says that it has no JetStream. Another server of a cluster may
/// have it.
fn is_off(js: &Context) -> bool {
    let server = js.client().server_info();
    !server.jetstream && server.cluster.is_none()
}

/// Makes a stream, or checks and changes the one that is there; gives when it was made.
async fn ensure(js: &Context, wanted: Config, replicas: Replicas) -> Result<String, OpenError> {
    let name = wanted.name.clone();
    if let Some(found) = config(js, &name).await? {
        adapt(js, found, &wanted, replicas).await?;
    } else if let Err(error) = js.create_stream(wanted.clone()).await {
        // Another process may have made it in between.
        match config(js, &name).await? {
            Some(found) => adapt(js, found, &wanted, replicas).await?,
            None => return Err(refused_stream(&name, &error)),
        }
    }
    let made = js.get_stream(&name).await;
    let made = made.map_err(|error| refused_stream(&name, &error))?;
    Ok(made.cached_info().created.to_string())
}

/// Limits the bytes of a stream that an earlier version made without a limit. If the server has not
/// so much storage to reserve, it stays as it is.
async fn limit(js: &Context, found: Config, wanted: &Config) {
    let limited = Config {
        max_bytes: wanted.max_bytes,
        ..found
    };
    let _ = js.update_stream(&limited).await;
}

/// The same for a stream that is filled before it is used. One that is missing in an installation
/// that is not new is made by the keeper.
async fn ensure_filled(
    js: &Context,
    names: &Names,
    wanted: &Config,
    replicas: Replicas,
    is_new: bool,
) -> Result<(), OpenError> {
    match config(js, &wanted.name).await? {
        Some(found) if found.subject_transform.is_some() => {
            adapt(js, found, &while_filling(names, wanted), replicas).await
        }
        Some(found) => adapt(js, found, wanted, replicas).await,
        None if is_new => ensure(js, wanted.clone(), replicas).await.map(drop),
        None => Ok(()),
    }
}

fn refused_stream(name: &str, error: &dyn std::fmt::Display) -> OpenError {
    OpenError::refused(format!(
        "JetStream refuses the stream {name}: {error}; check nats_replicas, the limits of the \
         account and the servers' storage"
    ))
}

/// Checks a stream that is there, and changes it where that is asked for.
async fn adapt(
    js: &Context,
    found: Config,
    wanted: &Config,
    replicas: Replicas,
) -> Result<(), OpenError> {
    check_version(&found)?;
    check_rules(&found, wanted)?;
    let changed = Config {
        num_replicas: replicas.of_found(found.num_replicas),
        allow_message_ttl: found.allow_message_ttl || wanted.allow_message_ttl,
        ..found.clone()
    };
    update(js, &found, &changed).await?;
    if wanted.max_bytes > 0 && found.max_bytes <= 0 {
        limit(js, changed, wanted).await;
    }
    Ok(())
}

/// Changes a stream if anything is to be changed.
async fn update(js: &Context, found: &Config, changed: &Config) -> Result<(), OpenError> {
    if found == changed {
        return Ok(());
    }
    let updated = js.update_stream(changed).await;
    updated.map_err(|error| refused_stream(&found.name, &error))?;
    Ok(())
}

/// Whether a stream that is there was made by this program or an older one.
fn check_version(found: &Config) -> Result<(), OpenError> {
    let name = &found.name;
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
    Ok(())
}

/// Whether a stream that is there keeps its messages as it must.
fn check_rules(found: &Config, wanted: &Config) -> Result<(), OpenError> {
    if found.subjects != wanted.subjects
        // The server writes "no limit" as -1.
        || found.max_messages_per_subject.max(0) != wanted.max_messages_per_subject.max(0)
        || found.storage != wanted.storage
        || found.discard != wanted.discard
        || found.retention != wanted.retention
        // The server would drop old messages.
        || found.max_age != wanted.max_age
    {
        return Err(OpenError::refused(format!(
            "the stream {} was changed by another program: its subjects, limits or storage are \
             not those that Windlass made",
            wanted.name
        )));
    }
    Ok(())
}

async fn stream(js: &Context, name: &str) -> Result<Stream<()>, OpenError> {
    let found = js.get_stream_no_info(name).await;
    found.map_err(|error| OpenError::away(format!("the stream {name}: {error}")))
}

async fn made(
    js: &Context,
    config: Config,
    replicas: Replicas,
    missing: &Arc<Notify>,
) -> Result<Table, OpenError> {
    ensure(js, config.clone(), replicas).await?;
    table(js, config, missing).await
}

/// A table whose stream may not be there.
async fn table(js: &Context, config: Config, missing: &Arc<Notify>) -> Result<Table, OpenError> {
    Ok(Table {
        js: js.clone(),
        stream: stream(js, &config.name).await?,
        name: config.name.clone(),
        config,
        missing: Arc::clone(missing),
    })
}

async fn objects(
    js: &Context,
    names: &Names,
    replicas: Replicas,
    may_make: bool,
) -> Result<ObjectStore, OpenError> {
    let bucket = names.blob_bucket();
    let name = names::object_stream(&bucket);
    let refused = |error: &dyn std::fmt::Display| {
        OpenError::refused(format!(
            "JetStream refuses the object store {bucket}: {error}"
        ))
    };
    if config(js, &name).await?.is_none() {
        if !may_make {
            return Err(OpenError::refused(values_deleted(&bucket)));
        }
        let wanted = object_store::Config {
            bucket: bucket.clone(),
            num_replicas: replicas.of_new(),
            ..object_store::Config::default()
        };
        let made = js.create_object_store(wanted).await;
        // Another process may have made it in between.
        if let (Err(error), None) = (made, config(js, &name).await?) {
            return Err(refused(&error));
        }
    }
    if let Some(found) = config(js, &name).await? {
        let wanted = Config {
            name,
            subjects: names::object_subjects(&bucket),
            ..plain(replicas)
        };
        check_rules(&found, &wanted)?;
        let changed = Config {
            num_replicas: replicas.of_found(found.num_replicas),
            ..found.clone()
        };
        update(js, &found, &changed).await?;
    }
    let found = js.get_object_store(&bucket).await;
    found.map_err(|error| OpenError::away(format!("the object store {bucket}: {error}")))
}

/// Makes the stream of a table again if it is gone.
pub(crate) async fn make_again(
    js: &Context,
    table: &Table,
    logs: &[LogStream],
) -> Result<(), OpenError> {
    let wanted = as_replicated_as_logs(js, &table.config, logs).await?;
    ensure(js, wanted, Replicas::AS_THEY_ARE).await?;
    Ok(())
}

/// What a table is made of, in as many replicas as the logs have by now: another process may have
/// changed them since this one looked.
async fn as_replicated_as_logs(
    js: &Context,
    wanted: &Config,
    logs: &[LogStream],
) -> Result<Config, OpenError> {
    let mut wanted = wanted.clone();
    if config(js, &wanted.name).await?.is_none() {
        for log in logs {
            if let Some(found) = config(js, &log.name).await? {
                wanted.num_replicas = found.num_replicas;
                break;
            }
        }
    }
    Ok(wanted)
}

/// How the stream of a table stands that is filled before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    Missing,
    /// It takes rows only from those who fill it.
    UnderWay,
    Done,
}

/// A stream that is filled listens elsewhere and stores what it hears under the subjects of the
/// table, so no process takes it for the whole before it is.
fn while_filling(names: &Names, table: &Config) -> Config {
    let own = &table.subjects[0];
    let elsewhere = names.filling(own);
    Config {
        subjects: vec![elsewhere.clone()],
        subject_transform: Some(SubjectTransform {
            source: elsewhere,
            destination: own.clone(),
        }),
        ..table.clone()
    }
}

/// How a table's stream stands.
pub(crate) async fn filling(table: &Table) -> Result<Filling, OpenError> {
    Ok(match config(&table.js, &table.name).await? {
        None => Filling::Missing,
        Some(found) if found.subject_transform.is_some() => Filling::UnderWay,
        Some(_) => Filling::Done,
    })
}

/// Makes the stream of a table so that it can be filled; another process may have made it.
pub(crate) async fn begin_filling(
    names: &Names,
    table: &Table,
    logs: &[LogStream],
) -> Result<(), OpenError> {
    let wanted = as_replicated_as_logs(&table.js, &table.config, logs).await?;
    let made = table.js.create_stream(while_filling(names, &wanted)).await;
    match filling(table).await? {
        Filling::Missing => Err(OpenError::away(format!(
            "the stream {} cannot be made again: {}",
            table.name,
            made.err().map_or_else(String::new, |it| it.to_string())
        ))),
        Filling::UnderWay | Filling::Done => Ok(()),
    }
}

/// Lets the stream of a table be used.
pub(crate) async fn end_filling(table: &Table) -> Result<(), OpenError> {
    let Some(found) = config(&table.js, &table.name).await? else {
        return Err(OpenError::away(format!(
            "the stream {} was deleted while it was filled",
            table.name
        )));
    };
    let whole = Config {
        subjects: table.config.subjects.clone(),
        subject_transform: None,
        ..found
    };
    let changed = table.js.update_stream(&whole).await;
    match filling(table).await? {
        Filling::Done => Ok(()),
        Filling::Missing | Filling::UnderWay => Err(OpenError::away(format!(
            "the stream {} cannot be used yet: {}",
            table.name,
            changed.err().map_or_else(String::new, |it| it.to_string())
        ))),
    }
}
