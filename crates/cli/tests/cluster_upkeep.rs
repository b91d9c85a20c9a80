//! What processes do for all of them on one PostgreSQL database: schedules and jobs under leases,
//! the tables behind the log, and how little an idle cluster asks of the database.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_test_support::postgres::server as database;
use windlass_test_support::process::{ECHO, ServerProcess, WAIT, World};

fn role(world: &World, database: &str, role: &str) -> ServerProcess {
    let arguments = ["--backend", "postgres", "--postgres-url", database];
    let arguments = [&arguments[..], &["--role", role]].concat();
    world.serve_with(&arguments, &[("WINDLASS_RATE_PER_MINUTE", "0")])
}

fn worlds<const N: usize>() -> [World; N] {
    std::array::from_fn(|_| World::new())
}

#[test]
fn a_job_over_many_runs_goes_on_in_another_scheduler_when_its_own_dies() {
    const RUNS: usize = 150;
    let database = database().fresh();
    let worlds = worlds::<4>();
    let front = role(&worlds[0], &database, "api,orchestrator,worker");
    let client = front.client();
    client.publish(WAIT);
    let runs: Vec<String> = (0..RUNS).map(|_| client.waiting("wait")).collect();
    let body = json!({ "action": "cancel", "filter": { "workflow": "wait" }, "reason": "enough" });
    let job = client.post("/api/v1/bulk", &body).expect(202).text("id");
    let path = format!("/api/v1/bulk/{job}");
    // It is known by every API process, and waits for a scheduler.
    let other = role(&worlds[1], &database, "api");
    let state = other.client().get(&path).expect(200).json();
    assert_eq!(
        (&state["status"], &state["seen"]),
        (&json!("running"), &json!(0))
    );
    let killed = role(&worlds[2], &database, "scheduler");
    client.until(&path, |_, state| state["seen"].as_u64() > Some(3));
    killed.kill();
    let left = client.get(&path).expect(200).json();
    assert_eq!(left["status"], "running", "it ended too soon: {left}");
    let _heir = role(&worlds[3], &database, "scheduler");
    let ended = other.client().finished(&job);
    assert_eq!(
        (&ended["done"], &ended["failed"]),
        (&json!(RUNS), &json!(0)),
        "{ended}"
    );
    for run in &runs {
        assert_eq!(client.ended(run)["status"], "Cancelled");
    }
}

#[test]
fn schedules_go_on_when_their_scheduler_dies() {
    let database = database().fresh();
    let worlds = worlds::<3>();
    let front = role(&worlds[0], &database, "api,orchestrator,worker");
    let client = front.client();
    client.publish(ECHO);
    let first = role(&worlds[1], &database, "scheduler");
    let schedule = json!({ "id": "s", "workflowId": "echo", "everyMs": 1000 });
    let put = client.post("/api/v1/schedules", &schedule);
    assert!(put.status < 300, "{put:?}");
    let started = |page: &Value| page["items"].as_array().map_or(0, Vec::len);
    let path = "/api/v1/executions?workflow=echo&limit=100";
    client.until(path, |_, page| started(page) >= 2);
    let _second = role(&worlds[2], &database, "scheduler");
    first.kill();
    let before = started(&client.get(path).expect(200).json());
    client.until(path, |_, page| started(page) >= before + 2);
    // A time starts one run, whichever process was first.
    let page = client.get(path).expect(200).json();
    let requests = page["items"].as_array().expect("runs").iter();
    let mut requests: Vec<String> = requests.map(|it| it["requestId"].to_string()).collect();
    let count = requests.len();
    requests.sort();
    requests.dedup();
    assert_eq!(requests.len(), count);
}

#[test]
fn the_lag_of_the_tables_is_what_waits_for_them() {
    let database = database().fresh();
    let worlds = worlds::<2>();
    let front = role(&worlds[0], &database, "api,orchestrator,worker");
    let client = front.client();
    client.publish(ECHO);
    let run = client.execute("echo", &json!({}));
    client.ended(&run);
    // No process writes the tables: the run waits, longer and longer.
    let behind = client.until("/api/v1/cluster", |_, cluster| {
        cluster["projectorLagMs"].as_u64() > Some(0)
    });
    let before = behind["projectorLagMs"].as_u64();
    client.until("/api/v1/cluster", |_, cluster| {
        cluster["projectorLagMs"].as_u64() > before
    });
    let shown = front.run(&worlds[0], &["cluster"]).expect(0);
    assert!(
        shown.stderr.contains("ms behind the log"),
        "{}",
        shown.stderr
    );
    let _scheduler = role(&worlds[1], &database, "scheduler");
    client.until("/api/v1/cluster", |_, cluster| {
        cluster["projectorLagMs"] == 0
    });
}

