//! A cluster of real processes, each behind a proxy of its own to the database or to NATS, which a
//! test kills, stops and cuts off while clients start runs; and what must be true of all those runs
//! at the end.

mod effects;
mod load;

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_test_support::postgres::Proxy;
use windlass_test_support::process::{Client, ServerProcess, World};

pub(crate) use effects::{Effects, NODES};
pub(crate) use load::Load;

/// Nothing here takes nearly as long; a fleet that does is stuck.
const PATIENCE: Duration = Duration::from_secs(240);

/// Where the store of a fleet is.
pub(crate) struct Place {
    /// The database.
    pub(crate) url: String,
    /// What each process reaches through its proxy: the server of NATS where there is one, else
    /// the database.
    pub(crate) address: String,
    pub(crate) nats: Option<NatsPlace>,
}

/// Where the servers of NATS are, and how a fleet uses them.
pub(crate) struct NatsPlace {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) replicas: &'static str,
    pub(crate) ack: &'static str,
}

impl Place {
    /// The arguments that name the store, with the proxy in place of what it leads to.
    fn arguments(&self, proxy: &str) -> Vec<String> {
        let through = |url: &str| match url.contains(',') {
            // The servers of a cluster tell clients of each other, past any proxy.
            true => url.to_owned(),
            false => url.replacen(&self.address, proxy, 1),
        };
        let (backend, database) = match &self.nats {
            None => ("postgres", through(&self.url)),
            Some(_) => ("nats", self.url.clone()),
        };
        let mut arguments = ["--backend", backend, "--postgres-url", &database]
            .map(String::from)
            .to_vec();
        if let Some(nats) = &self.nats {
            let more = ["--nats-url", &through(&nats.url), "--ack", nats.ack];
            arguments.extend(more.map(String::from));
        }
        arguments
    }

    /// The variables that name what arguments do not.
    fn variables(&self) -> Vec<(&str, &str)> {
        let nats = self.nats.iter();
        nats.flat_map(|nats| {
            [
                ("WINDLASS_NATS_PREFIX", &*nats.prefix),
                ("WINDLASS_NATS_REPLICAS", nats.replicas),
            ]
        })
        .collect()
    }
}

/// The addresses of the API processes that live.
pub(crate) type Doors = Arc<Mutex<Vec<Client>>>;

/// The processes.
pub(crate) struct Fleet {
    place: Place,
    pub(crate) effects: Effects,
    pub(crate) members: Vec<Member>,
    doors: Doors,
}

/// A process and its way to the database.
pub(crate) struct Member {
    pub(crate) role: &'static str,
    process: ServerProcess,
    pub(crate) proxy: Proxy,
    _world: World,
}

impl Member {
    fn start(place: &Place, role: &'static str) -> Self {
        let proxy = Proxy::to(&place.address);
        let world = World::new();
        let store = place.arguments(proxy.address());
        let mut arguments: Vec<&str> = store.iter().map(String::as_str).collect();
        let own = [
            "--role",
            role,
            "--allow-exec",
            "--probe-listen",
            "127.0.0.1:0",
        ];
        arguments.extend(own);
        // Many processes die in these tests, and not for what a run does to them.
        let mut variables = place.variables();
        variables.extend([
            ("WINDLASS_RATE_PER_MINUTE", "0"),
            ("WINDLASS_READ_RATE_PER_MINUTE", "0"),
            ("WINDLASS_MAX_POISON_RETRIES", "100000"),
            ("WINDLASS_POISON_DELAY", "10ms"),
            ("WINDLASS_POISON_TRIAL", "10ms"),
        ]);
        let process = world.serve_with(&arguments, &variables);
        Self {
            role,
            process,
            proxy,
            _world: world,
        }
    }

    /// Sends a signal, by the name that `kill` knows.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.process().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// How its name in the cluster ends.
    pub(crate) fn name(&self) -> String {
        format!("-{}", self.process.process())
    }

    /// A client of its probes.
    pub(crate) fn probes(&self) -> Client {
        let address = self.process.probes().expect("an address");
        Client::new(address, None)
    }
}

impl Fleet {
    /// Starts processes with these roles; the first is an API process.
    pub(crate) fn start(place: Place, roles: &[&'static str]) -> Self {
        let mut fleet = Self {
            place,
            effects: Effects::new(),
            members: Vec::new(),
            doors: Doors::default(),
        };
        for role in roles {
            fleet.add(role);
        }
        let definition = fleet.effects.definition();
        fleet.door().publish(&definition);
        fleet
    }

    /// Starts one more process.
    pub(crate) fn add(&mut self, role: &'static str) {
        self.members.push(Member::start(&self.place, role));
        self.list_doors();
    }

    /// Kills a process with SIGKILL, and starts another with its role.
    pub(crate) fn replace_killed(&mut self, index: usize) {
        let member = self.members.remove(index);
        self.list_doors();
        let role = member.role;
        member.process.kill();
        self.add(role);
    }

    /// Kills all processes with SIGKILL; gives their roles.
    pub(crate) fn kill_all(&mut self) -> Vec<&'static str> {
        let members = std::mem::take(&mut self.members);
        self.list_doors();
        let roles = members.iter().map(|it| it.role).collect();
        for member in members {
            member.process.kill();
        }
        roles
    }

