//! The schema: made by the first process that opens an empty one, brought up to date by a newer
//! program, and refused if it is newer or not ours. Processes that start together take turns.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};
use windlass_store::Error;

use crate::OpenError;
use crate::connect::{Access, quoted};
use crate::error::from_postgres;
use crate::settings::{SchemaChange, Settings};

/// The statements that lead from each version to the next; the first from an empty schema.
const MIGRATIONS: [&str; 12] = [
    include_str!("../migrations/0001_schema.sql"),
    include_str!("../migrations/0002_pools.sql"),
    include_str!("../migrations/0003_roles.sql"),
    include_str!("../migrations/0004_lists.sql"),
    include_str!("../migrations/0005_projections.sql"),
    include_str!("../migrations/0006_named_leases.sql"),
    include_str!("../migrations/0007_fences.sql"),
    include_str!("../migrations/0008_last_lease.sql"),
    include_str!("../migrations/0009_items_channel.sql"),
    include_str!("../migrations/0010_descriptions.sql"),
    include_str!("../migrations/0011_plan_texts.sql"),
    include_str!("../migrations/0012_links_and_levels.sql"),
];

/// The oldest PostgreSQL that the statements are written for.
const OLDEST_SERVER: i32 = 140_000;

/// What a process needs to know of the schema that it opened.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) partitions: u32,
    pub(crate) version: usize,
    /// The channel of bells that bring what was offered.
    pub(crate) items_channel: String,
}

/// Checks the server and the schema, and makes or changes the tables if they are missing or old.
pub(crate) async fn open(
    client: &mut Client,
    access: &Access,
    settings: &Settings,
) -> Result<Opened, OpenError> {
    check_server(client).await.map_err(|error| match error {
        Problem::Sql(error) => access.refusal(&error),
        Problem::Open(error) => error,
    })?;
    let opened = in_turn(client, access, settings).await;
    opened.map_err(|error| match error {
        Problem::Open(error) => error,
        Problem::Sql(error) => missing_right(&error, access, settings),
    })
}

enum Problem {
    Sql(tokio_postgres::Error),
    Open(OpenError),
}

impl From<tokio_postgres::Error> for Problem {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

fn refused<T>(text: String) -> Result<T, Problem> {
    Err(Problem::Open(OpenError::refused(text)))
}

async fn check_server(client: &Client) -> Result<(), Problem> {
    let sql = "select current_setting('server_version_num')::int, current_setting('server_version'), \
               pg_encoding_to_char(encoding)::text, current_database()::text, pg_is_in_recovery() \
               from pg_database where datname = current_database()";
    let row = client.query_one(sql, &[]).await?;
    let (number, name): (i32, &str) = (row.try_get(0)?, row.try_get(1)?);
    if let Some(text) = too_old(number, name) {
        return refused(text);
    }
    let (encoding, database): (&str, &str) = (row.try_get(2)?, row.try_get(3)?);
    if encoding != "UTF8" {
        return refused(format!(
            "database {database} has the encoding {encoding}; make one with ENCODING 'UTF8' \
             TEMPLATE template0"
        ));
    }
    if row.try_get(4)? {
        return Err(Problem::Open(OpenError::Away(Error::Unavailable(
            "the database server is a replica that only reads; connect to the primary, for \
             instance with several hosts and target_session_attrs=read-write in the URL"
                .into(),
        ))));
    }
    Ok(())
}

/// Why a server is refused; none if it is new enough. `number` is its `server_version_num`, which is
/// 140019 for 14.19.
fn too_old(number: i32, name: &str) -> Option<String> {
    (number < OLDEST_SERVER)
        .then(|| format!("the database server is PostgreSQL {name}; Windlass needs 14 or newer"))
}

/// Looks and changes in one transaction, under a lock that other processes wait for.
async fn in_turn(
    client: &mut Client,
    access: &Access,
    settings: &Settings,
) -> Result<Opened, Problem> {
    let work = client.transaction().await?;
    let lock = "select pg_advisory_xact_lock(hashtext('windlass migrate'), hashtext($1))";
    work.execute(lock, &[&settings.schema]).await?;
    let found = schema(&work, settings).await?;
    let version = match &found {
        None => 0,
        Some(found) => {
            may_use(found, access, settings)?;
            version(&work, access, settings).await?
        }
    };
    may_change(version, access, settings)?;
    if found.is_none() {
        make_schema(&work, access, settings).await?;
    }
    if version < MIGRATIONS.len() {
        migrate(&work, access, settings, version).await?;
    }
    let partitions = meta(&work, access, "partitions").await?;
    let partitions = partitions.and_then(|text| text.parse().ok());
    let items_channel = meta(&work, access, "items_channel").await?;
    let (Some(partitions), Some(items_channel)) = (partitions, items_channel) else {
        return refused(format!(
            "schema {} does not say how many partitions it has, or where its bells ring; it is \
             damaged: restore a backup",
            settings.schema
        ));
    };
    same_cluster(&work, access, settings).await?;
    if !settings.migrating && meta(&work, access, crate::transfer::MARK).await?.is_some() {
        return refused(format!(
            "schema {} of {} holds a migration that is not complete; run the same \
             `windlass migrate` again, or drop the schema to give it up",
            settings.schema, access.address
        ));
    }
    work.commit().await?;
    Ok(Opened {
        items_channel,
        partitions,
        version: MIGRATIONS.len(),
    })
}

async fn make_schema(
    work: &Transaction<'_>,
    access: &Access,
    settings: &Settings,
) -> Result<(), Problem> {
    let schema = &access.schema;
    let made = work.batch_execute(&format!("create schema {schema}")).await;
    let Err(error) = made else { return Ok(()) };
    let Some(refusal) = error.as_db_error() else {
        return Err(error.into());
    };
    if *refusal.code() != SqlState::INSUFFICIENT_PRIVILEGE {
        return Err(error.into());
    }
    let (text, user) = (refusal.message(), user(settings));
    refused(format!(
        "the database user {user} may not make schema {schema}: {text}; let an administrator \
         run: CREATE SCHEMA {schema} AUTHORIZATION {}",
        quoted(user)
    ))
}

/// A schema that exists.
struct Found {
    owner: String,
    /// Whether the user may use it.
    usable: bool,
}

async fn schema(work: &Transaction<'_>, settings: &Settings) -> Result<Option<Found>, Problem> {
    let sql = "select pg_get_userbyid(nspowner)::text, has_schema_privilege(oid, 'usage') \
               from pg_namespace where nspname = $1";
    let row = work.query_opt(sql, &[&settings.schema]).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Found {
        owner: row.try_get(0)?,
        usable: row.try_get(1)?,
    }))
}

