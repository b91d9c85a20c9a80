//! HTTP/1.1 by hand: one connection a request, and nothing hidden.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// Nothing here takes nearly as long; a test that does is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Client {
    address: String,
    token: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// The head as it came, names and all.
    pub head: String,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(address: &str, token: Option<&str>) -> Self {
        Self {
            address: address.to_owned(),
            token: token.map(str::to_owned),
        }
    }

    /// Where the server listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// The head of a request, without the empty line at its end.
    pub fn head(&self, method: &str, path: &str) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        head
    }

    /// Sends a request and reads the whole answer; fails only where the connection does.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> std::io::Result<HttpAnswer> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut head = self.head(method, path);
        head.push_str("Connection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        // A server that refuses may close before all of it is sent.
        let sent = body.map_or(Ok(()), |body| stream.write_all(body));
        match HttpAnswer::read(stream) {
            Ok(answer) => Ok(answer),
            Err(error) => Err(sent.err().unwrap_or(error)),
        }
    }

    #[track_caller]
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> HttpAnswer {
        let answer = self.try_send(method, path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> HttpAnswer {
        self.send("GET", path, &[], None)
    }

    #[track_caller]
    pub fn delete(&self, path: &str) -> HttpAnswer {
        self.send("DELETE", path, &[], None)
    }

    /// Sends text as JSON.
    #[track_caller]
    pub fn post_text(&self, path: &str, text: impl AsRef<[u8]>) -> HttpAnswer {
        let headers = [("Content-Type", "application/json")];
        self.send("POST", path, &headers, Some(text.as_ref()))
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.post_text(path, body.to_string())
    }

    /// Publishes a definition.
    #[track_caller]
    pub fn publish(&self, definition: &str) -> Value {
        let answer = self.post_text("/api/v1/workflows", definition);
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer.json()
    }

    /// Starts a run and gives its id.
    #[track_caller]
    pub fn execute(&self, workflow: &str, body: &Value) -> String {
        let path = format!("/api/v1/workflows/{workflow}/execute");
        self.post(&path, body).expect(202).text("executionId")
    }

    /// Waits for the end of a run, as its events tell it, and gives the run.
    #[track_caller]
    pub fn ended(&self, run: &str) -> Value {
        let mut events = self.events(run, &[]);
        while events.next().is_some_and(|event| event.kind != "end") {}
        let shown = self.get(&format!("/api/v1/executions/{run}"));
        shown.expect(200).json()
    }

    /// Starts a run, and waits until it waits.
    #[track_caller]
    pub fn waiting(&self, workflow: &str) -> String {
        let run = self.execute(workflow, &json!({}));
        self.wait_for(&run, "NodeWaiting");
        run
    }

    /// Waits for the end of a job; gives its state.
    #[track_caller]
    pub fn finished(&self, job: &str) -> Value {
        let path = format!("/api/v1/bulk/{job}");
        self.until(&path, |status, state| {
            status == 200 && state["status"] == "done"
        })
    }

    /// Asks until status and body are as they should be; gives the body.
    #[track_caller]
    pub fn until(&self, path: &str, is_so: impl Fn(u16, &Value) -> bool) -> Value {
        for _ in 0..24_000 {
            let answer = self.get(path);
            let body = answer.json();
            if is_so(answer.status, &body) {
                return body;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{path} does not become so: {:?}", self.get(path));
    }

    /// Waits for an event of a run.
    #[track_caller]
    pub fn wait_for(&self, run: &str, kind: &str) {
        let found = self.events(run, &[]).any(|event| event.kind == kind);
        assert!(found, "the run has no {kind}");
    }

    /// The events of a run, as they happen.
    #[track_caller]
    pub fn events(&self, run: &str, headers: &[(&str, &str)]) -> Stream {
        let mut stream = self.connect();
        let mut head = self.head("GET", &format!("/api/v1/executions/{run}/events"));
        head.push_str("Accept: text/event-stream\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream
            .write_all(format!("{head}\r\n").as_bytes())
            .expect("it is sent");
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader).expect("a head");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("text/event-stream"), "{head}");
        Stream {
            reader,
            text: String::new(),
        }
    }
}

impl HttpAnswer {
    pub fn read(stream: TcpStream) -> std::io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader)?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| broken("no status"))?;
        let mut body = Vec::new();
        let has = |line: &str| head.to_ascii_lowercase().contains(line);
        if has("transfer-encoding: chunked") {
            while let Some(part) = chunk(&mut reader)? {
                body.extend(part);
            }
        } else {
            reader.read_to_end(&mut body)?;
        }
        let answer = Self { status, head, body };
        let length = answer
            .header("content-length")
            .and_then(|it| it.parse().ok());
        match length {
            Some(length) if answer.body.len() < length => Err(broken("the body broke off")),
            _ => Ok(answer),
        }
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{}\n{body}", self.head);
        self
    }

    /// Expects a failure with a code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        let body = self.expect(status).json();
        assert_eq!(body["error"]["code"], code, "{body}");
        body
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// A member of the body that is text.
    #[track_caller]
    pub fn text(&self, key: &str) -> String {
        let body = self.json();
        let text = body[key].as_str();
        text.unwrap_or_else(|| panic!("no {key} in {body}"))
            .to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut fields = lines.filter_map(|line| line.split_once(": "));
        let found = fields.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

fn broken(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what.to_owned())
}

fn read_head(reader: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(broken("the head broke off"));
        }
    }
    Ok(head)
}

fn chunk(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let size = usize::from_str_radix(line.trim(), 16).map_err(|_| broken("no chunk"))?;
    let mut part = vec![0; size + 2];
    reader.read_exact(&mut part)?;
    part.truncate(size);
    Ok((size > 0).then_some(part))
}

/// Server-sent events, as they come.
pub struct Stream {
    reader: BufReader<TcpStream>,
    text: String,
}

#[derive(Debug)]
pub struct StreamEvent {
    pub kind: String,
    pub id: Option<u64>,
    pub data: Value,
}

impl Iterator for Stream {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = parse(event);
                self.text = rest.to_owned();
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let part = chunk(&mut self.reader).ok()??;
            self.text
                .push_str(std::str::from_utf8(&part).expect("whole events"));
        }
    }
}

/// An event, or nothing where it is a sign of life.
fn parse(text: &str) -> Option<StreamEvent> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    Some(StreamEvent {
        kind: field("event: ")?.to_owned(),
        id: field("id: ").and_then(|id| id.parse().ok()),
        data: serde_json::from_str(field("data: ")?).expect("JSON"),
    })
}
