//! `cargo xtask queue`: a million runs that wait. They are taken in over HTTP by a real server
//! that begins none of them; then its memory, its lists and its restart are looked at. Nothing is
//! asserted: the figures depend on the machine, and are printed with their targets.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Connections that ask at once, and how many requests each has under way.
const CONNECTIONS: usize = 64;
const PIPELINED: usize = 16;

/// Pages that are timed for each filter.
const PAGES: usize = 200;

/// One node that works for an hour: it holds the only place there is.
const HOLDS: &str = r#"{"id":"holds","nodes":[{"id":"n","actionType":"core.sleep",
    "parameters":{"ms":3600000}}]}"#;

const WAITS: &str = r#"{"id":"waits","nodes":[{"id":"n","actionType":"core.echo"}]}"#;

/// Measures with a binary that is there.
///
/// # Errors
/// The server could not be started, or refused something.
pub(crate) fn run(binary: &Path, runs: usize) -> Result<()> {
    let scratch = std::env::temp_dir().join(format!("windlass-queue-{}", std::process::id()));
    fs::create_dir_all(&scratch).context("there is no room for scratch files")?;
    let measured = measure(binary, runs, &scratch);
    let _ = fs::remove_dir_all(&scratch);
    measured
}

/// Calls `work` with the address of a server on which so many runs wait.
///
/// # Errors
/// The server could not be started, or what `work` says.
pub(crate) fn with_waiting_runs(
    binary: &Path,
    runs: usize,
    work: impl FnOnce(&str) -> Result<()>,
) -> Result<()> {
    let scratch = std::env::temp_dir().join(format!("windlass-waiting-{}", std::process::id()));
    fs::create_dir_all(&scratch).context("there is no room for scratch files")?;
    let done = filled(binary, runs, &scratch)
        .and_then(|(server, _)| work(&format!("http://{}", server.address)));
    let _ = fs::remove_dir_all(&scratch);
    done
}

/// A server on which so many runs wait, and how many a second it took in.
fn filled(binary: &Path, runs: usize, scratch: &Path) -> Result<(Server, f64)> {
    let (server, _) = Server::start(binary, scratch)?;
    let mut first = Connection::open(&server.address)?;
    for text in [HOLDS, WAITS] {
        first.post("/api/v1/workflows", text, 1, 201)?;
    }
    first.post("/api/v1/workflows/holds/execute", "{}", 1, 202)?;
    let rate = take_in(&server, runs)?;
    Ok((server, rate))
}

fn measure(binary: &Path, runs: usize, scratch: &Path) -> Result<()> {
    let binary = binary.canonicalize().context("there is no such binary")?;
    let (server, rate) = filled(&binary, runs, scratch)?;
    println!("taken in: {runs} runs at {rate:.0}/s (at least 10,000/s)");
    println!("resident: {} (less than 2 GiB)", server.resident());
    pages(&server, "/api/v1/executions?limit=100")?;
    pages(
        &server,
        "/api/v1/executions?limit=100&status=pending&workflow=waits",
    )?;
    let memory = server.resident();
    server.kill()?;
    let (server, took) = Server::start(&binary, scratch)?;
    println!(
        "restart: {:.2} s until it listens (less than 10 s)",
        took.as_secs_f64()
    );
    println!("resident after it: {}, before: {memory}", server.resident());
    pages(&server, "/api/v1/executions?limit=100")?;
    server.kill()
}

/// Starts runs over many connections; gives how many a second.
fn take_in(server: &Server, runs: usize) -> Result<f64> {
    let each = runs.div_ceil(CONNECTIONS * PIPELINED);
    let begun = Instant::now();
    let lanes: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let address = server.address.clone();
            std::thread::spawn(move || {
                let mut connection = Connection::open(&address)?;
                for _ in 0..each {
                    connection.post("/api/v1/workflows/waits/execute", "{}", PIPELINED, 202)?;
                }
                Ok::<(), anyhow::Error>(())
            })
        })
        .collect();
    for lane in lanes {
        match lane.join() {
            Ok(done) => done?,
            Err(_) => bail!("a connection broke"),
        }
    }
    Ok((each * CONNECTIONS * PIPELINED) as f64 / begun.elapsed().as_secs_f64())
}

/// Walks pages, and tells how long they took.
fn pages(server: &Server, path: &str) -> Result<()> {
    let mut connection = Connection::open(&server.address)?;
    let mut times = Vec::new();
    let mut cursor = String::new();
    for _ in 0..PAGES {
        let begun = Instant::now();
        let body = connection.get(&format!("{path}{cursor}"))?;
        times.push(begun.elapsed());
        let page: Value = serde_json::from_slice(&body).context("a page that is no JSON")?;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1000.0;
    println!(
        "{} pages of {path}: {:.2} ms in the middle, {:.2} ms the slowest (less than 50 ms)",
        times.len(),
        at(50),
        at(100),
    );
    Ok(())
}

/// A server as a child process, which ends with this.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts it; says how long it took until it listened.
    fn start(binary: &Path, scratch: &Path) -> Result<(Self, Duration)> {
        let begun = Instant::now();
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--data-dir"])
            .arg(scratch.join("data"))
            .env("WINDLASS_LOG", "error")
            .env("WINDLASS_MAX_ACTIVE_RUNS", "1")
            .env("WINDLASS_RATE_PER_MINUTE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("the server could not be started")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("the server has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).context("the server did not start")?;
        let url = said["url"]
            .as_str()
            .context("the server names no address")?;
        let address = url.trim_start_matches("http://").to_owned();
        Ok((Self { child, address }, begun.elapsed()))
    }

    fn resident(&self) -> String {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kilobytes.map_or("unknown".to_owned(), |kib| format!("{} MiB", kib / 1024))
    }

    /// Kills the server, as a power loss would.
    fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).context("the server does not answer")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// The same request so many times, without waiting in between.
    fn post(&mut self, path: &str, body: &str, times: usize, expected: u16) -> Result<()> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream
            .get_mut()
            .write_all(request.repeat(times).as_bytes())?;
        for _ in 0..times {
            let (status, body) = self.answer()?;
            if status != expected {
                bail!("{path}: {status} {}", String::from_utf8_lossy(&body));
            }
        }
        Ok(())
    }

    fn get(&mut self, path: &str) -> Result<Vec<u8>> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (status, body) = self.answer()?;
        match status {
            200 => Ok(body),
            _ => bail!("{path}: {status} {}", String::from_utf8_lossy(&body)),
        }
    }

    fn answer(&mut self) -> Result<(u16, Vec<u8>)> {
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                bail!("the server broke off");
            }
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if let Some(rest) = text.strip_prefix("HTTP/1.1 ") {
                status = rest
                    .get(..3)
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
        self.stream.read_exact(&mut body)?;
        Ok((status, body))
    }
}
