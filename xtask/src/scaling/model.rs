//! The arithmetic: how many runs a second one installation of a backend takes, and what a rate of
//! runs needs of each. Whole numbers, rounded up, because half a process does nothing.
//!
//! An installation is one store with the processes on it: a data directory, a database, or a
//! NATS cluster with its database. Nothing crosses installations; tenants are their natural share.

use anyhow::Result;

use super::inputs::Inputs;

const SECONDS_A_DAY: u64 = 86_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Embedded,
    Postgres,
    /// One replica, and a sync for every message.
    NatsOne,
    NatsThree,
}

impl Backend {
    pub(super) const ALL: [Self; 4] = [
        Self::Embedded,
        Self::Postgres,
        Self::NatsOne,
        Self::NatsThree,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Postgres => "postgres",
            Self::NatsOne => "nats, 1 replica, always",
            Self::NatsThree => "nats, 3 replicas",
        }
    }

    fn is_nats(self) -> bool {
        matches!(self, Self::NatsOne | Self::NatsThree)
    }

    fn replicas(self) -> u64 {
        match self {
            Self::NatsThree => 3,
            Self::NatsOne | Self::Embedded | Self::Postgres => 1,
        }
    }
}

/// Where the workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workers {
    /// In the orchestrators' processes: an attempt costs a record alone.
    Beside,
    /// In processes of their own: an attempt is also an item of work and an outcome in the inbox,
    /// each with the writes of its rows.
    Apart,
}

/// What bounds an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) what: &'static str,
    pub(super) runs: u64,
}

/// What a rate of runs needs of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) runs: u64,
    /// A second.
    pub(super) records: u64,
    pub(super) installations: u64,
    pub(super) streams: u64,
    /// In the streams of logs: one for each run that is kept.
    pub(super) subjects: u64,
    pub(super) partitions: u64,
    pub(super) databases: u64,
    pub(super) api: u64,
    pub(super) orchestrators: u64,
    pub(super) workers: u64,
    /// To each database, and to all NATS clusters.
    pub(super) database_connections: u64,
    pub(super) nats_connections: u64,
    /// A second.
    pub(super) network_bytes: u64,
    /// A day, before retention.
    pub(super) disk_bytes: u64,
}

impl Plan {
    /// Processes of every role. An embedded installation is one.
    pub(super) fn processes(&self) -> u64 {
        match self.api + self.orchestrators + self.workers {
            0 => self.installations,
            processes => processes,
        }
    }
}

pub(super) struct Model<'a>(pub(super) &'a Inputs);

