//! A server of its own as a child process, and a client that does as little as it can.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::exit::{Exit, Failure};

pub(super) fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Storage, "BENCH_RUN", error.to_string())
}

/// A server as a child process, which ends with this.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Server {
    /// On a data directory of its own.
    pub(super) fn start(folder: &Path) -> Result<Self, Failure> {
        Self::with(folder, &[])
    }

    /// With these variables.
    pub(super) fn with(folder: &Path, variables: &[(&str, String)]) -> Result<Self, Failure> {
        let (mut child, line) = launch(folder, variables)?;
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
    pub(super) fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes * 1024)
    }

    /// The processor time that it took so far, in the system's ticks.
    pub(super) fn ticks(&self) -> Option<u64> {
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

/// Starts this program as a server; the process, and the first line that it says.
fn launch(folder: &Path, variables: &[(&str, String)]) -> Result<(Child, String), Failure> {
    use std::io::BufRead as _;

    let program = std::env::current_exe().map_err(|error| broken(&error))?;
    let mut child = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.join("data"))
        .env("WINDLASS_LOG", "error")
        .envs(variables.iter().map(|(name, value)| (name, value)))
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
    Ok((child, line))
}

/// A process that has no address for requests, which ends with this.
pub(super) struct Helper(Child);

impl Helper {
    /// With these variables; it works on return.
    pub(super) fn start(folder: &Path, variables: &[(&str, String)]) -> Result<Self, Failure> {
        let (mut child, line) = launch(folder, variables)?;
        if line.is_empty() {
            let _ = child.kill();
            return Err(broken(&"a measured process ended before it worked"));
        }
        Ok(Self(child))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client that does as little as it can, for it shares the machine with the server.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| broken(&error))?;
        stream.set_nodelay(true).map_err(|error| broken(&error))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Posts a body, which must be answered with this status.
    pub(super) async fn post(
        &mut self,
        path: &str,
        body: &str,
        expected: u16,
    ) -> Result<Value, Failure> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(&request, &format!("POST {path}"), expected).await
    }

    /// Gets a page, which must be there.
    pub(super) async fn get(&mut self, path: &str) -> Result<Value, Failure> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.send(&request, &format!("GET {path}"), 200).await
    }

    /// Gets a page that is no JSON.
    pub(super) async fn text(&mut self, path: &str) -> Result<String, Failure> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let asked = self.stream.get_mut().write_all(request.as_bytes()).await;
        asked.map_err(|error| broken(&error))?;
        let (_, body) = self.answer().await.map_err(|error| broken(&error))?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn send(&mut self, request: &str, shown: &str, expected: u16) -> Result<Value, Failure> {
        let asked = self.stream.get_mut().write_all(request.as_bytes()).await;
        asked.map_err(|error| broken(&error))?;
        let (status, body) = self.answer().await.map_err(|error| broken(&error))?;
        match status == expected {
            true => Ok(serde_json::from_slice(&body).unwrap_or_default()),
            false => Err(broken(&format!("{shown} was answered with {status}"))),
        }
    }

    async fn answer(&mut self) -> std::io::Result<(u16, Vec<u8>)> {
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
        Ok((status, body))
    }
}