    /// Where its store is.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Stops a process in good order, and starts another with its role.
    pub(crate) fn replace_stopped(&mut self, index: usize) {
        let member = self.members.remove(index);
        self.list_doors();
        let role = member.role;
        member.process.stop();
        self.add(role);
    }

    /// The processes with a role, by place.
    pub(crate) fn with_role(&self, role: &str) -> Vec<usize> {
        let all = self.members.iter().enumerate();
        all.filter(|(_, member)| member.role == role)
            .map(|(index, _)| index)
            .collect()
    }

    /// Clients that start runs until they are asked to end.
    pub(crate) fn load(&self, lanes: usize) -> Load {
        Load::start(Arc::clone(&self.doors), lanes)
    }

    /// The number that a query gives, asked of the database itself.
    pub(crate) fn number(&self, query: &str) -> i64 {
        let (plain, schema) = self.place.url.split_once("?schema=").expect("a schema");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let connected = tokio_postgres::connect(plain, tokio_postgres::NoTls).await;
            let (client, connection) = connected.expect("a database");
            tokio::spawn(connection);
            let path = format!("set search_path to {schema}");
            client.batch_execute(&path).await.expect("a schema");
            client.query_one(query, &[]).await.expect("a number").get(0)
        })
    }

    /// A client of an API process that lives.
    pub(crate) fn door(&self) -> Client {
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.first().expect("an API process lives").clone()
    }

    fn list_doors(&self) {
        let apis = self.members.iter().filter(|it| it.role == "api");
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        *doors = apis.map(|it| it.process.client()).collect();
    }

    /// The session of a process, if the cluster lists it.
    pub(crate) fn session(&self, name: &str) -> Option<Value> {
        let cluster = self.door().get("/api/v1/cluster");
        if cluster.status != 200 {
            return None;
        }
        let cluster = cluster.json();
        let mut sessions = cluster["sessions"].as_array()?.iter();
        let is_meant = |it: &&Value| it["name"].as_str().is_some_and(|it| it.ends_with(name));
        sessions.find(is_meant).cloned()
    }

    /// Every run of these ended well, each node of it once, and had its effect.
    ///
    /// # Panics
    /// If one was lost, doubled, or is stuck; then the test has failed. The logs of the processes
    /// are printed.
    pub(crate) fn settle(&self, load: Load) -> Settled {
        let runs = load.end();
        let door = self.door();
        for run in &runs {
            let begun = Instant::now();
            let path = format!("/api/v1/executions/{run}?include=actions");
            let ended = loop {
                let answer = door.get(&path);
                let shown = answer.json();
                if answer.status == 200 && shown["status"] == "Succeeded" {
                    break shown;
                }
                let is_open = matches!(shown["status"].as_str(), Some("Running" | "Pending"));
                let can_change = is_open || answer.status == 503;
                if !can_change || begun.elapsed() > PATIENCE {
                    self.tell();
                    let why = door.get(&format!("/api/v1/executions/{run}/why")).json();
                    panic!("{run} is stuck or failed: {shown}\n{why}");
                }
                thread::sleep(Duration::from_millis(20));
            };
            once(&ended);
            let path = format!("/api/v1/executions/{run}/verify");
            let verified = loop {
                let answer = door.get(&path);
                // A store that is away for a moment.
                if answer.status != 503 || begun.elapsed() > PATIENCE {
                    break answer;
                }
                thread::sleep(Duration::from_millis(20));
            };
            assert_eq!(verified.expect(200).json()["valid"], true, "{run}");
        }
        let repeated = self.effects.check(&runs);
        Settled {
            runs: runs.len(),
            repeated,
        }
    }

    fn tell(&self) {
        for member in &self.members {
            let log = member.process.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(30);
            eprintln!("== {}{}", member.role, member.name());
            eprintln!("{}", lines[last..].join("\n"));
        }
    }
}

/// Each node of a run has one attempt, which succeeded.
#[track_caller]
fn once(run: &Value) {
    let attempts = run["actions"].as_array().expect("attempts");
    let mut nodes: Vec<&str> = Vec::new();
    for attempt in attempts {
        assert_eq!(attempt["status"], "Succeeded", "{run}");
        nodes.extend(attempt["node"].as_str());
    }
    nodes.sort_unstable();
    assert_eq!(nodes, NODES, "{run}");
}

/// What the end of a fleet's runs showed.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) runs: usize,
    /// Effects that happened more than once, under the same key.
    pub(crate) repeated: usize,
}