impl Model<'_> {
    /// What bounds one installation, each as runs a second; the least of them counts.
    pub(super) fn bounds(&self, backend: Backend, workers: Workers) -> Result<Vec<Bound>> {
        let get = |name: &str| self.0.get(name);
        let (nodes, records) = (get("run.nodes")?, get("run.records")?);
        let apart = workers == Workers::Apart;
        let outcomes = nodes * get("outcome.writes")?;
        let mut bounds = Vec::new();
        let mut bound = |what, runs| bounds.push(Bound { what, runs });
        if backend == Backend::Embedded {
            bound("writer", get("embedded.runs")?);
            bound("HTTP", get("process.starts")?);
            let attempts = get("process.slots")? * 1000 / get("run.action-ms")?;
            bound("slots", attempts / nodes);
            return Ok(bounds);
        }
        // On PostgreSQL outcomes are rows of the same database; on NATS messages.
        let beside_records = match (apart, backend) {
            (true, Backend::Postgres) => outcomes,
            _ => 0,
        };
        let rows = records + beside_records;
        bound("database", get("postgres.records")? / rows);
        let of = |what: &str| get(&format!("{}.{what}", prefix(backend)));
        bound("engine", of("engine-records")? / rows);
        if backend.is_nats() {
            bound("log", of("records")? / records);
            bound("subjects", self.most_subjects()? / self.kept_seconds()?);
        }
        if apart {
            if backend.is_nats() {
                bound("inbox", of("outcomes")? / outcomes);
            }
            let items = match backend {
                Backend::Postgres => get("postgres.work-items")?,
                _ => get("nats.work-items")?,
            };
            bound("work queue", items / (nodes * get("work.writes")?));
        }
        Ok(bounds)
    }

    /// How many subjects one nats-server holds: each replica of a stream has all of them in memory.
    fn most_subjects(&self) -> Result<u64> {
        Ok(self.0.get("nats.server-memory")? / self.0.get("nats.subject-memory")?)
    }

    /// How long a run that has ended keeps its subject.
    fn kept_seconds(&self) -> Result<u64> {
        Ok(self.0.get("run.kept-days")? * SECONDS_A_DAY)
    }

    /// The least bound of an installation.
    pub(super) fn least(&self, backend: Backend, workers: Workers) -> Result<Bound> {
        let mut bounds = self.bounds(backend, workers)?;
        bounds.sort_by_key(|it| it.runs);
        Ok(bounds.swap_remove(0))
    }

    /// What so many runs a second need, with workers apart.
    pub(super) fn plan(&self, backend: Backend, runs: u64) -> Result<Plan> {
        let get = |name: &str| self.0.get(name);
        let (nodes, records) = (get("run.nodes")?, get("run.records")? * runs);
        let least = self.least(backend, Workers::Apart)?.runs;
        let installations = self.planned(runs, least)?;
        let mut plan = Plan {
            runs,
            records,
            installations,
            streams: 0,
            subjects: 0,
            partitions: installations,
            databases: 0,
            api: 0,
            orchestrators: 0,
            workers: 0,
            database_connections: 0,
            nats_connections: 0,
            network_bytes: 0,
            disk_bytes: self.disk(backend, runs)?,
        };
        if backend == Backend::Embedded {
            plan.network_bytes = self.network(backend, runs, 1)?;
            return Ok(plan);
        }
        // Two of each role and installation, so that one may stop.
        let at_least = |count: u64| count.max(2 * installations);
        // Clusters may share a database server, with a schema each.
        let bounds = self.bounds(backend, Workers::Apart)?;
        let database = bounds.iter().find(|it| it.what == "database");
        plan.databases = self.planned(runs, database.map_or(least, |it| it.runs))?;
        plan.api = at_least(self.planned(runs, get("process.starts")?)?);
        let cpu = records * get("process.cpu-us")?;
        plan.orchestrators = at_least(self.planned(cpu, get("process.cores")? * 1_000_000)?);
        let in_hand = runs * nodes * get("run.action-ms")?;
        plan.workers = at_least(self.planned(in_hand, get("process.slots")? * 1000)?);
        let processes = plan.api + plan.orchestrators + plan.workers;
        let connections = processes.div_ceil(plan.databases) * get("process.connections")?;
        plan.database_connections = connections;
        plan.partitions = installations * get("postgres.partitions")?;
        plan.network_bytes = self.network(backend, runs, processes.div_ceil(installations))?;
        if backend.is_nats() {
            plan.partitions = installations * get("nats.partitions")?;
            plan.streams = installations * get(&format!("{}.streams", prefix(backend)))?;
            plan.subjects = runs * self.kept_seconds()?;
            // One for records, one for everything else.
            plan.nats_connections = 2 * processes;
        }
        Ok(plan)
    }

    /// How many of something a load needs that was measured to bear `each`, if it is planned at
    /// a part of that.
    fn planned(&self, load: u64, each: u64) -> Result<u64> {
        let percent = self.0.get("planned.percent")?;
        Ok((load * 100).div_ceil(each * percent).max(1))
    }

    /// Bytes a second between processes and servers, where so many processes share an installation.
    /// A start is a request; a record goes to the database, on NATS also to the log and its
    /// replicas. An attempt apart is pushed, pulled, offered and read; on NATS every write of its
    /// rows goes to the replicas, and from one of them to the copy that each process has.
    fn network(&self, backend: Backend, runs: u64, processes: u64) -> Result<u64> {
        let get = |name: &str| self.0.get(name);
        let message = get("run.message-bytes")?;
        let (nodes, records) = (get("run.nodes")?, get("run.records")?);
        let copies = backend.replicas();
        let messages = match backend {
            Backend::Embedded => 0,
            Backend::Postgres => records + nodes * 4,
            Backend::NatsOne | Backend::NatsThree => {
                let writes = get("work.writes")? + get("outcome.writes")?;
                records * (1 + copies) + nodes * writes * (copies + processes)
            }
        };
        Ok(runs * (get("run.start-bytes")? + messages * message))
    }

    /// Bytes a day that stay on disks until retention removes them. The streams keep the last
    /// message of a run that has ended, in each replica.
    fn disk(&self, backend: Backend, runs: u64) -> Result<u64> {
        let get = |name: &str| self.0.get(name);
        let each = match backend {
            Backend::Embedded => get("embedded.run-bytes")?,
            Backend::Postgres => get("postgres.run-bytes")?,
            Backend::NatsOne | Backend::NatsThree => {
                get("postgres.run-bytes")? + backend.replicas() * get("run.message-bytes")?
            }
        };
        Ok(runs * each * SECONDS_A_DAY)
    }
}

/// What the inputs of a backend begin with.
fn prefix(backend: Backend) -> &'static str {
    match backend {
        Backend::Embedded => "embedded",
        Backend::Postgres => "postgres",
        Backend::NatsOne => "nats-1",
        Backend::NatsThree => "nats-3",
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
