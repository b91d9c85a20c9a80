//! Servers on loopback that speak the services' wire format, keep the objects that clients
//! create, and fail as a test says.

pub mod confluence;
pub mod monday;
pub mod slack;

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What was asked.
#[derive(Clone, Debug)]
pub struct ServiceRequest {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl ServiceRequest {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum ServiceReply {
    /// A status, headers and JSON.
    Json(u16, Vec<(&'static str, String)>, Value),
    /// A status, headers and bytes.
    Bytes(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Nothing, until the client goes.
    Hang,
    /// Half of an answer, and nothing more until the client goes.
    HalfWay,
    /// The connection is closed.
    Close,
}

pub fn ok(body: Value) -> ServiceReply {
    ServiceReply::Json(200, Vec::new(), body)
}

struct State {
    handler: Box<dyn FnMut(&ServiceRequest) -> ServiceReply + Send>,
    faults: VecDeque<(String, ServiceReply)>,
    seen: Vec<ServiceRequest>,
    /// Whether requests that create something get no answer.
    swallow: Option<Sender<()>>,
}

/// A server that answers until the test ends.
#[derive(Clone)]
pub struct StubServer {
    pub url: String,
    state: Arc<Mutex<State>>,
}

impl StubServer {
    /// Answers every request by the handler.
    pub fn start(handler: impl FnMut(&ServiceRequest) -> ServiceReply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State {
            handler: Box::new(handler),
            faults: VecDeque::new(),
            seen: Vec::new(),
            swallow: None,
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || answer(&stream, &state));
            }
        });
        Self { url, state }
    }

    /// Answers the next request whose path or body contains the text in this way instead.
    pub fn fail(&self, part: &str, reply: ServiceReply) {
        let mut state = self.state.lock().expect("the state");
        state.faults.push_back((part.to_owned(), reply));
    }

    /// From now on requests that create something are carried out and get no answer; the
    /// receiver hears of each.
    pub fn swallow(&self) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.state.lock().expect("the state").swallow = Some(sender);
        receiver
    }

    /// Answers again.
    pub fn answer_again(&self) {
        self.state.lock().expect("the state").swallow = None;
    }

    /// The requests so far whose path or body contains the text.
    pub fn seen(&self, part: &str) -> Vec<ServiceRequest> {
        let state = self.state.lock().expect("the state");
        let has = |request: &&ServiceRequest| contains(request, part);
        state.seen.iter().filter(has).cloned().collect()
    }
}

fn contains(request: &ServiceRequest, part: &str) -> bool {
    request.path.contains(part) || String::from_utf8_lossy(&request.body).contains(part)
}

/// Whether a request makes something, in any of the services.
fn makes(request: &ServiceRequest) -> bool {
    request.path.ends_with("/chat.postMessage")
        || (request.method == "POST" && request.path.ends_with("/pages"))
        || contains(request, "create_item(")
}

fn answer(stream: &TcpStream, state: &Arc<Mutex<State>>) {
    let Some(request) = read(stream) else { return };
    let reply = {
        let mut state = state.lock().expect("the state");
        state.seen.push(request.clone());
        let fault = state
            .faults
            .iter()
            .position(|(part, _)| contains(&request, part));
        match fault.and_then(|at| state.faults.remove(at)) {
            Some((_, reply)) => reply,
            None => {
                let reply = (state.handler)(&request);
                match &state.swallow {
                    Some(done) if makes(&request) => {
                        let _ = done.send(());
                        ServiceReply::Hang
                    }
                    _ => reply,
                }
            }
        }
    };
    write(stream, reply);
}

fn write(mut stream: &TcpStream, reply: ServiceReply) {
    let (status, headers, bytes) = match reply {
        ServiceReply::Json(status, mut headers, body) => {
            headers.push(("content-type", "application/json; charset=utf-8".to_owned()));
            (status, headers, body.to_string().into_bytes())
        }
        ServiceReply::Bytes(status, headers, bytes) => (status, headers, bytes),
        ServiceReply::Hang => return wait(stream),
        ServiceReply::HalfWay => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"half\": ");
            return wait(stream);
        }
        ServiceReply::Close => return,
    };
    let mut head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    // A reply may lie about its length.
    if !head.contains("content-length:") {
        head.push_str(&format!("content-length: {}\r\n", bytes.len()));
    }
    head.push_str("\r\n");
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&bytes);
}

/// Until the client has gone.
fn wait(mut stream: &TcpStream) {
    let _ = stream.read(&mut [0; 64]);
}

fn read(stream: &TcpStream) -> Option<ServiceRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length: usize = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((decoded(name), decoded(value)))
    });
    Some(ServiceRequest {
        method,
        path: path.to_owned(),
        query: query.collect(),
        headers,
        body,
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next(), rest.next()].map(Option::unwrap_or_default);
                let digits = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