/// PostgreSQL passes over a schema that the user may not use as if it were missing.
fn may_use(found: &Found, access: &Access, settings: &Settings) -> Result<(), Problem> {
    if found.usable {
        return Ok(());
    }
    let (schema, user) = (&access.schema, user(settings));
    refused(format!(
        "the database user {user} may not use schema {schema}, which belongs to {}; {}, or name \
         another schema by `schema=` in the database URL",
        found.owner,
        give_schema(access, settings)
    ))
}

/// What an administrator does about a schema that exists and that the user may not change.
fn give_schema(access: &Access, settings: &Settings) -> String {
    let owner = quoted(user(settings));
    let schema = &access.schema;
    format!(
        "connect as its owner, or let an administrator run: ALTER SCHEMA {schema} OWNER TO {owner}"
    )
}

fn user(settings: &Settings) -> &str {
    settings.config.get_user().unwrap_or("the user")
}

/// Whether the schema may be made or brought up to date, if that is needed.
fn may_change(version: usize, access: &Access, settings: &Settings) -> Result<(), Problem> {
    let (schema, address) = (&settings.schema, &access.address);
    match (version, settings.change) {
        (0, SchemaChange::Update | SchemaChange::Nothing) => refused(format!(
            "schema {schema} of {address} does not exist yet, or is empty; a server makes it when \
             it starts. If it should be there, check the database and `schema=` in the URL"
        )),
        (version, SchemaChange::Nothing) if version < MIGRATIONS.len() => refused(format!(
            "schema {schema} of {address} has version {version}, and this program works with {}; \
             the first server of this program that starts brings it up to date",
            MIGRATIONS.len()
        )),
        _ => Ok(()),
    }
}

/// The version of a schema that exists; 0 if it is empty.
async fn version(
    work: &Transaction<'_>,
    access: &Access,
    settings: &Settings,
) -> Result<usize, Problem> {
    let schema = &settings.schema;
    let sql = "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
               where n.nspname = $1 order by c.relname = 'windlass_meta' desc, c.relname limit 1";
    let first = work.query_opt(sql, &[schema]).await?;
    let Some(first) = first else {
        return Ok(0);
    };
    let name: &str = first.try_get(0)?;
    if name != "windlass_meta" {
        return refused(format!(
            "schema {schema} of {} is not empty and not Windlass's (it holds '{name}'); name an \
             empty schema by `schema=` in the database URL, or an empty database",
            access.address
        ));
    }
    let stored = meta(work, access, "version").await?;
    let stored = stored.and_then(|text| text.parse::<usize>().ok());
    match stored {
        Some(stored) if stored > MIGRATIONS.len() => {
            Err(Problem::Open(OpenError::Refused(Error::TooNew(format!(
                "schema {schema} of {} has version {stored}, and this program knows versions up \
                 to {}; use the newer program, or another schema",
                access.address,
                MIGRATIONS.len()
            )))))
        }
        Some(stored) => Ok(stored),
        None => refused(format!(
            "schema {schema} has a table windlass_meta without a version; it is damaged or not \
             Windlass's: name another schema, or restore a backup"
        )),
    }
}