/// Passes bytes on, or keeps every connection open and silent, as a server does that stands
/// still. It counts the statements that clients send, by their text.
struct Between {
    address: String,
    stands: Arc<AtomicBool>,
    statements: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Between {
    fn before(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let stands = Arc::new(AtomicBool::new(false));
        let statements = Arc::<Mutex<BTreeMap<String, u64>>>::default();
        let (told, counted) = (Arc::clone(&stands), Arc::clone(&statements));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else {
                    continue;
                };
                let asked = (client.try_clone(), server.try_clone());
                let (from, to) = (asked.0.expect("a handle"), asked.1.expect("a handle"));
                let (stands, counted) = (Arc::clone(&told), Arc::clone(&counted));
                let mut sent = Sent::new(counted);
                thread::spawn(move || pass(from, to, &stands, |bytes| sent.read(bytes)));
                let stands = Arc::clone(&told);
                thread::spawn(move || pass(server, client, &stands, |_| ()));
            }
        });
        Self {
            address,
            stands,
            statements,
        }
    }

    fn stand(&self, stands: bool) {
        self.stands.store(stands, Ordering::Release);
    }

    /// The statements since the last call.
    fn statements(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.statements.lock().expect("a count"))
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, stands: &AtomicBool, mut seen: impl FnMut(&[u8])) {
    let mut bytes = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while stands.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(10));
        }
        seen(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// What one connection sends, in PostgreSQL's protocol.
struct Sent {
    bytes: Vec<u8>,
    has_begun: bool,
    /// The text of each prepared statement.
    prepared: BTreeMap<Vec<u8>, String>,
    counted: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Sent {
    fn new(counted: Arc<Mutex<BTreeMap<String, u64>>>) -> Self {
        Self {
            bytes: Vec::new(),
            has_begun: false,
            prepared: BTreeMap::new(),
            counted,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        const TLS: [u8; 4] = 80_877_103_u32.to_be_bytes();
        self.bytes.extend_from_slice(bytes);
        loop {
            let kind = usize::from(self.has_begun);
            let Some(length) = self.bytes.get(kind..kind + 4) else {
                return;
            };
            let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
            let end = kind + length as usize;
            if self.bytes.len() < end {
                return;
            }
            let message: Vec<u8> = self.bytes.drain(..end).collect();
            let body = &message[kind + 4..];
            match self.has_begun {
                true => self.message(message[0], body),
                // A question for TLS comes before the beginning.
                false => self.has_begun = body != TLS,
            }
        }
    }

    fn message(&mut self, kind: u8, body: &[u8]) {
        let mut texts = body.split(|byte| *byte == 0);
        let (first, second) = (texts.next(), texts.next());
        let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
        let text = match kind {
            b'P' => {
                let text = String::from_utf8_lossy(second).into_owned();
                self.prepared.insert(first.to_vec(), text);
                return;
            }
            // The first text of a bind is the portal's name.
            b'B' => self.prepared.get(second).cloned().unwrap_or_default(),
            b'Q' => String::from_utf8_lossy(first).into_owned(),
            _ => return,
        };
        let mut counted = self.counted.lock().expect("a count");
        *counted.entry(text).or_default() += 1;
    }
}

#[test]
fn a_database_that_stands_still_gives_503_and_work_goes_on_when_it_is_back() {
    let between = Between::before(database().address());
    let database = database().at(&between.address);
    let world = World::new();
    let server = role(&world, &database, "all");
    let client = server.client();
    client.publish(ECHO);
    let first = client.execute("echo", &json!({}));
    assert_eq!(client.ended(&first)["status"], "Succeeded");
    between.stand(true);
    let body = json!({ "requestId": "once" }).to_string();
    let start = "/api/v1/workflows/echo/execute";
    let asked = [
        ("GET", format!("/api/v1/executions/{first}"), None),
        ("POST", start.to_owned(), Some(body.as_bytes())),
    ];
    for (method, path, body) in asked {
        let headers = [("Content-Type", "application/json")];
        let answer = client.send(method, &path, &headers, body).expect(503);
        assert_eq!(answer.header("retry-after"), Some("1"), "{}", answer.head);
        let code = answer.json()["error"]["code"].clone();
        assert!(
            code == "STORE_UNAVAILABLE" || code == "STORE_TIMEOUT",
            "{code}"
        );
    }
    between.stand(false);
    // By itself, and the start that was not answered is made once.
    let send = || client.post_text(start, &body);
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut answer = send();
    while answer.status == 503 {
        assert!(Instant::now() < deadline, "it does not come back");
        thread::sleep(Duration::from_millis(200));
        answer = send();
    }
    let run = answer.text("executionId");
    assert_eq!(client.ended(&run)["status"], "Succeeded");
    assert_eq!(send().text("executionId"), run);
    server.stop();
}

#[test]
fn an_idle_cluster_sends_heartbeats_and_little_else() {
    let between = Between::before(database().address());
    let url = database().at(&between.address);
    let worlds = worlds::<4>();
    let roles = ["api", "orchestrator", "worker", "scheduler"];
    let processes: Vec<ServerProcess> = roles
        .iter()
        .zip(&worlds)
        .map(|(part, world)| role(world, &url, part))
        .collect();
    let client = processes[0].client();
    client.publish(ECHO);
    let run = client.execute("echo", &json!({}));
    client.ended(&run);
    // What follows from the run has ended.
    thread::sleep(Duration::from_secs(30));
    between.statements();
    let since = Instant::now();
    thread::sleep(Duration::from_secs(30));
    let (statements, seconds) = (between.statements(), since.elapsed().as_secs());
    let counted: u64 = statements.values().sum();
    let heartbeats = 4 * (seconds / 3 + 1);
    let renewed = statements
        .iter()
        .filter(|(text, _)| text.contains("duration_ms"));
    assert!(renewed.map(|it| it.1).sum::<u64>() > 0, "{statements:#?}");
    // One look in ten seconds of each task that looks, and keeping house once a minute.
    let looks = 5 * (seconds / 10 + 1) + 4;
    assert!(
        counted <= heartbeats + looks,
        "{counted} statements in {seconds} s: {statements:#?}"
    );
    for process in processes {
        process.stop();
    }
}
