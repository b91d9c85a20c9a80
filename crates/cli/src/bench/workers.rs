//! Workers outside the server: how many tasks a second go through those that poll, what a
//! chain of their nodes costs, and what workers cost that have nothing to do. Server and
//! workers share the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Connection, Server, broken};
use super::{Bench, graphs};
use crate::exit::Failure;

/// Workers that poll at the same time.
const WORKERS: usize = 50;

/// Workers that wait for work that does not come.
const IDLE_WORKERS: usize = 1000;

/// How long the server is looked at meanwhile.
const IDLE: Duration = Duration::from_secs(2);

/// Nodes of a run that fans out.
const NODES: usize = 200;

/// Tasks through workers, one after the other, and none at all.
pub(super) async fn measure(bench: Bench<'_>) -> Result<Value, Failure> {
    let start = || {
        let folder = bench.scratch.fresh();
        std::fs::create_dir_all(&folder).map_err(|error| broken(&error))?;
        Server::start(&folder)
    };
    let server = start()?;
    let (tasks, took) = through(bench, &server).await?;
    let chain = chain(bench, &server).await?;
    drop(server);
    // A server that has done nothing yet: what it keeps of earlier runs is not the workers'.
    let (memory, ticks) = idle(&start()?).await?;
    let nodes = chain.nodes as f64;
    Ok(json!({
        "tasks": tasks,
        "workers": WORKERS,
        "seconds": took.as_secs_f64(),
        "tasksPerSecond": tasks as f64 / took.as_secs_f64(),
        "chainNodes": chain.nodes,
        "chainMicrosecondsPerNode": chain.took.as_secs_f64() * 1e6 / nodes,
        "chainCommitsPerNode": chain.commits.map(|commits| commits / nodes),
        "chainRequestsPerNode": chain.requests as f64 / nodes,
        "idleWorkers": IDLE_WORKERS,
        "idleResidentBytes": memory,
        "idleProcessorTicks": ticks,
        "target": "at least 2,000 tasks a second, durable; at most 2 commits and 2 requests a \
                   chained node; 1,000 idle workers under 64 MiB and without work",
    }))
}

/// Runs that fan out, done by workers that take one task at a time.
async fn through(bench: Bench<'_>, server: &Server) -> Result<(usize, Duration), Failure> {
    let mut first = Connection::open(server.address).await?;
    let text = graphs::fan_out("fan", NODES, "bench.remote");
    first.post("/api/v1/workflows", &text, 201).await?;
    let runs = (bench.sizes.runs / NODES).max(1);
    let all = runs * NODES;
    let left = Arc::new(AtomicUsize::new(all));
    let begun = Instant::now();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (address, left) = (server.address, Arc::clone(&left));
            tokio::spawn(async move {
                let mut worker = Worker::open(address, &format!("w-{worker}")).await?;
                while left.load(Ordering::Acquire) > 0 {
                    let done = worker.once("bench.remote", 200).await?;
                    left.fetch_sub(done, Ordering::AcqRel);
                }
                Ok::<(), Failure>(())
            })
        })
        .collect();
    for _ in 0..runs {
        first
            .post("/api/v1/workflows/fan/execute", "{}", 202)
            .await?;
    }
    for worker in workers {
        worker.await.map_err(|error| broken(&error))??;
    }
    // The last polls find nothing and wait; that time does not count.
    let took = begun.elapsed().saturating_sub(Duration::from_millis(200));
    Ok((all, took))
}

/// What a chain of nodes took.
struct Chain {
    nodes: usize,
    took: Duration,
    /// Commits that the server made, where it counts them.
    commits: Option<f64>,
    /// Requests that the worker sent.
    requests: usize,
}

/// One node after the other, by one worker.
async fn chain(bench: Bench<'_>, server: &Server) -> Result<Chain, Failure> {
    let count = bench.sizes.chain;
    let mut worker = Worker::open(server.address, "chain").await?;
    let text = graphs::chain("chain", count, "bench.link");
    worker
        .connection
        .post("/api/v1/workflows", &text, 201)
        .await?;
    let before = commits(server).await?;
    worker
        .connection
        .post("/api/v1/workflows/chain/execute", "{}", 202)
        .await?;
    let begun = Instant::now();
    let mut done = 0;
    while done < count {
        done += worker.once("bench.link", 30_000).await?;
    }
    let took = begun.elapsed();
    let commits = commits(server).await?.zip(before);
    Ok(Chain {
        nodes: count,
        took,
        commits: commits.map(|(after, before)| after - before),
        requests: worker.requests,
    })
}

/// Memory and processor time while workers wait.
async fn idle(server: &Server) -> Result<(Option<u64>, Option<u64>), Failure> {
    let waiting: Vec<_> = (0..IDLE_WORKERS)
        .map(|worker| {
            let address = server.address;
            tokio::spawn(async move {
                let mut worker = Worker::open(address, &format!("idle-{worker}")).await?;
                worker.once("bench.idle", 10_000).await
            })
        })
        .collect();
    tokio::time::sleep(IDLE * 2).await;
    let before = server.ticks();
    tokio::time::sleep(IDLE).await;
    let ticks = server
        .ticks()
        .zip(before)
        .map(|(after, before)| after - before);
    let memory = server.resident();
    for worker in waiting {
        worker.await.map_err(|error| broken(&error))??;
    }
    Ok((memory, ticks))
}

/// How many commits the server's store has made.
async fn commits(server: &Server) -> Result<Option<f64>, Failure> {
    let mut connection = Connection::open(server.address).await?;
    let page = connection.text("/metrics").await?;
    let line = page.lines().find(|line| line.starts_with(COMMITS));
    let number = line.and_then(|line| line.rsplit(' ').next());
    Ok(number.and_then(|number| number.parse().ok()))
}

/// What the store's commits are counted as.
const COMMITS: &str = "windlass_store_commit_seconds_count";

/// A worker that does nothing but what the protocol asks of it.
struct Worker {
    connection: Connection,
    name: String,
    /// Requests that it has sent.
    requests: usize,
}

impl Worker {
    async fn open(address: std::net::SocketAddr, name: &str) -> Result<Self, Failure> {
        Ok(Self {
            connection: Connection::open(address).await?,
            name: name.to_owned(),
            requests: 0,
        })
    }

    /// Polls once and completes what came; says how many.
    async fn once(&mut self, action: &str, wait_ms: u32) -> Result<usize, Failure> {
        let name = &self.name;
        let body = format!(
            r#"{{"protocol":1,"worker":"{name}","actions":[{{"actionType":"{action}"}}],"waitMs":{wait_ms}}}"#
        );
        self.requests += 1;
        let answer = self
            .connection
            .post("/api/v1/workers/poll", &body, 200)
            .await?;
        let tasks = answer["tasks"].as_array().cloned().unwrap_or_default();
        for task in &tasks {
            let id = task["taskId"].as_str().unwrap_or_default();
            let path = format!("/api/v1/workers/tasks/{id}/complete");
            let body = json!({ "lease": task["lease"], "output": { "done": true } });
            self.requests += 1;
            self.connection.post(&path, &body.to_string(), 200).await?;
        }
        Ok(tasks.len())
    }
}