async fn migrate(
    work: &Transaction<'_>,
    access: &Access,
    settings: &Settings,
    from: usize,
) -> Result<(), Problem> {
    let schema = &access.schema;
    work.batch_execute(&format!("set local search_path to {schema}"))
        .await?;
    if from == 0 {
        let table = "create table windlass_meta (key text primary key, value text not null)";
        work.batch_execute(table).await?;
    }
    for migration in MIGRATIONS.iter().skip(from) {
        work.batch_execute(migration).await?;
    }
    set_meta(work, "version", &MIGRATIONS.len().to_string()).await?;
    if from == 0 {
        set_meta(work, "partitions", &settings.partitions.to_string()).await?;
        let fill = "insert into partition_lease select n from generate_series(0, $1::int - 1) n";
        let count = i32::try_from(settings.partitions).unwrap_or(i32::MAX);
        work.execute(fill, &[&count]).await?;
    }
    Ok(())
}

/// A schema belongs to the cluster that named it first. A process that names none is no part of
/// it: it may be of another cluster whose settings name the wrong schema.
async fn same_cluster(
    work: &Transaction<'_>,
    access: &Access,
    settings: &Settings,
) -> Result<(), Problem> {
    let (schema, address) = (&settings.schema, &access.address);
    let stored = meta(work, access, "cluster").await?;
    match (stored, &settings.cluster) {
        (None, None) => Ok(()),
        (Some(stored), Some(name)) if stored == *name => Ok(()),
        (Some(stored), Some(name)) => refused(format!(
            "schema {schema} of {address} belongs to the cluster '{stored}', and this process is \
             of '{name}'; name another schema by `schema=` in the database URL"
        )),
        (Some(stored), None) => refused(format!(
            "schema {schema} of {address} belongs to the cluster '{stored}', and this process \
             names none; if it is part of that cluster, set `cluster_name` (WINDLASS_CLUSTER_NAME, \
             or `cluster=` in the database URL) to '{stored}', else name another schema by \
             `schema=` in the URL"
        )),
        (None, Some(name)) => {
            let live = live_sessions(work, access).await?;
            if let Some(first) = live.first() {
                let count = live.len();
                return refused(format!(
                    "schema {schema} of {address} is in use by processes that name no cluster \
                     ({count}, among them {first}), and this process is of '{name}'; name another \
                     schema by `schema=` in the database URL. To give the schema that name, stop \
                     those processes first, and start each with it"
                ));
            }
            if settings.change != SchemaChange::Make {
                return Ok(());
            }
            let path = format!("set local search_path to {}", access.schema);
            work.batch_execute(&path).await?;
            set_meta(work, "cluster", name).await
        }
    }
}

/// The names of the processes that are live on the schema. A schema without a name has none that
/// names a cluster: it would have named the schema.
async fn live_sessions(work: &Transaction<'_>, access: &Access) -> Result<Vec<String>, Problem> {
    let schema = &access.schema;
    let sql = format!(
        "select split_part(name, ' ', 1) from {schema}.session \
         where until_ms > {schema}.clock_ms() order by id"
    );
    let rows = work.query(&sql, &[]).await?;
    let names = rows.iter().map(|row| row.try_get(0));
    names.collect::<Result<_, _>>().map_err(Into::into)
}

async fn meta(
    work: &Transaction<'_>,
    access: &Access,
    key: &str,
) -> Result<Option<String>, Problem> {
    let sql = format!(
        "select value from {}.windlass_meta where key = $1",
        access.schema
    );
    let row = work.query_opt(&sql, &[&key]).await?;
    row.map(|row| row.try_get(0))
        .transpose()
        .map_err(Into::into)
}

async fn set_meta(work: &Transaction<'_>, key: &str, value: &str) -> Result<(), Problem> {
    let sql = "insert into windlass_meta values ($1, $2) \
               on conflict (key) do update set value = excluded.value";
    work.execute(sql, &[&key, &value]).await?;
    Ok(())
}

fn missing_right(error: &tokio_postgres::Error, access: &Access, settings: &Settings) -> OpenError {
    let Some(refusal) = error.as_db_error() else {
        return OpenError::Away(access.away(error));
    };
    let text = refusal.message();
    let schema = &access.schema;
    let user = user(settings);
    match *refusal.code() {
        SqlState::INSUFFICIENT_PRIVILEGE => OpenError::refused(format!(
            "the database user {user} may not use or change schema {schema}: {text}; {}",
            give_schema(access, settings)
        )),
        _ => OpenError::Away(from_postgres(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_before_14_is_refused_by_its_name() {
        // `server_version_num` and `server_version` as servers say them.
        for (number, name) in [
            (130_023, "13.23 (Debian 13.23-1.pgdg12+1)"),
            (130_000, "13beta3"),
            (90_624, "9.6.24"),
        ] {
            let text = too_old(number, name).unwrap_or_else(|| panic!("{name} is too old"));
            assert!(text.contains(&format!("PostgreSQL {name};")), "{text}");
            assert!(text.contains("14 or newer"), "{text}");
        }
        for (number, name) in [(140_000, "14beta1"), (140_019, "14.19"), (180_001, "18.1")] {
            assert_eq!(too_old(number, name), None, "{name}");
        }
    }
}
