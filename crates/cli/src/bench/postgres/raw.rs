//! What the driver does by itself: single rows, one after the other and on eight connections, and
//! the store's own append in batches.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_core::{Millis, RunId, RunStatus};
use windlass_store::{Append, Claim, Head, Log as _, Partition, RunRow, WriterId};
use windlass_store_postgres::PostgresStore;

use super::{Database, Sizes, broken, median};
use crate::exit::Failure;

/// A record's size.
const BYTES: usize = 256;

/// Connections that insert at the same time.
const CONNECTIONS: usize = 8;

/// Appends of one batch.
const BATCH: usize = 256;

/// What the driver does.
pub(super) struct Driver {
    /// One durable insert of a row.
    pub(super) insert: Duration,
    /// Rows a second of eight connections that insert one each.
    pub(super) inserts: f64,
    /// Records a second of the store's append in batches.
    pub(super) appends: f64,
    /// Starts a second of the store's append in batches: a record, a row and a claim each.
    pub(super) starts: f64,
}

impl Driver {
    pub(super) fn json(&self) -> Value {
        json!({
            "insertMicroseconds": self.insert.as_secs_f64() * 1e6,
            "insertsPerSecondOnEight": self.inserts,
            "batchedAppendsPerSecond": self.appends,
            "batchedStartsPerSecond": self.starts,
            "timesTheInserts": self.appends / self.inserts,
            "target": "batched appends: six times single inserts on eight connections",
        })
    }
}

pub(super) async fn measure(database: &Database, sizes: Sizes) -> Result<Driver, Failure> {
    let schema = database.fresh();
    let client = database.connect().await?;
    let made = client
        .batch_execute(&format!(
            "create schema {schema}; \
             create table {schema}.single (id bigint primary key, body bytea not null)"
        ))
        .await;
    made.map_err(|error| broken(&error))?;
    let mut times = Vec::new();
    for round in 0..sizes.repeats {
        let first = i64::try_from(round * sizes.chain).unwrap_or(i64::MAX);
        times.push(insert(database, &schema, first, sizes.chain).await?);
    }
    let one = median(times) / u32::try_from(sizes.chain).unwrap_or(u32::MAX);
    let begun = Instant::now();
    let lanes = (0..CONNECTIONS).map(|lane| {
        let first = 1_000_000_000 * (lane as i64 + 1);
        insert(database, &schema, first, sizes.chain)
    });
    for time in futures_util::future::join_all(lanes).await {
        time?;
    }
    let all = (CONNECTIONS * sizes.chain) as f64;
    let inserts = all / begun.elapsed().as_secs_f64();
    let (appends, starts) = appends(database, sizes).await?;
    Ok(Driver {
        insert: one,
        inserts,
        appends,
        starts,
    })
}

/// Inserts rows one after the other on a connection of its own; the time of all.
async fn insert(
    database: &Database,
    schema: &str,
    first: i64,
    count: usize,
) -> Result<Duration, Failure> {
    let client = database.connect().await?;
    let text = format!("insert into {schema}.single values ($1, $2)");
    let statement = client.prepare(&text).await;
    let statement = statement.map_err(|error| broken(&error))?;
    let body = vec![b'.'; BYTES];
    let begun = Instant::now();
    for id in first..first + count as i64 {
        let inserted = client.execute(&statement, &[&id, &body]).await;
        inserted.map_err(|error| broken(&error))?;
    }
    Ok(begun.elapsed())
}

/// Records and starts a second, in batches.
async fn appends(database: &Database, sizes: Sizes) -> Result<(f64, f64), Failure> {
    let settings = database.settings(&database.fresh())?;
    let store = PostgresStore::connect(&settings).await;
    let store = store.map_err(crate::database::failure)?;
    let batches = (sizes.runs / BATCH).max(1);
    let mut heads = Vec::new();
    let begun = Instant::now();
    for batch in 0..batches {
        let runs = (0..BATCH).map(|run| start((batch * BATCH + run) as u64));
        let appended = store.append(runs.collect()).await;
        for (run, answer) in (0..BATCH).zip(appended) {
            let answer = answer.map_err(|error| broken(&format!("{error:?}")))?;
            heads.push((id((batch * BATCH + run) as u64), answer.head));
        }
    }
    let starts = heads.len() as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let batches = heads.chunks(BATCH).map(|batch| {
        let records = batch.iter().map(|(run, head)| record(*run, *head));
        store.append(records.collect())
    });
    // As an engine does: the writers get more than they send at once.
    let answers = futures_util::future::join_all(batches).await;
    for answer in answers.into_iter().flatten() {
        answer.map_err(|error| broken(&format!("{error:?}")))?;
    }
    let appends = heads.len() as f64 / begun.elapsed().as_secs_f64();
    Ok((appends, starts))
}

fn id(number: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    RunId::new(Millis(1_700_000_000_000), random)
}

fn record(run: RunId, head: Head) -> Append {
    Append {
        run,
        head,
        writer: WriterId(1),
        append_id: head.sequence + 1,
        record: vec![b'.'; BYTES],
        row: None,
        claims: Vec::new(),
        resources: Vec::new(),
        blobs: Vec::new(),
        uses: Vec::new(),
        consumed: Vec::new(),
        releases: Vec::new(),
        slots: Vec::new(),
    }
}

/// The first record of a run, as a start appends it.
fn start(number: u64) -> Append {
    let run = id(number);
    let request: Box<str> = format!("request-{number}").into();
    let row = RunRow {
        run,
        tenant: None,
        workflow: "bench".into(),
        version: 1,
        request_id: request.clone(),
        status: RunStatus::Pending,
        priority: 5,
        labels: BTreeMap::new(),
        created_at: Millis(1_700_000_000_000),
        started_at: None,
        ended_at: None,
        wake_at: None,
        asleep: false,
        error_code: None,
        error_message: None,
        cause_codes: Vec::new(),
        parent: None,
        origin: None,
        gate: None,
        limit: 0,
        dead: false,
        partition: Partition((number % 64) as u32),
    };
    Append {
        row: Some(row),
        claims: vec![Claim {
            namespace: "request",
            key: request,
            value: run.to_string().into_bytes(),
        }],
        ..record(run, Head::NONE)
    }
}
