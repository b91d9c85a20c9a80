//! Starting runs over HTTP: a server of its own, asked by many connections that each wait
//! for an answer before they ask again.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{Bench, graphs};
use crate::exit::{Exit, Failure};

/// How long an idle server is looked at.
const IDLE: Duration = Duration::from_secs(2);

/// Starts runs, and looks at the server before it has anything to do.
pub(super) async fn starts(bench: Bench<'_>) -> Result<Value, Failure> {
    let folder = bench.scratch.fresh();
    std::fs::create_dir_all(&folder).map_err(|error| broken(&error))?;
    let server = Server::start(&folder)?;
    let text = graphs::chain("short", 3, "core.echo");
    let mut first = Connection::open(server.address).await?;
    first.post("/api/v1/workflows", &text, 201).await?;
    first
        .post("/api/v1/workflows/short/execute", "{}", 202)
        .await?;
    tokio::time::sleep(IDLE / 4).await;
    let (memory, before) = (server.resident(), server.ticks());
    tokio::time::sleep(IDLE).await;
    let idle = server
        .ticks()
        .zip(before)
        .map(|(after, before)| after - before);
    let lanes = bench.sizes.in_flight;
    let each = (bench.sizes.runs / lanes).max(1);
    let begun = Instant::now();
    let lanes = (0..lanes).map(|_| {
        let address = server.address;
        tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            for _ in 0..each {
                connection
                    .post("/api/v1/workflows/short/execute", "{}", 202)
                    .await?;
            }
            Ok::<(), Failure>(())
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.map_err(|error| broken(&error))??;
    }
    let took = begun.elapsed();
    let count = each * bench.sizes.in_flight;
    let after = bench.scratch.fresh();
    let raw = super::disk::writes(&after, count.min(1000)).map_err(|error| broken(&error))?;
    let appends = count.min(1000) as f64 / raw.appended.as_secs_f64();
    let rate = count as f64 / took.as_secs_f64();
    Ok(json!({
        "starts": count,
        "connections": bench.sizes.in_flight,
        "seconds": took.as_secs_f64(),
        "startsPerSecond": rate,
        "timesSingleAppends": rate / appends,
        "idleResidentBytes": memory,
        "idleProcessorTicks": idle,
        "target": "at least 5,000 a second, durable; idle under 60 MiB and without work",
    }))
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Storage, "BENCH_RUN", error.to_string())
}

/// A server as a child process, which ends with this.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(folder: &Path) -> Result<Self, Failure> {
        use std::io::BufRead as _;

        let program = std::env::current_exe().map_err(|error| broken(&error))?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .env("WINDLASS_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| broken(&error))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            std::io::BufReader::new(out)
                .read_line(&mut line)
                .map_err(|error| broken(&error))?;
        }
        let address = line
            .trim()
            .rsplit('/')
            .next()
            .and_then(|text| text.parse().ok());
        match address {
            Some(address) => Ok(Self { child, address }),
            None => {
                let _ = child.kill();
                Err(broken(&format!(
                    "the server did not say where it listens: {line}"
                )))
            }
        }
    }

    /// Resident bytes, where the system tells.
    fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes * 1024)
    }

    /// The processor time that it took so far, in the system's ticks.
    fn ticks(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        let rest = stat.rsplit_once(") ")?.1;
        let mut fields = rest.split_whitespace().skip(11);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(user + system)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is ours, and its data goes away with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that does as little as it can, for it shares the machine with the server.
struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| broken(&error))?;
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    async fn post(&mut self, path: &str, body: &str, expected: u16) -> Result<(), Failure> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let asked = self.stream.get_mut().write_all(request.as_bytes()).await;
        asked.map_err(|error| broken(&error))?;
        let status = self.answer().await.map_err(|error| broken(&error))?;
        match status == expected {
            true => Ok(()),
            false => Err(broken(&format!("POST {path} was answered with {status}"))),
        }
    }

    async fn answer(&mut self) -> std::io::Result<u16> {
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if let Some(rest) = text.strip_prefix("HTTP/1.1 ") {
                status = rest
                    .split(' ')
                    .next()
                    .and_then(|code| code.parse().ok())
                    .unwrap_or(0);
            }
            if let Some((name, value)) = text.split_once(": ")
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(status)
    }
}
